//! Builds one operation of the document from its route.

use super::{
    super::{
        param::{LABEL_PATTERN, Param, ParamKind},
        route::{Idempotency, RequestBody, RequiredAccess, Route},
    },
    events,
    route_doc::{ResponseDoc, Schemas},
};
use hyper::Method;
use protocol::HOSTD_PORT_IN_SANDBOX;
use serde_json::{Map, Value, json};

pub const BEARER: &str = "bearer";
/// The signature in a signed URL.
pub const SIGNATURE: &str = "signature";

/// Tags of operations, with descriptions.
pub const TAGS: [(&str, &str); 22] = [
    ("sandboxes", "Sandboxes and their lifecycle"),
    ("tasks", "Coding tasks of agents in a sandbox"),
    ("execs", "Commands and terminals in a sandbox"),
    ("files", "Files of a workspace"),
    ("snapshots", "Snapshots of the files of a sandbox, and sandboxes made from them"),
    ("git", "Git repositories in a sandbox, with credentials that stay outside it"),
    ("services", "Processes of a sandbox that should keep running"),
    ("previews", "Links to private previews"),
    ("egress", "Network access of sandboxes"),
    ("events", "Events, as pages and as server-sent events"),
    ("agents", "Coding agents that run tasks"),
    ("models", "Models, their providers and budgets"),
    ("quotas", "What tenants and principals may use, and what they do use"),
    ("tokens", "API tokens"),
    ("secrets", "Secrets of a tenant, which other resources refer to"),
    ("webhooks", "Endpoints that are told of events"),
    ("audit", "Calls that changed something or were refused"),
    ("drivers", "Drivers that run sandboxes"),
    ("images", "Root file systems of sandboxes"),
    ("host", "The host"),
    ("health", "Health, metrics, and this document"),
    ("older", "Routes of the predecessor system, with types and errors of their own"),
];

const JSON: &str = "application/json";

/// The key of a method within a path.
pub fn key(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

pub fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": route.doc.id,
        "summary": route.doc.summary,
        "description": format!("Needs {}.", route.required.description()),
        "tags": [if route.older { "older" } else { tag(route.path) }],
        "parameters": parameters(route),
        "responses": responses(route, schemas),
        "security": match route.required {
            RequiredAccess::Anonymous => json!([]),
            RequiredAccess::Signature => json!([{SIGNATURE: []}]),
            RequiredAccess::Read
            | RequiredAccess::Write
            | RequiredAccess::Own
            | RequiredAccess::Admin
            | RequiredAccess::Operator => json!([{BEARER: []}]),
        },
    });
    if let Some(body) = body(route, schemas) {
        operation["requestBody"] = body;
    }
    operation
}

fn body(route: &Route, schemas: &mut Schemas) -> Option<Value> {
    match (route.body, route.doc.request) {
        (RequestBody::Empty, _) | (RequestBody::Json, None) => None,
        (RequestBody::Json, Some(schema_fn)) => {
            let schema = serde_json::to_value(schema_fn(schemas)).unwrap_or_default();
            Some(json!({"content": {JSON: {"schema": schema}}}))
        }
        (RequestBody::Stream, _) => Some(json!({"content": {"application/octet-stream": {"schema": {}}}})),
    }
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for ResponseDoc { status, kind, schema_fn, item } in &route.doc.responses {
        let response = responses
            .entry(status.to_string())
            .or_insert_with(|| json!({"description": status_text(*status)}));
        let schema = match schema_fn {
            Some(schema_fn) => serde_json::to_value(schema_fn(schemas)).unwrap_or_default(),
            None => raw(kind),
        };
        if !kind.is_empty() {
            response["content"][*kind] = json!({"schema": schema});
            if let Some(name) = item {
                response["content"][*kind][events::STREAM_ITEM] = events::item(name);
            }
        }
    }
    let older = if route.older { "Older" } else { "" };
    for (status, name, _) in ERROR_RESPONSES.iter().filter(|(status, ..)| has_error_response(route, status)) {
        let reference = json!({"$ref": format!("#/components/responses/{older}{name}")});
        responses.entry((*status).to_owned()).or_insert(reference);
    }
    Value::Object(responses)
}

/// The schema of a body without a type of its own.
fn raw(kind: &str) -> Value {
    match kind {
        JSON => json!({"type": "object"}),
        "application/octet-stream" => json!({}),
        "text/event-stream" => {
            json!({"description": "Server-sent events: `id`, `event`, and `data` with one JSON object"})
        }
        _ => json!({"type": "string"}),
    }
}

