//! Model providers and budgets: validation, views and visibility.

use super::{ApiFixture, TestRequest, TestResponse};
use hyper::Method;
use protocol::api::TokenScope;
use serde_json::{Value, json};

const KEY: &str = "sk-never-to-be-seen-again";

async fn put(fixture: &ApiFixture, path: &str, body: Value) -> TestResponse {
    let mut request = TestRequest::post(path, body.to_string());
    *request.inner.method_mut() = Method::PUT;
    fixture.send(request).await
}

async fn delete(fixture: &ApiFixture, path: &str) -> TestResponse {
    fixture.send(TestRequest::new(Method::DELETE, path)).await
}

#[tokio::test]
async fn a_provider_is_added_listed_without_its_key_changed_and_removed() {
    let fixture = ApiFixture::new().await;
    let path = "/v1/model-providers/anthropic";
    let price = json!({"input": 3.0, "output": 15.0});
    let body = json!({"key": KEY, "models": [{"name": "large-4", "alias": "large", "price": price}]});
    let added = put(&fixture, path, body).await;
    assert_eq!(added.status, 200, "{:?}", added.bytes);
    let view = added.json();
    assert_eq!((&view["dialect"], &view["has_key"]), (&json!("anthropic"), &json!(true)));
    assert_eq!(view["base_url"], "https://api.anthropic.com/v1");
    let models = fixture.get("/v1/models").await.json();
    let expected = json!([{
        "name": "large", "provider": "anthropic", "model": "large-4", "dialect": "anthropic", "price": price,
        "default": true,
    }]);
    assert_eq!(models["items"], expected);
    let moved = json!({"base_url": "http://10.0.0.1/v1", "verify": false});
    let refused = put(&fixture, path, moved).await;
    assert_eq!(
        (refused.status, refused.code()),
        (400, "invalid_request".to_owned()),
        "its key is not for there"
    );
    assert_eq!(refused.json()["error"]["detail"]["field"], "key");
    let moved = json!({"base_url": "http://10.0.0.1/v1", "key": KEY, "verify": false});
    put(&fixture, path, moved).await;
    let changed = put(&fixture, path, json!({"verify": false})).await.json();
    assert_eq!((&changed["has_key"], &changed["base_url"]), (&json!(true), &json!("http://10.0.0.1/v1")));
    assert!(changed["warning"].as_str().unwrap().contains("unencrypted"));
    assert_eq!(changed["created_at"], view["created_at"]);
    let without = put(&fixture, path, json!({"no_key": true, "verify": false})).await.json();
    assert_eq!(without["has_key"], false);
    let listed = fixture.get("/v1/model-providers").await;
    assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(1));
    for reply in [&added, &listed] {
        assert!(!String::from_utf8_lossy(&reply.bytes).contains(KEY));
    }
    assert_eq!(delete(&fixture, "/v1/model-providers/anthropic?tenant=acme").await.code(), "not_found");
    assert_eq!(delete(&fixture, path).await.status, 204);
    assert_eq!(delete(&fixture, path).await.code(), "not_found");
}

#[tokio::test]
async fn an_invalid_provider_is_refused_by_field_and_its_key_never_repeated() {
    let fixture = ApiFixture::new().await;
    for (path, body, field) in [
        ("mine", json!({}), "dialect"),
        ("MINE", json!({"dialect": "openai"}), "name"),
        ("openai", json!({"key": format!("{KEY} {KEY}")}), "key"),
        ("openai", json!({"key": KEY, "base_url": "x"}), "base_url"),
        ("openai", json!({"key": KEY, "colour": "red"}), "colour"),
        ("openai", json!({"key": KEY, "models": [{"name": ""}]}), "models[0].name"),
        ("openai", json!({"key": [KEY]}), "key"),
        ("openai", json!({}), "key"),
        ("openai", json!({"key": ""}), "key"),
        ("openai", json!({"key": "short"}), "key"),
        ("openai", json!({"key": KEY, "no_key": true}), "no_key"),
    ] {
        let refused = put(&fixture, &format!("/v1/model-providers/{path}"), body).await;
        assert_eq!((refused.code().as_str(), refused.field().as_str()), ("invalid_request", field));
        assert!(!String::from_utf8_lossy(&refused.bytes).contains(KEY), "{field}");
    }
    let by_query =
        fixture.send(TestRequest::new(Method::PUT, &format!("/v1/model-providers/openai?key={KEY}"))).await;
    assert_eq!(by_query.code(), "invalid_request");
    // The audit log does not contain it either.
    let audit = fixture.get("/v1/audit").await;
    assert!(!String::from_utf8_lossy(&audit.bytes).contains(KEY));
}

