//! The OpenAPI document is the code's, and it is committed.

use crate::api::{openapi_json, routes};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

#[test]
fn the_committed_document_is_the_one_of_this_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let written = openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, &written).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == written, "docs/openapi.json is old: run this test with UPDATE_OPENAPI=1");
}

#[test]
fn every_route_is_in_the_document_and_has_its_own_name() {
    let document: Value = serde_json::from_str(&openapi_json()).expect("JSON");
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut names = BTreeSet::new();
    for route in routes::all() {
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][route.path][&method];
        assert!(operation.is_object(), "{method} {}", route.path);
        assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{method} {}", route.path);
        assert!(
            names.insert(operation["operationId"].to_string()),
            "{method} {} has a name of another",
            route.path
        );
        assert!(!route.doc.answers.is_empty(), "{method} {} gives nothing", route.path);
    }
}

#[test]
fn every_list_says_what_it_lists() {
    let document: Value = serde_json::from_str(&openapi_json()).expect("JSON");
    let answer = "/responses/200/content/application~1json/schema/$ref";
    for (path, name) in [
        ("/v1/sandboxes", "SandboxView"),
        ("/v1/sandboxes/{id}/ports", "PortView"),
        ("/v1/sandboxes/{id}/tasks", "TaskAnswer"),
        ("/v1/images", "Image"),
    ] {
        let listed = document["paths"][path]["get"].pointer(answer).and_then(Value::as_str);
        assert_eq!(listed, Some(format!("#/components/schemas/{name}Page").as_str()), "{path}");
        let page = &document["components"]["schemas"][format!("{name}Page")];
        assert_eq!(page["properties"]["items"]["items"]["$ref"], format!("#/components/schemas/{name}"));
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let text = openapi_json();
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        assert!(schemas.contains_key(name), "{name}");
    }
}
