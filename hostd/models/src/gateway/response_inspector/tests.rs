//! Responses of each dialect: complete, split and truncated.

use super::{BodyFormat, ResponseInspector};
use crate::{TokenUsage, gateway::dialect::ModelApi};
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

/// A stream, the usage that it reports, and the beginning of its last event but one.
#[derive(Debug, Clone, Copy)]
struct Stream {
    api: ModelApi,
    text: &'static str,
    usage: TokenUsage,
    last_but_one: &'static str,
}

const STREAMS: [Stream; 4] = [
    Stream {
        api: ModelApi::Messages,
        text: MESSAGES,
        usage: tokens(25, 15, (1000, 7), 0),
        last_but_one: "event: message_delta",
    },
    Stream {
        api: ModelApi::Chat,
        text: CHAT,
        usage: tokens(40, 9, (60, 0), 4),
        last_but_one: "data: {\"choices\":[{\"index\":0,\"delta\":{},",
    },
    Stream {
        api: ModelApi::Responses,
        text: RESPONSES,
        usage: tokens(50, 12, (30, 0), 5),
        last_but_one: "event: response.completed",
    },
    Stream {
        api: ModelApi::Generate,
        text: GENERATE,
        usage: tokens(25, 16, (15, 0), 10),
        last_but_one: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}",
    },
];

const fn tokens(input: u64, output: u64, cache: (u64, u64), reasoning: u64) -> TokenUsage {
    TokenUsage { input, output, cache_read: cache.0, cache_write: cache.1, reasoning, estimated: false }
}

fn estimated(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, estimated: true, ..TokenUsage::default() }
}

fn reported(api: ModelApi) -> TokenUsage {
    STREAMS.iter().find(|stream| stream.api == api).expect("every API has a stream").usage
}

fn read(api: ModelApi, format: BodyFormat, pieces: &[&[u8]]) -> ResponseInspector {
    let mut inspector = ResponseInspector::new(api, format);
    for piece in pieces {
        inspector.read(piece);
    }
    inspector.finish();
    inspector
}

#[test]
fn usage_is_what_the_provider_reports() {
    for Stream { api, text, usage, .. } in STREAMS {
        let inspector = read(api, BodyFormat::Events, &[text.as_bytes()]);
        assert_eq!(inspector.tokens(999), usage, "{api:?}");
        assert!(inspector.is_complete() && inspector.error().is_none(), "{api:?}");
        assert!((2..=4).contains(&inspector.output_tokens()), "{api:?}: {}", inspector.output_tokens());
    }
}

