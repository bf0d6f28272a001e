//! `impl Driver for Docker`: every verb of the driver, delegated to the module that implements it.

use super::{
    super::{
        ContainerState, DiskUsage, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, Leftover,
        Stream, Target, Transport, WorkspaceAccess,
        local::{
            cgroup::{Cgroup, Hierarchies},
            files::{self, failed},
            images,
            init::Init,
            layout::{Layout, SandboxDir},
            leftovers,
            limits::KERNEL_FILE_MAX_BYTES,
            local_driver::{LocalDriver, limit_names},
            pidfd::has_exited,
            quota::{Quota, QuotaMeans},
            sandbox_dialer::{RunningSandbox, SandboxDialer},
            seed::Templates,
            signed_badge::InstanceSigner,
        },
    },
    cgroup_membership::is_in_container,
    container_cache::ContainerCache,
    container_config::SeccompProfile,
    destroyed_launches::DestroyedLaunches,
    engine::Engine,
    engine_health::{EngineHealth, EngineHealthWatch},
    images::EngineImages,
    labels,
    last_inspect::LastInspects,
    launch::VOLUMES_HIDDEN,
    network::Networks,
    run_record::RunRecord,
    runtimes::Runtimes,
    test_containers::TestContainers,
};
use crate::{
    local::{
        resizes::Resizes,
        snapshots::{Snapshots, StackIds},
        workspace::WorkspaceIds,
    },
    snapshot_driver::SnapshotDriver,
};
use async_trait::async_trait;
use hostd_core::{Blueprint, PidNamespace, SandboxProcesses, is_in_other_namespace};
use hostd_net::keyed_locks::KeyedLocks;
use protocol::api::{Capabilities, Limits, SandboxId, StatsView};
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;

/// The driver for Docker and Podman. A handle: clones share everything.
#[derive(Clone)]
pub struct Docker {
    pub(super) inner: Arc<DockerInner>,
    /// Runs the connection to the engine while any clone lives; `None` inside that task itself.
    _connection: Option<Arc<DropGuard>>,
}

pub struct DockerInner {
    pub layout: Layout,
    pub signer: InstanceSigner,
    /// Label filter that matches our containers.
    pub filter: String,
    pub socket: PathBuf,
    pub engine: Engine,
    pub cache: ContainerCache,
    pub health: EngineHealthWatch,
    pub images: EngineImages,
    pub networks: Networks,
    pub test_containers: TestContainers,
    pub runtimes: Runtimes,
    pub hierarchies: Hierarchies,
    pub runtimed: PathBuf,
    pub seccomp_profile: SeccompProfile,
    pub nofile: u64,
    pub nproc: Option<u64>,
    pub dialer: SandboxDialer,
    pub quota: Quota,
    pub snapshots: Snapshots,
    pub templates: Templates,
    /// Whether the engine was seen not to see what hostd mounts.
    pub volumes_hidden: AtomicBool,
    pub launch_locks: KeyedLocks<SandboxId>,
    pub resizes: Resizes,
    pub last_inspects: LastInspects,
    pub destroyed: DestroyedLaunches,
    /// The PID namespace of hostd.
    pub pid_namespace: PidNamespace,
    /// Boot id of the host.
    pub boot: String,
    pub warnings: Vec<String>,
}

impl LocalDriver for DockerInner {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn signer(&self) -> &InstanceSigner {
        &self.signer
    }

    fn dialer(&self) -> &SandboxDialer {
        &self.dialer
    }

    fn quota(&self) -> &Quota {
        &self.quota
    }

    fn templates(&self) -> &Templates {
        &self.templates
    }

    fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    fn rootfs(&self, _: Option<&SandboxId>, image: &str) -> Option<images::Rootfs> {
        self.images.store().find(image).ok()
    }

    fn disk_means(&self) -> Option<QuotaMeans> {
        match self.quota.means() {
            Some(QuotaMeans::Loop) if self.volumes_hidden.load(Ordering::Relaxed) => {
                self.quota.is_auto().then_some(QuotaMeans::Measured)
            }
            means => means,
        }
    }

    fn running_sandbox(&self, sandbox: &SandboxId) -> io::Result<Arc<RunningSandbox>> {
        self.dialer.running_sandbox(sandbox, || {
            let found = self.find(sandbox).map_err(io::Error::other)?;
            if found.is_none() && self.launched_in_other_namespace(sandbox).map_err(io::Error::other)? {
                return Err(io::Error::other(DriverError::OtherPidNamespace { sandbox: *sandbox }));
            }
            Ok(found)
        })
    }
}

