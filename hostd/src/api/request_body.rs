//! Reads request bodies within a size and a time limit, and parses them so that an error names its field.

use super::{error::CallError, openapi::document};
use axum::body::Body;
use bytes::Bytes;
use hostd_core::{
    json_schema::{self, Mismatch},
    limits,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use protocol::api::{ApiError, ApiErrorCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

pub async fn read(body: Body) -> Result<Bytes, CallError> {
    if body.size_hint().lower() > limits::BODY_MAX_BYTES as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, limits::BODY_MAX_BYTES).collect();
    match timeout(Duration::from_millis(limits::BODY_TIMEOUT_MS), whole).await {
        Err(_) => Err(CallError::new(ApiErrorCode::TimedOut, "the body was not received in time")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(malformed()),
    }
}

/// The caller's body could not be read to its end.
pub fn malformed() -> CallError {
    CallError::new(ApiErrorCode::InvalidRequest, "the body is malformed, or ended too early")
}

fn too_large() -> CallError {
    let message = format!("the body is larger than {} bytes", limits::BODY_MAX_BYTES);
    CallError::new(ApiErrorCode::TooLarge, message)
}

/// Parses JSON as a `T`. An empty body is an empty object.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| json_error(&error))?;
    json.end().map_err(|error| {
        CallError::new(ApiErrorCode::InvalidRequest, format!("the body is not JSON: {error}"))
    })?;
    Ok(value)
}

fn json_error(cause: &serde_path_to_error::Error<serde_json::Error>) -> CallError {
    let inner = cause.inner();
    let message = inner.to_string();
    if inner.is_syntax() || inner.is_eof() {
        return CallError::new(ApiErrorCode::InvalidRequest, format!("the body is not JSON: {message}"));
    }
    let path = cause.path().to_string();
    let field =
        match between_ticks(&message, "unknown field `").or(between_ticks(&message, "missing field `")) {
            Some(name) if path == "." || path == "?" => name.to_owned(),
            Some(name) if !ends_with(&path, name) => format!("{path}.{name}"),
            _ => path,
        };
    let mut error = ApiError::new(ApiErrorCode::InvalidRequest, message);
    error.detail.field = Some(field).filter(|field| field != "." && field != "?");
    error.into()
}

fn ends_with(path: &str, name: &str) -> bool {
    path.rsplit('.').next() == Some(name)
}

fn between_ticks<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}

/// Checks the body against its schema. The error names the first field that does not match, and what it may
/// be.
pub fn check(bytes: Bytes, schema: Option<&Value>) -> Result<Bytes, CallError> {
    let Some(schema) = schema else { return Ok(bytes) };
    let mut value: Value = parse(&bytes)?;
    let rewritten = floats_to_integers(&mut value);
    json_schema::check(document(), schema, &value).map_err(|Mismatch { field, message, .. }| {
        if field.is_empty() {
            CallError::new(ApiErrorCode::InvalidRequest, format!("the body is invalid: {message}"))
        } else {
            CallError::invalid(field, message)
        }
    })?;
    if !rewritten {
        return Ok(bytes);
    }
    let bytes = serde_json::to_vec(&value).map_err(|error| CallError::internal(&error))?;
    Ok(bytes.into())
}

/// Rewrites `1.0` as `1`: JSON Schema calls both an integer, serde only the latter. Returns whether any
/// number was rewritten.
fn floats_to_integers(value: &mut Value) -> bool {
    /// Floats beyond this are not exact integers.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT_MAX);
            // Within the range just checked.
            #[allow(clippy::cast_possible_truncation)]
            whole.inspect(|float| *value = Value::from(*float as i64)).is_some()
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| any | floats_to_integers(item)),
        Value::Object(object) => {
            object.values_mut().fold(false, |any, inner| any | floats_to_integers(inner))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::SandboxSpec;

    #[test]
    fn an_invalid_body_is_rejected_by_the_name_of_its_field() {
        let schema = document().pointer("/components/schemas/SandboxSpec");
        let table = [
            (r#"{"nmae": "x"}"#, Some("nmae")),
            (r#"{"limits": {"memory": 1}}"#, Some("limits.memory")),
            (r#"{"limits": {"memory_mb": "1"}}"#, Some("limits.memory_mb")),
            (r#"{"limits": [1]}"#, Some("limits")),
            (r#"{"ports": [80, 70000]}"#, Some("ports[1]")),
            (r#"{"services": [{"name": "web"}]}"#, Some("services[0].command")),
            (r#"{"services": [{"name": "a", "comand": "b"}]}"#, Some("services[0].comand")),
            (
                r#"{"services": [{"name": "a", "command": "b", "health": {"tpc": 1}}]}"#,
                Some("services[0].health.tpc"),
            ),
            (r#"{"scope": {"kind": "x"}}"#, Some("scope.kind")),
            (r#"{"scope": {"kind": "agent-run"}}"#, Some("scope.key")),
            (r"[]", None),
            (r#"{"name": "x"#, None),
            (r#"{"name": "x"} trailing"#, None),
            ("{\"name\": \"\u{0}\"}", None),
        ];
        for (json, field) in table {
            let failure = check(json.into(), schema).unwrap_err();
            assert_eq!(failure.error.code, ApiErrorCode::InvalidRequest, "{json}");
            assert_eq!(failure.error.detail.field.as_deref(), field, "{json}: {}", failure.error.message);
        }
        assert!(check(Bytes::from_static(b"{\"name\": \"\xff\"}"), schema).is_err(), "not UTF-8");
        assert!(check(Bytes::new(), schema).is_ok(), "no body is an empty object");
        assert!(parse::<SandboxSpec>(br#"{"name": "a", "name": "b"}"#).is_err(), "given twice");
    }

    #[test]
    fn a_whole_number_may_have_a_fraction_of_zero() {
        let schema = document().pointer("/components/schemas/SandboxSpec");
        let read = |json: &'static str| {
            check(json.into(), schema).ok().map(|body| parse::<SandboxSpec>(&body).unwrap())
        };
        let spec = read(r#"{"ports": [80.0, 8e3], "limits": {"memory_mb": 64.0, "cpus": 2.0}}"#).unwrap();
        assert_eq!(
            (spec.ports, spec.limits.memory_mb, spec.limits.cpus),
            (vec![80, 8000], Some(64), Some(2.0))
        );
        for invalid in [r#"{"ports": [80.5]}"#, r#"{"ports": [1e300]}"#, r#"{"ports": [-0.0]}"#] {
            assert_eq!(read(invalid), None, "{invalid}");
        }
    }
}
