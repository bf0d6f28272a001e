//! How a prompt ends: the result of its task as the response to `session/prompt`. Pure.

use super::rpc::{INTERNAL_ERROR, RpcError};
use protocol::{FailureReason, TaskResult, TaskStatus, Usage};
use serde_json::{Value, json};

/// Returns the stop reason, with what the task used; an error where its agent did not get to an end.
pub fn outcome(result: &TaskResult) -> Result<Value, RpcError> {
    let stop_reason = match (result.status, result.failure_reason) {
        (TaskStatus::Succeeded, _) => "end_turn",
        (TaskStatus::Cancelled, _) | (_, Some(FailureReason::Cancelled)) => "cancelled",
        // The agent ended its turn; the failed check was shown.
        (_, Some(FailureReason::BuildFailed)) => "end_turn",
        (TaskStatus::Failed | TaskStatus::Queued | TaskStatus::Running, reason) => {
            return Err(failure(result, reason));
        }
    };
    let mut end = json!({"stopReason": stop_reason});
    if let Some(usage) = &result.usage {
        end["usage"] = tokens(usage);
    }
    Ok(end)
}

fn failure(result: &TaskResult, reason: Option<FailureReason>) -> RpcError {
    let reason = serde_json::to_value(reason).unwrap_or_default();
    let why = result.message.clone().unwrap_or_else(|| "the agent failed".to_owned());
    let word = reason.as_str().unwrap_or("failed").replace('_', " ");
    let mut error = RpcError::new(INTERNAL_ERROR, format!("{word}: {why}"));
    error.data =
        Some(json!({"reason": reason, "message": result.message, "agent_stderr": result.agent_stderr}));
    error
}

fn tokens(usage: &Usage) -> Value {
    let input = usage.input_tokens.saturating_add(usage.cache_read_tokens);
    let total = input.saturating_add(usage.cache_write_tokens).saturating_add(usage.output_tokens);
    json!({
        "totalTokens": total, "inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens,
        "thoughtTokens": usage.reasoning_tokens, "cachedReadTokens": usage.cache_read_tokens,
        "cachedWriteTokens": usage.cache_write_tokens,
    })
}

/// The response to a prompt of a session that was closed.
pub fn cancelled() -> Value {
    json!({"stopReason": "cancelled"})
}
