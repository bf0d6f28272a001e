//! Calls that are refused before a provider is contacted.

use super::{
    fake_provider::{Action, STREAM_HEAD, chunk, last_chunk, send},
    fixture::{GatewayFixture, Setup, post, request},
    recorder::{CallEvent, PLACEHOLDER},
};
use crate::{
    ActiveBudgets,
    gateway::limits::{BODY_MAX_BYTES, CALLS_MAX},
};
use http_body_util::BodyExt;
use hyper::Method;

const PATH: &str = "/anthropic/v1/messages";
const ASK: &str = r#"{"model":"m","max_tokens":1}"#;

/// Method, path, headers and body; then the status, and the pointer to a member that only this dialect has.
type Case<'a> = (Method, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

#[tokio::test]
async fn refusals_have_the_shape_of_their_dialect() {
    let good = ("x-api-key", PLACEHOLDER);
    let table: [Case<'_>; 13] = [
        (Method::POST, PATH, &[], ASK, 401, "/error/type"),
        (Method::POST, PATH, &[("x-api-key", "wrong")], ASK, 401, "/error/type"),
        (Method::POST, "/openai/v1/responses", &[("authorization", "Bearer wrong")], ASK, 401, "/error/code"),
        (Method::POST, "/gemini/v1/models/m:generateContent?key=wrong", &[], "{}", 401, "/error/status"),
        (Method::POST, "/anthropic/v1/files", &[good], ASK, 404, "/error/type"),
        (Method::GET, PATH, &[good], "", 405, "/error/type"),
        (Method::POST, PATH, &[good, ("content-encoding", "gzip")], ASK, 415, "/error/type"),
        (Method::POST, PATH, &[good], "[]", 400, "/error/type"),
        (Method::POST, PATH, &[good], "{\"model\":\"a\",\"model\":\"b\"}", 400, "/error/type"),
        (Method::POST, PATH, &[good], r#"{"model":"none"}"#, 404, "/error/type"),
        (Method::POST, "/openai/v1/chat/completions", &[good], "{}", 400, "/error/type"),
        (Method::POST, "/openai/v1/chat/completions", &[good], r#"{"model":"m","n":2}"#, 400, "/error/type"),
        (
            Method::POST,
            "/gemini/v1/models/m:generateContent",
            &[good],
            r#"{"generationConfig":{"candidateCount":2}}"#,
            400,
            "/error/status",
        ),
    ];
    let mut fixture = GatewayFixture::open(Vec::new()).await;
    for (method, path, headers, body, status, pointer) in table {
        let response = fixture.send(request(method, path, headers, body)).await;
        assert_eq!(response.status.as_u16(), status, "{path} {body}: {}", response.text);
        let error: serde_json::Value = serde_json::from_str(&response.text).expect("JSON");
        assert!(error.pointer(pointer).is_some_and(serde_json::Value::is_string), "{path}: {error}");
        assert!(error.pointer("/error/message").is_some_and(serde_json::Value::is_string), "{error}");
    }
    assert!(fixture.provider.received().is_empty());
    assert!(
        fixture.recorder.events().iter().all(|event| matches!(event, CallEvent::Rejected(_))),
        "none begins"
    );
}

#[tokio::test]
async fn a_budget_that_is_used_up_is_not_retried() {
    let setup = Setup { output_budget: Some(0), ..Setup::default() };
    let mut fixture = GatewayFixture::with(Vec::new(), setup).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.status.as_u16(), 403, "agents try 429 again");
    assert!(response.text.contains("the budget of the task is used up"));
}

#[tokio::test]
async fn a_task_that_has_not_started_is_told_to_retry() {
    let mut fixture = GatewayFixture::with(Vec::new(), Setup { waits: true, ..Setup::default() }).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(
        (response.status.as_u16(), &response.headers["retry-after"]),
        (429, &"1".parse().expect("one"))
    );
    assert!(fixture.provider.received().is_empty() && fixture.recorder.events().is_empty());
}

#[tokio::test]
async fn content_that_a_budget_cannot_bound_is_refused_in_the_shape_of_the_dialect() {
    let bounded = ActiveBudgets { tokens: true, cost: true };
    let mut fixture = GatewayFixture::with(Vec::new(), Setup { bounded, ..Setup::default() }).await;
    let table = [
        ("/openai/v1/responses", r#"{"model":"m","previous_response_id":"r"}"#, "previous_response_id"),
        ("/openai/v1/chat/completions", r#"{"model":"m","service_tier":"priority"}"#, "service_tier"),
        (PATH, r#"{"model":"m","messages":[{"content":[{"source":{"file_id":"f"}}]}]}"#, "file_id"),
        ("/gemini/v1/models/m:generateContent", r#"{"cachedContent":"c"}"#, "cachedContent"),
    ];
    for (path, body, name) in table {
        let response = fixture.post(path, body).await;
        let error: serde_json::Value = serde_json::from_str(&response.text).expect("JSON");
        let words = error["error"]["message"].as_str().unwrap_or_default();
        assert!(response.status.as_u16() == 400 && words.contains(name), "{path}: {}", response.text);
    }
    assert!(fixture.provider.received().is_empty());
}

#[tokio::test]
async fn a_sandbox_that_is_only_refused_is_rate_limited() {
    let fixture = GatewayFixture::open(Vec::new()).await;
    // Concurrent, since refusals are delayed; more than once, since the rate refills with time.
    for _ in 0..20 {
        let asks = (0..250).map(|_| request(Method::POST, PATH, &[], ASK)).collect();
        let statuses = fixture.many(asks).await;
        assert!(statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
        if statuses.contains(&429) {
            return;
        }
    }
    panic!("none was rate limited");
}

#[tokio::test]
async fn a_malformed_body_is_the_mistake_of_the_agent() {
    let fixture = GatewayFixture::open(Vec::new()).await;
    let head = format!("POST /model{PATH} HTTP/1.1\r\nhost: x\r\nx-api-key: {PLACEHOLDER}\r\n");
    let response = fixture.raw(&format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 400") && response.contains("malformed"), "{response}");
    assert!(fixture.provider.received().is_empty());
}

#[tokio::test]
async fn bodies_are_bounded() {
    let mut fixture = GatewayFixture::open(Vec::new()).await;
    let long = request(Method::POST, PATH, &[("x-api-key", PLACEHOLDER)], &" ".repeat(BODY_MAX_BYTES + 1));
    assert_eq!(fixture.send(long).await.status.as_u16(), 413);
}

#[tokio::test]
async fn a_sandbox_makes_so_many_calls_at_once() {
    let waits = || {
        vec![send(STREAM_HEAD), chunk("data: {\"type\":\"message_stop\"}\n\n"), Action::Wait, last_chunk()]
    };
    let mut fixture = GatewayFixture::open((0..=CALLS_MAX).map(|_| waits()).collect()).await;
    let mut open = Vec::new();
    for _ in 0..CALLS_MAX {
        open.push(fixture.begin(post(PATH, ASK)).await);
    }
    let refused = fixture.post(PATH, ASK).await;
    assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (429, &"1".parse().expect("one")));
    assert_eq!(fixture.provider.received().len(), CALLS_MAX, "not a fault: it is not a call");
    fixture.provider.resume();
    let mut first = futures_util::future::select_all(
        open.into_iter()
            .map(|response| Box::pin(async move { response.into_body().collect().await.expect("its end") })),
    );
    (&mut first).await;
    assert_eq!(fixture.begin(post(PATH, ASK)).await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_refused_call_is_a_failed_call_of_its_task() {
    let mut fixture = GatewayFixture::open(Vec::new()).await;
    fixture.send(request(Method::POST, PATH, &[("x-api-key", "wrong")], "[]")).await;
    fixture.post("/anthropic/v1/files", "[]").await;
    let long = " ".repeat(BODY_MAX_BYTES + 1);
    let counting = "/anthropic/v1/messages/count_tokens";
    for (path, body) in [(PATH, r#"{"model":"none"}"#), (PATH, "[]"), (PATH, &long), (counting, "[]")] {
        fixture.post(path, body).await;
    }
    let event = |event: CallEvent| {
        let CallEvent::Rejected(call) = event else { panic!("{event:?}") };
        (call.status, call.model, call.counts)
    };
    let seen: Vec<_> = fixture.recorder.events().into_iter().map(event).collect();
    let none = String::new;
    let expected =
        [(404, "none".to_owned(), true), (400, none(), true), (413, none(), true), (400, none(), false)];
    assert_eq!(seen, expected, "a call without a valid key belongs to no task");
}
