//! Links to private previews.

use super::{ApiFixture, TestRequest};
use hyper::Method;
use protocol::api::TokenScope;
use serde_json::{Value, json};

#[tokio::test]
async fn a_link_is_created_listed_without_its_pass_and_revoked() {
    let fixture = ApiFixture::new().await;
    let id = fixture.sandbox().await;
    let path = format!("/v1/sandboxes/{id}/preview-links");
    let made = fixture.post(&path, json!({"port": 3000, "ttl": "1h", "path": "/a?b=c"})).await;
    assert_eq!(made.status, 201, "{:?}", made.bytes);
    let made = made.json();
    let token = made["token"].as_str().unwrap();
    let url = format!("http://s-{id}-3000.preview.localhost:8080/a?b=c&slipway_pass={token}");
    assert_eq!(made["url"], json!(url));
    assert_eq!((&made["sandbox_id"], &made["port"]), (&json!(id), &json!(3000)));
    let listed = fixture.get(&path).await;
    assert!(!String::from_utf8_lossy(&listed.bytes).contains("slp1."));
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().retain(|key, _| key != "url" && key != "token");
    assert_eq!(listed.json()["items"], json!([expected]));
    let link = format!("{path}/{}", made["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(fixture.send(TestRequest::new(Method::DELETE, &link)).await.status, 204);
    }
    assert!(fixture.get(&path).await.json()["items"][0]["revoked_at"].is_string());
    let other = fixture.sandbox().await;
    let elsewhere = link.replace(&id, &other);
    assert_eq!(fixture.send(TestRequest::new(Method::DELETE, &elsewhere)).await.code(), "not_found");
}

#[tokio::test]
async fn an_invalid_link_is_refused_by_field() {
    let fixture = ApiFixture::new().await;
    let id = fixture.sandbox().await;
    let path = format!("/v1/sandboxes/{id}/preview-links");
    for (body, field) in [
        (json!({}), "port"),
        (json!({"port": 0}), "port"),
        (json!({"port": 900}), "port"),
        (json!({"port": 70000}), "port"),
        (json!({"port": 3000, "ttl": "31d"}), "ttl"),
        (json!({"port": 3000, "ttl": "soon"}), "ttl"),
        (json!({"port": 3000, "path": "x"}), "path"),
        (json!({"port": 3000, "path": "/x\r\ny: z"}), "path"),
        (json!({"port": 3000, "host": "x"}), "host"),
    ] {
        let reply = fixture.post(&path, body.clone()).await;
        assert_eq!((reply.code().as_str(), reply.field().as_str()), ("invalid_request", field), "{body}");
    }
    let keyed = TestRequest::post(&path, json!({"port": 3000}).to_string()).with("idempotency-key", "k");
    assert_eq!(fixture.send(keyed).await.field(), "Idempotency-Key", "a pass is not kept for a key");
    assert_eq!(fixture.get(&path).await.json()["items"], json!([]));
    fixture.send(TestRequest::new(Method::DELETE, &format!("/v1/sandboxes/{id}"))).await;
    assert_eq!(fixture.post(&path, json!({"port": 3000})).await.code(), "gone");
}

#[tokio::test]
async fn links_of_other_tenants_are_not_found() {
    let fixture = ApiFixture::new().await;
    let id = fixture.sandbox().await;
    let path = format!("/v1/sandboxes/{id}/preview-links");
    let made: Value = fixture.post(&path, json!({"port": 3000})).await.json();
    let stranger = fixture.token("acme", "ann", TokenScope::Run).await;
    let link = format!("{path}/{}", made["id"].as_str().unwrap());
    for request in [
        TestRequest::get(&path),
        TestRequest::post(&path, json!({"port": 3000}).to_string()),
        TestRequest::new(Method::DELETE, &link),
    ] {
        assert_eq!(fixture.send(request.token(&stranger)).await.code(), "not_found");
    }
    assert!(fixture.get(&path).await.json()["items"][0].get("revoked_at").is_none());
}
