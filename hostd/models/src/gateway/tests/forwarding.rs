//! Calls that succeed: the request at the provider, the response at the agent, and the record.

use super::{
    fake_provider::{Action, chunk, last_chunk, send, stream, whole},
    fixture::{GatewayFixture, KEY, Setup, post, request},
    recorder::{CallEvent, PLACEHOLDER},
};
use crate::{Dialect, TokenUsage};
use http_body_util::BodyExt;
use hyper::Method;

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
const USAGE: &str =
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":5}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const MESSAGE: &str =
    r#"{"type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":4},"x":"é"}"#;
const ASK: &str = r#"{"model":"alias","max_tokens":100,"messages":[ ]}"#;

fn tokens(input: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage { input, output, ..TokenUsage::default() })
}

#[tokio::test]
async fn a_stream_is_relayed_byte_for_byte_and_its_usage_is_recorded() {
    let mut fixture = GatewayFixture::open(vec![stream(&[START, DELTA, USAGE, STOP])]).await;
    let response = fixture.post("/anthropic/v1/messages?beta=true", ASK).await;
    assert_eq!((response.status.as_u16(), response.broken), (200, false));
    assert_eq!(response.text, [START, DELTA, USAGE, STOP].concat());
    assert_eq!(response.headers["content-type"], "text/event-stream");
    let request = &fixture.provider.received()[0];
    assert_eq!(request.line, "POST /v9/messages?beta=true HTTP/1.1");
    assert_eq!(request.body, ASK.replace("alias", "real-model"));
    assert_eq!(request.header("x-api-key"), Some(KEY));
    assert_eq!(request.header("content-length").map(str::to_owned), Some(request.body.len().to_string()));
    let end = fixture.recorder.end().await;
    assert_eq!((end.attempt, end.status, end.tokens), (1, Some(200), tokens(11, 5)));
    assert!(end.outcome.is_ok() && !end.abandoned && end.first_byte_ms.is_some());
}

