//! Assembles the whole document.

use super::{
    super::{older::OlderError, route::Route, routes},
    constraints, events, flatten,
    operation::{self, BEARER, SIGNATURE, TAGS},
    route_doc::{Schemas, schema_of},
};
use hostd_core::json_schema;
use hyper::Method;
use protocol::api::ApiErrorBody;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::OnceLock};

/// The document, built once.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut document = build(&routes::all());
        mark_required_bodies(&mut document);
        document
    })
}

/// The document as it is committed: indented, with a trailing newline. Written once: it is large, and needs no token.
pub fn openapi_json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| {
        let json = serde_json::to_string_pretty(document()).unwrap_or_default();
        format!("{json}\n")
    })
}

/// The schema of a route's JSON body.
pub fn request_schema(path: &str, method: &Method) -> Option<&'static Value> {
    let operation = &document()["paths"][path][operation::key(method).as_str()];
    operation.pointer("/requestBody/content/application~1json/schema")
}

fn build(routes: &[Route]) -> Value {
    let mut schemas = Schemas::new();
    schema_of::<ApiErrorBody>(&mut schemas);
    schema_of::<OlderError>(&mut schemas);
    events::collect(&mut schemas);
    let mut paths = Map::new();
    for route in routes {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[operation::key(&route.method)] = operation::operation(route, &mut schemas);
    }
    let mut components = Map::new();
    for (name, schema) in schemas {
        components.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    constraints::apply(&mut components);
    events::tag(&mut components);
    flatten::all(&mut components);
    let bodies = paths.values().filter_map(Value::as_object).flat_map(Map::values);
    let bodies = bodies.filter_map(|operation| operation.get("requestBody"));
    for name in reached(bodies, &components) {
        components.get_mut(&name).into_iter().for_each(close);
    }
    // Schemas that were only referenced by flattened types are dropped.
    let error_responses = operation::error_responses();
    let used = reached(paths.values().chain([&error_responses]), &components);
    components.retain(|name, _| used.contains(name));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Slipway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sandboxes for coding agents and the apps they build. Every error is an ApiErrorBody, \
                on older routes an OlderError; every response has `x-request-id`. Unknown fields and parameters \
                are refused by name.",
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{
            "url": "http://127.0.0.1:9090",
            "description": "hostd as it is installed: SLIPWAY_API_BIND says where it listens",
        }],
        "tags": TAGS.map(|(name, about)| json!({"name": name, "description": about})),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": error_responses,
            "securitySchemes": {
                BEARER: {"type": "http", "scheme": "bearer"},
                SIGNATURE: {"type": "apiKey", "in": "query", "name": "signature"},
            },
        },
    })
}

/// An absent body is an empty object: a body is required where that is not valid.
fn mark_required_bodies(document: &mut Value) {
    let whole = document.clone();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let Some(body) = operation.get_mut("requestBody") else { continue };
        let schema = body.pointer("/content/application~1json/schema");
        let needed = schema.is_some_and(|schema| {
            let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
            let excludes = |named: &Value| named.get("not").is_some();
            reference.and_then(|pointer| whole.pointer(pointer)).is_some_and(excludes)
                || json_schema::check(&whole, schema, &json!({})).is_err()
        });
        body["required"] = Value::Bool(needed);
    }
}

/// All schemas referenced from some values, transitively.
fn reached<'a>(from: impl Iterator<Item = &'a Value>, schemas: &Map<String, Value>) -> BTreeSet<String> {
    let mut open: Vec<String> = from.flat_map(schema_refs).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            open.extend(schemas.get(&name).map(schema_refs).unwrap_or_default());
        }
    }
    found
}

/// The names of all schemas referenced in a value.
fn schema_refs(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|text| text.strip_prefix("#/components/schemas/")).map(str::to_owned);
            own.into_iter().chain(object.values().flat_map(schema_refs)).collect()
        }
        Value::Array(items) => items.iter().flat_map(schema_refs).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Unknown fields of a request are refused, also in types shared with runtimed, which ignores them.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && object.get("type") == Some(&json!("object")) {
                object.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
