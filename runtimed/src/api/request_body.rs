//! Bodies of requests: bounded JSON; errors name the wrong field.

use super::response::{Refusal, refuse};
use crate::limits::BODY_TIMEOUT_MS;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use protocol::{ErrorBody, ErrorCode, TRACEPARENT_HEADER, TraceParent};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A body up to this many times too large is read to its end and dropped: a client whose connection is closed
/// while it sends may not read the error.
const DRAIN_TIMES: usize = 8;

pub async fn read<T: DeserializeOwned>(body: Incoming, max_bytes: usize) -> Result<T, Refusal> {
    decode(&bytes(body, max_bytes).await?)
}

/// The same for an optional body.
pub async fn read_or_default<T: DeserializeOwned + Default>(
    body: Incoming,
    max_bytes: usize,
) -> Result<T, Refusal> {
    let bytes = bytes(body, max_bytes).await?;
    if bytes.is_empty() { Ok(T::default()) } else { decode(&bytes) }
}

/// The trace that a request belongs to; one that is malformed is ignored, as the specification says.
pub fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get(TRACEPARENT_HEADER)?.to_str().ok()?)
}

async fn bytes(body: Incoming, max_bytes: usize) -> Result<Vec<u8>, Refusal> {
    let too_large = || refuse(ErrorCode::TooLarge, format!("the body is larger than {max_bytes} bytes"));
    // The announced length is far too large: not read.
    if body.size_hint().lower() > (DRAIN_TIMES * max_bytes) as u64 {
        return Err(too_large());
    }
    let late = |_| {
        let message = format!("the body did not come within {} seconds", BODY_TIMEOUT_MS / 1000);
        refuse(ErrorCode::InvalidRequest, message)
    };
    let limit = Duration::from_millis(BODY_TIMEOUT_MS);
    let collected = tokio::time::timeout(limit, collect(body, max_bytes)).await.map_err(late)?;
    let early = |_| refuse(ErrorCode::InvalidRequest, "the body ended too early");
    collected.map_err(early)?.ok_or_else(too_large)
}

/// The whole body; `None` where it is too large.
async fn collect(mut body: Incoming, max_bytes: usize) -> Result<Option<Vec<u8>>, hyper::Error> {
    let (mut kept, mut seen) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        seen += bytes.len();
        if seen <= max_bytes {
            kept.extend_from_slice(&bytes);
        }
        if seen > DRAIN_TIMES * max_bytes {
            return Ok(None);
        }
    }
    Ok((seen <= max_bytes).then_some(kept))
}

/// Parses JSON; an error names the field and what is allowed.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        // `.` is the whole document and `?` an incomplete name: neither is a field.
        let body = if path == "." || path == "?" {
            ErrorBody::new(ErrorCode::InvalidRequest, message)
        } else {
            ErrorBody::invalid(path, message)
        };
        Box::new(body)
    })?;
    json.end().map_err(|error| refuse(ErrorCode::InvalidRequest, error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ExecRequest;

    #[test]
    fn a_wrong_type_is_refused_by_the_name_of_its_field() {
        for (json, field) in [
            (r#"{"argv":"true"}"#, Some("argv")),
            (r#"{"argv":["a",1]}"#, Some("argv[1]")),
            (r#"{"env":{"A":1}}"#, Some("env.A")),
            (r#"{"id":"../x"}"#, Some("id")),
            (r#"{"timeout_ms":-1}"#, Some("timeout_ms")),
            (r#"{"tty":{"cols":80}}"#, Some("tty")),
            (r#"{"tty":{"cols":99999,"rows":1}}"#, Some("tty.cols")),
            ("[", None),
            ("{", None),
            ("", None),
            ("{} x", None),
            ("\u{0}", None),
        ] {
            let error = decode::<ExecRequest>(json.as_bytes()).expect_err(json);
            assert_eq!(error.error.code, ErrorCode::InvalidRequest);
            assert_eq!(error.error.detail.field.as_deref(), field, "{json}");
        }
        assert!(decode::<ExecRequest>(br#"{"argv":["true"],"of_a_newer_version":1}"#).is_ok());
    }
}
