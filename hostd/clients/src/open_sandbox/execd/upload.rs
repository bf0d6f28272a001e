//! Uploads: a multipart body with the metadata of each file before its content, which is streamed.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall,
    files::Permission,
    place::{Place, absolute},
    script,
};
use crate::{ApiClient, command_stream::CommandStream, respond};
use axum::body::Body;
use futures_util::TryStreamExt;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue, IF_MATCH},
};
use multer::{Field, Multipart};
use protocol::{CancelRequest, ExecId, Exit, api::ExecCreate};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;
use tracing::debug;

/// A bound on hanging.
const CANCEL_MAX: Duration = Duration::from_secs(30);

/// Writes beside the file first, so that its readers see the old content or the new, and a body that breaks leaves the old
/// one. The file that a link names is replaced, not the link; what is no file, as /dev/null, is written to.
const WRITE: &str = r#"mkdir -p -- "$(dirname -- "$1")" || exit
[ ! -d "$1" ] || { echo "$1 is a directory" >&2; exit 45; }
[ ! -e "$1" ] || [ -f "$1" ] || { cat >"$1"; exit; }
to=$(readlink -f -- "$1") || exit
[ ! -e "$to" ] || [ -w "$to" ] || { echo "$1: permission denied" >&2; exit 1; }
mode=${2:-$(stat -c %a -- "$to" 2>/dev/null)}
trap 'rm -f -- "$to.$$"; exit 143' HUP INT TERM
cat >"$to.$$" && { [ -z "$mode" ] || chmod -- "$mode" "$to.$$"; } && mv -f -- "$to.$$" "$to" && exit
status=$?
rm -f -- "$to.$$"
exit "$status""#;

#[derive(Debug, Deserialize)]
struct Metadata {
    path: String,
    #[serde(flatten)]
    permission: Permission,
}

pub async fn upload(call: &ExecdCall, headers: &HeaderMap, body: Body) -> SandboxResult {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|error| malformed(&error))?;
    let mut parts = Multipart::new(body.into_data_stream(), boundary);
    let mut metadata: Option<Metadata> = None;
    let mut files = 0;
    while let Some(part) = parts.next_field().await.map_err(|error| malformed(&error))? {
        match part.name() {
            Some("metadata") => metadata = Some(read_metadata(part).await?),
            Some("file") => {
                let Metadata { path, permission } = metadata
                    .take()
                    .ok_or_else(|| SandboxError::invalid("a file has its metadata before it"))?;
                files += 1;
                if files > limits::UPLOAD_FILES_MAX {
                    let message = format!("at most {} files in one upload", limits::UPLOAD_FILES_MAX);
                    return Err(SandboxError::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_MANY", message));
                }
                let options = WriteOptions { mode: permission.mode()?, replaces: None };
                let broke = Arc::new(AtomicBool::new(false));
                let seen = broke.clone();
                let content = part.inspect_err(move |_| seen.store(true, Ordering::Relaxed));
                let written = write(call, &absolute(path)?, options, Body::from_stream(content)).await;
                if broke.load(Ordering::Relaxed) {
                    return Err(SandboxError::invalid("the body ended before its form did"));
                }
                written?;
            }
            Some(_) | None => return Err(SandboxError::invalid("the parts are metadata and file")),
        }
    }
    if files == 0 {
        return Err(SandboxError::invalid("there is no file in this upload"));
    }
    Ok(respond::empty(StatusCode::OK))
}

async fn read_metadata(mut part: Field<'_>) -> Result<Metadata, SandboxError> {
    let mut text = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(|error| malformed(&error))? {
        text.extend_from_slice(&chunk);
        if text.len() > limits::UPLOAD_METADATA_MAX_BYTES {
            let message = format!("metadata has at most {} bytes", limits::UPLOAD_METADATA_MAX_BYTES);
            return Err(SandboxError::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message));
        }
    }
    serde_json::from_slice(&text).map_err(|error| SandboxError::invalid(format!("metadata: {error}")))
}

/// How a file is written.
#[derive(Debug, Default)]
pub struct WriteOptions {
    /// Else that of the file it replaces.
    pub mode: Option<String>,
    /// The version of the file that is replaced, and no other; only for files of the workspace.
    pub replaces: Option<HeaderValue>,
}

pub async fn write(
    call: &ExecdCall,
    path: &str,
    WriteOptions { mode, replaces }: WriteOptions,
    content: Body,
) -> Result<(), SandboxError> {
    match Place::of(path) {
        Place::Workspace(encoded) => {
            let mode = mode.map(|mode| format!("&mode={mode}")).unwrap_or_default();
            let path = call.path(&format!("/files/content?path={encoded}{mode}"));
            let mut write = ApiClient::request(Method::PUT, &path);
            *write.body_mut() = content;
            if let Some(version) = replaces {
                write.headers_mut().insert(IF_MATCH, version);
            }
            Ok(call.api.send(write).await.map(drop)?)
        }
        Place::Elsewhere(path) => by_command(call, vec![path, mode.unwrap_or_default()], content).await,
    }
}

/// Writes a file as the sandbox's user does. Without the end of the content, the command is cancelled: the file stays as it
/// is.
async fn by_command(call: &ExecdCall, arguments: Vec<String>, content: Body) -> Result<(), SandboxError> {
    let create = ExecCreate { stdin_open: true, ..script::create(WRITE, arguments) };
    let command = CommandStream::start(call.api.clone(), &call.id, create).await?;
    let unfinished = UnfinishedWrite { call: Some((call.clone(), command.exec().clone())) };
    let path = call.path(&format!("/execs/{}/stdin?eof=1", command.exec()));
    let mut input = ApiClient::request(Method::POST, &path);
    *input.body_mut() = content;
    match call.api.send(input).await {
        Ok(_) => unfinished.content_ended(),
        // It does not read its input: it has ended, and says why.
        Err(failure) if failure.status == StatusCode::CONFLICT => unfinished.content_ended(),
        Err(failure) => return Err(failure.into()),
    }
    let ended = command.collect(limits::LISTING_MAX_BYTES).await?;
    if ended.exit != (Exit::Exited { code: 0 }) {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        let message = if said.is_empty() { format!("{:?}", ended.exit) } else { said };
        return Err(SandboxError::new(StatusCode::INTERNAL_SERVER_ERROR, "RUNTIME_ERROR", message));
    }
    Ok(())
}

/// A command that waits for content. Dropped before that has ended, it cancels the command.
struct UnfinishedWrite {
    call: Option<(ExecdCall, ExecId)>,
}

impl UnfinishedWrite {
    fn content_ended(mut self) {
        self.call = None;
    }
}

impl Drop for UnfinishedWrite {
    fn drop(&mut self) {
        let Some((call, exec)) = self.call.take() else { return };
        call.work.clone().spawn(async move {
            let path = call.path(&format!("/execs/{exec}/cancel"));
            let cancelled = call.api.post::<_, IgnoredAny>(&path, &CancelRequest { grace_ms: None });
            if !matches!(timeout(CANCEL_MAX, cancelled).await, Ok(Ok(_))) {
                debug!(sandbox = %call.id, %exec, "could not cancel an upload whose content broke off");
            }
        });
    }
}

fn malformed(error: &multer::Error) -> SandboxError {
    SandboxError::invalid(format!("the body is no multipart form: {error}"))
}
