//! What makes, finds, stops and removes sandboxes on one backend. The verbs are ours, not the backend's.
//!
//! Every verb may be repeated, and may be cut off at any instruction by the death of hostd: the next
//! call, perhaps of another process, finds out what is there and goes on. No path of the host leaves a
//! driver: what others get is a handle they cannot read and a stream they can talk on.

pub mod docker;
mod drivers;
#[cfg(test)]
pub(crate) mod fake;
mod local;
mod not_configured;
pub mod oci;

pub use drivers::{AbsentDriver, Drivers};
pub use local::{images::ImageStore, trash::empty as empty_trash};

pub use crate::core::{ContainerState, Handle};

use crate::core::Blueprint;
use async_trait::async_trait;
use protocol::api::{Capabilities, Owner, SandboxId, SandboxScope, StatsView};
use serde::{Deserialize, Serialize};
use std::{any::Any, collections::BTreeMap, io, net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

/// Who a sandbox is: kept beside it by the driver, authenticated, so that it can be recognised after the
/// database was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxLabel {
    pub sandbox: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    pub created_ms: u64,
    /// As they were when it was launched last; badges of an earlier hostd have none.
    #[serde(default, rename = "particulars", skip_serializing_if = "Option::is_none")]
    pub details: Option<LabelDetails>,
}

/// What an owner may change about a sandbox while it lives. Nothing of it is secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelDetails {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// What a driver is asked to bring up.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    pub label: SandboxLabel,
    pub attempt: u32,
    pub blueprint: Arc<Blueprint>,
    pub progress: ProgressSink,
}

/// Told of what takes long, in words for people. Whoever tells does so about once a second.
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

/// A sandbox the driver found.
#[derive(Debug, Clone, PartialEq)]
pub enum FoundSandbox {
    /// Ours, with its authenticated badge and the blueprint it was made from.
    Ours { label: SandboxLabel, blueprint: Box<Blueprint> },
    /// Carries our marks, but they are incomplete or not authentic: reported, never touched.
    Suspect { name: String, why: String },
}

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// It cannot do what the blueprint asks for, and will never: `field` of the spec, and what it could do.
    #[error("{message}")]
    Refused { field: &'static str, message: String, supported: Vec<String> },
    /// The backend does not answer; later it may.
    #[error("{message}")]
    Unavailable { message: String },
    /// `why`: what the backend said when it was asked to fetch it.
    #[error("there is no image {name}{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    ImageMissing { name: String, why: Option<String> },
    /// Something that is not ours has the name this would get.
    #[error("{message}")]
    NameTaken { message: String },
    #[error("the disk is full")]
    DiskFull,
    /// The backend tried and failed; `output` is what it printed last.
    #[error("{message}")]
    Failed { message: String, output: Vec<String> },
    #[error("{what} took longer than {after_ms} ms")]
    TimedOut { what: &'static str, after_ms: u64 },
    /// What the driver kept about the sandbox is missing or was changed.
    #[error("{message}")]
    Damaged { message: String },
    /// Its processes have no numbers here: nothing can be done to them.
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

/// Where to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// runtimed's control socket.
    Control,
    /// A port on the sandbox's loopback.
    Port(u16),
}

/// A connection into a sandbox.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + Any {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> Stream for T {}

/// Connections to, and listeners inside, a sandbox. Nothing in it must be trusted or even alive.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>>;
    /// Listens inside, on a loopback address; port 0 picks one. The listener, and every connection it
    /// accepts, keeps the namespace of the sandbox alive: whoever has it must drop it when that is gone.
    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener>;
}

#[async_trait]
pub trait Driver: Transport {
    fn name(&self) -> &'static str;
    /// The program behind it and its version, for people.
    fn describe(&self) -> String;
    /// What does not work here, for people.
    fn warnings(&self) -> Vec<String>;
    fn capabilities(&self) -> Capabilities;
    /// Whether its backend is on this host: a glance at its files, nobody is asked.
    fn present(&self) -> bool {
        true
    }
    /// Whether its backend is well, by what is known already: nobody is asked.
    fn health(&self) -> Result<(), DriverError> {
        Ok(())
    }
    /// Whether it can do what the blueprint asks for. Nothing is made.
    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError>;
    /// Makes and starts it. When this returns, PID 1 runs; it may not answer yet.
    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError>;
    async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError>;
    /// Returns when PID 1 has ended. At once when it does not run.
    async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Returns when a look may show something else than the last one did, because of somebody else: it
    /// died, was started, removed, frozen or thawed. At once where that happened since. Sees at least the
    /// death of one that runs.
    async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match self.inspect(sandbox).await? {
            ContainerState::Running { .. } => self.died(sandbox).await,
            // What is dead is not left so: whoever waits has not seen it.
            ContainerState::Dead(_) => Ok(()),
            ContainerState::Absent | ContainerState::Launching | ContainerState::OtherPidNamespace => {
                std::future::pending().await
            }
        }
    }
    async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Thaws, asks PID 1 to end, and kills it after `grace_ms`. Also ends a launch that hangs.
    async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError>;
    /// Takes away what a dead one left, except workspace, control directory and badge.
    async fn remove_container(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Takes away everything; the workspace unless it is to be kept.
    async fn destroy(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError>;
    /// Empties the workspace of a stopped sandbox, for `recreate`.
    async fn reset_workspace(&self, sandbox: &SandboxId) -> Result<(), DriverError>;
    /// Where its runtimed keeps its logs, if they can be read without its help. What is there was written
    /// from inside.
    fn logs(&self, sandbox: &SandboxId) -> Option<PathBuf>;
    /// What the files of a sandbox that does not run take on the disk; nothing where there are none.
    async fn workspace_bytes(&self, sandbox: &SandboxId) -> Result<Option<u64>, DriverError>;
    async fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError>;
    /// Every sandbox of ours it can find, running or not.
    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError>;
}
