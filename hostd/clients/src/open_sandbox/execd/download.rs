//! The bytes of a file: whole, a range of bytes, or some of its lines.

use super::{
    super::{SandboxResult, error::SandboxError},
    ExecdCall,
    file_info::{self, FORMAT},
    files::named,
    place::{Place, absolute},
    script,
};
use crate::{
    ApiClient,
    command_stream::{CommandEvent, CommandStream},
    percent,
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, RANGE},
};
use protocol::{Exit, Stream, api::ApiErrorCode};
use std::io;

const INFO: &str = r#"[ -e "$2" ] || { printf %s "$2"; exit 44; }
[ -f "$2" ] && [ -r "$2" ] || { printf %s "$2"; exit 45; }
exec stat -L -c "$1" -- "$2""#;
const WHOLE: &str = r#"exec cat -- "$1""#;
const BYTES: &str = r#"tail -c "+$2" -- "$1" | head -c "$3""#;
const LINES: &str =
    r#"if [ -n "$3" ]; then tail -n "+$2" -- "$1" | head -n "$3"; else exec tail -n "+$2" -- "$1"; fi"#;

/// The part of a file that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRange {
    Whole,
    /// As the header has it.
    Bytes(HeaderValue),
    /// Lines, counted from 1.
    Lines {
        first: u64,
        count: Option<u64>,
    },
}

pub async fn download(call: &ExecdCall, headers: &HeaderMap, query: Option<&str>) -> SandboxResult {
    let path = absolute(named(query)?.swap_remove(0))?;
    let number = |name: &str| match percent::value(query, name) {
        Some(text) => match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            Ok(_) | Err(_) => Err(SandboxError::invalid(format!("{name} must be a number above 0"))),
        },
        None => Ok(None),
    };
    let range = match (number("offset")?, number("limit")?, headers.get(RANGE)) {
        (None, None, None) => ReadRange::Whole,
        (None, None, Some(range)) => ReadRange::Bytes(range.clone()),
        (first, count, None) => ReadRange::Lines { first: first.unwrap_or(1), count },
        (_, _, Some(_)) => return Err(SandboxError::invalid("give a range, or offset and limit")),
    };
    open(call, &path, range).await
}

/// Opens a file, and returns its content as a response.
pub async fn open(call: &ExecdCall, path: &str, range: ReadRange) -> SandboxResult {
    let mut response = match (Place::of(path), range) {
        (Place::Workspace(encoded), ReadRange::Whole) => from_workspace(call, path, &encoded, None).await?,
        (Place::Workspace(encoded), ReadRange::Bytes(range)) => {
            from_workspace(call, path, &encoded, Some(range)).await?
        }
        (_, range) => by_command(call, path, range).await?,
    };
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

async fn from_workspace(
    call: &ExecdCall,
    path: &str,
    encoded: &str,
    range: Option<HeaderValue>,
) -> SandboxResult {
    let mut read = ApiClient::request(Method::GET, &call.path(&format!("/files/content?path={encoded}")));
    if let Some(range) = range {
        read.headers_mut().insert(RANGE, range);
    }
    let found = call.api.send(read).await.map_err(|failure| {
        let missing = failure.error.code == ApiErrorCode::NotFound && failure.error.detail.missing.is_none();
        if missing { script::not_found(path) } else { failure.into() }
    })?;
    let (parts, body) = found.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    for name in [CONTENT_LENGTH, CONTENT_RANGE, ACCEPT_RANGES, ETAG] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

/// Reads a file as the sandbox's user does.
async fn by_command(call: &ExecdCall, path: &str, range: ReadRange) -> SandboxResult {
    let printed = script::run(call, INFO, vec![FORMAT.to_owned(), path.to_owned()]).await?;
    let found = file_info::parse(&printed).into_iter().find(file_info::FileInfo::is_file);
    let size = found.ok_or_else(|| script::not_found(path))?.size;
    let path = path.to_owned();
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    let (read, arguments) = match range {
        ReadRange::Whole => (WHOLE, vec![path]),
        ReadRange::Lines { first, count } => {
            let count = count.map(|count| count.to_string()).unwrap_or_default();
            (LINES, vec![path, first.to_string(), count])
        }
        ReadRange::Bytes(range) => {
            let (first, last) = byte_range(&range, size).ok_or_else(|| {
                let message = format!("the file has {size} bytes");
                SandboxError::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", message)
            })?;
            let shown = format!("bytes {first}-{last}/{size}");
            headers
                .insert(CONTENT_RANGE, HeaderValue::try_from(shown).map_err(|_| SandboxError::not_found())?);
            (BYTES, vec![path, (first + 1).to_string(), (last + 1 - first).to_string()])
        }
    };
    if headers.contains_key(CONTENT_RANGE) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let command = CommandStream::start(call.api.clone(), &call.id, script::create(read, arguments)).await?;
    *response.body_mut() = Body::from_stream(stream::unfold(Some(command), next_bytes));
    Ok(response)
}

/// Returns the next bytes of a file; an error, which breaks the body off, where it could not be read to its end.
async fn next_bytes(command: Option<CommandStream>) -> Option<(io::Result<Bytes>, Option<CommandStream>)> {
    let mut command = command?;
    loop {
        let broken = match command.next().await {
            Ok(Some(CommandEvent::Output { stream: Stream::Stdout, bytes })) => {
                return Some((Ok(bytes), Some(command)));
            }
            Ok(Some(CommandEvent::Output { stream: Stream::Stderr | Stream::Pty, .. })) => continue,
            Ok(Some(CommandEvent::Ended(Exit::Exited { code: 0 })) | None) => return None,
            Ok(Some(CommandEvent::Ended(exit))) => format!("the file could not be read: {exit:?}"),
            Ok(Some(CommandEvent::Lost { bytes })) => format!("{bytes} bytes were lost"),
            Err(failure) => failure.to_string(),
        };
        return Some((Err(io::Error::other(broken)), None));
    }
}

/// Returns the first and last byte of a range; `None` where the file has none of it.
fn byte_range(range: &HeaderValue, size: u64) -> Option<(u64, u64)> {
    let (first, last) = range.to_str().ok()?.trim().strip_prefix("bytes=")?.split_once('-')?;
    let end = size.checked_sub(1)?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last) = match (first.trim(), last.trim()) {
        ("", last) => (size.saturating_sub(number(last).filter(|bytes| *bytes > 0)?), end),
        (first, "") => (number(first)?, end),
        (first, last) => (number(first)?, number(last)?.min(end)),
    };
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_within_the_file() {
        for (text, size, expected) in [
            ("bytes=0-", 10, Some((0, 9))),
            ("bytes=2-4", 10, Some((2, 4))),
            ("bytes=2-99", 10, Some((2, 9))),
            ("bytes=-3", 10, Some((7, 9))),
            ("bytes=-30", 10, Some((0, 9))),
            ("bytes=10-", 10, None),
            ("bytes=0-", 0, None),
            ("bytes=-0", 10, None),
            ("bytes=5-2", 10, None),
            ("lines=1-2", 10, None),
        ] {
            let range = HeaderValue::from_static(text);
            assert_eq!(byte_range(&range, size), expected, "{text} of {size}");
        }
    }
}
