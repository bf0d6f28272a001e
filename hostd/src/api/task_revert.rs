//! Restoring the files of a task's checkpoint. The sandbox does it, woken where it sleeps, and goes on with it where the
//! client does not wait; repeated, the call continues where the last one ended.

use super::{
    call::Call,
    error::{CallError, CallResult},
    task_changes::payload,
    views::ok,
};
use crate::reconcile::read_document;
use base64::{Engine, engine::general_purpose::STANDARD};
use hostd_core::{RevertedFiles, TaskRevertOutcome, is_path_below, limits};
use hostd_drivers::control::{self, ControlError};
use hostd_store::TaskRecord;
use http_body_util::{BodyExt, Full};
use hyper::Method;
use protocol::{
    Checkpoint, Encoding, ErrorCode, RevertRequest,
    api::{ApiErrorCode, RevertCounts, RevertedFile, TaskRevert, TaskRevertView},
};

pub async fn revert(call: Call) -> CallResult {
    let wanted: TaskRevert = call.json()?;
    let path = path(&wanted)?;
    let task = call.task().await?;
    let since = checkpoint(&call, &task).await?;
    let (_, control) = call.control_of(&task.sandbox).await?;
    let request = RevertRequest {
        since: since.clone(),
        path: path.as_deref().map(payload),
        dry_run: wanted.dry_run,
        discard: wanted.discard,
    };
    let body = serde_json::to_vec(&request).map_err(|error| CallError::internal(&error))?;
    let request = control::request(&Method::POST, &format!("/v1/tasks/{}/revert", task.id))
        .body(Full::from(body).boxed())
        .map_err(|error| CallError::internal(&error))?;
    let document = read_document(&control, request, limits::REVERT_MAX_MS).await.map_err(refused)?;
    match TaskRevertOutcome::parse(&document) {
        Some(TaskRevertOutcome::Reverted(files)) => Ok(ok(&view(&task, since, wanted.dry_run, files))),
        Some(TaskRevertOutcome::Lost(why)) => Err(CallError::new(ApiErrorCode::CheckpointLost, why)),
        Some(TaskRevertOutcome::UnknownPath(why)) => Err(CallError::new(ApiErrorCode::NotFound, why)),
        Some(TaskRevertOutcome::Failed(why)) => Err(CallError::new(ApiErrorCode::SandboxFailed, why)),
        None => {
            let message = "the revert ended before all files were restored; repeat it";
            Err(CallError::new(ApiErrorCode::SandboxFailed, message))
        }
    }
}

/// The checkpoint to restore. The sandbox has the last word on whether a task runs: one may begin meanwhile.
async fn checkpoint(call: &Call, task: &TaskRecord) -> Result<String, CallError> {
    if let Some(open) = call.api.store.open_tasks(Some(task.sandbox)).await?.first() {
        let message = format!("task {} has not ended; wait for it or cancel it, then revert", open.id);
        return Err(CallError::new(ApiErrorCode::TaskRunning, message));
    }
    if let Some(checkpoint) = &task.checkpoint {
        return Ok(checkpoint.clone());
    }
    let why = match task.result.as_ref().map(|result| &result.checkpoint) {
        Some(Checkpoint::Unavailable { why }) => why.as_str(),
        Some(Checkpoint::Taken { .. }) | None => "the task ended before one was taken",
    };
    let message = format!("task {} has no checkpoint: {why}", task.id);
    Err(CallError::new(ApiErrorCode::NoCheckpoint, message))
}

/// The path that is asked for. A directory may be named with a slash at its end.
fn path(wanted: &TaskRevert) -> Result<Option<Vec<u8>>, CallError> {
    let (field, path) = match (&wanted.path, &wanted.path_base64) {
        (None, None) => return Ok(None),
        (Some(path), None) => ("path", path.clone().into_bytes()),
        (None, Some(path)) => {
            let bad = |_| CallError::invalid("path_base64", "must be base64");
            ("path_base64", STANDARD.decode(path).map_err(bad)?)
        }
        (Some(_), Some(_)) => return Err(CallError::invalid("path_base64", "excludes path")),
    };
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    if is_path_below(path) {
        return Ok(Some(path.to_vec()));
    }
    let message = format!(
        "must be the path of a file or directory, relative to the app directory, of at most {} bytes and without `.` and `..`",
        limits::CHANGED_PATH_MAX_BYTES
    );
    Err(CallError::invalid(field, message))
}

/// A refusal of runtimed; one that does not know the verb is older than it.
fn refused(error: ControlError) -> CallError {
    let ControlError::Refused(body) = &error else { return error.into() };
    match body.error.code {
        ErrorCode::NotFound | ErrorCode::MethodNotAllowed => {
            let message = "the sandbox runs an older version that cannot revert; \
                recreate it (`POST /v1/sandboxes/{id}/recreate`), which keeps its files, then try again";
            CallError::new(ApiErrorCode::Unsupported, message)
        }
        ErrorCode::Conflict => CallError::new(ApiErrorCode::TaskRunning, body.error.message.clone()),
        ErrorCode::InvalidRequest
        | ErrorCode::HistoryGone
        | ErrorCode::TooLarge
        | ErrorCode::TooMany
        | ErrorCode::RateLimited
        | ErrorCode::NotRunning
        | ErrorCode::PortClosed
        | ErrorCode::ShuttingDown
        | ErrorCode::Internal => error.into(),
    }
}

fn view(task: &TaskRecord, checkpoint: String, dry_run: bool, files: RevertedFiles) -> TaskRevertView {
    let listed = |names: Vec<Vec<u8>>| names.iter().map(|name| file(name)).collect();
    TaskRevertView {
        task: task.id.clone(),
        checkpoint,
        dry_run,
        saved: files.saved,
        restored: listed(files.restored),
        deleted: listed(files.deleted),
        kept: listed(files.kept),
        counts: RevertCounts {
            restored: files.restored_files,
            deleted: files.deleted_files,
            kept: files.kept_files,
            not_restored: files.not_restored,
        },
        incomplete_checkpoint: files.incomplete_checkpoint,
        truncated: files.truncated,
    }
}

fn file(name: &[u8]) -> RevertedFile {
    let shown = payload(name);
    match shown.encoding {
        Encoding::Utf8 => RevertedFile { path: shown.data, path_base64: None },
        Encoding::Base64 => {
            let path = String::from_utf8_lossy(name).into_owned();
            RevertedFile { path, path_base64: Some(shown.data) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ErrorBody;

    #[test]
    fn an_older_runtimed_and_a_running_task_have_codes_of_their_own() {
        for (code, expected) in [
            (ErrorCode::NotFound, ApiErrorCode::Unsupported),
            (ErrorCode::MethodNotAllowed, ApiErrorCode::Unsupported),
            (ErrorCode::Conflict, ApiErrorCode::TaskRunning),
            (ErrorCode::TooMany, ApiErrorCode::TooMany),
            (ErrorCode::Internal, ApiErrorCode::SandboxFailed),
        ] {
            let body = Box::new(ErrorBody::new(code, "why"));
            let error = refused(ControlError::Refused(body)).error;
            assert_eq!(error.code, expected);
            assert_eq!(error.message.contains("recreate"), expected == ApiErrorCode::Unsupported);
        }
    }
}
