//! Calls that change something.

use super::{ApiFixture, TestRequest};
use futures_util::future::join_all;
use hyper::Method;
use protocol::api::TokenScope;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn a_sandbox_lives_and_is_destroyed() {
    let fixture = ApiFixture::new().await;
    let body = json!({"name": "web", "ports": [3000], "env": {"KEY": "secret"}, "ttl": "1h", "metadata": {"a": "b"}});
    let made = fixture.post("/v1/sandboxes", body).await;
    let view = made.json();
    let id = view["id"].as_str().unwrap().to_owned();
    assert_eq!((made.status, &view["status"]), (201, &json!("running")));
    assert_eq!(made.headers["location"], format!("/v1/sandboxes/{id}"));
    assert_eq!(view["previews"]["3000"], format!("http://s-{id}-3000.preview.localhost:8080"));
    assert_eq!(view["env"], json!(["KEY"]));
    assert!(!String::from_utf8_lossy(&made.bytes).contains("secret"));
    let path = |rest: &str| format!("/v1/sandboxes/{}{rest}", id.to_ascii_uppercase());
    assert_eq!(fixture.get(&path("")).await.json()["expires_at"], view["expires_at"], "ids ignore case");
    for (verb, status) in
        [("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running")]
    {
        let reply = fixture.post(&path(&format!("/{verb}")), json!({})).await;
        assert_eq!((reply.status, &reply.json()["status"]), (200, &json!(status)), "{verb}");
    }
    let mut patch = TestRequest::post(&path(""), json!({"name": "new"}).to_string());
    *patch.inner.method_mut() = Method::PATCH;
    assert_eq!(fixture.send(patch).await.json()["name"], "new");
    let ttl = |change: Value| {
        let mut request = TestRequest::post(&path("/ttl"), change.to_string());
        *request.inner.method_mut() = Method::PATCH;
        fixture.send(request)
    };
    for wrong in [json!({}), json!({"on_ttl": null}), json!({"on_ttl": "explode"}), json!({"ttl": "0s"})] {
        assert_eq!(ttl(wrong.clone()).await.status, 400, "{wrong}");
    }
    let kept = ttl(json!({"on_ttl": "pause"})).await.json();
    assert_eq!((&kept["on_ttl"], &kept["expires_at"]), (&json!("pause"), &view["expires_at"]));
    let endless = ttl(json!({"ttl": null, "on_ttl": "destroy"})).await.json();
    assert_eq!((endless.get("on_ttl"), endless.get("expires_at")), (None, None), "{endless}");
    for _ in 0..2 {
        let gone = fixture.send(TestRequest::new(Method::DELETE, &path(""))).await;
        assert_eq!(
            (gone.status, &gone.json()["status"]),
            (200, &json!("destroyed")),
            "destroying twice is no mistake"
        );
    }
    assert_eq!(fixture.get(&path("")).await.json()["status"], "destroyed");
    assert_eq!(fixture.post(&path("/start"), json!({})).await.code(), "gone");
    assert_eq!(fixture.post(&path("/execs"), json!({"shell": "true"})).await.code(), "gone");
    assert_eq!(fixture.get("/v1/sandboxes").await.json()["items"], json!([]));
    assert_eq!(fixture.get("/v1/sandboxes?all=1").await.json()["items"][0]["id"], json!(id));
}

