//! The edge does not drive sandboxes: it asks the part of hostd that does.

use async_trait::async_trait;
use hostd_drivers::control::Control;
use protocol::api::{ApiErrorCode, SandboxId};

/// Wakes sandboxes for the edge. Implemented by the fleet, and by a fake in tests.
#[async_trait]
pub trait Waker: Send + Sync {
    /// Wakes a sandbox that is stopped or paused, once however many ask, and waits until it answers. It is not put to
    /// sleep while the `Control` lives.
    async fn wake(&self, id: &SandboxId) -> Result<Control, WakeError>;
    /// Thaws a sandbox that is only frozen; one that is stopped is refused.
    async fn thaw(&self, id: &SandboxId) -> Result<Control, WakeError>;
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum WakeError {
    /// Another caller stopped it meanwhile: it sleeps now, and can be woken again.
    #[error("{message}")]
    Stopped { message: String },
    #[error("{message}")]
    Failed { code: ApiErrorCode, message: String },
}
