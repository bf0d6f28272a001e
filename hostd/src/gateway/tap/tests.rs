//! What is read from answers of each kind, whole, cut up and broken.

use super::{Form, Tap};
use crate::models::{ModelApi, TokenUsage};
use proptest::prelude::*;

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":1000,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, wörld\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const CHAT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello wo\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":60},\"completion_tokens_details\":{\"reasoning_tokens\":4}}}\n\n",
    "data: [DONE]\n\n",
);
const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"usage\":null,\"error\":null}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello wo\",\"obfuscation\":\"xxxxxxxx\"}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"error\":null,\"usage\":{\"input_tokens\":80,\"input_tokens_details\":{\"cached_tokens\":30},\"output_tokens\":12,\"output_tokens_details\":{\"reasoning_tokens\":5}}}}\n\n",
);
const GENERATE: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello wo\"}],\"role\":\"model\"}}],\"usageMetadata\":{\"promptTokenCount\":40,\"candidatesTokenCount\":2}}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":40,\"candidatesTokenCount\":6,\"thoughtsTokenCount\":10,\"cachedContentTokenCount\":15}}\r\n\r\n",
);

const STREAMS: [(ModelApi, &str); 4] = [
    (ModelApi::Messages, MESSAGES),
    (ModelApi::Chat, CHAT),
    (ModelApi::Responses, RESPONSES),
    (ModelApi::Generate, GENERATE),
];

fn tokens(input: u64, output: u64, cache: (u64, u64), reasoning: u64) -> TokenUsage {
    TokenUsage { input, output, cache_read: cache.0, cache_write: cache.1, reasoning, estimated: false }
}

fn reckoned(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, estimated: true, ..TokenUsage::default() }
}

fn told(speech: ModelApi) -> TokenUsage {
    match speech {
        ModelApi::Messages => tokens(25, 15, (1000, 7), 0),
        ModelApi::Chat => tokens(40, 9, (60, 0), 4),
        ModelApi::Responses => tokens(50, 12, (30, 0), 5),
        ModelApi::Generate => tokens(25, 16, (15, 0), 10),
    }
}

fn read(speech: ModelApi, form: Form, pieces: &[&[u8]]) -> Tap {
    let mut tap = Tap::new(speech, form);
    for piece in pieces {
        tap.read(piece);
    }
    tap.finish();
    tap
}

#[test]
fn usage_is_what_the_provider_tells() {
    for (speech, text) in STREAMS {
        let tap = read(speech, Form::Events, &[text.as_bytes()]);
        assert_eq!(tap.tokens(999), told(speech), "{speech:?}");
        assert!(tap.is_complete() && tap.trouble().is_none(), "{speech:?}");
        assert!((2..=4).contains(&tap.output_tokens()), "{speech:?}: {}", tap.output_tokens());
    }
}

#[test]
fn answers_in_one_piece_tell_the_same() {
    let table = [
        (
            ModelApi::Messages,
            r#"{"type":"message","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":25,"output_tokens":15,"cache_read_input_tokens":1000,"cache_creation_input_tokens":7}}"#,
        ),
        (
            ModelApi::Chat,
            r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":4}}}"#,
        ),
        (
            ModelApi::Responses,
            r#"{"status":"completed","error":null,"usage":{"input_tokens":80,"input_tokens_details":{"cached_tokens":30},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":5}}}"#,
        ),
        (
            ModelApi::Generate,
            r#"[{"usageMetadata":{"promptTokenCount":1}},{"usageMetadata":{"promptTokenCount":40,"candidatesTokenCount":6,"thoughtsTokenCount":10,"cachedContentTokenCount":15}}]"#,
        ),
    ];
    for (speech, body) in table {
        let tap = read(speech, Form::Whole, &[body.as_bytes()]);
        assert_eq!(tap.tokens(999), told(speech), "{speech:?}");
        assert!(tap.is_complete() && tap.trouble().is_none(), "{speech:?}");
        let cut = read(speech, Form::Whole, &[&body.as_bytes()[..body.len() - 3]]);
        assert!(!cut.is_complete(), "{speech:?}");
    }
}

