//! The bridge's own description, for people and generators.

use super::{BridgeResult, sandbox};
use crate::{ApiClient, respond};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// Method, path, what it does, media type of the response.
const OPERATIONS: [(&str, &str, &str, &str); 20] = [
    ("post", "/v1/sandbox", "Create a sandbox", JSON),
    ("delete", "/v1/sandbox/{id}", "Destroy a sandbox and its files", ""),
    ("get", "/v1/sandbox/{id}/running", "Whether the next command finds the files of the sandbox", JSON),
    ("post", "/v1/sandbox/{id}/exec", "Run argv; events stdout, stderr (base64), then exit or error", SSE),
    ("get", "/v1/sandbox/{id}/file/{path}", "Read a file of /workspace", BYTES),
    ("put", "/v1/sandbox/{id}/file/{path}", "Write a file of /workspace", JSON),
    ("post", "/v1/sandbox/{id}/persist", "Read /workspace as a tar archive, without `excludes`", BYTES),
    ("post", "/v1/sandbox/{id}/hydrate", "Unpack a tar archive into /workspace", JSON),
    ("get", "/v1/sandbox/{id}/pty", "Open a terminal as a WebSocket (cols, rows, shell, session)", ""),
    ("post", "/v1/sandbox/{id}/tunnel/{port}", "Get a URL of a port", JSON),
    ("delete", "/v1/sandbox/{id}/tunnel/{port}", "Revoke the links to a port", ""),
    ("post", "/v1/sandbox/{id}/session", "Create a session (id, cwd, env)", JSON),
    ("delete", "/v1/sandbox/{id}/session/{session}", "Delete a session", JSON),
    ("post", "/v1/sandbox/{id}/mount", "Refused: buckets are not mounted", JSON),
    ("post", "/v1/sandbox/{id}/unmount", "Refused: buckets are not mounted", JSON),
    ("get", "/v1/pool/stats", "Numbers of sandboxes; none is kept in reserve", JSON),
    ("post", "/v1/pool/prime", "Accepted without effect: sandboxes start at once", JSON),
    ("post", "/v1/pool/shutdown-prewarmed", "Accepted without effect", JSON),
    ("get", "/v1/openapi.json", "This document", JSON),
    ("get", "/health", "Liveness, without a token", JSON),
];
const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
const BYTES: &str = "application/octet-stream";

pub async fn document(api: &ApiClient) -> BridgeResult {
    sandbox::authenticated(api).await?;
    Ok(respond::json(StatusCode::OK, &describe()))
}

fn describe() -> Value {
    let mut paths = Map::new();
    for (method, path, summary, media) in OPERATIONS {
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation(path, summary, media);
    }
    let error = json!({
        "type": "object",
        "required": ["error", "code"],
        "properties": {"error": {"type": "string"}, "code": {"type": "string"}},
    });
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Cloudflare sandbox bridge, served by Slipway", "version": "1.0.0"},
        "security": [{"BearerAuth": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"BearerAuth": {"type": "http", "scheme": "bearer"}},
            "schemas": {"ErrorResponse": error},
        },
    })
}

fn operation(path: &str, summary: &str, media: &str) -> Value {
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter =
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let parameters: Vec<Value> = parts.map(parameter).collect();
    let content = if media.is_empty() { json!({}) } else { json!({media: {}}) };
    let error = json!({"schema": {"$ref": "#/components/schemas/ErrorResponse"}});
    json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": summary, "content": content},
            "default": {"description": "An error", "content": {JSON: error}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{super::endpoint::Endpoint, *};

    #[test]
    fn what_is_described_is_there() {
        for (method, path, _, _) in OPERATIONS {
            let path = path.replace(['{', '}'], "");
            let method = method.to_uppercase().parse().expect("a method");
            assert!(Endpoint::parse(&method, &path).is_ok(), "{method} {path}");
        }
        assert_eq!(describe()["paths"].as_object().map(Map::len), Some(18));
    }
}
