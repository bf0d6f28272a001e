//! A driver in memory that misbehaves as told: for the simulation. Every verb may fail, fail after having
//! done its work, hang before or after it, or be followed by a sudden death.

mod faults;
mod runtimed;

pub(crate) use faults::{Dice, Fault, Faults};

use super::{Driver, DriverError, Found, Handle, Order, Sight, Stream, Target, Transport};
use crate::core::{Blueprint, Death};
use async_trait::async_trait;
use protocol::api::{Capabilities, DeathCause, SandboxId, StatsView};
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
pub(crate) enum Body {
    Running { frozen: bool },
    Dead(DeathCause),
}

#[derive(Default)]
pub(crate) struct Fake {
    bodies: Arc<Mutex<HashMap<SandboxId, Body>>>,
    /// Files that exist, running or not.
    files: Mutex<HashMap<SandboxId, Order>>,
    faults: Mutex<Faults>,
    /// What the last look showed.
    seen: Mutex<HashMap<SandboxId, Option<Body>>>,
    /// Somebody else started them since: whoever acts on that look cannot know.
    started_behind: Mutex<HashSet<SandboxId>>,
    /// No verb is answered.
    pub(crate) away: AtomicBool,
    /// No launch is.
    pub(crate) no_launches: AtomicBool,
    /// All that run do so in another PID namespace.
    elsewhere: AtomicBool,
    /// It says of itself that it is not well.
    pub(crate) unwell: AtomicBool,
    /// These are begun and never answered.
    pub(crate) hanging: Mutex<HashSet<&'static str>>,
    /// How often each was started, by whomever.
    runs: Mutex<HashMap<SandboxId, u64>>,
    /// What it is called, where there are others.
    called: Option<&'static str>,
    /// What a launch tells, each after the pause that comes with it.
    pub(crate) tells: Mutex<Vec<(Duration, String)>>,
    /// Where each has a directory for what its runtimed writes down, if there are any.
    pub(crate) logs: Mutex<Option<PathBuf>>,
    /// What must never happen, and did.
    violations: Mutex<Vec<String>>,
    changed: watch::Sender<u64>,
    /// Whether the end of its tasks was asked for: each runs until then.
    cancelled: watch::Sender<bool>,
    /// It tells that it has the task `t1`.
    pub(crate) has_task: Arc<AtomicBool>,
    /// Somebody else freezes it just when it is asked what goes on in it; once.
    pub(crate) freezes_when_asked: Arc<AtomicBool>,
}

impl Fake {
    pub(crate) fn called(name: &'static str) -> Self {
        Self { called: Some(name), ..Self::default() }
    }

    pub(crate) fn misbehave(&self, faults: Faults) {
        *self.faults.lock().expect("no panic while held") = faults;
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().expect("no panic while held").clone()
    }

    pub(crate) fn body(&self, id: &SandboxId) -> Option<Body> {
        self.bodies.lock().expect("no panic while held").get(id).copied()
    }

    pub(crate) fn has_files(&self, id: &SandboxId) -> bool {
        self.files.lock().expect("no panic while held").contains_key(id)
    }

    /// Somebody else does something to one that is there.
    pub(crate) fn meddle(&self, id: &SandboxId, now: Body) {
        if let Some(body) = self.bodies.lock().expect("no panic while held").get_mut(id) {
            *body = now;
        }
        self.notify();
    }

    /// Somebody else freezes or thaws one that runs.
    pub(crate) fn freeze_behind(&self, id: &SandboxId, frozen: bool) {
        self.set_frozen(id, frozen);
        self.notify();
    }

    /// Somebody else starts one that was stopped.
    pub(crate) fn start(&self, id: &SandboxId) {
        if self.has_files(id) && self.body(id).is_none() {
            self.started_behind.lock().expect("no panic while held").insert(*id);
            self.set(id, Some(Body::Running { frozen: false }));
            self.count(id);
            self.notify();
        }
    }

    /// Somebody else restarts one that runs, so fast that nobody sees it dead.
    pub(crate) fn restart_behind(&self, id: &SandboxId) {
        self.count(id);
        // Whoever waits is told that something happened.
        self.seen.lock().expect("no panic while held").remove(id);
        self.notify();
    }

    /// Everything that runs is found in another PID namespace from now on, or in ours again.
    pub(crate) fn move_elsewhere(&self, so: bool) {
        self.elsewhere.store(so, Ordering::Relaxed);
        self.seen.lock().expect("no panic while held").clear();
        self.notify();
    }

    fn count(&self, id: &SandboxId) {
        *self.runs.lock().expect("no panic while held").entry(*id).or_default() += 1;
    }

    fn handle(&self, id: &SandboxId) -> Handle {
        let run = self.runs.lock().expect("no panic while held").get(id).copied();
        Handle(serde_json::json!({ "run": run }))
    }

    /// Whether it runs, and whoever looked before knows that.
    fn is_known_to_run(&self, id: &SandboxId) -> bool {
        let behind = self.started_behind.lock().expect("no panic while held").contains(id);
        matches!(self.body(id), Some(Body::Running { .. })) && !behind
    }

