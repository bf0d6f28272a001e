//! Bodies of requests: read whole, within a size and a time, and parsed so that an error names its field.

use super::failure::Failure;
use crate::limits;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use protocol::api::{ApiError, ApiErrorCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

pub async fn read(body: Body) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > limits::BODY_MAX_BYTES as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, limits::BODY_MAX_BYTES).collect();
    match timeout(Duration::from_millis(limits::BODY_TIMEOUT_MS), whole).await {
        Err(_) => Err(Failure::new(ApiErrorCode::TimedOut, "the body did not come in time")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(malformed()),
    }
}

/// The caller's body could not be read to its end.
pub fn malformed() -> Failure {
    Failure::new(ApiErrorCode::InvalidRequest, "the body is malformed, or ended too early")
}

fn too_large() -> Failure {
    let message = format!("the body is larger than {} bytes", limits::BODY_MAX_BYTES);
    Failure::new(ApiErrorCode::TooLarge, message)
}

/// JSON as a `T`. No body is an empty object.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    // serde would take a list for an object, field by field.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Failure::new(ApiErrorCode::InvalidRequest, "the body must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| wrong(&error))?;
    json.end().map_err(|error| {
        Failure::new(ApiErrorCode::InvalidRequest, format!("the body is not JSON: {error}"))
    })?;
    Ok(value)
}

fn wrong(error: &serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let inner = error.inner();
    let message = inner.to_string();
    if inner.is_syntax() || inner.is_eof() {
        return Failure::new(ApiErrorCode::InvalidRequest, format!("the body is not JSON: {message}"));
    }
    let path = error.path().to_string();
    let field =
        match between_ticks(&message, "unknown field `").or(between_ticks(&message, "missing field `")) {
            Some(name) if path == "." || path == "?" => name.to_owned(),
            Some(name) if !ends_with(&path, name) => format!("{path}.{name}"),
            _ => path,
        };
    let mut answer = ApiError::new(ApiErrorCode::InvalidRequest, message);
    answer.detail.field = Some(field).filter(|field| field != "." && field != "?");
    answer.into()
}

fn ends_with(path: &str, name: &str) -> bool {
    path.rsplit('.').next() == Some(name)
}

fn between_ticks<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}

/// Whether an object has no other keys than these. For types that are shared with runtimed, where unknown
/// fields are let pass.
pub fn only(value: &Value, keys: &[&str], path: &str) -> Result<(), Failure> {
    let unknown =
        value.as_object().and_then(|object| object.keys().find(|key| !keys.contains(&key.as_str())));
    match unknown {
        None => Ok(()),
        Some(key) => {
            let field = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            Err(Failure::invalid(
                field,
                format!("unknown field `{key}`, expected one of {}", keys.join(", ")),
            ))
        }
    }
}

const SERVICE: &[&str] = &[
    "name",
    "command",
    "port",
    "env",
    "cwd",
    "depends_on",
    "health",
    "restart",
    "restart_after_task",
    "watch",
];
const HEALTH: &[&str] = &["tcp", "http", "log", "command", "interval_ms", "timeout_ms"];

/// The same for a list of services.
pub fn only_services(services: &Value) -> Result<(), Failure> {
    for (at, service) in services.as_array().into_iter().flatten().enumerate() {
        only(service, SERVICE, &format!("services[{at}]"))?;
        only(&service["health"], HEALTH, &format!("services[{at}].health"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::SandboxSpec;

    #[test]
    fn a_wrong_body_is_refused_by_the_name_of_its_field() {
        let table = [
            (r#"{"nmae": "x"}"#, Some("nmae")),
            (r#"{"limits": {"memory": 1}}"#, Some("limits.memory")),
            (r#"{"limits": {"memory_mb": "1"}}"#, Some("limits.memory_mb")),
            (r#"{"ports": [80, 70000]}"#, Some("ports[1]")),
            (r#"{"services": [{"name": "web"}]}"#, Some("services[0].command")),
            (r#"{"scope": {"kind": "x"}}"#, Some("scope.kind")),
            (r"[]", None),
            (r#"{"name": "x"#, None),
            (r#"{"name": "x"} trailing"#, None),
            ("{\"name\": \"\u{0}\"}", None),
        ];
        for (json, field) in table {
            let failure = parse::<SandboxSpec>(json.as_bytes()).unwrap_err();
            assert_eq!(failure.error.code, ApiErrorCode::InvalidRequest, "{json}");
            assert_eq!(failure.error.detail.field.as_deref(), field, "{json}: {}", failure.error.message);
        }
        assert!(parse::<SandboxSpec>(b"{\"name\": \"\xff\"}").is_err(), "not UTF-8");
        assert!(parse::<SandboxSpec>(b"").is_ok(), "no body is an empty object");
    }

    #[test]
    fn unknown_fields_of_services_are_refused_too() {
        let check = |json: &str| {
            let services = serde_json::from_str(json).unwrap();
            only_services(&services).map_err(|failure| failure.error.detail.field.unwrap_or_default())
        };
        assert_eq!(check(r#"[{"name": "a", "command": "b", "health": {"tcp": 1}}]"#), Ok(()));
        assert_eq!(check(r#"[{"name": "a", "comand": "b"}]"#), Err("services[0].comand".into()));
        assert_eq!(check(r#"[{}, {"health": {"tpc": 1}}]"#), Err("services[1].health.tpc".into()));
    }
}
