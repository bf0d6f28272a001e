//! What every driver on this host's kernel does alike: it finds a sandbox by its directory, its badge and its PID 1.

use super::{
    blueprint_checks::refused,
    cgroup::{Cgroup, ResizeError},
    files::failed,
    images::Rootfs,
    layout::{Layout, SandboxDir},
    quota::{Quota, QuotaMeans},
    sandbox_dialer::{RunningSandbox, SandboxDialer},
    seed::{SeedSource, Templates, skel_of},
    signed_badge::{BadgeError, BadgeRecord, InstanceSigner},
    snapshots::{SnapshotRecord, Snapshots, Unsynced},
    workspace::{NewWorkspace, WorkspaceIds, Workspaces},
};
use crate::{DiskUsage, DriverError, OpenWorkspace, Stream, Target, WorkspaceAccess};
use hostd_core::Blueprint;
use protocol::api::{Limits, SandboxId, Seed, SnapshotId};
use std::{io, net::SocketAddr, os::fd::OwnedFd, sync::Arc};
use tokio::net::TcpListener;

/// Fields of `limits` that a local driver keeps.
pub fn limit_names(disk: Option<QuotaMeans>) -> Vec<String> {
    let disk = disk.map(|_| "disk_mb");
    ["memory_mb", "cpus", "pids"].into_iter().chain(disk).map(str::to_owned).collect()
}