#[tokio::test]
async fn a_provider_that_cannot_be_verified_gets_a_warning_unless_verify_is_false() {
    let fixture = ApiFixture::new().await;
    let path = "/v1/model-providers/openai";
    let warned = put(&fixture, path, json!({"key": KEY})).await;
    let warning = warned.json()["warning"].as_str().expect("a warning").to_owned();
    assert!(warning.contains("whether its key is good") && warning.contains("there is no host"), "{warning}");
    assert_eq!(warned.json()["default"], Value::Null, "nothing is made up");
    let unasked = put(&fixture, path, json!({"verify": false})).await.json();
    assert_eq!((&unasked["warning"], &unasked["has_key"]), (&Value::Null, &json!(true)));
}

#[tokio::test]
async fn a_tenant_sees_what_its_tasks_may_use() {
    let fixture = ApiFixture::new().await;
    let own = json!({"dialect": "openai", "tenant": "acme", "key": KEY, "models": [{"name": "own"}]});
    assert_eq!(put(&fixture, "/v1/model-providers/theirs", own).await.status, 200);
    assert_eq!(put(&fixture, "/v1/model-providers/gemini", json!({"key": KEY})).await.status, 200);
    let names = async |tenant: &str| {
        let token = fixture.token(tenant, "ann", TokenScope::Read).await;
        let models = fixture.send(TestRequest::get("/v1/models").token(&token)).await.json();
        let items = models["items"].as_array().expect("items").clone();
        items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("acme").await, ["theirs/own", "gemini/*"]);
    assert_eq!(names("other").await, ["gemini/*"]);
    let admin = fixture.token("other", "ann", TokenScope::Admin).await;
    let seen = fixture.send(TestRequest::get("/v1/model-providers").token(&admin)).await.json();
    assert_eq!(seen["items"].as_array().map(Vec::len), Some(1));
    let mut change = TestRequest::post("/v1/model-providers/gemini", "{}").token(&admin);
    *change.inner.method_mut() = Method::PUT;
    assert_eq!(fixture.send(change).await.code(), "forbidden");
}

#[tokio::test]
async fn a_budget_is_set_read_by_its_tenant_and_removed() {
    let fixture = ApiFixture::new().await;
    let path = "/v1/budgets/acme";
    let set = put(&fixture, path, json!({"tokens": 1000, "cost_usd": 2.5, "per": "day"})).await;
    assert_eq!(set.status, 200, "{:?}", set.bytes);
    let used = json!({"tokens": 0, "cost_usd": 0.0, "requests": 0});
    let expected = json!({"tenant": "acme", "tokens": 1000, "cost_usd": 2.5, "per": "day", "used": used});
    assert_eq!(set.json(), expected);
    for (tenant, status) in [("acme", 200), ("other", 404)] {
        let admin = fixture.token(tenant, "ann", TokenScope::Admin).await;
        assert_eq!(fixture.send(TestRequest::get(path).token(&admin)).await.status, status);
        let listed = fixture.send(TestRequest::get("/v1/budgets").token(&admin)).await.json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(usize::from(status == 200)));
    }
    for (body, field) in [
        (json!({"per": "day"}), "tokens"),
        (json!({"tokens": 0, "per": "day"}), "tokens"),
        (json!({"cost_usd": -1, "per": "day"}), "cost_usd"),
        (json!({"tokens": 1}), "per"),
        (json!({"tokens": 1, "per": "year"}), "per"),
    ] {
        assert_eq!(put(&fixture, path, body).await.field(), field);
    }
    assert_eq!(delete(&fixture, path).await.status, 204);
    assert_eq!(fixture.get(path).await.code(), "not_found");
}
