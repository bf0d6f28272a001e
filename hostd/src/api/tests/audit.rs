//! The audit log: every call that changes something is in it, with what it was about, also those of other protocols.

use super::{ApiFixture, TestRequest};
use crate::api::{
    route::{RequestBody, Route},
    routes,
};
use hyper::Method;
use protocol::api::TokenScope;
use serde_json::{Value, json};

/// Operations that change something and are left out: every keystroke is one, and their exec was audited.
const LEFT_OUT: &[&str] = &["writeExecStdin"];
const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

fn changes_something(route: &Route) -> bool {
    let reads = [Method::GET, Method::HEAD].contains(&route.method);
    !reads || route.mutates()
}

/// A path of the route, about things that do not exist.
fn path_of(route: &Route) -> String {
    let value = |part: &str| match part {
        "{id}" => SANDBOX.to_owned(),
        "{port}" => "3000".to_owned(),
        part if part.starts_with('{') => "nothing".to_owned(),
        part => part.to_owned(),
    };
    route.path.split('/').map(value).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_call_that_changes_something_is_audited_with_its_object() {
    let fixture = ApiFixture::new().await;
    let all = routes::all();
    let changing: Vec<&Route> = all.iter().filter(|route| changes_something(route)).collect();
    assert!(changing.len() > 50, "{}", changing.len());
    for route in &changing {
        let body = match route.body {
            RequestBody::Json => "{}",
            RequestBody::Empty | RequestBody::Stream => "",
        };
        let mut request = TestRequest::post(&path_of(route), body).with("x-request-id", route.doc.id);
        *request.inner.method_mut() = route.method.clone();
        fixture.send(request).await;
    }
    fixture.api.audit.shut_down().await;
    for route in changing {
        let found = fixture.get(&format!("/v1/audit?request={}", route.doc.id)).await.json();
        let rows = found["items"].as_array().expect("rows").clone();
        let is_left_out = LEFT_OUT.contains(&route.doc.id);
        assert_eq!(rows.len(), usize::from(!is_left_out), "{} {}: {rows:?}", route.method, route.path);
        let Some(row) = rows.first() else { continue };
        assert_eq!(
            (&row["operation"], &row["method"]),
            (&json!(route.doc.id), &json!(route.method.as_str()))
        );
        assert_eq!(row["from"], "127.0.0.1");
        if route.path.contains("{id}") {
            assert_eq!(row["sandbox"], SANDBOX, "{row}");
        }
        let named = route.path.split('/').rfind(|part| part.starts_with('{') && *part != "{port}");
        let expected = match named {
            None => continue,
            Some("{id}") => SANDBOX,
            Some(_) => "nothing",
        };
        assert_eq!(row["object"], expected, "{row}");
    }
}

#[tokio::test]
async fn a_row_names_what_was_made_and_filters_find_it() {
    let fixture = ApiFixture::new().await;
    let sandbox = fixture.sandbox().await;
    let again = fixture.post("/v1/sandboxes/ensure", json!({})).await.json();
    let ensured = fixture.post("/v1/sandboxes/ensure", json!({})).await.json();
    assert_eq!((&again["created"], &ensured["created"]), (&json!(true), &json!(false)));
    let token = fixture.token("acme", "ann", TokenScope::Admin).await;
    fixture.send(TestRequest::post("/v1/sandboxes", "{}").token(&token)).await;
    fixture.send(TestRequest::get("/v1/host").token(&token)).await;
    fixture.api.audit.shut_down().await;
    let rows = async |query: &str| fixture.get(&format!("/v1/audit?{query}")).await.json()["items"].clone();
    let made = rows(&format!("sandbox={sandbox}")).await;
    assert_eq!(
        (&made[0]["object"], &made[0]["operation"]),
        (&json!(sandbox), &json!("createSandbox")),
        "{made}"
    );
    let found =
        rows(&format!("object={}&operation=ensureSandbox", again["id"].as_str().expect("an id"))).await;
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    let refused = rows("principal=ann&outcome=refused").await;
    assert_eq!(
        (&refused[0]["operation"], &refused[0]["status"]),
        (&json!("getHost"), &json!(403)),
        "{refused}"
    );
    assert_eq!(rows("since=1h&until=2999-01-01T00:00:00Z").await.as_array().map(Vec::len), Some(6));
    assert_eq!(rows("until=1h").await, json!([]));
    assert_eq!(rows("from=10.0.0.1").await, json!([]));
    for (query, field) in [("since=yesterday", "since"), ("outcome=good", "outcome"), ("who=ann", "who")] {
        let refused = fixture.get(&format!("/v1/audit?{query}")).await;
        assert_eq!((refused.code().as_str(), refused.field().as_str()), ("invalid_request", field));
    }
    // The administrator of a tenant sees its own.
    let as_admin = async |path: &str| fixture.send(TestRequest::get(path).token(&token)).await;
    let own = as_admin("/v1/audit").await.json();
    assert!(own["items"].as_array().expect("rows").iter().all(|row| row["tenant"] == "acme"), "{own}");
    assert_eq!(as_admin("/v1/audit?tenant=default").await.code(), "forbidden");
}

#[tokio::test]
async fn an_export_has_all_rows_oldest_first_one_on_a_line() {
    let fixture = ApiFixture::new().await;
    for _ in 0..5 {
        fixture.sandbox().await;
    }
    fixture.api.audit.shut_down().await;
    let export = fixture.get("/v1/audit/export?operation=createSandbox").await;
    assert_eq!(export.headers["content-type"], "application/x-ndjson");
    let text = String::from_utf8(export.bytes.to_vec()).expect("UTF-8");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row["number"].as_u64()).collect();
    assert_eq!(numbers.len(), 5, "{text}");
    assert!(numbers.is_sorted());
    assert_eq!(fixture.get("/v1/audit/export?operation=none").await.bytes.len(), 0);
}

#[tokio::test]
async fn calls_of_other_protocols_are_audited_as_the_calls_that_they_make() {
    let fixture = ApiFixture::new().await;
    let delete = |path: String, id: &str| {
        TestRequest::new(Method::DELETE, &path).with("x-request-id", id).without("authorization")
    };
    let sandboxes = [fixture.sandbox().await, fixture.sandbox().await, fixture.sandbox().await];
    let [e2b, cloudflare, open] = &sandboxes;
    let key = super::ADMIN;
    for request in [
        delete(format!("/sandboxes/{e2b}"), "r-e2b").with("x-api-key", key),
        delete(format!("/v1/sandbox/{cloudflare}"), "r-cloudflare").token(key),
        delete(format!("/v1/sandboxes/{open}"), "r-opensandbox").with("open-sandbox-api-key", key),
    ] {
        fixture.send(request).await;
    }
    fixture.api.audit.shut_down().await;
    for (request, sandbox) in ["r-e2b", "r-cloudflare", "r-opensandbox"].iter().zip(&sandboxes) {
        let found = fixture.get(&format!("/v1/audit?request={request}&operation=deleteSandbox")).await.json();
        assert_eq!(found["items"][0]["sandbox"], json!(sandbox), "{request}: {found}");
    }
}
