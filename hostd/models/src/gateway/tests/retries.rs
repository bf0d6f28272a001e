//! Which failures are retried, and which are not.

use super::{
    fake_provider::{Action, FakeProvider, send, stream, whole},
    fixture::{GatewayFixture, KEY, Setup},
    recorder::CallEvent,
};
use crate::Fault;
use std::{net::Ipv4Addr, sync::atomic::Ordering};

const ASK: &str = r#"{"model":"m","max_tokens":1}"#;
const OK: &str = r#"{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}"#;
const PATH: &str = "/anthropic/v1/messages";

fn retries(events: &[CallEvent]) -> Vec<(u32, Option<u16>)> {
    let retry = |event: &CallEvent| {
        let CallEvent::Retrying { attempt, fault, .. } = event else { return None };
        Some((*attempt, fault.status))
    };
    events.iter().filter_map(retry).collect()
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_reported() {
    let error = r#"{"error":{"message":"busy"}}"#;
    let troubled = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let table = [
        (whole("429 Too Many Requests", "retry-after: 0\r\n", error), Some(429)),
        (whole("500 Internal Server Error", "", error), Some(500)),
        (whole("529 Overloaded", "", error), Some(529)),
        (whole("408 Request Timeout", "", error), Some(408)),
        (vec![Action::Close], None),
        (vec![send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"), Action::Close], None),
        (vec![send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"), Action::Close], None),
        (vec![send("garbage\r\n\r\n"), Action::Close], None),
        (stream(&[troubled]), Some(200)),
    ];
    for (number, (reply, status)) in table.into_iter().enumerate() {
        let mut fixture = GatewayFixture::open(vec![reply.clone(), reply, whole("200 OK", "", OK)]).await;
        let response = fixture.post(PATH, ASK).await;
        assert_eq!((response.status.as_u16(), response.text.as_str()), (200, OK), "{number}");
        let end = fixture.recorder.end().await;
        assert_eq!((end.attempt, end.outcome), (3, Ok(())), "{number}");
        assert_eq!(retries(&fixture.recorder.events()), [(1, status), (2, status)], "{number}");
        assert_eq!(fixture.provider.received().len(), 3, "{number}");
        let mut registry = hostd_metrics::Registry::default();
        fixture.metrics.register(&mut registry);
        let text = hostd_metrics::text(&registry);
        for line in [
            "slipway_gateway_retries_total{dialect=\"anthropic\"} 2",
            "slipway_gateway_tokens_total{dialect=\"anthropic\",direction=\"output\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{number}: {line} in {text}");
        }
    }
}

#[tokio::test]
async fn after_four_attempts_the_call_fails() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let mut fixture =
        GatewayFixture::open(vec![whole("529 Overloaded", "request-id: r1\r\n", body); 4]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!((response.status.as_u16(), response.text.as_str()), (529, body));
    assert_eq!(response.headers["request-id"], "r1");
    let message = "Overloaded (after 4 tries)".to_owned();
    let fault = Fault { status: Some(529), message, permanent: true };
    let end = fixture.recorder.end().await;
    assert_eq!((end.attempt, end.status, end.tokens), (4, Some(529), None));
    assert_eq!(end.outcome, Err(fault));
    assert_eq!(retries(&fixture.recorder.events()).len(), 3);
}

#[tokio::test]
async fn an_error_within_an_answer_is_passed_on_in_the_end() {
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let mut fixture = GatewayFixture::open(vec![stream(&[event]); 4]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!((response.status.as_u16(), response.text.as_str()), (200, event));
    let end = fixture.recorder.end().await;
    let message = "busy (after 4 tries)".to_owned();
    assert_eq!(end.outcome, Err(Fault { status: Some(200), message, permanent: true }));
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited_for() {
    let reply = whole("429 Too Many Requests", "retry-after: 61\r\n", r#"{"error":{"message":"later"}}"#);
    let mut fixture = GatewayFixture::open(vec![reply]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(
        (response.status.as_u16(), &response.headers["retry-after"]),
        (429, &"61".parse().expect("one"))
    );
    assert!(
        fixture.recorder.end().await.outcome.is_err_and(|fault| fault.permanent && fault.message == "later")
    );
}

#[tokio::test]
async fn a_permanent_failure_is_reported_at_once_without_the_key() {
    let quota = r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#;
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let partial = format!(r#"{{"error":{{"message":"no access with {}***"}}}}"#, &KEY[..12]);
    let no_model = r#"{"error":{"message":"no such model"}}"#;
    let table = [
        ("401 Unauthorized", echo.as_str(), "Incorrect API key provided: [key]"),
        ("403 Forbidden", partial.as_str(), "no access with [key]***"),
        ("402 Payment Required", r#"{"error":{"message":"pay"}}"#, "pay"),
        ("404 Not Found", no_model, "no such model"),
        ("429 Too Many Requests", quota, "You exceeded your current quota"),
        (
            "400 Bad Request",
            r#"{"error":{"message":"Your credit balance is too low"}}"#,
            "Your credit balance is too low",
        ),
    ];
    for (status, body, message) in table {
        let leak = format!("x-request-id: {KEY}\r\nset-cookie: a=b\r\n");
        let mut fixture = GatewayFixture::open(vec![whole(status, &leak, body)]).await;
        let response = fixture.post(PATH, ASK).await;
        assert!(status.starts_with(response.status.as_str()), "{status}");
        assert!(response.text.contains(message), "{status}: {}", response.text);
        let seen = format!("{:?}{}", response.headers, response.text);
        assert!(!seen.contains(&KEY[..8]) && !seen.contains("a=b"), "{seen}");
        let fault = fixture.recorder.end().await.outcome.expect_err(status);
        assert_eq!((fault.message.as_str(), fault.permanent), (message, true), "{status}");
        assert!(retries(&fixture.recorder.events()).is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_bad_request_is_the_agents_own_matter() {
    for status in ["400 Bad Request", "413 Payload Too Large", "422 Unprocessable Entity"] {
        let body = r#"{"error":{"message":"prompt is too long"}}"#;
        let mut fixture = GatewayFixture::open(vec![whole(status, "", body)]).await;
        let response = fixture.post(PATH, ASK).await;
        assert!(status.starts_with(response.status.as_str()) && response.text == body, "{status}");
        let fault = fixture.recorder.end().await.outcome.expect_err(status);
        assert_eq!((fault.message.as_str(), fault.permanent), ("prompt is too long", false));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let to = format!("location: http://127.0.0.1:1/{KEY}\r\n");
        let mut fixture = GatewayFixture::open(vec![whole(status, &to, "")]).await;
        let response = fixture.post(PATH, ASK).await;
        assert_eq!(response.status.as_u16(), 502, "{status}");
        assert!(!response.headers.contains_key("location") && !response.text.contains(KEY), "{status}");
        let fault = fixture.recorder.end().await.outcome.expect_err(status);
        assert!(fault.permanent && fault.message.contains("not followed"), "{status}: {fault:?}");
        assert_eq!(fixture.provider.received().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_unreachable_provider_is_retried_and_then_reported() {
    // A port that is bound, so that it stays free, and never listened on.
    let gone = tokio::net::TcpSocket::new_v4().expect("a socket");
    gone.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("bound");
    let url = format!("http://{}", gone.local_addr().expect("an address"));
    let provider = FakeProvider::start(Vec::new()).await;
    let mut fixture = GatewayFixture::to(provider, url, Setup::default()).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.status.as_u16(), 502);
    let unreachable = "the provider fake is unreachable: could not connect to 127.0.0.1";
    assert!(response.text.contains(unreachable), "{}", response.text);
    let end = fixture.recorder.end().await;
    assert_eq!((end.attempt, end.status), (4, None));
    assert_eq!(fixture.recorder.sent.load(Ordering::Relaxed), 0, "nothing was sent");
    assert!(end.outcome.is_err_and(|fault| fault.permanent && fault.message.ends_with("(after 4 tries)")));
}

#[tokio::test]
async fn an_invalid_base_url_is_reported_to_the_operator() {
    let provider = FakeProvider::start(Vec::new()).await;
    let mut fixture = GatewayFixture::to(provider, "ftp://nowhere".to_owned(), Setup::default()).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.status.as_u16(), 502);
    let fault = fixture.recorder.end().await.outcome.expect_err("no address");
    assert!(fault.permanent && fault.message.contains("base URL"), "{fault:?}");
}