#[tokio::test]
async fn pages_continue_where_the_last_one_ended() {
    let fixture = ApiFixture::new().await;
    for _ in 0..5 {
        fixture.sandbox().await;
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/sandboxes?limit=2".to_owned());
    loop {
        let page = fixture.get(&path).await.json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sandboxes?limit=2&after={next}");
    }
    let distinct: BTreeSet<_> = seen.iter().rev().cloned().collect();
    assert_eq!(seen.len(), 5);
    assert!(distinct.iter().rev().eq(seen.iter()), "newest first, each once");
}

#[tokio::test]
async fn one_key_makes_one_sandbox() {
    let fixture = ApiFixture::new().await;
    let request =
        |key: &str, body: &'static str| TestRequest::post("/v1/sandboxes", body).with("idempotency-key", key);
    let replies = join_all((0..8).map(|_| fixture.send(request("k1", "{}")))).await;
    let ids: BTreeSet<_> = replies.iter().map(|reply| reply.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "all got the same one");
    assert!(replies.iter().all(|reply| reply.status == 201));
    let replayed = replies.iter().filter(|reply| reply.headers.contains_key("idempotency-replayed")).count();
    assert_eq!(replayed, 7);
    assert_eq!(fixture.send(request("k1", r#"{"name": "other"}"#)).await.code(), "idempotency_mismatch");
    let stranger = fixture.token("acme", "ann", TokenScope::Run).await;
    let theirs = fixture.send(request("k1", "{}").token(&stranger)).await;
    assert!(!ids.contains(&theirs.json()["id"].to_string()), "keys of others are others");
    assert_eq!(fixture.send(request("k2", r#"{"ports": [0]}"#)).await.code(), "invalid_request");
    assert_eq!(fixture.send(request("k2", "{}")).await.status, 201, "an error was not kept");
    assert_eq!(fixture.get("/v1/sandboxes").await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn the_response_with_a_token_is_not_stored_for_a_key() {
    let fixture = ApiFixture::new().await;
    let body = json!({"tenant": "acme", "principal": "ann"}).to_string();
    let reply = fixture.send(TestRequest::post("/v1/tokens", body).with("idempotency-key", "k")).await;
    assert_eq!(reply.code(), "invalid_request");
    assert_eq!(fixture.get("/v1/tokens").await.json()["items"], json!([]));
}

#[tokio::test]
async fn fifty_concurrent_ensure_calls_get_one_sandbox() {
    let fixture = ApiFixture::new().await;
    let body = || json!({"scope": {"kind": "conversation", "key": "c1"}});
    let replies = join_all((0..50).map(|_| fixture.post("/v1/sandboxes/ensure", body()))).await;
    let ids: BTreeSet<_> = replies.iter().map(|reply| reply.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.json()["created"] == json!(true)).count(), 1);
    assert!(replies.iter().all(|reply| reply.json()["status"] == "running"));
    let other = fixture.post("/v1/sandboxes", body()).await;
    assert_eq!(other.code(), "scope_taken");
    assert!(ids.contains(&other.json()["error"]["detail"]["existing"].to_string()));
}

#[tokio::test]
async fn ensure_wakes_a_sleeping_sandbox_and_replaces_a_destroyed_one() {
    let fixture = ApiFixture::new().await;
    let ensure = || async { fixture.post("/v1/sandboxes/ensure", json!({})).await.json() };
    let id = ensure().await["id"].as_str().unwrap().to_owned();
    fixture.post(&format!("/v1/sandboxes/{id}/stop"), json!({})).await;
    let woken = ensure().await;
    assert_eq!(
        (&woken["id"], &woken["status"], &woken["created"]),
        (&json!(id), &json!("running"), &json!(false))
    );
    fixture.send(TestRequest::new(Method::DELETE, &format!("/v1/sandboxes/{id}?wait=0"))).await;
    let new = ensure().await;
    assert_eq!(new["created"], json!(true));
    assert_ne!(new["id"], json!(id));
}

#[tokio::test]
async fn mutating_and_refused_calls_are_audited() {
    let fixture = ApiFixture::new().await;
    fixture.sandbox().await;
    fixture.get("/v1/sandboxes").await;
    fixture.send(TestRequest::get("/v1/host").token("slw_wrong").with("x-request-id", "r1")).await;
    fixture.api.audit.shut_down().await;
    let rows = fixture.get("/v1/audit").await.json()["items"].clone();
    let rows: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (row["path"].clone(), row["status"].clone())).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.contains(&(json!("/v1/sandboxes"), json!(201))));
    assert!(rows.contains(&(json!("/v1/host"), json!(401))));
}

#[tokio::test]
async fn metrics_and_host_facts_are_reported() {
    let fixture = ApiFixture::new().await;
    fixture.sandbox().await;
    let text = String::from_utf8(fixture.get("/metrics").await.bytes.to_vec()).unwrap();
    for line in [
        "slipway_sandboxes{status=\"running\",driver=\"fake\"} 1",
        "slipway_api_requests_total{method=\"POST\",route=\"/v1/sandboxes\",status=\"201\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let host = fixture.get("/v1/host").await.json();
    assert_eq!((&host["default_driver"], &host["sandboxes"]["running"]), (&json!("fake"), &json!(1)));
    assert!(host["memory_total_bytes"].as_u64().unwrap() > 0);
    assert!(host["disk_total_bytes"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn every_known_driver_is_listed_and_unsupported_ones_say_why() {
    let fixture = ApiFixture::new().await;
    let reader = fixture.token("acme", "ann", TokenScope::Read).await;
    let drivers = fixture.send(TestRequest::get("/v1/drivers").token(&reader)).await.json();
    let fake = &drivers["items"][0];
    assert_eq!(
        (&fake["name"], &fake["default"], &fake["usable"]),
        (&json!("fake"), &json!(true), &json!(true))
    );
    let items = drivers["items"].as_array().expect("a list");
    let lima = items.iter().find(|driver| driver["name"] == "lima").expect("people know it");
    assert_eq!((&lima["unsupported"], &lima["usable"]), (&json!(true), &json!(false)));
    assert!(lima["missing"][0].as_str().is_some_and(|why| why.contains("virtual machines")), "{lima}");
    assert_eq!(fixture.get("/v1/host/stale").await.json(), json!({"items": []}));
    assert_eq!(fixture.send(TestRequest::get("/v1/host/stale").token(&reader)).await.code(), "forbidden");
}
