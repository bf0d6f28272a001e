//! `impl Driver for Oci`: every verb of the driver, delegated to the module that implements it.

use super::{
    super::{
        ContainerState, DiskUsage, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, Leftover,
        SandboxBadge, Stream, Target, Transport, WorkspaceAccess,
    },
    cgroup::{Cgroup, Hierarchies},
    files::failed,
    images::{ImagePuller, ImageStore, Rootfs},
    init::Init,
    layout::Layout,
    local_driver::{LocalDriver, limit_names},
    local_leftovers as leftovers,
    quota::Quota,
    runtime_profile::RuntimeProfile,
    sandbox_dialer::{RunningSandbox, SandboxDialer},
    sealed_program::SealedProgram,
    seed::Templates,
    signed_badge::{BadgeRecord, InstanceSigner},
    uid_ranges::UidRanges,
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
use protocol::api::{Capabilities, Limits, SandboxId, StatsView};
use std::{collections::HashMap, io, net::SocketAddr, path::PathBuf, sync::Arc, sync::Mutex};
use tokio::net::TcpListener;

/// The embedded driver. A handle: clones share everything.
#[derive(Clone)]
pub struct Oci {
    pub(super) inner: Arc<OciInner>,
}

pub struct OciInner {
    pub layout: Layout,
    pub signer: InstanceSigner,
    pub profile: RuntimeProfile,
    /// Run in place of the profile's program.
    pub sealed_program: Option<SealedProgram>,
    pub hierarchies: Hierarchies,
    /// The PID namespace of hostd.
    pub pid_namespace: PidNamespace,
    pub images: ImageStore,
    pub puller: ImagePuller,
    pub uid_ranges: UidRanges,
    pub runtimed: PathBuf,
    pub launcher: PathBuf,
    /// The compiled seccomp filter.
    pub filter: String,
    pub nofile: u64,
    pub dialer: SandboxDialer,
    pub quota: Arc<Quota>,
    pub snapshots: Arc<Snapshots>,
    pub templates: Templates,
    pub resizes: Resizes,
    /// OOM kills counted when PID 1 was last seen alive; they hit other processes.
    pub oom_kills_seen: Mutex<HashMap<SandboxId, u64>>,
    /// Wait status of PID 1.
    pub exit_statuses: Mutex<HashMap<SandboxId, i32>>,
    pub description: String,
    pub warnings: Vec<String>,
}

impl LocalDriver for OciInner {
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

    fn rootfs(&self, sandbox: Option<&SandboxId>, image: &str) -> Option<Rootfs> {
        let pinned = sandbox.and_then(|sandbox| self.images.pinned(&self.dir(sandbox), image));
        pinned.map_or_else(|| self.images.find(image).ok(), |record| self.images.rootfs(&record))
    }

    fn running_sandbox(&self, sandbox: &SandboxId) -> io::Result<Arc<RunningSandbox>> {
        let (dir, group) = (self.dir(sandbox), self.cgroup(sandbox));
        self.dialer.running_sandbox(sandbox, || {
            match Init::find(&dir, |cgroup| group.contains_process(cgroup))? {
                Some(init) => Ok(Some(init)),
                None => self.refuse_other_namespace(sandbox, false).map(|()| None).map_err(io::Error::other),
            }
        })
    }
}

impl WorkspaceIds for OciInner {
    fn can_stack(&self) -> bool {
        true
    }

    fn stack_ids(&self, sandbox: &SandboxId) -> Option<StackIds> {
        let badge = self.signer.read(&self.dir(sandbox), sandbox).ok()?;
        Some(StackIds::From(badge.uid_base))
    }
}

impl OciInner {
    pub fn cgroup(&self, sandbox: &SandboxId) -> Cgroup {
        self.hierarchies.for_sandbox(sandbox)
    }

    /// Whether a sandbox whose PID 1 was not found runs in another PID namespace.
    pub fn is_in_other_namespace(
        &self,
        sandbox: &SandboxId,
        record: Option<&BadgeRecord>,
        launching: bool,
    ) -> bool {
        let launched_in = record.and_then(|record| record.pid_namespace);
        // The common case, without reading the groups.
        if launched_in == Some(self.pid_namespace) {
            return false;
        }
        let members = if launching { SandboxProcesses::Launching } else { self.cgroup(sandbox).members() };
        is_in_other_namespace(launched_in, self.pid_namespace, members)
    }

    /// Refuses to touch a sandbox whose PID 1 was not found and that runs in another PID namespace.
    pub fn refuse_other_namespace(&self, sandbox: &SandboxId, launching: bool) -> Result<(), DriverError> {
        // An unreadable badge says nothing; the kernel's list of processes still does.
        let record = self.signer.read(&self.dir(sandbox), sandbox).ok();
        if self.is_in_other_namespace(sandbox, record.as_ref(), launching) {
            return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
        }
        Ok(())
    }
}

impl Oci {
    /// The image store: to import, list and remove images.
    pub fn images(&self) -> &ImageStore {
        &self.inner.images
    }

    /// Pulls images into the store.
    pub fn puller(&self) -> &ImagePuller {
        &self.inner.puller
    }
}

#[async_trait]
impl Transport for Oci {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        self.inner.dial(sandbox, target).await
    }

    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener> {
        self.inner.listen(sandbox, at).await
    }
}