#[test]
fn an_error_in_the_middle_is_seen() {
    let table = [
        (
            ModelApi::Messages,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            ("Overloaded", "overloaded_error"),
        ),
        (
            ModelApi::Chat,
            "data: {\"error\":{\"message\":\"Provider gone\",\"code\":502}}\n\n",
            ("Provider gone", ""),
        ),
        (
            ModelApi::Responses,
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"Sorry\"}}}\n\n",
            ("Sorry", "server_error"),
        ),
        (
            ModelApi::Responses,
            "event: error\ndata: {\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"Used up\"}\n\n",
            ("Used up", "insufficient_quota"),
        ),
        (
            ModelApi::Generate,
            "data: {\"error\":{\"code\":503,\"message\":\"Busy\",\"status\":\"UNAVAILABLE\"}}\n\n",
            ("Busy", "UNAVAILABLE"),
        ),
        (ModelApi::Chat, "event: error\ndata: plain words\n\n", ("plain words", "")),
        (ModelApi::Responses, "data: {\"type\":\"response.failed\"}\n\n", ("an error without a message", "")),
    ];
    for (speech, text, (words, kind)) in table {
        let tap = read(speech, Form::Events, &[text.as_bytes()]);
        let trouble = tap.trouble().expect(text);
        assert_eq!((trouble.words.as_str(), trouble.kind.as_str()), (words, kind), "{text}");
    }
    let tap = read(ModelApi::Chat, Form::Whole, &[br#"{"error":{"message":"no"}}"#]);
    assert_eq!(tap.trouble().map(|trouble| trouble.words.as_str()), Some("no"));
}

#[test]
fn what_is_cut_is_known_to_be_and_is_reckoned() {
    for (speech, text) in STREAMS {
        // Before the last event but one.
        let end = match speech {
            ModelApi::Messages => text.find("event: message_delta"),
            ModelApi::Chat => text.find("data: {\"choices\":[{\"index\":0,\"delta\":{},"),
            ModelApi::Responses => text.find("event: response.completed"),
            ModelApi::Generate => {
                text.find("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}")
            }
        };
        let tap = read(speech, Form::Events, &[&text.as_bytes()[..end.expect("there")]]);
        assert!(!tap.is_complete(), "{speech:?}");
        let found = tap.tokens(999);
        assert!(found.estimated, "{speech:?}");
        assert!((2..=4).contains(&found.output), "{speech:?}: {found:?}");
    }
    let asked_for_none = CHAT.replace("\"usage\":{\"prompt", "\"other\":{\"prompt");
    let tap = read(ModelApi::Chat, Form::Events, &[asked_for_none.as_bytes()]);
    assert!(tap.is_complete());
    assert_eq!(tap.tokens(999), reckoned(999, 2));
}

#[test]
fn what_cannot_be_read_is_reckoned_and_not_called_cut() {
    let tap = read(ModelApi::Chat, Form::Other, &[&[0; 400]]);
    assert!(tap.is_complete());
    assert_eq!(tap.tokens(7), reckoned(7, 100));
    let long = vec![b' '; super::WHOLE_MAX_BYTES + 1];
    let tap = read(ModelApi::Chat, Form::Whole, &[&long]);
    assert!(tap.is_complete() && tap.tokens(7).estimated);
}

#[test]
fn forms_go_by_the_type() {
    for (kind, form) in [
        ("text/event-stream", Form::Events),
        ("Text/Event-Stream; charset=utf-8", Form::Events),
        ("application/json; charset=UTF-8", Form::Whole),
        ("text/html", Form::Other),
        ("", Form::Other),
    ] {
        assert_eq!(Form::of(kind), form, "{kind}");
    }
}

fn speeches() -> impl Strategy<Value = (ModelApi, &'static str)> {
    proptest::sample::select(STREAMS.to_vec())
}

proptest! {
    #[test]
    fn however_it_is_cut_up_the_same_is_read(
        (speech, text) in speeches(), size in 1_usize..64, at in 0_usize..2000,
    ) {
        let bytes = text.as_bytes();
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        let pieces: Vec<&[u8]> = std::iter::once(head).chain(tail.chunks(size)).collect();
        let tap = read(speech, Form::Events, &pieces);
        prop_assert_eq!(tap.tokens(0), told(speech));
        prop_assert!(tap.is_complete() && tap.trouble().is_none());
    }

    /// Whatever a provider sends: it is read to the end, in bounded memory, and nothing breaks.
    #[test]
    fn nothing_that_is_sent_breaks_it(
        (speech, text) in speeches(), noise in proptest::collection::vec(any::<u8>(), 0..64),
        at in 0_usize..2000, drop in 0_usize..50, form in 0_u8..2,
    ) {
        let mut bytes = text.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + drop).min(bytes.len());
        bytes.splice(at..end, noise);
        let form = if form == 0 { Form::Events } else { Form::Whole };
        let tap = read(speech, form, &[&bytes]);
        let found = tap.tokens(0);
        prop_assert!(found.cache_read <= 100_000_000 || found.input < u64::MAX);
        prop_assert!(tap.output_tokens() <= bytes.len() as u64);
    }

    #[test]
    fn numbers_of_any_size_are_summed_without_overflow(
        speech in proptest::sample::select(STREAMS.to_vec()), a: u64, b: u64, c: u64,
    ) {
        let text = format!(
            r#"{{"type":"message","usage":{{"input_tokens":{a},"output_tokens":{b},"prompt_tokens":{a},"completion_tokens":{b},"prompt_tokens_details":{{"cached_tokens":{c}}},"input_tokens_details":{{"cached_tokens":{c}}}}},"usageMetadata":{{"promptTokenCount":{a},"thoughtsTokenCount":{b},"candidatesTokenCount":{c},"toolUsePromptTokenCount":{c}}}}}"#,
        );
        let tap = read(speech.0, Form::Whole, &[text.as_bytes()]);
        prop_assert!(tap.is_complete());
        prop_assert!(!tap.tokens(1).estimated);
    }
}

#[test]
fn an_event_that_is_too_long_leaves_the_end_unknown_and_its_usage_reckoned() {
    let long = "x".repeat(crate::gateway::limits::EVENT_MAX_BYTES);
    let item = format!("data: {{\"type\":\"response.completed\",\"response\":\"{long}\"}}\n\n");
    let tap = read(ModelApi::Responses, Form::Events, &[item.as_bytes()]);
    assert!(tap.is_complete() && tap.trouble().is_none(), "not known to be cut");
    assert_eq!(tap.tokens(7), reckoned(7, 0));
    // One that is long is read all the same.
    let text = "y".repeat(2 << 20);
    let done =
        "{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2},";
    let item = format!("data: {done}\"output\":\"{text}\"}}}}\n\n");
    let tap = read(ModelApi::Responses, Form::Events, &[item.as_bytes()]);
    assert!(tap.is_complete());
    assert_eq!(tap.tokens(7), tokens(1, 2, (0, 0), 0));
}

#[test]
fn what_is_told_has_a_bound() {
    let most = crate::gateway::limits::TOLD_MAX_TOKENS;
    let huge =
        format!("{{\"input_tokens\":{0},\"output_tokens\":{0},\"cache_read_input_tokens\":{0}}}", u64::MAX);
    let whole = format!("{{\"type\":\"message\",\"content\":[],\"usage\":{huge}}}");
    let tap = read(ModelApi::Messages, Form::Whole, &[whole.as_bytes()]);
    assert_eq!(tap.tokens(7), tokens(most, most, (most, 0), 0));
}
