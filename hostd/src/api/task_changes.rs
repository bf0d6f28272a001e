//! What a task changed, from the database: looking neither wakes the sandbox nor needs it. Only the diff of one file that
//! was too large to be recorded is asked of a sandbox that runs, between the two recorded states.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::ok,
};
use crate::reconcile::{FleetError, read_document};
use axum::{body::Body, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostd_core::{ChangesRecord, ChangesSummary, FileChangeRecord, TaskChanges, limits};
use hostd_drivers::control;
use hostd_store::{ChangedFiles, TaskRecord};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use protocol::{
    Checkpoint, DiffRequest, Encoding, Payload,
    api::{ApiErrorCode, ChangesState, FileDiffView, TaskChangesView},
};

const PLAIN: [&str; 2] = ["text/x-diff", "text/plain"];
/// Files that are read at once for a plain diff.
const PLAIN_PAGE: usize = 1_000;

pub async fn get(call: Call) -> CallResult {
    let task = call.task().await?;
    if task.done_seq.is_none() {
        let message = format!("task {} has not ended; its changes are recorded at its end", task.id);
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    // A client that takes both gets what every other call gives.
    let plain = PLAIN.into_iter().find(|kind| call.accepts(kind) && !call.accepts("application/json"));
    let record = match call.api.store.task_changes(task.number).await? {
        Some(record) => record,
        None => unrecorded(&task),
    };
    let path = path(&call)?;
    let summary = match record {
        ChangesRecord::Recorded(summary) => summary,
        ChangesRecord::Unavailable { why, lost } if lost || path.is_some() || plain.is_some() => {
            return Err(CallError::new(ApiErrorCode::CheckpointLost, why));
        }
        ChangesRecord::Unavailable { why, .. } => return Ok(ok(&unavailable(why))),
    };
    let page = match (path, plain) {
        (Some(path), _) => one(&call, &task, &summary, path).await?,
        (None, Some(_)) => all(&call, &task).await?,
        (None, None) => {
            let (after, limit) = (call.query.number("after")?.unwrap_or_default(), call.query.limit()?);
            call.api.store.changed_files(task.number, after, limit).await?
        }
    };
    match plain {
        Some(kind) => plain_diff(&task, page, kind),
        None => Ok(ok(&view(summary, &page))),
    }
}

/// Why nothing was recorded.
fn unrecorded(task: &TaskRecord) -> ChangesRecord {
    let checkpoint = task.result.as_ref().map(|result| &result.checkpoint);
    let why = match checkpoint {
        Some(Checkpoint::Unavailable { why }) => format!("there is no checkpoint: {why}"),
        Some(Checkpoint::Taken { .. }) | None => {
            "the task ended before its changes could be recorded".to_owned()
        }
    };
    ChangesRecord::Unavailable { why, lost: false }
}

/// The file that is asked for: `path`, or `path_base64` where it is not UTF-8.
fn path(call: &Call) -> Result<Option<Vec<u8>>, CallError> {
    match (call.query.text("path"), call.query.text("path_base64")) {
        (None, None) => Ok(None),
        (Some(path), None) => Ok(Some(path.as_bytes().to_vec())),
        (None, Some(path)) => {
            let bad = |_| CallError::invalid("path_base64", "must be base64");
            STANDARD.decode(path).map(Some).map_err(bad)
        }
        (Some(_), Some(_)) => Err(CallError::invalid("path_base64", "excludes path")),
    }
}

async fn one(
    call: &Call,
    task: &TaskRecord,
    summary: &ChangesSummary,
    path: Vec<u8>,
) -> Result<ChangedFiles, CallError> {
    let found = call.api.store.changed_file(task.number, path.clone()).await?;
    let Some(mut file) = found else {
        let shown = String::from_utf8_lossy(&path);
        let message = format!("no change of {shown:?} by task {} is recorded", task.id);
        return Err(CallError::new(ApiErrorCode::NotFound, message));
    };
    if file.diff.is_none() {
        file.diff = asked_for(call, task, summary, &file).await?;
    }
    Ok(ChangedFiles { files: vec![file], next: None })
}

/// Asks a running sandbox for a diff that was not recorded. Both states are named by their hash: an answer about
/// others is none.
async fn asked_for(
    call: &Call,
    task: &TaskRecord,
    summary: &ChangesSummary,
    file: &FileChangeRecord,
) -> Result<Option<Vec<u8>>, CallError> {
    let control = match call.api.fleet.control(&task.sandbox).await {
        Ok((_, control)) => control,
        Err(FleetError::NotRunning { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (since, until) = (summary.since.clone(), summary.until.clone());
    let request = DiffRequest { since, until, path: payload(&file.path) };
    let body = serde_json::to_vec(&request).map_err(|error| CallError::internal(&error))?;
    let request = control::request(&Method::POST, &format!("/v1/tasks/{}/diff", task.id))
        .body(Full::from(body).boxed())
        .map_err(|error| CallError::internal(&error))?;
    let document = read_document(&control, request, limits::ONE_DIFF_MAX_MS).await?;
    let TaskChanges { record, mut files } = TaskChanges::parse(&document, &summary.since);
    match record {
        ChangesRecord::Unavailable { why, lost: true } => {
            Err(CallError::new(ApiErrorCode::CheckpointLost, why))
        }
        ChangesRecord::Unavailable { why, lost: false } => {
            Err(CallError::new(ApiErrorCode::SandboxFailed, why))
        }
        ChangesRecord::Recorded(answered) if answered.until != summary.until => {
            let message = "the sandbox compared other states than the recorded ones";
            Err(CallError::new(ApiErrorCode::CheckpointLost, message))
        }
        ChangesRecord::Recorded(_) => {
            // A file that became too large to be stored looks deleted.
            let same = |each: &FileChangeRecord| each.path == file.path && each.change == file.change;
            files.retain(same);
            Ok(files.pop().and_then(|file| file.diff))
        }
    }
}

/// Every recorded file: all diffs together are bounded.
async fn all(call: &Call, task: &TaskRecord) -> Result<ChangedFiles, CallError> {
    let mut files = Vec::new();
    let mut after = Some(0);
    while let Some(from) = after {
        let page = call.api.store.changed_files(task.number, from, PLAIN_PAGE).await?;
        files.extend(page.files);
        after = page.next;
    }
    Ok(ChangedFiles { files, next: None })
}

/// Diffs as they are. The bytes are those of a sandbox: no browser may take them for a page.
fn plain_diff(task: &TaskRecord, page: ChangedFiles, kind: &'static str) -> CallResult {
    let diffs = page.files.into_iter().filter_map(|file| file.diff);
    let mut response = Response::new(Body::from(diffs.flatten().collect::<Vec<u8>>()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = format!("attachment; filename=\"{}.diff\"", task.id);
    let name = HeaderValue::from_str(&name).map_err(|error| CallError::internal(&error))?;
    headers.insert(CONTENT_DISPOSITION, name);
    Ok(response)
}

fn unavailable(why: String) -> TaskChangesView {
    let (state, summary) = (ChangesState::Unavailable, ChangesSummary::default());
    TaskChangesView { state, reason: Some(why), checkpoint: None, ..view(summary, &ChangedFiles::default()) }
}

fn view(summary: ChangesSummary, page: &ChangedFiles) -> TaskChangesView {
    TaskChangesView {
        state: ChangesState::Recorded,
        reason: None,
        checkpoint: Some(summary.since),
        added: summary.added,
        modified: summary.modified,
        deleted: summary.deleted,
        added_lines: summary.added_lines,
        deleted_lines: summary.deleted_lines,
        truncated: summary.truncated,
        files: page.files.iter().map(file_view).collect(),
        next: page.next.map(|position| position.to_string()),
    }
}

fn file_view(file: &FileChangeRecord) -> FileDiffView {
    let name = payload(&file.path);
    let (path, path_base64) = match name.encoding {
        Encoding::Utf8 => (name.data, None),
        Encoding::Base64 => (String::from_utf8_lossy(&file.path).into_owned(), Some(name.data)),
    };
    FileDiffView {
        path,
        path_base64,
        kind: file.change,
        added_lines: file.added_lines,
        deleted_lines: file.deleted_lines,
        binary: file.binary,
        whole: file.diff.is_some(),
        diff: file.diff.as_deref().map(payload),
    }
}

pub fn payload(bytes: &[u8]) -> Payload {
    match std::str::from_utf8(bytes) {
        Ok(text) => Payload { data: text.to_owned(), encoding: Encoding::Utf8 },
        Err(_) => Payload { data: STANDARD.encode(bytes), encoding: Encoding::Base64 },
    }
}
