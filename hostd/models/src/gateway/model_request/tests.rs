use super::*;
use crate::gateway::{
    dialect::ModelApi,
    route::{Endpoint, Operation},
};

const MESSAGES: Endpoint = Endpoint { api: ModelApi::Messages, operation: Operation::Generate, model: None };
const CHAT: Endpoint = Endpoint { api: ModelApi::Chat, ..MESSAGES };
const RESPONSES: Endpoint = Endpoint { api: ModelApi::Responses, ..MESSAGES };

const FREE: ActiveBudgets = ActiveBudgets { tokens: false, cost: false };
const TOKENS: ActiveBudgets = ActiveBudgets { tokens: true, cost: false };
const COST: ActiveBudgets = ActiveBudgets { tokens: true, cost: true };

fn read(call: &Endpoint, body: &str) -> Result<ModelRequest, InvalidRequest> {
    read_bounded(call, body, FREE)
}

fn read_bounded(call: &Endpoint, body: &str, bounded: ActiveBudgets) -> Result<ModelRequest, InvalidRequest> {
    call.api.rules().parse_request(call, body.as_bytes(), bounded)
}

fn changed(call: &Endpoint, body: &str, model: &str, max: Option<u64>) -> String {
    let request = read(call, body).expect(body);
    let edited = request.rewrite(Bytes::copy_from_slice(body.as_bytes()), model, max);
    String::from_utf8(edited.to_vec()).expect("text")
}

fn generate(operation: Operation) -> Endpoint {
    Endpoint { api: ModelApi::Generate, operation, model: Some("g".to_owned()) }
}

#[test]
fn only_what_must_change_changes() {
    let messages = r#"{ "b":1, "model" : "cheap", "max_tokens": 100,"stream":true, "a": [1.0, "é\u00e9"] }"#;
    let table = [
        (MESSAGES, messages, "cheap", None, messages.to_owned()),
        (MESSAGES, messages, "cheap", Some(100), messages.to_owned()),
        (
            MESSAGES,
            messages,
            "real-1",
            Some(7),
            messages.replace("\"cheap\"", "\"real-1\"").replace(" 100,", " 7,"),
        ),
        (CHAT, r#"{"model":"m"}"#, "m", Some(9), r#"{"max_completion_tokens":9,"model":"m"}"#.to_owned()),
        (
            CHAT,
            r#"{"max_tokens":50,"model":"m","max_completion_tokens":null}"#,
            "m",
            Some(9),
            r#"{"max_tokens":9,"model":"m","max_completion_tokens":9}"#.to_owned(),
        ),
        (
            RESPONSES,
            r#"{"model":"m","max_output_tokens":5}"#,
            "m\"x",
            Some(9),
            r#"{"model":"m\"x","max_output_tokens":5}"#.to_owned(),
        ),
        (
            generate(Operation::Stream),
            "{}",
            "x",
            Some(3),
            r#"{"generationConfig":{"maxOutputTokens":3}}"#.to_owned(),
        ),
        (
            generate(Operation::Generate),
            r#"{"contents":[],"generationConfig": { "temperature":1 }}"#,
            "x",
            Some(3),
            r#"{"contents":[],"generationConfig": {"maxOutputTokens":3, "temperature":1 }}"#.to_owned(),
        ),
        (
            generate(Operation::Generate),
            r#"{"generationConfig":{"maxOutputTokens":8}}"#,
            "x",
            Some(3),
            r#"{"generationConfig":{"maxOutputTokens":3}}"#.to_owned(),
        ),
        (
            generate(Operation::Generate),
            r#"{"generation_config":{}}"#,
            "x",
            Some(3),
            r#"{"generation_config":{"maxOutputTokens":3}}"#.to_owned(),
        ),
        (generate(Operation::Count), r#"{"contents":[]}"#, "x", Some(3), r#"{"contents":[]}"#.to_owned()),
    ];
    for (call, body, model, max, expected) in table {
        assert_eq!(changed(&call, body, model, max), expected, "{body}");
    }
}

#[test]
fn a_chat_that_streams_is_asked_for_its_usage_and_a_limit_of_zero_is_none() {
    let table = [
        (
            r#"{"model":"m","stream":true}"#,
            Some(9),
            r#"{"stream_options":{"include_usage":true},"max_completion_tokens":9,"model":"m","stream":true}"#
                .to_owned(),
        ),
        (
            r#"{"model":"m","stream_options":{"include_usage":false},"stream":true,"n":1}"#,
            None,
            r#"{"model":"m","stream_options":{"include_usage":true},"stream":true,"n":1}"#.to_owned(),
        ),
        (
            r#"{"model":"m","stream":true,"stream_options":{ "x":1}}"#,
            None,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true, "x":1}}"#.to_owned(),
        ),
        (
            r#"{"model":"m","stream":true,"stream_options":null}"#,
            None,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#.to_owned(),
        ),
        (
            r#"{"model":"m","max_tokens":0,"stream":false}"#,
            Some(9),
            r#"{"model":"m","max_tokens":9,"stream":false}"#.to_owned(),
        ),
    ];
    for (body, max, expected) in table {
        assert_eq!(changed(&CHAT, body, "m", max), expected, "{body}");
    }
}

