//! Responses that fail in the middle, and agents that disconnect.

use super::{
    fake_provider::{Action, STREAM_HEAD, chunk, last_chunk, send, stream, whole},
    fixture::{GatewayFixture, KEY, Setup, post, timeouts},
    recorder::CallEvent,
};
use crate::{Dialect, Fault, gateway::limits::ProviderTimeouts};
use http_body_util::BodyExt;
use std::time::Duration;

const ASK: &str = r#"{"model":"m","max_tokens":1,"stream":true}"#;
const PATH: &str = "/anthropic/v1/messages";
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn delta(words: &str) -> String {
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\"text\":\"{words}\"}}}}\n\n"
    )
}

/// Long enough for the pieces that do come, also on a slow machine.
const IDLE: Duration = Duration::from_secs(1);

/// A gateway with a short idle timeout.
fn short_idle() -> Setup {
    let timeouts = ProviderTimeouts { idle: IDLE, ..timeouts() };
    Setup { timeouts: Some(timeouts), ..Setup::default() }
}

async fn fault(fixture: &GatewayFixture) -> Fault {
    fixture.recorder.end().await.outcome.expect_err("a fault")
}

#[tokio::test]
async fn a_stream_that_stops_short_is_a_fault() {
    // With an orderly end of the body, and without.
    let ended = vec![send(STREAM_HEAD), chunk(START), last_chunk()];
    let cut = vec![send(STREAM_HEAD), chunk(START), Action::Close];
    for (actions, broken) in [(ended, false), (cut, true)] {
        let mut fixture = GatewayFixture::open(vec![actions]).await;
        let response = fixture.post(PATH, ASK).await;
        assert_eq!((response.text.as_str(), response.broken), (START, broken), "as it came");
        let found = fault(&fixture).await;
        assert!(!found.permanent && found.status == Some(200), "{found:?}");
        let tokens = fixture.recorder.end().await.tokens.expect("estimated");
        assert_eq!((tokens.input, tokens.estimated), (11, true));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_a_fault() {
    let event = format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"api_error\",\"message\":\"gone {KEY}\"}}}}\n\n"
    );
    let mut fixture = GatewayFixture::open(vec![stream(&[START, &event.replace(KEY, "x")])]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.text, format!("{START}{}", event.replace(KEY, "x")));
    assert_eq!(fault(&fixture).await.message, "gone x");
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_ended_with_an_error_of_its_dialect() {
    let half = &delta("never ends")[..40];
    let table = [
        (Dialect::Anthropic, PATH, START.to_owned(), "event: error\ndata: {"),
        (Dialect::Anthropic, PATH, half.to_owned(), "\n\nevent: error\ndata: {"),
        (Dialect::Openai, "/openai/v1/chat/completions", "data: {}\n\n".to_owned(), "data: {\"error\""),
        (Dialect::Openai, "/openai/v1/responses", "data: {}\n\n".to_owned(), "event: error\ndata: {"),
        (
            Dialect::Gemini,
            "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
            "data: {}\n\n".to_owned(),
            "data: {\"error\"",
        ),
    ];
    for (dialect, path, said, expected) in table {
        let setup = Setup { dialect: Some(dialect), ..short_idle() };
        let actions = vec![send(STREAM_HEAD), chunk(&said), Action::Hang];
        let mut fixture = GatewayFixture::with(vec![actions], setup).await;
        let response = fixture.post(path, ASK).await;
        let last = response.text.strip_prefix(&said).expect("what came is passed on");
        assert!(last.starts_with(expected) && last.ends_with("\n\n"), "{path}: {last}");
        assert!(last.contains("sent nothing for") && !response.broken, "{path}: {last}");
        let found = fault(&fixture).await;
        assert!(!found.permanent && found.message.contains("sent nothing for"), "{found:?}");
        // The connection to the provider is closed too.
        fixture.provider.disconnected().await;
    }
}

#[tokio::test]
async fn a_json_response_that_falls_silent_is_broken_off() {
    let actions = vec![
        send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"),
        Action::Hang,
    ];
    let mut fixture = GatewayFixture::with(vec![actions], short_idle()).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!((response.text.as_str(), response.broken), ("{", true));
    assert!(fault(&fixture).await.message.contains("sent nothing for"));
}

#[tokio::test]
async fn a_response_that_never_begins_is_given_up() {
    let timeouts = ProviderTimeouts { first_byte: IDLE, ..timeouts() };
    let setup = Setup { timeouts: Some(timeouts), ..Setup::default() };
    // No response at all, and a head without a body.
    for actions in [vec![Action::Hang], vec![send(STREAM_HEAD), Action::Hang]] {
        let setup = Setup { timeouts: setup.timeouts, ..Setup::default() };
        let mut fixture = GatewayFixture::with(vec![actions], setup).await;
        let response = fixture.post(PATH, ASK).await;
        assert_eq!(response.status.as_u16(), 504);
        assert!(response.text.contains("did not begin its response"), "{}", response.text);
        assert!(fault(&fixture).await.permanent);
        fixture.provider.disconnected().await;
    }
}

#[tokio::test]
async fn an_agent_that_disconnects_ends_the_call() {
    let actions = vec![send(STREAM_HEAD), chunk(START), chunk(&delta("hello")), Action::Hang];
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let mut response = fixture.begin(post(PATH, ASK)).await;
    response.body_mut().frame().await.expect("a piece").expect("whole");
    drop(response);
    fixture.provider.disconnected().await;
    let end = fixture.recorder.end().await;
    assert!(end.abandoned && end.outcome.is_ok());
    let tokens = end.tokens.expect("what is known");
    assert_eq!((tokens.input, tokens.estimated), (11, true));
}

#[tokio::test]
async fn an_agent_that_disconnects_before_the_response_ends_the_call() {
    let mut fixture = GatewayFixture::open(vec![vec![Action::Hang]]).await;
    let received = fixture.provider.request_received();
    tokio::select! {
        response = fixture.post(PATH, ASK) => panic!("no answer comes: {}", response.text),
        () = received => {}
    }
    fixture.disconnect();
    fixture.provider.disconnected().await;
    assert_eq!(fixture.recorder.last().await, CallEvent::Dropped);
}

#[tokio::test]
async fn a_call_ends_with_its_task_whether_or_not_the_agent_reads() {
    // More than the buffers between the two hold, so the body is not polled any more.
    let long = delta(&"words ".repeat(10_000));
    let mut actions = vec![send(STREAM_HEAD), chunk(START)];
    actions.extend((0..400).map(|_| chunk(&long)));
    actions.push(Action::Hang);
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let response = fixture.begin(post(PATH, ASK)).await;
    fixture.recorder.task_ended.cancel();
    fixture.provider.disconnected().await;
    assert!(fixture.recorder.end().await.abandoned);
    drop(response);
}

#[tokio::test]
async fn a_call_without_an_answer_ends_with_its_task() {
    let mut fixture = GatewayFixture::open(vec![vec![Action::Hang]]).await;
    let task_ended = fixture.recorder.task_ended.clone();
    let received = fixture.provider.request_received();
    let task = async {
        received.await;
        task_ended.cancel();
    };
    let (response, ()) = tokio::join!(fixture.post(PATH, ASK), task);
    assert_eq!(response.status.as_u16(), 401, "{}", response.text);
    fixture.provider.disconnected().await;
    assert_eq!(fixture.recorder.last().await, CallEvent::Dropped);
}

#[tokio::test]
async fn an_agent_may_disconnect_after_the_end_of_a_response() {
    let actions = vec![send(STREAM_HEAD), chunk(START), chunk(STOP), Action::Hang];
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let mut response = fixture.begin(post(PATH, ASK)).await;
    let mut received = Vec::new();
    while received.len() < START.len() + STOP.len() {
        let frame = response.body_mut().frame().await.expect("a piece").expect("whole");
        received.extend_from_slice(&frame.into_data().expect("data"));
    }
    assert!(fixture.recorder.events().contains(&CallEvent::Completed), "before its end");
    drop(response);
    let end = fixture.recorder.end().await;
    assert!(!end.abandoned && end.outcome.is_ok() && !end.tokens.expect("told").estimated);
}

#[tokio::test]
async fn an_agent_may_disconnect_after_an_error_and_it_is_a_fault_all_the_same() {
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"revoked\"}}\n\n";
    let actions = vec![send(STREAM_HEAD), chunk(START), chunk(event), Action::Hang];
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let mut response = fixture.begin(post(PATH, ASK)).await;
    let mut received = 0;
    while received < START.len() + event.len() {
        let frame = response.body_mut().frame().await.expect("a piece").expect("whole");
        received += frame.into_data().expect("data").len();
    }
    drop(response);
    let end = fixture.recorder.end().await;
    assert!(!end.abandoned);
    assert_eq!(end.outcome, Err(Fault { status: Some(200), message: "revoked".to_owned(), permanent: true }));
}

#[tokio::test]
async fn a_final_event_with_an_error_is_no_success() {
    let event = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"fell over\"}}}\n\n";
    let begins = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hm\"}\n\n";
    let actions = vec![send(STREAM_HEAD), chunk(begins), chunk(event), Action::Close];
    let setup = Setup { dialect: Some(Dialect::Openai), ..Setup::default() };
    let mut fixture = GatewayFixture::with(vec![actions], setup).await;
    fixture.post("/openai/v1/responses", ASK).await;
    assert!(fault(&fixture).await.message.contains("fell over"));
    assert!(!fixture.recorder.events().contains(&CallEvent::Completed));
}

#[tokio::test]
async fn a_provider_may_fall_silent_or_break_off_after_the_end_of_a_response() {
    for last in [Action::Hang, Action::Close] {
        let actions = vec![send(STREAM_HEAD), chunk(START), chunk(STOP), last];
        let mut fixture = GatewayFixture::with(vec![actions], short_idle()).await;
        let response = fixture.post(PATH, ASK).await;
        assert_eq!((response.text, response.broken), ([START, STOP].concat(), false));
        assert_eq!(fixture.recorder.end().await.outcome, Ok(()));
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_in_the_middle_ends_the_response() {
    let long = delta(&"words ".repeat(100));
    let mut actions = vec![send(STREAM_HEAD), chunk(START)];
    actions.extend((0..4).map(|_| chunk(&long)));
    actions.push(Action::Hang);
    let setup = Setup { output_budget: Some(200), ..Setup::default() };
    let mut fixture = GatewayFixture::with(vec![actions], setup).await;
    let response = fixture.post(PATH, ASK).await;
    assert!(
        response.text.contains("event: error") && response.text.contains("is used up"),
        "{}",
        response.text
    );
    let found = fault(&fixture).await;
    assert!(!found.permanent, "the budget decides about the task, not this fault");
    fixture.provider.disconnected().await;
}

#[tokio::test]
async fn a_key_never_gets_through_whole_even_where_all_is_well() {
    let (one, two) = KEY.split_at(20);
    let actions =
        vec![send(STREAM_HEAD), chunk(&format!("data: {one}")), chunk(&format!("{two}\n\n")), Action::Hang];
    let mut fixture = GatewayFixture::open(vec![actions]).await;
    let response = fixture.post(PATH, ASK).await;
    assert!(!response.text.contains(KEY) && response.text.contains("event: error"), "{}", response.text);
    assert!(fault(&fixture).await.permanent);
    let mut fixture = GatewayFixture::open(vec![whole("200 OK", "", &format!("{{\"a\":\"{KEY}\"}}"))]).await;
    let response = fixture.post(PATH, ASK).await;
    assert!(response.broken && !response.text.contains(KEY), "{}", response.text);
}

#[tokio::test]
async fn a_compressed_response_is_not_relayed() {
    let gzip = whole("200 OK", "content-encoding: gzip\r\n", "whatever");
    let mut fixture = GatewayFixture::open(vec![gzip]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.status.as_u16(), 502);
    assert!(fault(&fixture).await.permanent);
    let gzip = whole("401 Unauthorized", "content-encoding: gzip\r\n", KEY);
    let mut fixture = GatewayFixture::open(vec![gzip]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!(response.status.as_u16(), 401);
    assert!(response.text.contains("the provider fake answered 401") && !response.text.contains(KEY));
}

#[tokio::test]
async fn heads_and_errors_have_bounds() {
    let huge = vec![send(&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100 << 10))), Action::Close];
    let mut fixture = GatewayFixture::open(vec![huge; 4]).await;
    assert_eq!(fixture.post(PATH, ASK).await.status.as_u16(), 502);
    assert!(fault(&fixture).await.permanent);
    let long = whole("400 Bad Request", "", &"z".repeat(1 << 20));
    let mut fixture = GatewayFixture::open(vec![long]).await;
    let response = fixture.post(PATH, ASK).await;
    assert_eq!((response.status.as_u16(), response.text.len() < 500), (400, true), "{}", response.text.len());
}
