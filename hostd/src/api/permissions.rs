//! Answers to permission requests of agents.

use super::{
    call::Call,
    error::{CallError, CallResult},
    relay,
    views::no_content,
};
use protocol::{PermissionAnswer, validate};

const ID_MAX_BYTES: usize = 128;
pub const OPTION_MAX_BYTES: usize = 1 << 10;

/// Relays the answer to runtimed: only it knows which permissions are pending.
pub async fn answer(call: Call) -> CallResult {
    let answer: PermissionAnswer = call.json()?;
    validate::permission_answer(&answer)?;
    if answer.option.as_ref().is_some_and(|option| option.len() > OPTION_MAX_BYTES) {
        return Err(CallError::invalid("option", format!("must be at most {OPTION_MAX_BYTES} bytes")));
    }
    let task = call.task().await?;
    let permission = call.param("permission")?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if permission.len() > ID_MAX_BYTES || !permission.bytes().all(plain) || task.done_seq.is_some() {
        return Err(CallError::not_found());
    }
    // A running task means a running sandbox: nothing to wake.
    let (_, control) = call.api.fleet.control(&task.sandbox).await?;
    let path = relay::runtimed_path(&["tasks", task.id.as_str(), "permissions", permission]);
    let body = serde_json::to_vec(&answer).map_err(|error| CallError::internal(&error))?;
    relay::post(&control, &path, body.into()).await?;
    Ok(no_content())
}
