//! Events as server-sent events.

use super::{ApiFixture, TestRequest};
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

#[tokio::test]
async fn events_are_streamed_in_order_from_the_cursor_of_the_client() {
    let fixture = ApiFixture::new().await;
    let id = fixture.sandbox().await;
    let path = format!("/v1/sandboxes/{id}/events");
    let page = fixture.get(&path).await.json();
    let events = page["items"].as_array().unwrap();
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!(first["kind"], "sandbox.created");

    let request = TestRequest::get(&path)
        .with("accept", "text/event-stream")
        .with("last-event-id", &first["seq"].to_string());
    let response = fixture.router.clone().oneshot(request.inner).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut text = String::new();
    while !text.contains(&format!("id: {}\n", last["seq"])) {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    assert!(text.starts_with("retry: 1000\n\n"), "{text}");
    assert!(!text.contains(&format!("id: {}\n", first["seq"])), "what was seen comes not again: {text}");

    // New events follow, and the shutdown of hostd ends the stream.
    fixture.post(&format!("/v1/sandboxes/{id}/stop"), json!({})).await;
    while !text.contains("event: sandbox.stopped\n") {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    fixture.closing.cancel();
    while body.frame().await.is_some() {}
}

#[tokio::test]
async fn events_are_visible_to_their_own_tenant_only() {
    let fixture = ApiFixture::new().await;
    fixture.sandbox().await;
    let stranger = fixture.token("acme", "ann", protocol::api::TokenScope::Admin).await;
    let page = |request: TestRequest| async {
        fixture.send(request.with("accept", "application/json")).await.json()["items"].clone()
    };
    assert_eq!(page(TestRequest::get("/v1/events").token(&stranger)).await, json!([]));
    assert_ne!(page(TestRequest::get("/v1/events?kind=sandbox.")).await, json!([]));
    assert_eq!(page(TestRequest::get("/v1/events?kind=exec.,service.")).await, json!([]));
}
