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
use hyper::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use multer::{Field, Multipart};
use protocol::{Exit, api::ExecCreate};
use serde::Deserialize;

/// Writes beside the file first, so that its readers see the old content or the new.
const WRITE: &str = r#"mkdir -p -- "$(dirname -- "$1")" || exit
[ ! -d "$1" ] || { echo "$1 is a directory" >&2; exit 45; }
if [ -e "$1" ]; then cat >"$1"; else cat >"$1.$$" && mv -f -- "$1.$$" "$1"; fi || exit
[ -z "$2" ] || chmod -- "$2" "$1""#;

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
                let mode = permission.mode()?;
                write(call, &absolute(path)?, mode, Body::from_stream(part)).await?;
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

/// Writes a file, with this mode where one is given, else with that of the file it replaces.
pub async fn write(
    call: &ExecdCall,
    path: &str,
    mode: Option<String>,
    content: Body,
) -> Result<(), SandboxError> {
    match Place::of(path) {
        Place::Workspace(encoded) => {
            let mode = mode.map(|mode| format!("&mode={mode}")).unwrap_or_default();
            let path = call.path(&format!("/files/content?path={encoded}{mode}"));
            let mut write = ApiClient::request(Method::PUT, &path);
            *write.body_mut() = content;
            Ok(call.api.send(write).await.map(drop)?)
        }
        Place::Elsewhere(path) => by_command(call, vec![path, mode.unwrap_or_default()], content).await,
    }
}

/// Writes a file as the sandbox's user does.
async fn by_command(call: &ExecdCall, arguments: Vec<String>, content: Body) -> Result<(), SandboxError> {
    let create = ExecCreate { stdin_open: true, ..script::create(WRITE, arguments) };
    let command = CommandStream::start(call.api.clone(), &call.id, create).await?;
    let path = call.path(&format!("/execs/{}/stdin?eof=1", command.exec()));
    let mut input = ApiClient::request(Method::POST, &path);
    *input.body_mut() = content;
    let sent = call.api.send(input).await;
    let ended = command.collect(limits::LISTING_MAX_BYTES).await?;
    if ended.exit != (Exit::Exited { code: 0 }) {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        let message = if said.is_empty() { format!("{:?}", ended.exit) } else { said };
        return Err(SandboxError::new(StatusCode::INTERNAL_SERVER_ERROR, "RUNTIME_ERROR", message));
    }
    Ok(sent.map(drop)?)
}

fn malformed(error: &multer::Error) -> SandboxError {
    SandboxError::invalid(format!("the body is no multipart form: {error}"))
}
