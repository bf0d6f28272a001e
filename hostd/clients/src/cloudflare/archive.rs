//! `/workspace` as a tar archive, down and up.

use super::{
    BridgeResult, SandboxCall,
    error::{BridgeCode, BridgeError},
    limits,
    paths::BridgePath,
};
use crate::{ApiClient, percent, respond};
use axum::{body::Body, response::Response};
use hyper::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::UnpackView;
use serde_json::json;

pub async fn persist(call: &SandboxCall<'_>, query: Option<&str>) -> BridgeResult {
    let excludes = percent::value(query, "excludes").unwrap_or_default();
    let patterns = patterns(&excludes)?;
    let path = format!("{}&exclude={}", archive(call)?, percent::encode(patterns.join(",").as_bytes()));
    let packed = call.api.send(ApiClient::request(Method::GET, &path)).await;
    let packed = packed.map_err(|failure| BridgeError::of(failure, BridgeCode::WorkspaceArchiveReadError))?;
    let mut response = Response::new(packed.into_body());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

/// Unpacks an archive. One with entries that may not be unpacked, such as those that lead out, is an error that names
/// one of them; the others are unpacked all the same, as by tar.
pub async fn hydrate(call: &SandboxCall<'_>, body: Body) -> BridgeResult {
    let failed = |failure| BridgeError::of(failure, BridgeCode::WorkspaceArchiveWriteError);
    let mut unpack = ApiClient::request(Method::PUT, &archive(call)?);
    *unpack.body_mut() = body;
    let unpacked = call.api.send(unpack).await.map_err(failed)?;
    let unpacked = respond::read(unpacked.into_body(), limits::JSON_MAX_BYTES).await?;
    let report: UnpackView = serde_json::from_slice(&unpacked).map_err(|error| {
        let message = format!("the archive was unpacked, but how is unknown: {error}");
        BridgeError::new(StatusCode::BAD_GATEWAY, BridgeCode::WorkspaceArchiveWriteError, message)
    })?;
    if let Some(entry) = report.skipped.first() {
        let message = format!(
            "{} of the entries were not unpacked: {}: {}",
            report.skipped_count, entry.path, entry.reason
        );
        return Err(BridgeError::new(
            StatusCode::BAD_REQUEST,
            BridgeCode::WorkspaceArchiveWriteError,
            message,
        ));
    }
    Ok(respond::json(StatusCode::OK, &json!({"ok": true})))
}

fn archive(call: &SandboxCall<'_>) -> Result<String, BridgeError> {
    let workspace = BridgePath::parse(b"")?;
    Ok(call.path(&format!("/files/archive?format=tar&path={}", workspace.in_query())))
}

/// Returns patterns, as of a `.gitignore` file, that match these paths and nothing else.
fn patterns(excludes: &str) -> Result<Vec<String>, BridgeError> {
    let paths = excludes.split(',').map(str::trim).filter(|path| !path.is_empty());
    let patterns = paths.map(pattern).collect::<Result<Vec<_>, _>>()?;
    if patterns.len() > limits::EXCLUDES_MAX {
        let message = format!("at most {} paths can be excluded", limits::EXCLUDES_MAX);
        return Err(BridgeError::invalid(message));
    }
    Ok(patterns)
}

fn pattern(path: &str) -> Result<String, BridgeError> {
    let relative = path.trim_start_matches("./").trim_end_matches('/');
    if relative.is_empty() || relative.starts_with('/') || relative.split('/').any(|part| part == "..") {
        return Err(BridgeError::invalid("exclude paths must be relative and must not contain \"..\""));
    }
    let mut pattern = String::from("/");
    for character in relative.chars() {
        if r"*?[]\{}!#".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_paths_are_patterns_that_match_them_alone() {
        for (excludes, expected) in [
            ("", Some(vec![])),
            ("__pycache__,.venv", Some(vec!["/__pycache__", "/.venv"])),
            ("./a/b/, c ", Some(vec!["/a/b", "/c"])),
            ("a*[1]", Some(vec![r"/a\*\[1\]"])),
            ("../x", None),
            ("a/../..", None),
            ("/etc", None),
        ] {
            let expected = expected.map(|patterns| patterns.into_iter().map(str::to_owned).collect());
            assert_eq!(patterns(excludes).ok(), expected, "{excludes}");
        }
        let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        assert!(patterns(&many.join(",")).is_err());
    }
}
