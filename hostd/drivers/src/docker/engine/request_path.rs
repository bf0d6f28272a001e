//! Request paths and queries of the Engine API, with names percent-encoded.

use super::{EngineError, error_response};
use serde_json::json;

/// `/containers/{name}{rest}`. The name stays one path segment and cannot lead to another endpoint.
pub fn container(name: &str, rest: &str) -> Result<String, EngineError> {
    resource_path("containers", name, rest)
}

pub fn network(name: &str) -> Result<String, EngineError> {
    resource_path("networks", name, "")
}

/// `/images/{name}/json`. Slashes of the name are kept.
pub fn image(name: &str) -> Result<String, EngineError> {
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid_name(name));
    }
    Ok(format!("/images/{}/json", percent_encode(name, b"/:@")))
}

/// The query `filters=…` for everything with this label.
pub fn label_filter(label: &str) -> String {
    format!("filters={}", percent_encode(&json!({ "label": [label] }).to_string(), b""))
}

/// The query `filters=…` for events of containers with this label.
pub fn container_label_filter(label: &str) -> String {
    let filters = json!({ "label": [label], "type": ["container"] });
    format!("filters={}", percent_encode(&filters.to_string(), b""))
}

/// Encodes a value for a query string.
pub fn query_value(text: &str) -> String {
    percent_encode(text, b"")
}

fn resource_path(kind: &str, name: &str, rest: &str) -> Result<String, EngineError> {
    if matches!(name, "" | "." | "..") {
        return Err(invalid_name(name));
    }
    Ok(format!("/{kind}/{}{rest}", percent_encode(name, b"")))
}

fn invalid_name(name: &str) -> EngineError {
    EngineError::NotFound(format!("{:?} is not a valid name", error_response::sanitize(name)))
}

fn percent_encode(text: &str, plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(container("slipway-1", "/json").unwrap(), "/containers/slipway-1/json");
        assert_eq!(container("a/../b?x", "").unwrap(), "/containers/a%2F..%2Fb%3Fx");
        for name in ["", ".", ".."] {
            assert!(matches!(container(name, "/json"), Err(EngineError::NotFound(_))), "{name:?}");
        }
    }

    #[test]
    fn an_image_keeps_its_slashes_but_leads_nowhere_else() {
        assert_eq!(
            image("host:5000/team/app@sha256:00").unwrap(),
            "/images/host:5000/team/app@sha256:00/json"
        );
        for name in ["../containers/x", "a//b", "/a", ""] {
            assert!(matches!(image(name), Err(EngineError::NotFound(_))), "{name:?}");
        }
    }

    #[test]
    fn filters_are_json_in_a_query() {
        assert_eq!(label_filter("a=b"), "filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D");
    }
}
