//! Drivers launch, inspect, stop and remove sandboxes on one backend. The verbs are ours, not the backend's.
//!
//! Every verb may be repeated, and may be cut off at any instruction by the death of hostd: the next call, perhaps of
//! another process, finds out what is there and goes on. No path of the host leaves a driver: callers get a handle
//! they cannot read and streams into the sandbox.

use crate::{local::snapshots::WorkspaceLease, snapshot_driver::SnapshotDriver};
use async_trait::async_trait;
use hostd_core::{AppPort, Blueprint, ContainerState, Handle};
use protocol::api::{Capabilities, LeftoverKind, Limits, Owner, SandboxId, SandboxScope, StatsView};
use serde::{Deserialize, Serialize};
use std::{any::Any, collections::BTreeMap, io, net::SocketAddr, os::fd::OwnedFd, path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

/// The identity of a sandbox: kept beside it by the driver, authenticated, so that the sandbox can be recognised
/// after the database was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxBadge {
    pub sandbox: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    pub created_ms: u64,
    /// As of the newest launch; badges of an earlier hostd have none.
    #[serde(default, rename = "particulars", skip_serializing_if = "Option::is_none")]
    pub details: Option<BadgeDetails>,
}

/// The part of a badge that a tenant may change while the sandbox lives. Nothing of it is secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BadgeDetails {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A sandbox to launch.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    pub badge: SandboxBadge,
    pub attempt: u32,
    pub blueprint: Arc<Blueprint>,
    pub progress: ProgressSink,
}

/// Takes the progress of a long launch, as text for people, about once a second.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<ProgressListener>>);

type ProgressListener = dyn Fn(&str) + Send + Sync;

impl ProgressSink {
    pub fn new(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub fn report(&self, text: &str) {
        if let Some(listener) = &self.0 {
            listener(text);
        }
    }
}

impl std::fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProgressSink")
    }
}

/// A sandbox that a driver found on its backend.
#[derive(Debug, Clone, PartialEq)]
pub enum FoundSandbox {
    /// Ours, with its authenticated badge and the blueprint it was made from.
    Ours { badge: SandboxBadge, blueprint: Box<Blueprint> },
    /// Has a badge that is incomplete or not authentic: reported, never touched.
    Suspect { name: String, why: String },
}

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The driver can never do what the blueprint asks for. `field` of the spec says where, `supported` what it can.
    #[error("{message}")]
    Refused { field: &'static str, message: String, supported: Vec<String> },
    /// The backend does not answer; later it may.
    #[error("{message}")]
    Unavailable { message: String },
    /// `why`: the error of the backend when it was asked to pull the image.
    #[error("there is no image {name}{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    ImageMissing { name: String, why: Option<String> },
    /// A container that is not ours has the name that this one would get.
    #[error("{message}")]
    NameTaken { message: String },
    /// What the verb works on is not there, or not in a state for it.
    #[error("{message}")]
    Conflict { message: String },
    #[error("the disk is full")]
    DiskFull,
    /// The disk has no room for the whole of a workspace with a limit.
    #[error(
        "limits.disk_mb needs {needed_mb} MB of the data disk: {free_mb} MB are free and hostd keeps {floor_mb} MB; \
         destroy sandboxes, or ask for less"
    )]
    NoDiskRoom { needed_mb: u64, free_mb: u64, floor_mb: u64 },
    /// A new memory limit is below what the sandbox uses and the kernel cannot free.
    #[error(
        "the sandbox uses {used_mb} MB: it cannot be limited to {wanted_mb} MB; stop processes in it, or stop it, first"
    )]
    MemoryInUse { used_mb: u64, wanted_mb: u64 },
    /// The backend tried and failed; `output` has the last lines it printed.
    #[error("{message}")]
    Failed { message: String, output: Vec<String> },
    #[error("{what} took longer than {after_ms} ms")]
    TimedOut { what: &'static str, after_ms: u64 },
    /// The files that the driver keeps for the sandbox are missing or were changed.
    #[error("{message}")]
    Damaged { message: String },
    /// The processes of the sandbox have no PIDs in hostd's namespace: nothing can be done to them.
    #[error(
        "sandbox {sandbox} runs in another PID namespace than hostd and is left alone: start hostd in the \
         namespace that the sandbox was started in"
    )]
    OtherPidNamespace { sandbox: SandboxId },
    #[error("could not {what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
}

/// Where the files of a sandbox are.
#[derive(Debug)]
pub enum WorkspaceAccess {
    /// On this machine, whether the sandbox runs or not: the top directory of the workspace.
    Here(OpenWorkspace),
    /// Within reach of the sandbox's runtimed only, and so only while it runs.
    Inside,
    /// The sandbox was never launched, so that it has none.
    Missing,
}

/// The open files of a workspace.
#[derive(Debug)]
pub struct OpenWorkspace {
    /// A path descriptor (`O_PATH`).
    pub top: OwnedFd,
    /// Held for as long as files of the workspace are written.
    pub lease: WorkspaceLease,
}

/// How much of its limit a workspace uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUsage {
    pub used_bytes: u64,
    pub limit_bytes: u64,
}