#[async_trait]
impl Driver for Oci {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn describe(&self) -> String {
        self.inner.description.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Capabilities {
            networks: strings(&["none", "proxy"]),
            limits: limit_names(self.inner.disk_means()),
            disk_limit: self.inner.disk_means().map(|means| means.name().to_owned()),
            snapshots: Some(self.inner.snapshots.method().name().to_owned()),
            pause: true,
            runtimes: vec![self.inner.profile.name()],
            images: strings(&["host", "imported", "registry"]),
            isolation: strings(&["a user namespace of its own", "seccomp", "read-only root"]),
        }
    }

    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        self.inner.check(blueprint)?;
        self.inner.check_new(blueprint)
    }

    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError> {
        self.inner.launch(order).await
    }

    async fn make_restored(&self, order: &LaunchRequest) -> Result<(), DriverError> {
        self.inner.make_restored(order).await
    }

    async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        self.inner.inspect(sandbox)
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
        self.inner.thaw(sandbox)
    }

    async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        self.inner.terminate(sandbox, grace_ms).await
    }

    async fn clean_up(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.clean_up(sandbox).await?;
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
        self.inner.cgroup(sandbox).stats().map_err(failed(format!("read the counters of {sandbox}")))
    }

    async fn resize(&self, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        self.inner.resize(sandbox, limits).await
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, DriverError> {
        self.inner.spawn_blocking(|inner| inner.find_leftovers()).await
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

impl OciInner {
    /// Every sandbox directory, with its badge.
    pub fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        let mut found = vec![];
        for name in self.names()? {
            let Ok(sandbox) = name.parse::<SandboxId>() else {
                found.push(FoundSandbox::Suspect { name, why: "its name is not a sandbox id".to_owned() });
                continue;
            };
            found.push(match self.signer.read(&self.dir(&sandbox), &sandbox) {
                Ok(BadgeRecord { badge, blueprint, .. }) => ours(badge, blueprint),
                Err(bad) => FoundSandbox::Suspect { name, why: bad.to_string() },
            });
        }
        Ok(found)
    }

    /// Names in `<data>/oci`, except the runtime's state directory.
    pub fn names(&self) -> Result<Vec<String>, DriverError> {
        let list = || failed("list the sandboxes");
        let mut names = vec![];
        for entry in std::fs::read_dir(self.layout.sandboxes()).map_err(list())? {
            let name = entry.map_err(list())?.file_name().to_string_lossy().into_owned();
            if name != "run" && name != super::probe_sandbox::PROBE_ID {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

fn ours(badge: SandboxBadge, blueprint: Blueprint) -> FoundSandbox {
    FoundSandbox::Ours { badge, blueprint: Box::new(blueprint) }
}