#[tokio::test]
async fn a_chat_that_streams_is_asked_for_its_usage() {
    let word = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":400}}\n\n";
    let setup = Setup { dialect: Some(Dialect::Openai), ..Setup::default() };
    let mut fixture = GatewayFixture::with(vec![stream(&[word, usage, "data: [DONE]\n\n"])], setup).await;
    let path = "/openai/v1/chat/completions?fields=choices&alt=proto";
    fixture.post(path, r#"{"model":"real-model","stream":true}"#).await;
    let request = &fixture.provider.received()[0];
    assert_eq!(request.line, "POST /v9/chat/completions HTTP/1.1");
    let body = r#"{"stream_options":{"include_usage":true},"model":"real-model","stream":true}"#;
    assert_eq!(request.body, body);
    assert_eq!(fixture.recorder.end().await.tokens, tokens(3, 400));
}

#[tokio::test]
async fn each_piece_is_relayed_as_it_comes() {
    let actions =
        vec![send(super::fake_provider::STREAM_HEAD), chunk(START), Action::Wait, chunk(DELTA), Action::Wait];
    let actions = [actions, vec![chunk(USAGE), chunk(STOP), last_chunk()]].concat();
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let mut body = fixture.begin(post("/anthropic/v1/messages", ASK)).await.into_body();
    // The provider waits for the test each time, so no piece can have been held back.
    for expected in [START, DELTA] {
        let frame = body.frame().await.expect("a piece").expect("whole");
        assert_eq!(frame.into_data().expect("data"), expected);
        fixture.provider.resume();
    }
    let rest = body.collect().await.expect("the rest").to_bytes();
    assert_eq!(rest, [USAGE, STOP].concat());
    assert_eq!(fixture.recorder.end().await.tokens, tokens(11, 5));
}

#[tokio::test]
async fn every_dialect_goes_to_its_path_with_its_credential() {
    let chat = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let responses = r#"{"status":"completed","usage":{"input_tokens":3,"output_tokens":4}}"#;
    let gemini = r#"{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4}}"#;
    let bearer = format!("Bearer {KEY}");
    let table = [
        (Dialect::Anthropic, "/anthropic/v1/messages", "/v9/messages", ("x-api-key", KEY), MESSAGE),
        (
            Dialect::Openai,
            "/openai/v1/chat/completions",
            "/v9/chat/completions",
            ("authorization", bearer.as_str()),
            chat,
        ),
        (
            Dialect::Openai,
            "/openai/v1/responses",
            "/v9/responses",
            ("authorization", bearer.as_str()),
            responses,
        ),
        (
            Dialect::Gemini,
            "/gemini/v1beta/models/alias:generateContent?key=x&alt=json",
            "/v9/models/real-model:generateContent",
            ("x-goog-api-key", KEY),
            gemini,
        ),
    ];
    for (dialect, path, target, (header, value), body) in table {
        let setup = Setup { dialect: Some(dialect), ..Setup::default() };
        let mut fixture = GatewayFixture::with(vec![whole("200 OK", "", body)], setup).await;
        let response = fixture.post(path, ASK).await;
        assert_eq!((response.status.as_u16(), response.text.as_str()), (200, body), "{path}");
        let request = &fixture.provider.received()[0];
        assert_eq!(request.line, format!("POST {target} HTTP/1.1"));
        assert_eq!(request.header(header), Some(value), "{path}");
        let shown = format!("{request:?}");
        assert!(!shown.contains(PLACEHOLDER), "the placeholder stays here: {shown}");
        assert_eq!(fixture.recorder.end().await.tokens, tokens(3, 4), "{path}");
    }
}

#[tokio::test]
async fn the_limit_of_a_request_is_lowered_to_what_is_left() {
    let setup = Setup { max_output_tokens: Some(9), ..Setup::default() };
    let mut fixture = GatewayFixture::with(vec![whole("200 OK", "", MESSAGE)], setup).await;
    assert_eq!(fixture.post("/anthropic/v1/messages", ASK).await.text, MESSAGE);
    let body = &fixture.provider.received()[0].body;
    assert_eq!(*body, r#"{"model":"real-model","max_tokens":9,"messages":[ ]}"#);
    let Some(CallEvent::Began(params)) = fixture.recorder.events().first().cloned() else {
        panic!("no call")
    };
    assert_eq!((params.max_output_tokens, params.streams), (Some(100), false));
}

#[tokio::test]
async fn connections_to_a_provider_are_used_again() {
    let response = || whole("200 OK", "", MESSAGE);
    let closes = [whole("200 OK", "", MESSAGE), vec![Action::Close]].concat();
    let replies = vec![response(), response(), closes, response(), vec![Action::Close], response()];
    let mut fixture = GatewayFixture::open(replies).await;
    for expected in [1, 1, 1] {
        fixture.post("/anthropic/v1/messages", ASK).await;
        fixture.recorder.last().await;
        assert_eq!(fixture.provider.connections(), expected);
    }
    // Closed while idle: noticed before or on use. The agent sees nothing of it either way.
    let response = fixture.post("/anthropic/v1/messages", ASK).await;
    assert_eq!(response.status.as_u16(), 200);
    assert_eq!(fixture.provider.connections(), 2);
    fixture.recorder.last().await;
    // Closed on use.
    let response = fixture.post("/anthropic/v1/messages", ASK).await;
    assert_eq!((response.status.as_u16(), response.text.as_str()), (200, MESSAGE));
    assert_eq!(fixture.provider.connections(), 3);
    let retried = fixture.recorder.events().iter().any(|event| matches!(event, CallEvent::Retrying { .. }));
    assert!(!retried, "it says nothing about the provider");
}

#[tokio::test]
async fn requests_that_hostd_answers_do_not_reach_a_provider() {
    let mut fixture = GatewayFixture::open(Vec::new()).await;
    let hello = fixture.send(request(Method::HEAD, "/anthropic/api/hello", &[], "")).await;
    assert_eq!((hello.status.as_u16(), hello.text.as_str()), (200, ""));
    let key = [("authorization", "Bearer slw-placeholder")];
    for (path, id) in [("/anthropic/v1/models", "/data/1/id"), ("/openai/v1/models", "/data/1/id")] {
        let response = fixture.send(request(Method::GET, path, &key, "")).await;
        let list: serde_json::Value = serde_json::from_str(&response.text).expect("JSON");
        assert_eq!(list.pointer(id).and_then(|id| id.as_str()), Some("other"), "{path}: {list}");
    }
    let denied = fixture.send(request(Method::GET, "/openai/v1/models", &[], "")).await;
    assert_eq!(denied.status.as_u16(), 401);
    assert!(fixture.provider.received().is_empty() && fixture.recorder.events().is_empty());
}

#[tokio::test]
async fn to_count_tokens_uses_none() {
    let reply = whole("200 OK", "", r#"{"input_tokens":2095}"#);
    let missing = whole("404 Not Found", "", r#"{"error":{"message":"no such path"}}"#);
    let mut fixture = GatewayFixture::open(vec![reply, missing]).await;
    let response = fixture.post("/anthropic/v1/messages/count_tokens", ASK).await;
    assert_eq!(response.text, r#"{"input_tokens":2095}"#);
    assert_eq!(fixture.provider.received()[0].line, "POST /v9/messages/count_tokens HTTP/1.1");
    let end = fixture.recorder.end().await;
    assert_eq!((end.tokens, end.outcome.is_ok()), (Some(TokenUsage::default()), true));
    let response = fixture.post("/anthropic/v1/messages/count_tokens", ASK).await;
    assert_eq!(response.status.as_u16(), 404);
    let end = fixture.recorder.end().await;
    assert!(end.abandoned, "a task is not judged by it");
    assert!(end.outcome.is_err_and(|fault| !fault.permanent));
}
