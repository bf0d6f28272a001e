//! A driver in memory with fault injection, for tests. Every verb may fail, fail after having done its work, hang
//! before or after it, or be followed by a sudden death.

mod faults;
mod runtimed;
mod snapshots;

pub use faults::{Fault, Faults, SeededRng};

use super::{
    ContainerState, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, Leftover, SnapshotDriver,
    Stream, Target, Transport, WorkspaceAccess,
};
use async_trait::async_trait;
use hostd_core::{Blueprint, Death};
use protocol::api::{Capabilities, DeathCause, Limits, SandboxId, StatsView};
use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeContainer {
    Running { frozen: bool },
    Dead(DeathCause),
}

#[derive(Default)]
pub struct FakeDriver {
    containers: Arc<Mutex<HashMap<SandboxId, FakeContainer>>>,
    /// Sandboxes that have files, running or not.
    files: Mutex<HashMap<SandboxId, LaunchRequest>>,
    faults: Mutex<Faults>,
    /// The newest inspection of each.
    seen: Mutex<HashMap<SandboxId, Option<FakeContainer>>>,
    /// Started externally since the newest inspection: an actor cannot know yet.
    started_externally: Mutex<HashSet<SandboxId>>,
    /// No verb finds the backend.
    pub unavailable: AtomicBool,
    /// No launch finds the backend.
    pub no_launches: AtomicBool,
    /// Running containers are in another PID namespace.
    other_pid_namespace: AtomicBool,
    /// The driver reports itself unhealthy.
    pub unhealthy: AtomicBool,
    /// Verbs that hang.
    pub hanging: Mutex<HashSet<&'static str>>,
    /// Verbs that fail.
    pub failing: Mutex<HashSet<&'static str>>,
    /// Sandboxes whose files were replaced by a restore that did not end.
    pub replaced: Mutex<HashSet<SandboxId>>,
    /// Verbs that were called and hang.
    hung: Mutex<HashSet<&'static str>>,
    /// How often each was started, by a verb or externally.
    runs: Mutex<HashMap<SandboxId, u64>>,
    /// The limits in force of containers whose limits were changed, or that a test gives a memory use.
    in_force: Mutex<HashMap<SandboxId, Limits>>,
    /// The memory that running containers use, in megabytes; a resize to less is refused.
    pub memory_used_mb: Mutex<HashMap<SandboxId, u64>>,
    /// What a test left.
    pub leftovers: Mutex<Vec<Leftover>>,
    /// The name of the driver, where a test has several.
    named: Option<&'static str>,
    /// The progress that a launch reports, each text after its pause.
    pub progress_script: Mutex<Vec<(Duration, String)>>,
    /// The directory with the logs of each runtimed, where a test has some.
    pub logs: Mutex<Option<PathBuf>>,
    /// Verbs that an actor must never call in that state.
    violations: Mutex<Vec<String>>,
    changed: watch::Sender<u64>,
    /// Whether tasks were cancelled: each runs until then.
    cancelled: watch::Sender<bool>,
    /// runtimed reports the task `t1`.
    pub has_task: Arc<AtomicBool>,
    /// The container is frozen externally at the next request for its status, once.
    pub freeze_on_status: Arc<AtomicBool>,
}

impl FakeDriver {
    pub fn named(name: &'static str) -> Self {
        Self { named: Some(name), ..Self::default() }
    }

    pub fn inject_faults(&self, faults: Faults) {
        *self.faults.lock().expect("no panic while held") = faults;
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().expect("no panic while held").clone()
    }

    pub fn container(&self, id: &SandboxId) -> Option<FakeContainer> {
        self.containers.lock().expect("no panic while held").get(id).copied()
    }

    pub fn has_files(&self, id: &SandboxId) -> bool {
        self.files.lock().expect("no panic while held").contains_key(id)
    }

    /// Changes a container externally.
    pub fn set_externally(&self, id: &SandboxId, now: FakeContainer) {
        if let Some(body) = self.containers.lock().expect("no panic while held").get_mut(id) {
            *body = now;
        }
        self.notify();
    }

