//! What the document says about numbers and shapes is enforced: every operation is asked for just too much.

use super::{Ask, World};
use crate::{api::openapi::document, core::json_schema::check};
use hyper::Method;
use serde_json::{Map, Value, json};

/// A field of a body, by the steps that lead to it.
#[derive(Debug, Clone)]
enum Step {
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
        _ => false,
    }
}

/// Every way to what `wanted` accepts, with its schema.
fn ways(
    schema: &'static Value,
    before: &[Step],
    wanted: &dyn Fn(&Value) -> bool,
) -> Vec<(Vec<Step>, &'static Value)> {
    let schema = resolved(schema);
    let mut found = Vec::new();
    if wanted(schema) {
        found.push((before.to_vec(), schema));
    }
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        found.extend(ways(choice, before, wanted));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(ways(inner, &[before, &[Step::Field(name.clone())]].concat(), wanted));
    }
    if let Some(items) = schema.get("items") {
        found.extend(ways(items, &[before, &[Step::First]].concat(), wanted));
    }
    found
}

/// The smallest value that fits, with another one at the end of a way.
fn value(schema: &Value, way: &[Step], last: &Value) -> Value {
    let schema = resolved(schema);
    let Some((step, rest)) = way.split_first() else { return last.clone() };
    if let Some(choices) = schema["oneOf"].as_array() {
        let leads = |choice: &&Value| match step {
            Step::Field(name) => has_field(choice, name),
            Step::First => resolved(choice).get("items").is_some(),
        };
        return value(choices.iter().find(leads).expect("one of them leads there"), way, last);
    }
    match step {
        Step::First => json!([value(&schema["items"], rest, last)]),
        Step::Field(name) => {
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

fn field(way: &[Step]) -> String {
    let mut text = String::new();
    for step in way {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.push_str(&format!(".{name}")),
            Step::First => text.push_str("[0]"),
        }
    }
    text
}

/// Method, path and operation of all, with ids of nothing in the paths.
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

/// A body that does not fit is refused before anything is looked up, with the name of the field.
async fn refused(world: &World, ask: Ask, named: &str) {
    let what = format!("{} {}", ask.request.method(), ask.request.uri());
    let older = !what.contains(" /v1/");
    let reply = world.send(ask).await;
    assert_eq!(reply.status, 400, "{what} {named}: {:?}", reply.bytes);
    if older {
        let said = reply.json()["error"].to_string();
        assert!(said.contains(named), "{what}: {said}");
    } else {
        assert_eq!(reply.field(), named, "{what}: {:?}", reply.bytes);
    }
}

fn sent(method: &Method, path: &str, body: &Value) -> Ask {
    let mut ask = Ask::post(path, body.to_string());
    *ask.request.method_mut() = method.clone();
    ask
}

#[tokio::test]
async fn no_body_has_more_than_the_largest_number() {
    let world = World::new().await;
    let mut asked = 0;
    for (method, path, operation) in operations() {
        let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        for (way, number) in ways(schema, &[], &|schema| is(schema, "integer")) {
            let most = number["maximum"].as_u64().expect("a maximum");
            for too_large in [json!(most + 1), json!(u64::MAX), json!(1e30), json!(-1), json!(0.5)] {
                let body = value(schema, &way, &too_large);
                refused(&world, sent(&method, &path, &body), &field(&way)).await;
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "only {asked} were sent");
}

/// serde takes a list for an object, field by field.
#[tokio::test]
async fn no_list_is_taken_for_an_object() {
    let world = World::new().await;
    let mut asked = 0;
    for (method, path, operation) in operations() {
        let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        let objects = ways(schema, &[], &|schema| is(schema, "object"));
        for (way, _) in objects.iter().filter(|(way, _)| !way.is_empty()) {
            let body = value(schema, way, &json!([null]));
            refused(&world, sent(&method, &path, &body), &field(way)).await;
            asked += 1;
        }
    }
    assert!(asked > 10, "only {asked} were sent");
}

#[tokio::test]
async fn no_parameter_is_more_than_the_largest_number_or_empty() {
    let world = World::new().await;
    let mut asked = 0;
    for (method, path, operation) in operations() {
        let queries = operation["parameters"].as_array().into_iter().flatten();
        for param in queries.filter(|param| param["in"] == "query" && param["schema"]["type"] == "integer") {
            let (name, most) = (param["name"].as_str().expect("a name"), param["schema"]["maximum"].as_u64());
            let most = most.expect("a maximum");
            for wrong in
                [(most + 1).to_string(), u64::MAX.to_string(), String::new(), "-1".into(), "1.5".into()]
            {
                let ask = Ask::new(method.clone(), &format!("{path}?{name}={wrong}"));
                refused(&world, ask, name).await;
                asked += 1;
            }
        }
    }
    assert!(asked > 50, "only {asked} were sent");
}

/// Clients that write every field down, empty ones too, are understood.
#[test]
fn fields_that_say_nothing_may_be_written_down() {
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