impl WorkspaceIds for DockerInner {
    fn can_stack(&self) -> bool {
        !self.volumes_hidden.load(Ordering::Relaxed) && self.health.keeps_ids()
    }

    fn stack_ids(&self, _: &SandboxId) -> Option<StackIds> {
        Some(StackIds::OnDisk)
    }
}

impl DockerInner {
    pub fn name(&self, sandbox: &SandboxId) -> String {
        labels::name_of(&self.signer.instance, sandbox)
    }

    /// The PID 1 of a sandbox, if it is alive.
    pub fn find(&self, sandbox: &SandboxId) -> Result<Option<Init>, DriverError> {
        let dir = self.dir(sandbox);
        match RunRecord::read(&dir)? {
            Some(run) => self.init_of(&dir, &run),
            None => Ok(None),
        }
    }

    pub fn init_of(&self, dir: &SandboxDir, run: &RunRecord) -> Result<Option<Init>, DriverError> {
        let Some(container) = &run.container else { return Ok(None) };
        Init::find(dir, |cgroup| is_in_container(cgroup, container)).map_err(failed("find PID 1"))
    }

    /// The control groups that the engine made for a container. `None` when PID 1 is exiting and has left
    /// them.
    pub fn cgroup(&self, init: &Init, container: &str) -> Result<Option<Cgroup>, DriverError> {
        let text = files::read_text(&init.proc().join("cgroup"), KERNEL_FILE_MAX_BYTES);
        match text {
            Ok(text) if is_in_container(&text, container) => Ok(Some(self.hierarchies.of_process(&text))),
            Ok(_) => Ok(None),
            Err(_) if has_exited(&init.pidfd) => Ok(None),
            Err(error) => Err(failed("find the control groups of PID 1")(error)),
        }
    }

    /// Whether a sandbox whose PID 1 was not found was launched in another PID namespace, with an exit that
    /// is not handled yet. Only the engine knows whether that run is over.
    pub fn launched_in_other_namespace(&self, sandbox: &SandboxId) -> Result<bool, DriverError> {
        let dir = self.dir(sandbox);
        let Some(run) =
            RunRecord::read(&dir)?.filter(|run| run.has_uncleared_start() && !self.is_from_other_boot(run))
        else {
            return Ok(false);
        };
        let record = self.signer.read(&dir, sandbox).ok().filter(|_| run.container.is_some());
        let launched_in = record.and_then(|record| record.pid_namespace);
        Ok(is_in_other_namespace(launched_in, self.pid_namespace, SandboxProcesses::Listed))
    }
}

impl Docker {
    pub(super) fn new(inner: Arc<DockerInner>, connection: DropGuard) -> Self {
        Self { inner, _connection: Some(Arc::new(connection)) }
    }

    /// A handle for the connection task, which must not keep itself alive.
    pub(super) fn without_connection(inner: &Arc<DockerInner>) -> Self {
        Self { inner: Arc::clone(inner), _connection: None }
    }

    /// The local image store: to import, list and remove images.
    pub fn images(&self) -> &images::ImageStore {
        self.inner.images.store()
    }
}

#[async_trait]
impl Transport for Docker {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        self.inner.dial(sandbox, target).await
    }

    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener> {
        self.inner.listen(sandbox, at).await
    }
}