/// The shared state of a driver's handles.
pub trait LocalDriver: WorkspaceIds + Send + Sync + Sized + 'static {
    fn layout(&self) -> &Layout;
    fn signer(&self) -> &InstanceSigner;
    fn dialer(&self) -> &SandboxDialer;
    fn quota(&self) -> &Quota;
    /// The PID 1 of a sandbox that runs; an error when it does not.
    fn running_sandbox(&self, sandbox: &SandboxId) -> io::Result<Arc<RunningSandbox>>;

    fn dir(&self, sandbox: &SandboxId) -> SandboxDir {
        self.layout().sandbox(sandbox)
    }

    /// How the disk limits of new workspaces are kept; `None` where they are refused.
    fn disk_means(&self) -> Option<QuotaMeans> {
        self.quota().means()
    }

    fn snapshots(&self) -> &Snapshots;

    fn workspaces(&self) -> Workspaces<'_> {
        let (layout, quota, means) = (self.layout(), self.quota(), self.disk_means());
        Workspaces { layout, quota, means, snapshots: self.snapshots(), ids: self }
    }

    fn templates(&self) -> &Templates;

    /// The root file system of an image, if it lies on this host; of a sandbox that was launched, the one it has.
    fn rootfs(&self, sandbox: Option<&SandboxId>, image: &str) -> Option<Rootfs>;

    /// The first content of a new workspace: the template that was asked for, or the skeleton of the image.
    fn find_seed(
        &self,
        sandbox: Option<&SandboxId>,
        blueprint: &Blueprint,
    ) -> Result<Option<SeedSource>, DriverError> {
        match &blueprint.seed {
            Some(Seed { snapshot: Some(snapshot), .. }) => self.find_snapshot(snapshot).map(Some),
            Some(Seed { template: Some(template), .. }) => self.templates().find(template).map(Some),
            Some(Seed { template: None, snapshot: None }) | None => {
                Ok(self.rootfs(sandbox, &blueprint.image).as_ref().and_then(skel_of))
            }
        }
    }

    fn find_snapshot(&self, snapshot: &SnapshotId) -> Result<SeedSource, DriverError> {
        let found = SnapshotRecord::read(self.layout(), snapshot).map_err(failed("read the snapshot"))?;
        let missing = || refused("seed.snapshot", format!("there is no snapshot {snapshot}"), &[]);
        found.map(SeedSource::Snapshot).ok_or_else(missing)
    }

    fn make_workspace(&self, sandbox: &SandboxId, blueprint: &Blueprint) -> Result<Unsynced, DriverError> {
        let (workspaces, limits) = (self.workspaces(), &blueprint.limits);
        let restored = SnapshotRecord::read_restored(self.layout(), sandbox);
        if let Some(record) = restored.map_err(failed("read the record of a restored workspace"))? {
            let seed = || Ok(Some(SeedSource::Snapshot(record.clone())));
            workspaces.make_restored(sandbox, &NewWorkspace { limits, seed: &seed })?;
        }
        let seed = || self.find_seed(Some(sandbox), blueprint);
        workspaces.make(sandbox, &NewWorkspace { limits, seed: &seed })
    }

    /// Removes the files, and makes a new workspace; one that was never launched gets it when it is.
    fn renew_workspace(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let record = self.read_badge(sandbox)?;
        if let Some(record) = &record {
            // A template that is gone is found out while the files are still there.
            self.find_seed(Some(sandbox), &record.blueprint)?;
        }
        self.workspaces().remove(sandbox).map_err(failed("empty the workspace"))?;
        let Some(record) = record else { return Ok(()) };
        self.make_workspace(sandbox, &record.blueprint)?.sync().map_err(failed("sync the workspace"))
    }

    /// Checks of a new sandbox that no later launch repeats: its seed, and room for it.
    fn check_new(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        self.find_seed(None, blueprint)?;
        let disk_mb = blueprint.limits.disk_mb;
        disk_mb.map_or(Ok(()), |disk_mb| self.workspaces().check_room(disk_mb))
    }

    /// Reads the badge of a sandbox; `None` where the sandbox was never created.
    fn read_badge(&self, sandbox: &SandboxId) -> Result<Option<BadgeRecord>, DriverError> {
        match self.signer().read(&self.dir(sandbox), sandbox) {
            Ok(record) => Ok(Some(record)),
            Err(BadgeError::Missing) => Ok(None),
            Err(bad) => {
                Err(DriverError::Damaged { message: format!("sandbox {sandbox} is not touched: {bad}") })
            }
        }
    }

    /// Puts new limits in force, or none of them.
    fn resize_group(&self, group: &Cgroup, limits: &Limits) -> Result<(), DriverError> {
        group.resize(limits).map_err(|error| match error {
            ResizeError::MemoryInUse { used_bytes } => DriverError::MemoryInUse {
                used_mb: used_bytes.div_ceil(1 << 20),
                wanted_mb: limits.memory_mb,
            },
            ResizeError::Io(source) => failed("change the limits")(source),
        })
    }

    /// Keeps new limits in the badge, so that they outlive the database.
    fn record_limits(&self, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        let Some(mut record) = self.read_badge(sandbox)? else { return Ok(()) };
        if record.blueprint.limits == *limits {
            return Ok(());
        }
        record.blueprint.limits = limits.clone();
        let written = self.signer().write(&self.dir(sandbox), &record).and_then(|file| file.sync_all());
        written.map_err(failed("write the badge"))
    }

    /// Runs blocking work on a thread. It completes even if the caller is cancelled.
    fn spawn_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, DriverError> + Send + 'static,
    ) -> impl Future<Output = Result<T, DriverError>> + Send {
        let inner = Arc::clone(self);
        let working = tokio::task::spawn_blocking(move || work(&inner));
        async { working.await.unwrap_or_else(|error| Err(failed("do the work")(io::Error::other(error)))) }
    }

    fn dial(
        &self,
        sandbox: &SandboxId,
        target: Target,
    ) -> impl Future<Output = io::Result<Box<dyn Stream>>> + Send {
        async move {
            let running = self.running_sandbox(sandbox)?;
            self.dialer().dial(&running, &self.dir(sandbox).control(), target).await
        }
    }

    fn listen(
        &self,
        sandbox: &SandboxId,
        at: SocketAddr,
    ) -> impl Future<Output = io::Result<TcpListener>> + Send {
        async move { self.dialer().listen(&self.running_sandbox(sandbox)?, at).await }
    }

    /// Opens the top directory of a workspace, also of a sandbox that does not run, as a path descriptor
    /// (`O_PATH`). Blocks for some milliseconds where the workspace has to be mounted first.
    fn open_workspace(&self, sandbox: &SandboxId) -> Result<OwnedFd, DriverError> {
        self.workspaces().open(sandbox)
    }

    /// As `open_workspace`, with a lease.
    fn open_leased(&self, sandbox: &SandboxId) -> Result<OpenWorkspace, DriverError> {
        let lease = self.snapshots().lease(sandbox);
        Ok(OpenWorkspace { top: self.open_workspace(sandbox)?, lease })
    }

    /// As `open_leased`, on a thread. A sandbox that was never launched has no workspace.
    fn workspace_access(
        self: &Arc<Self>,
        sandbox: &SandboxId,
    ) -> impl Future<Output = Result<WorkspaceAccess, DriverError>> + Send {
        let id = *sandbox;
        self.spawn_blocking(move |inner| match inner.open_leased(&id) {
            Ok(workspace) => Ok(WorkspaceAccess::Here(workspace)),
            Err(DriverError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(WorkspaceAccess::Missing)
            }
            Err(error) => Err(error),
        })
    }

    /// Unmounts the volume of a sandbox that does not run, unless it is in use.
    fn unmount_workspace(
        self: &Arc<Self>,
        sandbox: &SandboxId,
    ) -> impl Future<Output = Result<(), DriverError>> + Send {
        let id = *sandbox;
        self.spawn_blocking(move |inner| inner.workspaces().unmount(&id))
    }

    /// The size of the workspace on disk; `None` where there is none.
    fn workspace_bytes(
        self: &Arc<Self>,
        sandbox: &SandboxId,
    ) -> impl Future<Output = Result<Option<u64>, DriverError>> + Send {
        let id = *sandbox;
        self.spawn_blocking(move |inner| {
            inner.workspaces().bytes(&id).map_err(failed("measure the workspace"))
        })
    }

    /// How much of its limit a workspace uses.
    fn disk_usage(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        disk_mb: u64,
    ) -> impl Future<Output = Result<DiskUsage, DriverError>> + Send {
        let id = *sandbox;
        self.spawn_blocking(move |inner| {
            let workspace = inner.open_leased(&id)?;
            inner.workspaces().usage(&id, &workspace.top, disk_mb)
        })
    }
}