    /// Freezes or thaws a running container externally.
    pub fn freeze_externally(&self, id: &SandboxId, frozen: bool) {
        self.set_frozen(id, frozen);
        self.notify();
    }

    /// Starts a stopped container externally.
    pub fn start_externally(&self, id: &SandboxId) {
        if self.has_files(id) && self.container(id).is_none() {
            self.started_externally.lock().expect("no panic while held").insert(*id);
            self.set(id, Some(FakeContainer::Running { frozen: false }));
            self.count(id);
            self.notify();
        }
    }

    /// Restarts a running container externally, so fast that no inspection shows it dead.
    pub fn restart_externally(&self, id: &SandboxId) {
        self.count(id);
        // Makes `changed` return.
        self.seen.lock().expect("no panic while held").remove(id);
        self.notify();
    }

    /// Running containers are inspected as in another PID namespace from now on, or in ours again.
    pub fn set_other_pid_namespace(&self, so: bool) {
        self.other_pid_namespace.store(so, Ordering::Relaxed);
        self.seen.lock().expect("no panic while held").clear();
        self.notify();
    }

    /// Whether a verb was called that hangs, as a test said.
    pub fn is_hanging(&self, what: &str) -> bool {
        self.hung.lock().expect("no panic while held").contains(what)
    }

    /// The limits of a running container.
    pub fn limits_in_force(&self, id: &SandboxId) -> Option<Limits> {
        self.in_force.lock().expect("no panic while held").get(id).cloned()
    }

    fn used_mb(&self, id: &SandboxId) -> u64 {
        self.memory_used_mb.lock().expect("no panic while held").get(id).copied().unwrap_or(0)
    }

    fn count(&self, id: &SandboxId) {
        *self.runs.lock().expect("no panic while held").entry(*id).or_default() += 1;
    }

    fn handle(&self, id: &SandboxId) -> Handle {
        let run = self.runs.lock().expect("no panic while held").get(id).copied();
        Handle(serde_json::json!({ "run": run }))
    }

    /// Whether a container runs and the newest inspection can have shown that.
    fn is_known_to_run(&self, id: &SandboxId) -> bool {
        let behind = self.started_externally.lock().expect("no panic while held").contains(id);
        matches!(self.container(id), Some(FakeContainer::Running { .. })) && !behind
    }

    /// Ends all tasks.
    pub fn end_tasks(&self) {
        self.cancelled.send_replace(true);
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Does `work`, or a fault.
    async fn verb<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> Result<T, DriverError> {
        let unavailable = self.unavailable.load(Ordering::Relaxed)
            || what == "launch" && self.no_launches.load(Ordering::Relaxed);
        let fault = if unavailable {
            Fault::Unavailable
        } else if self.failing.lock().expect("no panic while held").contains(what) {
            Fault::Fails
        } else if self.hanging.lock().expect("no panic while held").contains(what) {
            self.hung.lock().expect("no panic while held").insert(what);
            Fault::Hangs
        } else {
            self.faults.lock().expect("no panic while held").roll(what)
        };
        let failed = || DriverError::Failed { message: format!("{what} failed as told"), output: Vec::new() };
        match fault {
            Fault::None => Ok(self.done(work)),
            Fault::Fails => Err(failed()),
            Fault::Unavailable => Err(DriverError::Unavailable { message: "gone fishing".to_owned() }),
            Fault::FailsAfter => {
                self.done(work);
                Err(failed())
            }
            Fault::Hangs => std::future::pending().await,
            Fault::HangsAfter => {
                self.done(work);
                std::future::pending().await
            }
        }
    }

    fn done<T>(&self, work: impl FnOnce() -> T) -> T {
        let value = work();
        self.notify();
        value
    }

    fn set(&self, id: &SandboxId, body: Option<FakeContainer>) {
        let mut containers = self.containers.lock().expect("no panic while held");
        match body {
            Some(body) => containers.insert(*id, body),
            None => containers.remove(id),
        };
    }

    /// Freezes or thaws a running container; a dead one stays dead.
    fn set_frozen(&self, id: &SandboxId, frozen: bool) {
        if let Some(FakeContainer::Running { .. }) = self.container(id) {
            self.set(id, Some(FakeContainer::Running { frozen }));
        }
    }

    fn violate(&self, text: String) {
        self.violations.lock().expect("no panic while held").push(text);
    }
}

#[async_trait]
impl Transport for FakeDriver {
    async fn dial(&self, id: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        match (self.container(id), target) {
            (Some(FakeContainer::Running { frozen: false }), Target::Control) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                let runtime = runtimed::FakeRuntime {
                    containers: self.containers.clone(),
                    changed: self.changed.clone(),
                    cancelled: self.cancelled.clone(),
                    has_task: self.has_task.clone(),
                    freeze_on_status: self.freeze_on_status.clone(),
                };
                tokio::spawn(runtimed::serve(theirs, runtime, *id));
                Ok(Box::new(ours))
            }
            // A frozen sandbox accepts connections and never answers.
            (Some(FakeContainer::Running { frozen: true }), Target::Control | Target::Port(_)) => {
                let (ours, theirs) = tokio::io::duplex(64);
                tokio::spawn(async move {
                    let _open = theirs;
                    std::future::pending::<()>().await;
                });
                Ok(Box::new(ours))
            }
            (None | Some(FakeContainer::Dead(_)), Target::Control | Target::Port(_))
            | (Some(FakeContainer::Running { frozen: false }), Target::Port(_)) => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
    }

