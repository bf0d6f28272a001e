//! The bytes of a file.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
    },
    backend, conditions, entries,
    params::{self, unexpected},
    response_data::ResponseData,
    safe_headers, views,
};
use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
        LAST_MODIFIED,
    },
};
use protocol::files::{FileEntry, FilePath, FileType, FilesReply, FilesRequest, WriteMode, WriteRequest};
use std::time::{Duration, SystemTime};

/// The permissions of the file, in octal.
const FILE_MODE: HeaderName = HeaderName::from_static("x-file-mode");

pub async fn read(call: Call) -> CallResult {
    let path = params::required_path(&call, "path").await?;
    read_path(&call, path).await
}

pub async fn read_path(call: &Call, path: FilePath) -> CallResult {
    let unless_etag = conditions::if_none_match(&call.headers)?.unwrap_or_default();
    let mut range = conditions::range(&call.headers);
    if let (Some(_), Some(tag)) = (range, conditions::if_range(&call.headers)) {
        let stat = FilesRequest::Stat { path: path.clone(), follow: true };
        let current = backend::perform(call, stat).await?;
        let same = matches!(&current.reply, FilesReply::Entry { entry, .. } if entry.etag == tag);
        range = range.filter(|_| same);
    }
    let answer = backend::perform(call, FilesRequest::Read { path, range, unless_etag }).await?;
    if let FilesReply::NotModified { entry } = &answer.reply {
        return Ok(response(StatusCode::NOT_MODIFIED, entry, Body::empty()));
    }
    let FilesReply::Content { entry, first, bytes } = answer.reply else { return Err(unexpected()) };
    Ok(content(&entry, range.map(|_| first), bytes, answer.data))
}

/// The headers alone.
pub async fn head(call: Call) -> CallResult {
    let path = params::required_path(&call, "path").await?;
    let answer = backend::perform(&call, FilesRequest::Stat { path, follow: true }).await?;
    let FilesReply::Entry { entry, .. } = answer.reply else { return Err(unexpected()) };
    if entry.kind != FileType::File {
        let code = protocol::api::ApiErrorCode::NotAFile;
        return Err(CallError::new(code, "not a regular file"));
    }
    let mut response = response(StatusCode::OK, &entry, Body::empty());
    set_number(response.headers_mut(), CONTENT_LENGTH, entry.size);
    Ok(response)
}

fn content(entry: &FileEntry, first: Option<u64>, bytes: u64, data: ResponseData) -> Response {
    let status = if first.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = response(status, entry, data.into_body());
    let headers = response.headers_mut();
    set_number(headers, CONTENT_LENGTH, bytes);
    if let Some(first) = first {
        let text = format!("bytes {first}-{}/{}", (first + bytes).saturating_sub(1), entry.size);
        headers.insert(CONTENT_RANGE, HeaderValue::from_str(&text).expect("digits and dashes"));
    }
    response
}

fn response(status: StatusCode, entry: &FileEntry, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    safe_headers::add(headers, safe_headers::base_name(&entry.path));
    headers.insert(CONTENT_TYPE, content_type(&entry.path));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // A sandbox may send any text as a tag.
    if let Ok(tag) = HeaderValue::from_str(&entry.etag) {
        headers.insert(ETAG, tag);
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(views::time_ms(entry.modified));
    if let Ok(text) = HeaderValue::from_str(&httpdate::fmt_http_date(modified)) {
        headers.insert(LAST_MODIFIED, text);
    }
    if let Ok(text) = HeaderValue::from_str(&views::mode(entry.mode)) {
        headers.insert(FILE_MODE, text);
    }
    response
}

fn set_number(headers: &mut HeaderMap, name: HeaderName, number: u64) {
    headers.insert(name, HeaderValue::from(number));
}

/// The type by the name. Text is UTF-8, as nearly all of it is.
fn content_type(path: &FilePath) -> HeaderValue {
    let name = String::from_utf8_lossy(safe_headers::base_name(path)).into_owned();
    let guessed = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    let text =
        if guessed.starts_with("text/") { format!("{guessed}; charset=utf-8") } else { guessed.to_owned() };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

pub async fn write(mut call: Call) -> CallResult {
    let path = params::required_path(&call, "path").await?;
    let (body, _large) = call.take_upload();
    write_path(&call, path, None, body).await
}

pub async fn write_path(call: &Call, path: FilePath, max_bytes: Option<u64>, body: Body) -> CallResult {
    let if_match = conditions::if_match(&call.headers)?;
    let create = match conditions::if_none_match(&call.headers)?.as_deref() {
        None => false,
        Some([tag]) if tag == "*" => true,
        Some(_) => return Err(CallError::invalid("if-none-match", "must be * where a file is written")),
    };
    let how = match (call.query.flag("append", false)?, create) {
        (true, true) => {
            return Err(CallError::invalid("append", "a file is created or appended to, not both"));
        }
        (true, false) => WriteMode::Append,
        (false, true) => WriteMode::Create,
        (false, false) => WriteMode::Replace,
    };
    let mode = params::mode(call.query.text("mode"))?;
    // Of two writes with the same tag the second one must see what the first one wrote.
    let lock = if_match.is_some().then(|| format!("file {:?} {:?}", call.param("id").ok(), path));
    let _locked = match lock {
        Some(key) => Some(call.api.key_locks.lock(key).await),
        None => None,
    };
    let request = FilesRequest::Write(WriteRequest { path, mode, how, if_match, max_bytes });
    entries::entry_response(&backend::perform_with(call, request, body).await?)
}
