//! Numeric limits and types in the document are enforced: every operation is sent values just beyond them.

use super::{ApiFixture, TestRequest};
use crate::api::openapi::document;
use hostd_core::json_schema::check;
use hyper::Method;
use serde_json::{Map, Value, json};

/// A step on the path to a field of a body.
#[derive(Debug, Clone)]
enum BodyStep {
    Field(String),
    First,
}

fn resolved(schema: &Value) -> &Value {
    let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
    reference.and_then(|pointer| document().pointer(pointer)).map_or(schema, resolved)
}

fn is(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.contains(&kind.into()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Every path to a schema that `wanted` accepts, with that schema.
fn paths_to(
    schema: &'static Value,
    before: &[BodyStep],
    wanted: &dyn Fn(&Value) -> bool,
) -> Vec<(Vec<BodyStep>, &'static Value)> {
    let schema = resolved(schema);
    let mut found = Vec::new();
    if wanted(schema) {
        found.push((before.to_vec(), schema));
    }
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        found.extend(paths_to(choice, before, wanted));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(paths_to(inner, &[before, &[BodyStep::Field(name.clone())]].concat(), wanted));
    }
    if let Some(items) = schema.get("items") {
        found.extend(paths_to(items, &[before, &[BodyStep::First]].concat(), wanted));
    }
    found
}

/// The smallest valid value, with `last` at the end of a path.
fn value(schema: &Value, path_in_body: &[BodyStep], last: &Value) -> Value {
    let schema = resolved(schema);
    let Some((step, rest)) = path_in_body.split_first() else { return last.clone() };
    if let Some(choices) = schema["oneOf"].as_array() {
        let leads = |choice: &&Value| match step {
            BodyStep::Field(name) => has_field(choice, name),
            BodyStep::First => resolved(choice).get("items").is_some(),
        };
        return value(choices.iter().find(leads).expect("one of them leads there"), path_in_body, last);
    }
    match step {
        BodyStep::First => json!([value(&schema["items"], rest, last)]),
        BodyStep::Field(name) => {
            let mut object = least(schema);
            object[name] = value(&schema["properties"][name], rest, last);
            object
        }
    }
}

fn has_field(schema: &Value, name: &str) -> bool {
    let schema = resolved(schema);
    let mut choices = schema["oneOf"].as_array().into_iter().flatten();
    !schema["properties"][name].is_null() || choices.any(|choice| has_field(choice, name))
}

fn least(schema: &Value) -> Value {
    let schema = resolved(schema);
    if let Some(first) = schema["oneOf"].get(0) {
        return least(first);
    }
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    if is(schema, "object") {
        let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let fields = names.map(|name| (name.to_owned(), least(&schema["properties"][name])));
        return Value::Object(fields.collect::<Map<_, _>>());
    }
    if is(schema, "array") {
        let count = schema["minItems"].as_u64().unwrap_or(0);
        return (0..count).map(|_| least(&schema["items"])).collect();
    }
    if is(schema, "integer") || is(schema, "number") {
        return schema.get("minimum").unwrap_or(&schema["maximum"]).clone();
    }
    if is(schema, "boolean") { json!(true) } else { json!("x") }
}

fn field(path_in_body: &[BodyStep]) -> String {
    let mut text = String::new();
    for step in path_in_body {
        match step {
            BodyStep::Field(name) if text.is_empty() => text.push_str(name),
            BodyStep::Field(name) => text.push_str(&format!(".{name}")),
            BodyStep::First => text.push_str("[0]"),
        }
    }
    text
}

/// Method, path and operation of all routes, with unknown ids in the paths.
fn operations() -> Vec<(Method, String, &'static Value)> {
    let paths = document()["paths"].as_object().expect("paths").iter();
    let of_path = |(path, item): (&String, &'static Value)| {
        let path =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>();
        let path = path.join("/");
        let item = item.as_object().expect("operations").iter();
        item.map(move |(method, operation)| {
            let method = method.to_uppercase().parse().expect("a method");
            (method, path.clone(), operation)
        })
    };
    paths.flat_map(of_path).collect()
}

/// An invalid body is refused before any lookup, with the name of the field.
async fn refused(fixture: &ApiFixture, request: TestRequest, named: &str) {
    let what = format!("{} {}", request.inner.method(), request.inner.uri());
    let older = !what.contains(" /v1/");
    let reply = fixture.send(request).await;
    assert_eq!(reply.status, 400, "{what} {named}: {:?}", reply.bytes);
    if older {
        let said = reply.json()["error"].to_string();
        assert!(said.contains(named), "{what}: {said}");
    } else {
        assert_eq!(reply.field(), named, "{what}: {:?}", reply.bytes);
    }
}

fn sent(method: &Method, path: &str, body: &Value) -> TestRequest {
    let mut request = TestRequest::post(path, body.to_string());
    *request.inner.method_mut() = method.clone();
    request
}

#[tokio::test]
async fn numbers_in_bodies_are_bounded() {
    let fixture = ApiFixture::new().await;
    let mut sent_count = 0;
    for (method, path, operation) in operations() {
        let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        for (path_in_body, number) in paths_to(schema, &[], &|schema| is(schema, "integer")) {
            let most = number["maximum"].as_u64().expect("a maximum");
            for too_large in [json!(most + 1), json!(u64::MAX), json!(1e30), json!(-1), json!(0.5)] {
                let body = value(schema, &path_in_body, &too_large);
                refused(&fixture, sent(&method, &path, &body), &field(&path_in_body)).await;
                sent_count += 1;
            }
        }
    }
    assert!(sent_count > 100, "only {sent_count} were sent");
}

/// serde accepts a list for an object, field by field.
#[tokio::test]
async fn a_list_is_not_accepted_for_an_object() {
    let fixture = ApiFixture::new().await;
    let mut sent_count = 0;
    for (method, path, operation) in operations() {
        let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        let objects = paths_to(schema, &[], &|schema| is(schema, "object"));
        for (path_in_body, _) in objects.iter().filter(|(path_in_body, _)| !path_in_body.is_empty()) {
            let body = value(schema, path_in_body, &json!([null]));
            refused(&fixture, sent(&method, &path, &body), &field(path_in_body)).await;
            sent_count += 1;
        }
    }
    assert!(sent_count > 10, "only {sent_count} were sent");
}

#[tokio::test]
async fn numbers_in_queries_are_bounded() {
    let fixture = ApiFixture::new().await;
    let mut sent_count = 0;
    for (method, path, operation) in operations() {
        let queries = operation["parameters"].as_array().into_iter().flatten();
        for param in queries.filter(|param| param["in"] == "query" && param["schema"]["type"] == "integer") {
            let (name, most) = (param["name"].as_str().expect("a name"), param["schema"]["maximum"].as_u64());
            let most = most.expect("a maximum");
            for invalid in
                [(most + 1).to_string(), u64::MAX.to_string(), String::new(), "-1".into(), "1.5".into()]
            {
                let request = TestRequest::new(method.clone(), &format!("{path}?{name}={invalid}"));
                refused(&fixture, request, name).await;
                sent_count += 1;
            }
        }
    }
    assert!(sent_count > 50, "only {sent_count} were sent");
}

/// Clients that serialize every field, also empty ones, are accepted.
#[test]
fn explicit_nulls_and_empty_lists_are_accepted() {
    let spec = json!({"$ref": "#/components/schemas/SandboxSpec"});
    let service = |health: Value| json!({"services": [{"name": "web", "command": "x", "health": health}]});
    for body in [
        service(json!({"tcp": 3000, "http": null, "log": null, "command": null})),
        service(json!({"tcp": null, "http": "/", "log": null, "command": null})),
        json!({"network": {"mode": "none", "profile": null, "allow": [], "deny": [], "max_mb": null}}),
        json!({"network": {"mode": "open", "allow": [], "deny": []}}),
    ] {
        assert_eq!(check(document(), &spec, &body), Ok(()), "{body}");
    }
}