#[async_trait]
impl Driver for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn describe(&self) -> String {
        let socket = self.inner.socket.display();
        match self.inner.health.current() {
            EngineHealth::Untested => format!("the container engine at {socket} is being probed"),
            EngineHealth::Unreachable { why } => why,
            EngineHealth::Unfit { engine, why } => format!("{engine} at {socket} is not used: {why}"),
            EngineHealth::Fit(fit_engine) => {
                format!("{}, API {}, at {socket}", fit_engine.info.version, fit_engine.info.api)
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.inner.warnings.clone();
        if self.inner.volumes_hidden.load(Ordering::Relaxed) {
            warnings.push(format!("disk limits of sandboxes: {VOLUMES_HIDDEN}"));
        }
        // Bad health is reported by `health`.
        if let EngineHealth::Fit(fit_engine) = self.inner.health.current() {
            warnings.extend(fit_engine.warnings.iter().cloned());
        }
        warnings
    }

    fn present(&self) -> bool {
        self.inner.socket.exists()
    }

    fn capabilities(&self) -> Capabilities {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let fit_engine = self.inner.health.last_fit();
        let fit_engine = fit_engine.as_deref();
        let mut isolation = strings(&["namespaces", "seccomp", "read-only root"]);
        if fit_engine.is_some_and(|fit_engine| !fit_engine.id_map.is_identity()) {
            isolation.push("a user namespace, the same for all".to_owned());
        }
        Capabilities {
            networks: self.inner.networks.offered(),
            limits: limit_names(self.inner.disk_means()),
            disk_limit: self.inner.disk_means().map(|means| means.name().to_owned()),
            snapshots: Some(self.inner.snapshots.method().name().to_owned()),
            pause: true,
            runtimes: fit_engine
                .map(|fit_engine| self.inner.runtimes.offered(&fit_engine.info))
                .unwrap_or_default(),
            images: strings(&["host", "imported", "registry"]),
            isolation,
        }
    }

    fn health(&self) -> Result<(), DriverError> {
        self.inner.cache.check_connected()?;
        self.inner.health.require_fit().map(drop)
    }

    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        let fit_engine = self.inner.health.wait_until_fit().await?;
        self.inner.check_blueprint(blueprint, &fit_engine).await?;
        self.inner.check_new(blueprint)?;
        self.check_runtime(blueprint, &fit_engine).await
    }

    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError> {
        let fit_engine = self.inner.health.require_fit()?;
        self.check_runtime(&order.blueprint, &fit_engine).await?;
        self.inner.launch(order, &fit_engine).await
    }

    async fn make_restored(&self, order: &LaunchRequest) -> Result<(), DriverError> {
        if !self.inner.workspaces().is_restored(&order.badge.sandbox) {
            return Ok(());
        }
        let (order, fit_engine) = (order.clone(), self.inner.health.require_fit()?);
        self.inner.spawn_blocking(move |inner| inner.prepare_files(&order, &fit_engine.id_map)).await
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

    async fn clean_up(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.clear(sandbox)?;
        self.inner.unmount_workspace(sandbox).await
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

    async fn open_workspace(&self, sandbox: &SandboxId) -> Result<WorkspaceAccess, DriverError> {
        self.inner.workspace_access(sandbox).await
    }

    async fn workspace_bytes(&self, sandbox: &SandboxId) -> Result<Option<u64>, DriverError> {
        self.inner.workspace_bytes(sandbox).await
    }

    async fn disk_usage(&self, sandbox: &SandboxId, disk_mb: u64) -> Result<Option<DiskUsage>, DriverError> {
        self.inner.disk_usage(sandbox, disk_mb).await.map(Some)
    }

    fn is_disk_measured(&self, sandbox: &SandboxId) -> bool {
        self.inner.workspaces().is_measured(sandbox)
    }

    fn snapshots(&self) -> Option<&dyn SnapshotDriver> {
        Some(&self.inner)
    }

    async fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError> {
        self.inner.stats(sandbox)
    }

    async fn resize(&self, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        self.inner.resize(sandbox, limits).await
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, DriverError> {
        self.inner.spawn_blocking(leftovers::list).await
    }

    async fn leftover_bytes(&self, leftover: &Leftover) -> Result<u64, DriverError> {
        let leftover = leftover.clone();
        self.inner.spawn_blocking(move |inner| leftovers::bytes(inner, &leftover)).await
    }

    async fn remove_leftover(&self, leftover: &Leftover) -> Result<(), DriverError> {
        self.inner.remove_leftover(leftover).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        self.inner.spawn_blocking(|inner| inner.list()).await
    }
}

impl DockerInner {
    fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError> {
        let what = || format!("read the counters of {sandbox}");
        let gone = || failed(what())(io::ErrorKind::NotFound.into());
        let dir = self.dir(sandbox);
        let run = RunRecord::read(&dir)?.ok_or_else(gone)?;
        let init = self.init_of(&dir, &run)?.ok_or_else(gone)?;
        let group = self.cgroup(&init, run.container.as_deref().unwrap_or_default())?.ok_or_else(gone)?;
        group.stats().map_err(failed(what()))
    }
}
