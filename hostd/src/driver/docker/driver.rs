//! The driver as others see it: every verb, and where it is done.

use super::{
    super::{
        ContainerState, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, Stream, Target, Transport,
        local::{
            badge::{BadBadge, Kept, Sealer},
            cgroup::{Group, Hierarchies},
            dial::{Live, Reach},
            files::{self, failed},
            images,
            init::Init,
            kernel::has_ended,
            layout::{Layout, SandboxDir},
            limits::KERNEL_FILE_MAX_BYTES,
            measure,
        },
    },
    belongs::is_in,
    body::Filter,
    engine::Engine,
    erased::Erased,
    images::Images,
    labels,
    mirror::Mirror,
    network::Networks,
    notes::Notes,
    run::Run,
    runtimes::Runtimes,
    standing::{Opinion, Standing},
    trial::Trials,
    turns::Turns,
};
use crate::core::{Blueprint, Members, PidNamespace, lives_elsewhere};
use async_trait::async_trait;
use protocol::api::{Capabilities, SandboxId, StatsView};
use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;

/// The driver for Docker and Podman. A handle: clones share everything.
#[derive(Clone)]
pub struct Docker {
    pub(super) inner: Arc<Inner>,
    /// Keeps in touch with the engine while this lives.
    _keeper: Option<Arc<DropGuard>>,
}

pub struct Inner {
    pub layout: Layout,
    pub sealer: Sealer,
    /// What all our containers have.
    pub filter: String,
    pub socket: PathBuf,
    pub engine: Engine,
    pub mirror: Mirror,
    pub standing: Opinion,
    pub images: Images,
    pub networks: Networks,
    pub trials: Trials,
    pub runtimes: Runtimes,
    pub hierarchies: Hierarchies,
    pub runtimed: PathBuf,
    pub filter_list: Filter,
    pub nofile: u64,
    pub nproc: Option<u64>,
    pub reach: Reach,
    pub turns: Turns,
    pub notes: Notes,
    pub erased: Erased,
    /// Where hostd lives.
    pub pid_namespace: PidNamespace,
    /// Names this boot of the host.
    pub boot: String,
    pub warnings: Vec<String>,
}

impl Inner {
    pub fn dir(&self, sandbox: &SandboxId) -> SandboxDir {
        self.layout.sandbox(sandbox)
    }

    pub fn name(&self, sandbox: &SandboxId) -> String {
        labels::name_of(&self.sealer.instance, sandbox)
    }

    /// Its PID 1, if it is alive, and which container that is in.
    pub fn find(&self, sandbox: &SandboxId) -> Result<Option<Init>, DriverError> {
        let dir = self.dir(sandbox);
        match Run::read(&dir)? {
            Some(run) => self.init_of(&dir, &run),
            None => Ok(None),
        }
    }

    pub fn init_of(&self, dir: &SandboxDir, run: &Run) -> Result<Option<Init>, DriverError> {
        let Some(container) = &run.container else { return Ok(None) };
        Init::find(dir, |cgroup| is_in(cgroup, container)).map_err(failed("look for PID 1"))
    }

    /// The control groups that the engine made for it. None when it ends just now: then it is in none.
    pub fn group(&self, init: &Init, container: &str) -> Result<Option<Group>, DriverError> {
        let text = files::read_text(&init.proc().join("cgroup"), KERNEL_FILE_MAX_BYTES);
        match text {
            Ok(text) if is_in(&text, container) => Ok(Some(self.hierarchies.of_process(&text))),
            Ok(_) => Ok(None),
            Err(_) if has_ended(&init.pidfd) => Ok(None),
            Err(error) => Err(failed("find the control groups of PID 1")(error)),
        }
    }

    fn live(&self, sandbox: &SandboxId) -> io::Result<Arc<Live>> {
        self.reach.live(sandbox, || {
            let found = self.find(sandbox).map_err(io::Error::other)?;
            if found.is_none() && self.launched_elsewhere(sandbox).map_err(io::Error::other)? {
                return Err(io::Error::other(DriverError::OtherPidNamespace { sandbox: *sandbox }));
            }
            Ok(found)
        })
    }

    /// Whether the last run of a sandbox whose PID 1 was not found is, or was, in another PID namespace, and
    /// nobody dealt with its end. Whether it is over only the engine can tell.
    pub fn launched_elsewhere(&self, sandbox: &SandboxId) -> Result<bool, DriverError> {
        let dir = self.dir(sandbox);
        let Some(run) = Run::read(&dir)?.filter(|run| run.is_open() && !self.was_other_boot(run)) else {
            return Ok(false);
        };
        let kept = self.sealer.read(&dir, sandbox).ok().filter(|_| run.container.is_some());
        let launched_in = kept.and_then(|kept| kept.pid_namespace);
        Ok(lives_elsewhere(launched_in, self.pid_namespace, Members::Listed))
    }