    /// Whatever runs in it ends by itself.
    pub(crate) fn end_tasks(&self) {
        self.cancelled.send_replace(true);
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Does `work` in the way the dice say.
    async fn verb<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> Result<T, DriverError> {
        let away =
            self.away.load(Ordering::Relaxed) || what == "launch" && self.no_launches.load(Ordering::Relaxed);
        let fault = if away {
            Fault::Unavailable
        } else if self.hanging.lock().expect("no panic while held").contains(what) {
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

    fn set(&self, id: &SandboxId, body: Option<Body>) {
        let mut bodies = self.bodies.lock().expect("no panic while held");
        match body {
            Some(body) => bodies.insert(*id, body),
            None => bodies.remove(id),
        };
    }

    /// The dead stay so.
    fn set_frozen(&self, id: &SandboxId, frozen: bool) {
        if let Some(Body::Running { .. }) = self.body(id) {
            self.set(id, Some(Body::Running { frozen }));
        }
    }

    fn violate(&self, text: String) {
        self.violations.lock().expect("no panic while held").push(text);
    }
}

#[async_trait]
impl Transport for Fake {
    async fn dial(&self, id: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        match (self.body(id), target) {
            (Some(Body::Running { frozen: false }), Target::Control) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                let world = runtimed::World {
                    bodies: self.bodies.clone(),
                    changed: self.changed.clone(),
                    cancelled: self.cancelled.clone(),
                    has_task: self.has_task.clone(),
                    freezes_when_asked: self.freezes_when_asked.clone(),
                };
                tokio::spawn(runtimed::serve(theirs, world, *id));
                Ok(Box::new(ours))
            }
            // A frozen one accepts and never answers.
            (Some(Body::Running { frozen: true }), _) => {
                let (ours, theirs) = tokio::io::duplex(64);
                tokio::spawn(async move {
                    let _open = theirs;
                    std::future::pending::<()>().await;
                });
                Ok(Box::new(ours))
            }
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    async fn listen(&self, _: &SandboxId, _: SocketAddr) -> io::Result<TcpListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[async_trait]
impl Driver for Fake {
    fn name(&self) -> &'static str {
        self.called.unwrap_or("fake")
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
            pause: false,
            runtimes: vec![],
            images: vec![],
            isolation: vec![],
        }
    }

    fn health(&self) -> Result<(), DriverError> {
        match self.away.load(Ordering::Relaxed) || self.unwell.load(Ordering::Relaxed) {
            true => Err(DriverError::Unavailable { message: "gone fishing".to_owned() }),
            false => Ok(()),
        }
    }

    async fn check(&self, _: &Blueprint) -> Result<(), DriverError> {
        Ok(())
    }

    async fn launch(&self, order: &Order) -> Result<Handle, DriverError> {
        let id = order.badge.sandbox;
        if self.is_known_to_run(&id) {
            self.violate(format!("{id} was launched while it ran"));
        }
        let tells = self.tells.lock().expect("no panic while held").clone();
        for (pause, text) in tells {
            tokio::time::sleep(pause).await;
            order.progress.tell(&text);
        }
        self.verb("launch", || {
            self.files.lock().expect("no panic while held").insert(id, order.clone());
            self.set(&id, Some(Body::Running { frozen: false }));
            self.count(&id);
        })
        .await?;
        Ok(self.handle(&id))
    }

    async fn look(&self, id: &SandboxId) -> Result<Sight, DriverError> {
        let sight = match self.body(id) {
            None => Sight::Absent,
            Some(Body::Running { .. }) if self.elsewhere.load(Ordering::Relaxed) => Sight::OtherPidNamespace,
            Some(Body::Running { frozen }) => Sight::Running { frozen, handle: self.handle(id) },
            Some(Body::Dead(cause)) => Sight::Dead(Death { cause, ..Death::default() }),
        };
        let body = self.body(id);
        self.verb("look", || {
            self.seen.lock().expect("no panic while held").insert(*id, body);
            self.started_behind.lock().expect("no panic while held").remove(id);
            sight
        })
        .await
    }

    async fn disturbed(&self, id: &SandboxId) -> Result<(), DriverError> {
        let mut changed = self.changed.subscribe();
        loop {
            let seen = self.seen.lock().expect("no panic while held").get(id).copied().flatten();
            if self.body(id) != seen || changed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn died(&self, id: &SandboxId) -> Result<(), DriverError> {
        let mut changed = self.changed.subscribe();
        while let Some(Body::Running { .. }) = self.body(id) {
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
        self.verb("terminate", || self.set(id, self.body(id).map(|_| Body::Dead(DeathCause::ShutDown)))).await
    }

    async fn clear(&self, id: &SandboxId) -> Result<(), DriverError> {
        if self.is_known_to_run(id) {
            self.violate(format!("{id} was cleared away while it ran"));
        }
        self.verb("clear", || self.set(id, None)).await
    }

    async fn erase(&self, id: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        if self.is_known_to_run(id) {
            self.violate(format!("{id} was erased while it ran"));
        }
        self.verb("erase", || {
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
        self.verb("empty", || ()).await
    }

    fn logs(&self, id: &SandboxId) -> Option<PathBuf> {
        let logs = self.logs.lock().expect("no panic while held");
        logs.as_ref().map(|logs| logs.join(id.as_str()))
    }

    async fn workspace_bytes(&self, id: &SandboxId) -> Result<Option<u64>, DriverError> {
        Ok(self.has_files(id).then_some(0))
    }

    async fn stats(&self, _: &SandboxId) -> Result<StatsView, DriverError> {
        Err(DriverError::Unavailable { message: "no numbers in memory".to_owned() })
    }

    async fn list(&self) -> Result<Vec<Found>, DriverError> {
        let files = self.files.lock().expect("no panic while held");
        let ours = |order: &Order| Found::Ours {
            badge: order.badge.clone(),
            blueprint: Box::new(order.blueprint.as_ref().clone()),
        };
        Ok(files.values().map(ours).collect())
    }
}