/// Something that a sandbox which may be gone left on the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub kind: LeftoverKind,
    /// Its name on the backend.
    pub name: String,
    /// Absent for trash.
    pub sandbox: Option<SandboxId>,
    /// When it was thrown away, for trash; unknown where its name does not tell.
    pub thrown_ms: Option<u64>,
}

/// The target of a connection into a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// runtimed's control socket.
    Control,
    /// A port of an app on the sandbox's loopback; hostd's own port there is none.
    Port(AppPort),
}

/// A connection into a sandbox.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + Any {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> Stream for T {}

/// Connections to, and listeners inside, a sandbox, which is not trusted and may be dead.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>>;
    /// Listens inside, on a loopback address; port 0 picks one. The listener, and every connection it accepts, keeps
    /// the namespace of the sandbox alive: the caller must drop it when the sandbox is gone.
    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener>;
}

#[async_trait]
pub trait Driver: Transport {
    fn name(&self) -> &'static str;
    /// The backend's program and version, for people.
    fn describe(&self) -> String;
    /// Limitations on this host, for people.
    fn warnings(&self) -> Vec<String>;
    fn capabilities(&self) -> Capabilities;
    /// Whether the backend is installed on this host, by its files. Makes no request.
    fn present(&self) -> bool {
        true
    }
    /// Whether the backend is healthy, by what is known already. Makes no request.
    fn health(&self) -> Result<(), DriverError> {
        Ok(())
    }
    /// Checks that the driver can do what the blueprint asks for. Creates nothing.
    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError>;
    /// Creates and starts the container. When this returns, PID 1 runs; it may not answer yet.
    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError>;
    /// Makes the files of a sandbox that was restored from a backup, so that they can be read before its next launch. A
    /// no-op for another sandbox.
    async fn make_restored(&self, _: &LaunchRequest) -> Result<(), DriverError> {
        Ok(())
    }
    async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError>;
    /// Returns when PID 1 has ended. At once when it does not run.
    async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Returns when an inspection may show another state than the last one did, by an outside cause: the container
    /// died, was started, removed, frozen or thawed. At once where that happened since. Signals at least the death of
    /// a running container.
    async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match self.inspect(sandbox).await? {
            ContainerState::Running { .. } => self.died(sandbox).await,
            // An actor does not wait on a dead container: it has not seen this death.
            ContainerState::Dead(_) => Ok(()),
            ContainerState::Absent | ContainerState::Launching | ContainerState::OtherPidNamespace => {
                std::future::pending().await
            }
        }
    }
    async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Thaws, sends SIGTERM to PID 1, and SIGKILL after `grace_ms`. Also ends a launch that hangs.
    async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError>;
    /// Removes a dead container; workspace, control directory and badge stay.
    async fn clean_up(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Removes everything; the workspace unless it is to be kept.
    async fn destroy(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError>;
    /// Empties the workspace of a stopped sandbox, for `recreate`.
    async fn reset_workspace(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// The log directory of runtimed, if it can be read from the host. Its files were written from inside and are not
    /// trusted.
    fn logs(&self, sandbox: &SandboxId) -> Option<PathBuf>;
    /// The way to the files of a sandbox.
    async fn open_workspace(&self, sandbox: &SandboxId) -> Result<WorkspaceAccess, DriverError>;
    /// The size of the workspace on disk; `None` where there is none.
    async fn workspace_bytes(&self, sandbox: &SandboxId) -> Result<Option<u64>, DriverError>;
    /// How much of its disk limit of `disk_mb` the workspace uses; `None` where the driver keeps no limits.
    async fn disk_usage(&self, _: &SandboxId, _disk_mb: u64) -> Result<Option<DiskUsage>, DriverError> {
        Ok(None)
    }
    /// Whether the disk limit of the workspace is kept by measuring alone: by the callers of `disk_usage`.
    fn is_disk_measured(&self, _: &SandboxId) -> bool {
        false
    }
    /// The verbs on snapshots; absent where the driver has none.
    fn snapshots(&self) -> Option<&dyn SnapshotDriver> {
        None
    }
    async fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError>;
    /// Puts new limits of memory, CPU and processes in force for a container that runs or is frozen, all of them or
    /// none. `MemoryInUse` where the sandbox uses more.
    async fn resize(&self, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError>;
    /// What sandboxes left that have no container now, and trash. Says nothing about whether it may be removed, and
    /// has nothing that fails verification.
    async fn leftovers(&self) -> Result<Vec<Leftover>, DriverError> {
        Ok(Vec::new())
    }
    /// The space that a leftover takes.
    async fn leftover_bytes(&self, _: &Leftover) -> Result<u64, DriverError> {
        Ok(0)
    }
    /// Removes a leftover that is not in use. The caller has made sure that its sandbox is destroyed.
    async fn remove_leftover(&self, leftover: &Leftover) -> Result<(), DriverError> {
        let message = format!("{} is none of this driver", leftover.name);
        Err(DriverError::Failed { message, output: Vec::new() })
    }
    /// All sandboxes on the backend with our badge, running or not.
    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError>;
}
