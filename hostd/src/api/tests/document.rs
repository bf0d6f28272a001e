//! The committed OpenAPI document matches the code, and client generators can use it.

use crate::api::{
    openapi::{TAGS, document},
    openapi_json, routes,
};
use hostd_core::json_schema;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, path::Path};

#[test]
fn the_committed_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let written = openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, written).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == written, "docs/openapi.json is old: run this test with UPDATE_OPENAPI=1");
}

/// Every operation, with its method and path.
fn operations() -> Vec<(String, &'static Value)> {
    let paths = document()["paths"].as_object().expect("paths");
    let of_path = |(path, item): (&String, &'static Value)| {
        let path = path.clone();
        let item = item.as_object().expect("operations");
        item.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

fn schemas() -> &'static Map<String, Value> {
    document()["components"]["schemas"].as_object().expect("schemas")
}

#[test]
fn every_route_is_in_the_document() {
    assert!(document()["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    assert!(document()["servers"][0]["url"].as_str().is_some_and(|url| url.starts_with("http://")));
    let all: BTreeSet<String> = operations().into_iter().map(|(name, _)| name).collect();
    let routes = routes::all();
    assert_eq!(all.len(), routes.len());
    for route in routes {
        let name = format!("{} {}", route.method.as_str().to_ascii_lowercase(), route.path);
        assert!(all.contains(&name), "{name}");
    }
}

#[test]
fn an_operation_has_an_id_a_tag_and_responses() {
    let verbs = [
        "get",
        "list",
        "create",
        "update",
        "delete",
        "put",
        "replace",
        "start",
        "stop",
        "restart",
        "pause",
        "resume",
        "recreate",
        "keep",
        "set",
        "ensure",
        "cancel",
        "read",
        "write",
        "signal",
        "resize",
        "attach",
        "warm",
        "answer",
        "revoke",
        "import",
        "stat",
        "make",
        "move",
        "copy",
        "head",
        "search",
        "download",
        "upload",
        "watch",
        "reap",
        "older",
        "verify",
        "restore",
        "fork",
        "export",
        "revert",
        "push",
        "fetch",
        "test",
        "redeliver",
    ];
    let mut names = BTreeSet::new();
    for (at, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap_or_default();
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let verb = name.split(|letter: char| letter.is_ascii_uppercase()).next().unwrap_or_default();
        assert!(plain && verbs.contains(&verb), "{at} is called {name:?}");
        assert!(names.insert(name), "{at} has the name of another: {name}");
        assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{at}");
        let tag = operation["tags"][0].as_str().unwrap_or_default();
        assert!(TAGS.iter().any(|(known, _)| *known == tag), "{at} has the tag {tag:?}");
        let older = !at.contains(" /v1/") && tag != "health";
        assert_eq!((tag == "older", name.starts_with("older")), (older, older), "{at}");
        let responses = operation["responses"].as_object().expect("answers");
        assert!(responses.keys().any(|status| status.starts_with('2') || status == "101"), "{at}");
        assert!(responses.contains_key("400") && responses.contains_key("default"), "{at}");
        let guarded = operation["security"] != serde_json::json!([]);
        assert_eq!(responses.contains_key("401"), guarded, "{at}");
    }
}

#[test]
fn responses_that_are_not_json_have_their_media_type() {
    let kinds = |path: &str, method: &str| -> Vec<String> {
        let answer = &document()["paths"][path][method]["responses"]["200"]["content"];
        answer.as_object().map(|kinds| kinds.keys().cloned().collect()).unwrap_or_default()
    };
    let both = ["application/json", "text/event-stream"];
    for path in ["/v1/events", "/v1/sandboxes/{id}/events", "/v1/sandboxes/{id}/tasks/{task}/events"] {
        assert_eq!(kinds(path, "get"), both, "{path}");
    }
    let output = ["application/octet-stream", "application/x-ndjson", "text/event-stream"];
    for path in [
        "/v1/sandboxes/{id}/execs/{exec}/output",
        "/v1/sandboxes/{id}/services/{service}/logs",
        "/v1/sandboxes/{id}/tasks/{task}/log",
    ] {
        assert_eq!(kinds(path, "get"), output, "{path}");
    }
    assert_eq!(kinds("/metrics", "get"), ["application/openmetrics-text"]);
    assert_eq!(kinds("/sandbox/{id}/exec", "post"), ["application/json", "text/plain"]);
}

#[test]
fn schema_names_are_unique() {
    let answer = "/responses/200/content/application~1json/schema/$ref";
    let named = |path: &str| document()["paths"][path]["get"].pointer(answer).and_then(Value::as_str);
    assert_eq!(named("/healthz"), Some("#/components/schemas/HostHealth"));
    let of_service = schemas()["ServiceSpec"]["properties"]["health"].to_string();
    assert!(of_service.contains("#/components/schemas/ServiceHealth"), "{of_service}");
    assert!(!schemas().contains_key("Health"));
    for (path, name) in [
        ("/v1/sandboxes", "SandboxView"),
        ("/v1/sandboxes/{id}/ports", "PortView"),
        ("/v1/sandboxes/{id}/tasks", "TaskAnswer"),
        ("/v1/images", "Image"),
    ] {
        assert_eq!(named(path), Some(format!("#/components/schemas/{name}Page").as_str()), "{path}");
        let page = &schemas()[&format!("{name}Page")];
        assert_eq!(page["properties"]["items"]["items"]["$ref"], format!("#/components/schemas/{name}"));
    }
}

/// Calls `visit` with every object below `value`, and its path.
fn walk(value: &Value, at: &str, visit: &mut impl FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            visit(at, object);
            object.iter().for_each(|(key, inner)| walk(inner, &format!("{at}/{key}"), visit));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, inner)| walk(inner, &format!("{at}/{index}"), visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_resolves_and_no_schema_has_all_of() {
    walk(document(), "", &mut |at, object| {
        if let Some(Value::String(reference)) = object.get("$ref") {
            let found = reference.strip_prefix('#').and_then(|pointer| document().pointer(pointer));
            assert!(found.is_some(), "{at}: {reference}");
        }
        assert!(!object.contains_key("allOf"), "{at}: generators drop what is in it");
    });
}

/// All schemas that request bodies use.
fn requests() -> Vec<(String, &'static Value)> {
    let mut open: Vec<String> = Vec::new();
    let mut all = Vec::new();
    let refer = |value: &Value, open: &mut Vec<String>| {
        walk(value, "", &mut |_, object| {
            let name = object.get("$ref").and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
            open.extend(name.map(str::to_owned));
        });
    };
    for (_, operation) in operations() {
        refer(&operation["requestBody"], &mut open);
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if seen.insert(name.clone()) {
            refer(&schemas()[&name], &mut open);
            all.push((name.clone(), &schemas()[&name]));
        }
    }
    all
}

#[test]
fn every_keyword_of_request_schemas_is_known_to_the_checker() {
    for (name, schema) in requests() {
        walk(schema, &name, &mut |at, object| {
            let parent = at.rsplit('/').next().unwrap_or_default();
            // Keys of these are names of fields; `default` is a value.
            if matches!(parent, "properties" | "default") || at.contains("/default/") {
                return;
            }
            for keyword in object.keys() {
                let known = [&json_schema::CHECKED[..], &json_schema::IGNORED[..]].concat();
                assert!(known.contains(&keyword.as_str()), "{at}: {keyword} is not checked");
            }
            if object.get("type") == Some(&"object".into()) && object.contains_key("properties") {
                assert_eq!(object.get("additionalProperties"), Some(&Value::Bool(false)), "{at}");
            }
        });
    }
}

#[test]
fn every_number_of_a_request_has_bounds() {
    let mut numbers = 0;
    for (name, schema) in requests() {
        walk(schema, &name, &mut |at, object| {
            let types = object.get("type").map(Value::to_string).unwrap_or_default();
            if types.contains("\"integer\"") || types.contains("\"number\"") {
                let low = object.contains_key("minimum") || object.contains_key("exclusiveMinimum");
                assert!(low && object.contains_key("maximum"), "{at}: {object:?}");
                let most = object["maximum"].as_f64().expect("a number");
                assert!(most <= i64::MAX as f64, "{at}: more than the store can hold");
                numbers += 1;
            }
        });
    }
    assert!(numbers > 20, "only {numbers} numbers were looked at");
}

/// The kinds that a union has a schema for.
fn kinds(union: &str) -> BTreeSet<&'static str> {
    let mapping = schemas()[union]["discriminator"]["mapping"].as_object().expect("a mapping");
    mapping.keys().map(String::as_str).collect()
}

#[test]
fn every_event_has_a_schema_by_its_kind() {
    let of_tasks = kinds("TaskEventView");
    assert!(of_tasks.contains("done") && of_tasks.contains("permission") && of_tasks.len() == 12);
    let all = kinds("EventView");
    assert!(of_tasks.is_subset(&all), "task events are events");
    for kind in ["exec.ended", "service.state", "sandbox.running", "attempt.failed", "egress", "gap"] {
        assert!(all.contains(kind), "{kind}");
    }
    for union in ["TaskEventView", "EventView", "Exit", "Reason", "Chunk"] {
        let schema = &schemas()[union];
        let tag = schema["discriminator"]["propertyName"].as_str().expect("a tag");
        let variants: BTreeSet<String> =
            schema["oneOf"].as_array().into_iter().flatten().map(Value::to_string).collect();
        for (word, reference) in schema["discriminator"]["mapping"].as_object().expect("a mapping") {
            assert!(
                variants.contains(&serde_json::json!({"$ref": reference}).to_string()),
                "{union}: {word}"
            );
            let name = reference.as_str().and_then(|text| text.rsplit('/').next()).expect("a name");
            let words = schemas()[name]["properties"][tag]["enum"].as_array().expect("words");
            assert!(words.contains(&Value::from(word.as_str())), "{name}: {words:?}");
            let required = schemas()[name]["required"].as_array().expect("required fields");
            assert!(required.contains(&Value::from(tag)), "{name} may have no {tag}");
        }
    }
}

#[test]
fn streams_name_the_schema_of_their_messages() {
    let named = |path: &str, kind: &str| {
        let content = &document()["paths"][path]["get"]["responses"]["200"]["content"][kind];
        content["x-item-schema"]["$ref"].as_str().and_then(|text| text.rsplit('/').next()).map(str::to_owned)
    };
    let sse = "text/event-stream";
    assert_eq!(named("/v1/events", sse).as_deref(), Some("EventView"));
    assert_eq!(named("/v1/sandboxes/{id}/tasks/{task}/events", sse).as_deref(), Some("TaskEventView"));
    assert_eq!(named("/v1/sandboxes/{id}/files/watch", sse).as_deref(), Some("FileChangeView"));
    let output = "/v1/sandboxes/{id}/execs/{exec}/output";
    assert_eq!(named(output, sse).as_deref(), Some("Chunk"));
    assert_eq!(named(output, "application/x-ndjson").as_deref(), Some("Chunk"));
}
