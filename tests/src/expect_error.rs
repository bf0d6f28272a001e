//! Answers that must be errors.

use crate::ClientReply;
use anyhow::{Result, ensure};
use protocol::ErrorCode;

/// Checks that an answer is this error, about this field.
pub fn refused(answer: &ClientReply, code: ErrorCode, field: Option<&str>) -> Result<()> {
    let error = answer.error()?.error;
    ensure!(
        error.code == code && error.detail.field.as_deref() == field,
        "expected {code:?} about {field:?}, got {}",
        answer.text()
    );
    Ok(())
}