    async fn listen(&self, _: &SandboxId, _: SocketAddr) -> io::Result<TcpListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        self.named.unwrap_or("fake")
    }

    fn describe(&self) -> String {
        "in memory".to_owned()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            networks: vec![],
            limits: vec![],
            disk_limit: None,
            snapshots: None,
            pause: false,
            runtimes: vec![],
            images: vec![],
            isolation: vec![],
        }
    }

    fn health(&self) -> Result<(), DriverError> {
        match self.unavailable.load(Ordering::Relaxed) || self.unhealthy.load(Ordering::Relaxed) {
            true => Err(DriverError::Unavailable { message: "gone fishing".to_owned() }),
            false => Ok(()),
        }
    }

    async fn check(&self, _: &Blueprint) -> Result<(), DriverError> {
        Ok(())
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Handle, DriverError> {
        let id = request.badge.sandbox;
        if self.is_known_to_run(&id) {
            self.violate(format!("{id} was launched while it ran"));
        }
        let progress_script = self.progress_script.lock().expect("no panic while held").clone();
        for (pause, text) in progress_script {
            tokio::time::sleep(pause).await;
            request.progress.report(&text);
        }
        self.verb("launch", || {
            self.files.lock().expect("no panic while held").insert(id, request.clone());
            let limits = request.blueprint.limits.clone();
            self.in_force.lock().expect("no panic while held").insert(id, limits);
            self.set(&id, Some(FakeContainer::Running { frozen: false }));
            self.count(&id);
        })
        .await?;
        Ok(self.handle(&id))
    }

    async fn inspect(&self, id: &SandboxId) -> Result<ContainerState, DriverError> {
        let sight = match self.container(id) {
            None => ContainerState::Absent,
            Some(FakeContainer::Running { .. }) if self.other_pid_namespace.load(Ordering::Relaxed) => {
                ContainerState::OtherPidNamespace
            }
            Some(FakeContainer::Running { frozen }) => {
                ContainerState::Running { frozen, handle: self.handle(id) }
            }
            Some(FakeContainer::Dead(cause)) => ContainerState::Dead(Death { cause, ..Death::default() }),
        };
        let body = self.container(id);
        self.verb("inspect", || {
            self.seen.lock().expect("no panic while held").insert(*id, body);
            self.started_externally.lock().expect("no panic while held").remove(id);
            sight
        })
        .await
    }

    async fn changed(&self, id: &SandboxId) -> Result<(), DriverError> {
        let mut changed = self.changed.subscribe();
        loop {
            let seen = self.seen.lock().expect("no panic while held").get(id).copied().flatten();
            if self.container(id) != seen || changed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn died(&self, id: &SandboxId) -> Result<(), DriverError> {
        let mut changed = self.changed.subscribe();
        while let Some(FakeContainer::Running { .. }) = self.container(id) {
            if changed.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.verb("freeze", || self.set_frozen(id, true)).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.verb("thaw", || self.set_frozen(id, false)).await
    }

    async fn terminate(&self, id: &SandboxId, _: u64) -> Result<(), DriverError> {
        self.verb("terminate", || {
            self.set(id, self.container(id).map(|_| FakeContainer::Dead(DeathCause::ShutDown)));
        })
        .await
    }

    async fn clean_up(&self, id: &SandboxId) -> Result<(), DriverError> {
        if self.is_known_to_run(id) {
            self.violate(format!("{id} was removed while it ran"));
        }
        self.verb("clean_up", || self.set(id, None)).await
    }

    async fn destroy(&self, id: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        if self.is_known_to_run(id) {
            self.violate(format!("{id} was destroyed while it ran"));
        }
        self.verb("destroy", || {
            self.set(id, None);
            if !keep_workspace {
                self.files.lock().expect("no panic while held").remove(id);
            }
        })
        .await
    }

    async fn reset_workspace(&self, id: &SandboxId) -> Result<(), DriverError> {
        if self.is_known_to_run(id) {
            self.violate(format!("the files of {id} were emptied while it ran"));
        }
        self.verb("reset_workspace", || ()).await
    }

    fn logs(&self, id: &SandboxId) -> Option<PathBuf> {
        let logs = self.logs.lock().expect("no panic while held");
        logs.as_ref().map(|logs| logs.join(id.as_str()))
    }

    /// Its sandboxes have no files on this machine.
    async fn open_workspace(&self, _: &SandboxId) -> Result<WorkspaceAccess, DriverError> {
        Ok(WorkspaceAccess::Inside)
    }

    async fn workspace_bytes(&self, id: &SandboxId) -> Result<Option<u64>, DriverError> {
        Ok(self.has_files(id).then_some(0))
    }

    fn snapshots(&self) -> Option<&dyn SnapshotDriver> {
        Some(self)
    }

    /// Only the numbers that have to do with limits.
    async fn stats(&self, id: &SandboxId) -> Result<StatsView, DriverError> {
        let limits = self.limits_in_force(id).filter(|_| self.is_known_to_run(id));
        let missing = || DriverError::Unavailable { message: "no numbers in memory".to_owned() };
        let limits = limits.ok_or_else(missing)?;
        let memory_bytes = self.used_mb(id) << 20;
        Ok(StatsView {
            memory_bytes,
            memory_working_bytes: memory_bytes,
            memory_peak_bytes: memory_bytes,
            memory_limit_bytes: limits.memory_mb << 20,
            cpu_usage_us: 0,
            pids: 1,
            pids_limit: limits.pids,
            cpus_limit: Some(limits.cpus),
            oom_kills: 0,
            pids_limit_hits: 0,
            disk_bytes: None,
            disk_limit_bytes: None,
        })
    }

    async fn resize(&self, id: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        let (used_mb, wanted_mb) = (self.used_mb(id), limits.memory_mb);
        if used_mb > wanted_mb {
            return Err(DriverError::MemoryInUse { used_mb, wanted_mb });
        }
        self.verb("resize", || {
            self.in_force.lock().expect("no panic while held").insert(*id, limits.clone());
        })
        .await
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, DriverError> {
        Ok(self.leftovers.lock().expect("no panic while held").clone())
    }

    async fn remove_leftover(&self, leftover: &Leftover) -> Result<(), DriverError> {
        self.leftovers.lock().expect("no panic while held").retain(|one| one != leftover);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        let files = self.files.lock().expect("no panic while held");
        let ours = |request: &LaunchRequest| FoundSandbox::Ours {
            badge: request.badge.clone(),
            blueprint: Box::new(request.blueprint.as_ref().clone()),
        };
        Ok(files.values().map(ours).collect())
    }
}