#[test]
fn json_documents_report_the_same() {
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
    for (api, body) in table {
        let inspector = read(api, BodyFormat::Json, &[body.as_bytes()]);
        assert_eq!(inspector.tokens(999), reported(api), "{api:?}");
        assert!(inspector.is_complete() && inspector.error().is_none(), "{api:?}");
        let cut = read(api, BodyFormat::Json, &[&body.as_bytes()[..body.len() - 3]]);
        assert!(!cut.is_complete(), "{api:?}");
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
    for (api, text, (message, kind)) in table {
        let inspector = read(api, BodyFormat::Events, &[text.as_bytes()]);
        let error = inspector.error().expect(text);
        assert_eq!((error.message.as_str(), error.kind.as_str()), (message, kind), "{text}");
    }
    let inspector = read(ModelApi::Chat, BodyFormat::Json, &[br#"{"error":{"message":"no"}}"#]);
    assert_eq!(inspector.error().map(|error| error.message.as_str()), Some("no"));
}

#[test]
fn a_truncated_response_is_known_to_be_and_is_estimated() {
    for Stream { api, text, last_but_one, .. } in STREAMS {
        let end = text.find(last_but_one);
        let inspector = read(api, BodyFormat::Events, &[&text.as_bytes()[..end.expect("there")]]);
        assert!(!inspector.is_complete(), "{api:?}");
        let found = inspector.tokens(999);
        assert!(found.estimated, "{api:?}");
        assert!((2..=4).contains(&found.output), "{api:?}: {found:?}");
    }
    let asked_for_none = CHAT.replace("\"usage\":{\"prompt", "\"other\":{\"prompt");
    let inspector = read(ModelApi::Chat, BodyFormat::Events, &[asked_for_none.as_bytes()]);
    assert!(inspector.is_complete());
    assert_eq!(inspector.tokens(999), estimated(999, 2));
}

#[test]
fn a_response_that_cannot_be_read_is_estimated_and_not_called_truncated() {
    let inspector = read(ModelApi::Chat, BodyFormat::Unknown, &[&[0; 400]]);
    assert!(inspector.is_complete());
    assert_eq!(inspector.tokens(7), estimated(7, 100));
    let long = vec![b' '; super::JSON_BODY_MAX_BYTES + 1];
    let inspector = read(ModelApi::Chat, BodyFormat::Json, &[&long]);
    assert!(inspector.is_complete() && inspector.tokens(7).estimated);
}

#[test]
fn the_format_goes_by_the_content_type() {
    for (kind, format) in [
        ("text/event-stream", BodyFormat::Events),
        ("Text/Event-Stream; charset=utf-8", BodyFormat::Events),
        ("application/json; charset=UTF-8", BodyFormat::Json),
        ("text/html", BodyFormat::Unknown),
        ("", BodyFormat::Unknown),
    ] {
        assert_eq!(BodyFormat::of(kind), format, "{kind}");
    }
}

fn streams() -> impl Strategy<Value = Stream> {
    proptest::sample::select(STREAMS.to_vec())
}

proptest! {
    #[test]
    fn how_the_stream_is_cut_makes_no_difference(
        Stream { api, text, usage, .. } in streams(), size in 1_usize..64, at in 0_usize..2000,
    ) {
        let bytes = text.as_bytes();
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        let pieces: Vec<&[u8]> = std::iter::once(head).chain(tail.chunks(size)).collect();
        let inspector = read(api, BodyFormat::Events, &pieces);
        prop_assert_eq!(inspector.tokens(0), usage);
        prop_assert!(inspector.is_complete() && inspector.error().is_none());
    }

    /// Any input is read to its end, in bounded memory and without a panic.
    #[test]
    fn no_input_breaks_the_inspector(
        Stream { api, text, .. } in streams(), noise in proptest::collection::vec(any::<u8>(), 0..64),
        at in 0_usize..2000, drop in 0_usize..50, format in 0_u8..2,
    ) {
        let mut bytes = text.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + drop).min(bytes.len());
        bytes.splice(at..end, noise);
        let format = if format == 0 { BodyFormat::Events } else { BodyFormat::Json };
        let inspector = read(api, format, &[&bytes]);
        let found = inspector.tokens(0);
        prop_assert!(found.cache_read <= 100_000_000 || found.input < u64::MAX);
        prop_assert!(inspector.output_tokens() <= bytes.len() as u64);
    }

    #[test]
    fn numbers_of_any_size_are_summed_without_overflow(
        stream in streams(), a: u64, b: u64, c: u64,
    ) {
        let text = format!(
            r#"{{"type":"message","usage":{{"input_tokens":{a},"output_tokens":{b},"prompt_tokens":{a},"completion_tokens":{b},"prompt_tokens_details":{{"cached_tokens":{c}}},"input_tokens_details":{{"cached_tokens":{c}}}}},"usageMetadata":{{"promptTokenCount":{a},"thoughtsTokenCount":{b},"candidatesTokenCount":{c},"toolUsePromptTokenCount":{c}}}}}"#,
        );
        let inspector = read(stream.api, BodyFormat::Json, &[text.as_bytes()]);
        prop_assert!(inspector.is_complete());
        prop_assert!(!inspector.tokens(1).estimated);
    }
}

#[test]
fn an_event_that_is_too_long_leaves_the_end_unknown_and_its_usage_estimated() {
    let long = "x".repeat(crate::gateway::limits::EVENT_MAX_BYTES);
    let item = format!("data: {{\"type\":\"response.completed\",\"response\":\"{long}\"}}\n\n");
    let inspector = read(ModelApi::Responses, BodyFormat::Events, &[item.as_bytes()]);
    assert!(inspector.is_complete() && inspector.error().is_none(), "not known to be cut");
    assert_eq!(inspector.tokens(7), estimated(7, 0));
    // A long event below the limit is read.
    let text = "y".repeat(2 << 20);
    let done =
        "{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2},";
    let item = format!("data: {done}\"output\":\"{text}\"}}}}\n\n");
    let inspector = read(ModelApi::Responses, BodyFormat::Events, &[item.as_bytes()]);
    assert!(inspector.is_complete());
    assert_eq!(inspector.tokens(7), tokens(1, 2, (0, 0), 0));
}

#[test]
fn reported_usage_has_a_bound() {
    let most = crate::gateway::limits::USAGE_MAX_TOKENS;
    let huge =
        format!("{{\"input_tokens\":{0},\"output_tokens\":{0},\"cache_read_input_tokens\":{0}}}", u64::MAX);
    let whole = format!("{{\"type\":\"message\",\"content\":[],\"usage\":{huge}}}");
    let inspector = read(ModelApi::Messages, BodyFormat::Json, &[whole.as_bytes()]);
    assert_eq!(inspector.tokens(7), tokens(most, most, (most, 0), 0));
}
