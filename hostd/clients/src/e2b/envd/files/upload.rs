//! Writes files: one from the body as it is, or several parts of a form. The body is streamed to the file; readers of the file
//! see the old content or the new.

use super::{
    gunzip::gunzipped,
    parts::{Part, Parts},
};
use crate::{
    ApiFailure,
    e2b::envd::{
        auth::Authorized, filesystem::written, http_error::HttpError, limits::UPLOAD_FILES_MAX,
        paths::ClientPath,
    },
    respond,
};
use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName},
};
use protocol::api::ApiErrorCode;
use serde_json::Value;

const METADATA_PREFIX: &str = "x-metadata-";

/// `path` is the parameter of the URL.
pub async fn upload(
    sandbox: &Authorized,
    path: Option<&str>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, HttpError> {
    if headers.keys().any(is_metadata) {
        let message = "X-Metadata headers are not supported: files of this sandbox have no metadata of users";
        return Err(HttpError::bad_request(message));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let body = decoded(headers, body)?;
    let files = match media.as_str() {
        "application/octet-stream" => {
            let path = path.ok_or_else(|| {
                HttpError::bad_request("the parameter path is needed with application/octet-stream")
            })?;
            let path = parse(path)?;
            write(sandbox, &path, body).await?;
            vec![written(&path)]
        }
        "multipart/form-data" => upload_form(sandbox, path, content_type, body).await?,
        _ => {
            let message = "the body must be multipart/form-data or application/octet-stream";
            return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
    };
    Ok(respond::json(StatusCode::OK, &files))
}

fn is_metadata(name: &HeaderName) -> bool {
    name.as_str().starts_with(METADATA_PREFIX)
}

fn decoded(headers: &HeaderMap, body: Body) -> Result<Body, HttpError> {
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()) {
        None => Ok(body),
        Some(encoding) if encoding == b"identity" => Ok(body),
        Some(encoding) if encoding == b"gzip" => Ok(gunzipped(body)),
        Some(_) => {
            let message = "the body may be compressed with gzip only";
            Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

async fn upload_form(
    sandbox: &Authorized,
    path: Option<&str>,
    content_type: &str,
    body: Body,
) -> Result<Vec<Value>, HttpError> {
    let mut parts =
        Parts::new(content_type, body).map_err(|error| HttpError::bad_request(error.to_string()))?;
    let mut files = Vec::new();
    while let Some(part) = parts.next().await.map_err(|error| HttpError::bad_request(error.to_string()))? {
        let Part { name, file_name } = part;
        if name.as_deref() != Some("file") {
            continue;
        }
        if files.len() >= UPLOAD_FILES_MAX {
            return Err(HttpError::bad_request(format!("an upload has at most {UPLOAD_FILES_MAX} files")));
        }
        // The parameter names one file; several are named by their parts.
        let named = match (path, files.is_empty()) {
            (Some(path), true) => path,
            (Some(_), false) => {
                return Err(HttpError::bad_request(
                    "the parameter path names one file, and the upload has more",
                ));
            }
            (None, _) => {
                file_name.as_deref().ok_or_else(|| HttpError::bad_request("a part has no filename"))?
            }
        };
        let path = parse(named)?;
        let (sender, content) = parts.content();
        let (written_file, fed) = tokio::join!(write(sandbox, &path, content), parts.feed(sender));
        written_file?;
        fed.map_err(|error| HttpError::bad_request(error.to_string()))?;
        files.push(written(&path));
    }
    if files.is_empty() {
        return Err(HttpError::bad_request("the upload has no part named file"));
    }
    Ok(files)
}

pub fn parse(path: &str) -> Result<ClientPath, HttpError> {
    ClientPath::parse(path).map_err(|error| HttpError::bad_request(error.to_string()))
}

/// Writes the content to the file, whose directories are made.
pub async fn write(sandbox: &Authorized, path: &ClientPath, content: Body) -> Result<(), HttpError> {
    let put = async |query: String, content: Body| -> Result<(), ApiFailure> {
        let mut request = sandbox.api.request(Method::PUT, &format!("/files/content?{query}"));
        *request.body_mut() = content;
        sandbox.api.send(request).await.map(drop)
    };
    // A link that leads out of the workspace is refused before the content is read, so that it can be looked up first.
    let query = match path.in_workspace() {
        None => path.query("path"),
        Some(_) => match leads_out(sandbox, path).await {
            true => path.query_anywhere("path"),
            false => path.query("path"),
        },
    };
    let put = put(query, content).await;
    put.map_err(|failure| match failure.error.code {
        ApiErrorCode::NotAFile => HttpError::bad_request(format!("path is a directory: {}", path.as_str())),
        _ => failure.into(),
    })
}

/// Whether a link on the path leads out of the workspace.
async fn leads_out(sandbox: &Authorized, path: &ClientPath) -> bool {
    let looked = sandbox.api.request(Method::GET, &format!("/files/stat?{}&follow=1", path.query("path")));
    let looked = sandbox.api.send(looked).await;
    looked.is_err_and(|failure| failure.error.code == ApiErrorCode::OutsideWorkspace)
}