#[test]
fn a_request_is_known_before_it_is_forwarded() {
    let parsed = |call: &Endpoint, body: &str| read(call, body).expect(body);
    let one = parsed(&MESSAGES, r#"{"model":"m","max_tokens":10,"stream":true}"#);
    assert_eq!((one.model.as_str(), one.params.max_output_tokens, one.params.streams), ("m", Some(10), true));
    assert_eq!(one.params.input_tokens, 11);
    let one = parsed(&CHAT, r#"{"model":"m","max_tokens":10,"max_completion_tokens":4}"#);
    assert_eq!((one.params.max_output_tokens, one.params.streams), (Some(4), false));
    assert!(parsed(&generate(Operation::Stream), "{}").params.streams);
    assert!(!parsed(&generate(Operation::Generate), "{}").params.streams);
}

#[test]
fn a_request_that_could_not_be_bounded_is_refused() {
    let generate = generate(Operation::Generate);
    let multiple_answers = InvalidRequest::MultipleAnswers;
    let table = [
        (&CHAT, r#"{"model":"m","n":2}"#, Some(multiple_answers("n"))),
        (&CHAT, r#"{"model":"m","n":1e3}"#, Some(multiple_answers("n"))),
        (&CHAT, r#"{"model":"m","n":1}"#, None),
        (&CHAT, r#"{"model":"m","n":null}"#, None),
        (&generate, r#"{"generationConfig":{"candidateCount":8}}"#, Some(multiple_answers("candidateCount"))),
        (
            &generate,
            r#"{"generation_config":{"candidate_count":2}}"#,
            Some(multiple_answers("candidate_count")),
        ),
        (&generate, r#"{"generationConfig":{"candidateCount":1}}"#, None),
        (
            &generate,
            r#"{"generationConfig":{},"generation_config":{}}"#,
            Some(InvalidRequest::DuplicateConfig),
        ),
        (&MESSAGES, r#"{"model":"m","mcp_servers":[{}]}"#, Some(InvalidRequest::RemoteTools)),
        (&MESSAGES, r#"{"model":"m","mcp_servers":[]}"#, None),
        (&MESSAGES, r#"{"model":"m","tools":[{"name":"x"}]}"#, None),
        (&RESPONSES, r#"{"model":"m","tools":[{"type":"function"}]}"#, None),
        (&RESPONSES, r#"{"model":"m","tools":null}"#, None),
        (&RESPONSES, r#"{"model":"m","tools":[1,"mcp",{"type":["mcp"]}]}"#, None),
        (
            &RESPONSES,
            r#"{"model":"m","tools":[{"type":"function"},{"type":"\u006dcp"}]}"#,
            Some(InvalidRequest::RemoteTools),
        ),
    ];
    for (call, body, expected) in table {
        assert_eq!(read(call, body).err(), expected, "{body}");
    }
}

#[test]
fn a_request_that_cannot_be_read_is_refused() {
    let json = |error: &InvalidRequest| matches!(error, InvalidRequest::Json(_));
    for body in ["", "[]", "{", r#"{"model":"a","model":"b"}"#, r#"{"model":"a","Max_Tokens":1}"#] {
        let error = read(&MESSAGES, body).expect_err(body);
        assert!(json(&error), "{body}: {error}");
    }
    for body in ["{}", r#"{"model":""}"#, r#"{"model":1}"#, r#"{"model":null}"#] {
        let error = read(&CHAT, body).expect_err(body);
        assert_eq!(error, InvalidRequest::NoModel, "{body}");
    }
    let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(MODEL_MAX_BYTES + 1));
    assert_eq!(read(&CHAT, &long).expect_err("long"), InvalidRequest::ModelTooLong);
    let background = r#"{"model":"m","background":true}"#;
    assert_eq!(read(&RESPONSES, background).expect_err("bg"), InvalidRequest::Background);
    let bad = read(&generate(Operation::Generate), r#"{"generationConfig":[]}"#).expect_err("a list");
    assert!(json(&bad));
}

#[test]
fn the_error_about_a_long_request_is_short() {
    let long = "\u{7f}".repeat(1 << 20);
    let table = [
        format!("\"{long}\""),
        format!(r#"{{"model":"m","tools":"{long}"}}"#),
        format!(r#"{{"model":"{long}"}}"#),
        format!(r#"{{"model":"m","tools":[{{"type":"{long}","type":1}}]}}"#),
    ];
    for body in table {
        let words = read(&MESSAGES, &body).expect_err("wrong").to_string();
        assert!(words.len() < 300, "{}", words.len());
    }
}

#[test]
fn content_that_a_budget_could_not_bound_is_refused_where_there_is_one() {
    let generate = generate(Operation::Stream);
    let (messages, chat, responses) = (&MESSAGES, &CHAT, &RESPONSES);
    let (external_ref, price_change) = (InvalidRequest::ExternalRef, InvalidRequest::PriceChange);
    let table = [
        (
            responses,
            r#"{"model":"m","previous_response_id":"r"}"#,
            TOKENS,
            external_ref("previous_response_id"),
        ),
        (responses, r#"{"model":"m","conversation":{"id":"c"}}"#, TOKENS, external_ref("conversation")),
        (responses, r#"{"model":"m","prompt":{"id":"p"}}"#, TOKENS, external_ref("prompt")),
        (
            responses,
            r#"{"model":"m","input":[{"type":"item_reference"}]}"#,
            TOKENS,
            external_ref("item_reference"),
        ),
        (responses, r#"{"model":"m","service_tier":"priority"}"#, COST, price_change("service_tier")),
        (
            chat,
            r#"{"model":"m","messages":[{"content":[{"file":{"file_id":"f"}}]}]}"#,
            TOKENS,
            external_ref("file_id"),
        ),
        (chat, r#"{"model":"m","service_tier":"flex"}"#, COST, price_change("service_tier")),
        (messages, r#"{"model":"m","container":"c"}"#, TOKENS, external_ref("container")),
        (
            messages,
            r#"{"model":"m","messages":[{"source":{"url":"http://a"}}]}"#,
            TOKENS,
            external_ref("url"),
        ),
        (messages, r#"{"model":"m","service_tier":"priority"}"#, COST, price_change("service_tier")),
        (messages, r#"{"model":"m","speed":"fast"}"#, COST, price_change("speed")),
        (messages, r#"{"model":"m","inference_geo":"us"}"#, COST, price_change("inference_geo")),
        (&generate, r#"{"cachedContent":"c"}"#, TOKENS, external_ref("cachedContent")),
        (&generate, r#"{"cached_content":"c"}"#, TOKENS, external_ref("cached_content")),
        (
            &generate,
            r#"{"contents":[{"parts":[{"fileData":{"fileUri":"a"}}]}]}"#,
            TOKENS,
            external_ref("fileUri"),
        ),
        (
            &generate,
            r#"{"systemInstruction":{"parts":[{"file_uri":"a"}]}}"#,
            TOKENS,
            external_ref("file_uri"),
        ),
        (&generate, r#"{"serviceTier":"priority"}"#, COST, price_change("service_tier")),
    ];
    for (call, body, bounded, expected) in table {
        assert_eq!(read_bounded(call, body, bounded).err(), Some(expected.clone()), "{body}");
        // A budget of tokens does not bound cost, and no budget bounds nothing.
        let without = if matches!(expected, InvalidRequest::PriceChange(_)) { TOKENS } else { FREE };
        assert_eq!(read_bounded(call, body, without).err(), None, "{body}");
    }
    let usual = [
        (responses, r#"{"model":"m","store":false,"previous_response_id":null,"service_tier":"auto"}"#),
        (responses, r#"{"model":"m","input":"words","include":["reasoning.encrypted_content"]}"#),
        (chat, r#"{"model":"m","service_tier":"default","messages":[{"role":"user","content":"x"}]}"#),
        (messages, r#"{"model":"m","service_tier":"standard_only","container":null}"#),
        (&generate, r#"{"contents":[{"parts":[{"text":"x"}]}],"cachedContent":null}"#),
    ];
    for (call, body) in usual {
        assert_eq!(read_bounded(call, body, COST).err(), None, "{body}");
    }
}
