//! What every driver on this host's kernel does alike: it finds a sandbox by its directory, its badge and its PID 1.

use super::{
    files::failed,
    layout::{Layout, SandboxDir},
    quota::{Quota, QuotaMeans},
    sandbox_dialer::{RunningSandbox, SandboxDialer},
    signed_badge::{BadgeError, BadgeRecord, InstanceSigner},
    workspace::Workspaces,
};
use crate::{DiskUsage, DriverError, Stream, Target};
use protocol::api::SandboxId;
use std::{io, net::SocketAddr, os::fd::OwnedFd, sync::Arc};
use tokio::net::TcpListener;

/// Fields of `limits` that a local driver keeps.
pub fn limit_names(disk: Option<QuotaMeans>) -> Vec<String> {
    let disk = disk.map(|_| "disk_mb");
    ["memory_mb", "cpus", "pids"].into_iter().chain(disk).map(str::to_owned).collect()
}

/// The shared state of a driver's handles.
pub trait LocalDriver: Send + Sync + Sized + 'static {
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

    fn workspaces(&self) -> Workspaces<'_> {
        Workspaces { layout: self.layout(), quota: self.quota(), means: self.disk_means() }
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
            let top = inner.open_workspace(&id)?;
            inner.workspaces().usage(&id, &top, disk_mb)
        })
    }
}