/// Error responses listed with operations: status, name, description.
const ERROR_RESPONSES: [(&str, &str, &str); 8] = [
    ("400", "InvalidRequest", "Malformed: `detail.field` names what is wrong, the message what is allowed"),
    ("401", "Unauthorized", "No token, or one that is unknown, revoked or expired"),
    ("403", "Forbidden", "The token does not allow this, or Host or Origin is not served"),
    ("404", "NotFound", "The resource does not exist, or belongs to another tenant"),
    ("409", "Conflict", "The state does not allow this"),
    ("413", "TooLarge", "The body is too large"),
    (
        "422",
        "Unsupported",
        "Well-formed, but not supported on this host; or the Idempotency-Key was used with another body",
    ),
    ("default", "Failed", "Refused or failed: `code` says why, `retryable` whether to try again"),
];

fn has_error_response(route: &Route, status: &str) -> bool {
    match status {
        "401" => route.required != RequiredAccess::Anonymous,
        "404" => route.path.contains('{'),
        "409" => route.mutates(),
        "413" => route.body == RequestBody::Json,
        "422" => route.body == RequestBody::Json && !route.older,
        _ => true,
    }
}

pub fn error_responses() -> Value {
    let mut all = Map::new();
    for (older, schema) in [("", "ApiErrorBody"), ("Older", "OlderError")] {
        for (status, name, about) in ERROR_RESPONSES {
            let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
            let mut response = json!({"description": about, "content": {JSON: {"schema": schema}}});
            if status == "401" {
                response["headers"] =
                    json!({"WWW-Authenticate": {"required": true, "schema": {"type": "string"}}});
            }
            // No older route has it.
            if older.is_empty() || status != "422" {
                all.insert(format!("{older}{name}"), response);
            }
        }
    }
    Value::Object(all)
}

fn parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": named(route.path, name)}));
    let given = |place: &'static str| move |Param { name, about, kind }: &Param| json!({"name": name, "in": place, "required": false, "description": about, "schema": kind.schema()});
    let mut all: Vec<Value> = in_path.collect();
    all.extend(route.query.iter().map(given("query")));
    all.extend(route.headers.iter().map(given("header")));
    if route.idempotency == Idempotency::ByKey {
        let about =
            "The same key with the same body runs the call once and gets the same response, for a day";
        all.push(given("header")(&Param { name: "Idempotency-Key", about, kind: ParamKind::Key }));
    }
    all
}

/// The schema of a path parameter.
fn named(path: &str, name: &str) -> Value {
    match name {
        "id" | "token" | "link" | "pull" | "snapshot" => ParamKind::Id.schema(),
        "exec" | "task" | "service" => ParamKind::Name.schema(),
        "port" => {
            json!({"type": "integer", "minimum": 1, "maximum": u16::MAX, "not": {"const": HOSTD_PORT_IN_SANDBOX}})
        }
        "tenant" | "principal" => json!({"type": "string", "pattern": LABEL_PATTERN}),
        "permission" => json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}),
        "provider" => json!({"type": "string", "pattern": "^[a-z0-9._-]{1,128}$"}),
        "name" if path.starts_with("/v1/secrets") => {
            json!({"type": "string", "pattern": super::constraints::SECRET_NAME})
        }
        "name" if path.starts_with("/v1/images") => {
            json!({"type": "string", "pattern": super::constraints::IMAGE})
        }
        _ => ParamKind::Name.schema(),
    }
}

/// The tag of a path.
fn tag(path: &str) -> &'static str {
    let mut parts = path.trim_start_matches('/').split('/').filter(|part| *part != "v1");
    let first = parts.next().unwrap_or_default();
    // The segment after the id of a sandbox.
    let word = match (first, parts.nth(1)) {
        ("sandboxes", Some(inner)) => inner,
        (first, _) => first,
    };
    match word {
        "sandboxes" | "start" | "stop" | "pause" | "resume" | "recreate" | "keepalive" | "ttl" | "limits"
        | "activity" | "attempts" | "ports" | "stats" | "shares" => "sandboxes",
        "tasks" | "warm" => "tasks",
        "execs" | "terminals" => "execs",
        "files" | "file-links" => "files",
        "git" => "git",
        "services" => "services",
        "preview-links" => "previews",
        "egress" | "egress-profiles" => "egress",
        "events" => "events",
        "agents" => "agents",
        "models" | "model-providers" | "budgets" => "models",
        "snapshots" => "snapshots",
        "quota" | "quotas" => "quotas",
        "tokens" | "identity" => "tokens",
        "secrets" => "secrets",
        "webhooks" => "webhooks",
        "audit" => "audit",
        "drivers" => "drivers",
        "images" | "image-pulls" | "default-image" => "images",
        "host" => "host",
        "healthz" | "readyz" | "metrics" | "openapi.json" => "health",
        _ => "other",
    }
}

fn status_text(status: u16) -> &'static str {
    match status {
        101 => "The connection is now a WebSocket",
        201 => "Created",
        202 => "In progress; poll for the result",
        204 => "Done, or nothing more to come",
        _ => "Success",
    }
}
