//! Answers that go wrong in the middle, and agents that go away.

use super::{
    front::{Front, KEY, Setup, patience, post},
    provider::{Act, STREAM_HEAD, chunk, last_chunk, say, stream, whole},
    trial::Told,
};
use crate::{
    gateway::limits::Patience,
    models::{Dialect, Fault},
};
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

/// Long enough for whatever does come, on a slow machine too.
const SILENCE: Duration = Duration::from_secs(1);

/// Nobody waits for long.
fn short() -> Setup {
    let patience = Patience { idle: SILENCE, ..patience() };
    Setup { patience: Some(patience), ..Setup::default() }
}

async fn fault(front: &Front) -> Fault {
    front.trial.end().await.outcome.expect_err("a fault")
}

#[tokio::test]
async fn a_stream_that_stops_short_is_a_fault() {
    // In an orderly way, and not.
    let ended = vec![say(STREAM_HEAD), chunk(START), last_chunk()];
    let cut = vec![say(STREAM_HEAD), chunk(START), Act::Close];
    for (acts, broken) in [(ended, false), (cut, true)] {
        let mut front = Front::open(vec![acts]).await;
        let answer = front.post(PATH, ASK).await;
        assert_eq!((answer.text.as_str(), answer.broken), (START, broken), "as it came");
        let found = fault(&front).await;
        assert!(!found.permanent && found.status == Some(200), "{found:?}");
        let tokens = front.trial.end().await.tokens.expect("reckoned");
        assert_eq!((tokens.input, tokens.estimated), (11, true));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_a_fault() {
    let event = format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"api_error\",\"message\":\"gone {KEY}\"}}}}\n\n"
    );
    let mut front = Front::open(vec![stream(&[START, &event.replace(KEY, "x")])]).await;
    let answer = front.post(PATH, ASK).await;
    assert_eq!(answer.text, format!("{START}{}", event.replace(KEY, "x")));
    assert_eq!(fault(&front).await.message, "gone x");
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_ended_in_words_that_the_agent_knows() {
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
        let setup = Setup { dialect: Some(dialect), ..short() };
        let acts = vec![say(STREAM_HEAD), chunk(&said), Act::Hang];
        let mut front = Front::with(vec![acts], setup).await;
        let answer = front.post(path, ASK).await;
        let last = answer.text.strip_prefix(&said).expect("what came is passed on");
        assert!(last.starts_with(expected) && last.ends_with("\n\n"), "{path}: {last}");
        assert!(last.contains("said nothing for") && !answer.broken, "{path}: {last}");
        let found = fault(&front).await;
        assert!(!found.permanent && found.message.contains("said nothing for"), "{found:?}");
        // The provider is not kept waiting either.
        front.provider.left().await;
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_that_falls_silent_is_broken_off() {
    let acts = vec![
        say("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"),
        Act::Hang,
    ];
    let mut front = Front::with(vec![acts], short()).await;
    let answer = front.post(PATH, ASK).await;
    assert_eq!((answer.text.as_str(), answer.broken), ("{", true));
    assert!(fault(&front).await.message.contains("said nothing for"));
}

#[tokio::test]
async fn one_that_never_begins_is_given_up() {
    let patience = Patience { first_byte: SILENCE, ..patience() };
    let setup = Setup { patience: Some(patience), ..Setup::default() };
    // Nothing at all; and a head with nothing behind it.
    for acts in [vec![Act::Hang], vec![say(STREAM_HEAD), Act::Hang]] {
        let setup = Setup { patience: setup.patience, ..Setup::default() };
        let mut front = Front::with(vec![acts], setup).await;
        let answer = front.post(PATH, ASK).await;
        assert_eq!(answer.status.as_u16(), 504);
        assert!(answer.text.contains("did not begin its answer"), "{}", answer.text);
        assert!(fault(&front).await.permanent);
        front.provider.left().await;
    }
}

#[tokio::test]
async fn an_agent_that_goes_away_ends_the_call() {
    let acts = vec![say(STREAM_HEAD), chunk(START), chunk(&delta("hello")), Act::Hang];
    let mut front = Front::open(vec![acts]).await;
    let mut response = front.begin(post(PATH, ASK)).await;
    response.body_mut().frame().await.expect("a piece").expect("whole");
    drop(response);
    front.provider.left().await;
    let end = front.trial.end().await;
    assert!(end.abandoned && end.outcome.is_ok());
    let tokens = end.tokens.expect("what is known");
    assert_eq!((tokens.input, tokens.estimated), (11, true));
}

#[tokio::test]
async fn an_agent_that_goes_away_before_the_answer_ends_the_call() {
    let mut front = Front::open(vec![vec![Act::Hang]]).await;
    let asked = front.provider.was_asked();
    tokio::select! {
        answer = front.post(PATH, ASK) => panic!("no answer comes: {}", answer.text),
        () = asked => {}
    }
    front.leave();
    front.provider.left().await;
    assert_eq!(front.trial.last().await, Told::Dropped);
}

#[tokio::test]
async fn a_call_ends_with_its_task_whether_or_not_the_agent_reads() {
    // More than fits between the two, so nobody asks for more of it.
    let long = delta(&"words ".repeat(10_000));
    let mut acts = vec![say(STREAM_HEAD), chunk(START)];
    acts.extend((0..400).map(|_| chunk(&long)));
    acts.push(Act::Hang);
    let mut front = Front::open(vec![acts]).await;
    let response = front.begin(post(PATH, ASK)).await;
    front.trial.over.cancel();
    front.provider.left().await;
    assert!(front.trial.end().await.abandoned);
    drop(response);
}

#[tokio::test]
async fn a_call_without_an_answer_ends_with_its_task() {
    let mut front = Front::open(vec![vec![Act::Hang]]).await;
    let over = front.trial.over.clone();
    let asked = front.provider.was_asked();
    let task = async {
        asked.await;
        over.cancel();
    };
    let (answer, ()) = tokio::join!(front.post(PATH, ASK), task);
    assert_eq!(answer.status.as_u16(), 401, "{}", answer.text);
    front.provider.left().await;
    assert_eq!(front.trial.last().await, Told::Dropped);
}

#[tokio::test]
async fn who_has_heard_the_last_word_may_go() {
    let acts = vec![say(STREAM_HEAD), chunk(START), chunk(STOP), Act::Hang];
    let mut front = Front::open(vec![acts]).await;
    let mut response = front.begin(post(PATH, ASK)).await;
    let mut heard = Vec::new();
    while heard.len() < START.len() + STOP.len() {
        let frame = response.body_mut().frame().await.expect("a piece").expect("whole");
        heard.extend_from_slice(&frame.into_data().expect("data"));
    }
    assert!(front.trial.told().contains(&Told::HeardOut), "before its end");
    drop(response);
    let end = front.trial.end().await;
    assert!(!end.abandoned && end.outcome.is_ok() && !end.tokens.expect("told").estimated);
}

#[tokio::test]
async fn who_has_heard_an_error_may_go_and_it_is_a_fault_all_the_same() {
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"revoked\"}}\n\n";
    let acts = vec![say(STREAM_HEAD), chunk(START), chunk(event), Act::Hang];
    let mut front = Front::open(vec![acts]).await;
    let mut response = front.begin(post(PATH, ASK)).await;
    let mut heard = 0;
    while heard < START.len() + event.len() {
        let frame = response.body_mut().frame().await.expect("a piece").expect("whole");
        heard += frame.into_data().expect("data").len();
    }
    drop(response);
    let end = front.trial.end().await;
    assert!(!end.abandoned);
    assert_eq!(end.outcome, Err(Fault { status: Some(200), message: "revoked".to_owned(), permanent: true }));
}

#[tokio::test]
async fn a_last_word_that_tells_of_an_error_is_no_answer() {
    let event = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"fell over\"}}}\n\n";
    let begins = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hm\"}\n\n";
    let acts = vec![say(STREAM_HEAD), chunk(begins), chunk(event), Act::Close];
    let setup = Setup { dialect: Some(Dialect::Openai), ..Setup::default() };
    let mut front = Front::with(vec![acts], setup).await;
    front.post("/openai/v1/responses", ASK).await;
    assert!(fault(&front).await.message.contains("fell over"));
    assert!(!front.trial.told().contains(&Told::HeardOut));
}

#[tokio::test]
async fn a_provider_that_has_said_its_last_word_may_fall_silent_or_break_off() {
    for last in [Act::Hang, Act::Close] {
        let acts = vec![say(STREAM_HEAD), chunk(START), chunk(STOP), last];
        let mut front = Front::with(vec![acts], short()).await;
        let answer = front.post(PATH, ASK).await;
        assert_eq!((answer.text, answer.broken), ([START, STOP].concat(), false));
        assert_eq!(front.trial.end().await.outcome, Ok(()));
    }
}

#[tokio::test]
async fn what_is_used_up_in_the_middle_ends_there() {
    let long = delta(&"words ".repeat(100));
    let mut acts = vec![say(STREAM_HEAD), chunk(START)];
    acts.extend((0..4).map(|_| chunk(&long)));
    acts.push(Act::Hang);
    let setup = Setup { output_budget: Some(200), ..Setup::default() };
    let mut front = Front::with(vec![acts], setup).await;
    let answer = front.post(PATH, ASK).await;
    assert!(answer.text.contains("event: error") && answer.text.contains("is used up"), "{}", answer.text);
    let found = fault(&front).await;
    assert!(!found.permanent, "whoever refused has judged it");
    front.provider.left().await;
}

#[tokio::test]
async fn a_key_never_gets_through_whole_even_where_all_is_well() {
    let (one, two) = KEY.split_at(20);
    let acts =
        vec![say(STREAM_HEAD), chunk(&format!("data: {one}")), chunk(&format!("{two}\n\n")), Act::Hang];
    let mut front = Front::open(vec![acts]).await;
    let answer = front.post(PATH, ASK).await;
    assert!(!answer.text.contains(KEY) && answer.text.contains("event: error"), "{}", answer.text);
    assert!(fault(&front).await.permanent);
    let mut front = Front::open(vec![whole("200 OK", "", &format!("{{\"a\":\"{KEY}\"}}"))]).await;
    let answer = front.post(PATH, ASK).await;
    assert!(answer.broken && !answer.text.contains(KEY), "{}", answer.text);
}

#[tokio::test]
async fn what_cannot_be_read_is_not_passed_on() {
    let gzip = whole("200 OK", "content-encoding: gzip\r\n", "whatever");
    let mut front = Front::open(vec![gzip]).await;
    let answer = front.post(PATH, ASK).await;
    assert_eq!(answer.status.as_u16(), 502);
    assert!(fault(&front).await.permanent);
    let gzip = whole("401 Unauthorized", "content-encoding: gzip\r\n", KEY);
    let mut front = Front::open(vec![gzip]).await;
    let answer = front.post(PATH, ASK).await;
    assert_eq!(answer.status.as_u16(), 401);
    assert!(answer.text.contains("the provider fake answered 401") && !answer.text.contains(KEY));
}

#[tokio::test]
async fn heads_and_errors_have_bounds() {
    let huge = vec![say(&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100 << 10))), Act::Close];
    let mut front = Front::open(vec![huge; 4]).await;
    assert_eq!(front.post(PATH, ASK).await.status.as_u16(), 502);
    assert!(fault(&front).await.permanent);
    let long = whole("400 Bad Request", "", &"z".repeat(1 << 20));
    let mut front = Front::open(vec![long]).await;
    let answer = front.post(PATH, ASK).await;
    assert_eq!((answer.status.as_u16(), answer.text.len() < 500), (400, true), "{}", answer.text.len());
}