    /// What is kept about a sandbox; nothing where it was never made.
    pub fn kept(&self, sandbox: &SandboxId) -> Result<Option<Kept>, DriverError> {
        match self.sealer.read(&self.dir(sandbox), sandbox) {
            Ok(kept) => Ok(Some(kept)),
            Err(BadBadge::Missing) => Ok(None),
            Err(bad) => {
                Err(DriverError::Damaged { message: format!("sandbox {sandbox} is not touched: {bad}") })
            }
        }
    }

    /// Runs what takes time elsewhere. Goes on to its end when the caller goes away.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Inner) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let inner = Arc::clone(self);
        let ended = tokio::task::spawn_blocking(move || work(&inner)).await;
        ended.unwrap_or_else(|error| Err(failed("do the work")(io::Error::other(error))))
    }
}

impl Docker {
    pub(super) fn new(inner: Arc<Inner>, keeper: DropGuard) -> Self {
        Self { inner, _keeper: Some(Arc::new(keeper)) }
    }

    /// For the keeper itself, which must not keep itself alive.
    pub(super) fn unguarded(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::clone(inner), _keeper: None }
    }

    /// Root file systems that are kept here: to import, list and remove them.
    pub fn images(&self) -> &images::Images {
        self.inner.images.here()
    }
}

#[async_trait]
impl Transport for Docker {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        let inner = &self.inner;
        inner.reach.dial(&inner.live(sandbox)?, &inner.dir(sandbox).control(), target).await
    }

    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener> {
        self.inner.reach.listen(&self.inner.live(sandbox)?, at).await
    }
}

#[async_trait]
impl Driver for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn describe(&self) -> String {
        let socket = self.inner.socket.display();
        match self.inner.standing.now() {
            Standing::Begun => format!("the container engine at {socket} is being tried out"),
            Standing::Away { why } => why,
            Standing::Unfit { engine, why } => format!("{engine} at {socket} is not used: {why}"),
            Standing::Fit(fitness) => {
                format!("{}, API {}, at {socket}", fitness.meeting.version, fitness.meeting.api)
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.inner.warnings.clone();
        // That it is not well is told by `health`.
        if let Standing::Fit(fitness) = self.inner.standing.now() {
            warnings.extend(fitness.warnings.iter().cloned());
        }
        warnings
    }

    fn present(&self) -> bool {
        self.inner.socket.exists()
    }

    fn capabilities(&self) -> Capabilities {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let fitness = self.inner.standing.last();
        let fitness = fitness.as_deref();
        let mut isolation = words(&["namespaces", "seccomp", "read-only root"]);
        if fitness.is_some_and(|fitness| !fitness.ids.are_ours()) {
            isolation.push("a user namespace, the same for all".to_owned());
        }
        Capabilities {
            networks: self.inner.networks.words(),
            limits: words(&["memory_mb", "cpus", "pids"]),
            pause: true,
            runtimes: fitness
                .map(|fitness| self.inner.runtimes.offered(&fitness.meeting))
                .unwrap_or_default(),
            images: words(&["host", "imported", "registry"]),
            isolation,
        }
    }

    fn health(&self) -> Result<(), DriverError> {
        self.inner.mirror.check()?;
        self.inner.standing.fit().map(drop)
    }

    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        let fitness = self.inner.standing.fit_soon().await?;
        self.inner.vet(blueprint, &fitness).await?;
        self.check_runtime(blueprint, &fitness).await
    }

    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError> {
        let fitness = self.inner.standing.fit()?;
        self.check_runtime(&order.blueprint, &fitness).await?;
        self.inner.bring_up(order, &fitness).await
    }

    async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        self.inner.inspect(sandbox).await
    }

    async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.died(sandbox).await
    }

    async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.changed(sandbox).await
    }

    async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.freeze(sandbox).await
    }

    async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.thaw(sandbox).await
    }

    async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        self.inner.terminate(sandbox, grace_ms).await
    }

    async fn remove_container(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.clear(sandbox)
    }

    async fn destroy(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        self.inner.destroy(sandbox, keep_workspace).await
    }

    async fn reset_workspace(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.reset_workspace(sandbox).await
    }

    fn logs(&self, sandbox: &SandboxId) -> Option<PathBuf> {
        Some(self.inner.dir(sandbox).control())
    }

    async fn workspace_bytes(&self, sandbox: &SandboxId) -> Result<Option<u64>, DriverError> {
        let path = self.inner.layout.workspace(sandbox);
        self.inner.blocking(move |_| measure::bytes(&path).map_err(failed("measure the workspace"))).await
    }

    async fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError> {
        self.inner.stats(sandbox)
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        self.inner.blocking(|inner| inner.list()).await
    }
}

impl Inner {
    fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError> {
        let what = || format!("read the counters of {sandbox}");
        let gone = || failed(what())(io::ErrorKind::NotFound.into());
        let dir = self.dir(sandbox);
        let run = Run::read(&dir)?.ok_or_else(gone)?;
        let init = self.init_of(&dir, &run)?.ok_or_else(gone)?;
        let group = self.group(&init, run.container.as_deref().unwrap_or_default())?.ok_or_else(gone)?;
        group.stats().map_err(failed(what()))
    }
}
