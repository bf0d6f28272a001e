//! Entry points for fuzzing: each takes any bytes and must return. Driven by `cargo fuzz` where a nightly
//! compiler is available and by property tests everywhere.

use crate::api::{request_body, route};
use crate::core::acp::{Effect, Input, Machine};
use crate::core::line_joiner::{LineJoiner, TextKind};
use crate::core::manifest;
use crate::core::stream_json::{Conversation, Decoded};
use crate::core::validation::{check_exec, check_task};
use crate::limits::{FINAL_MESSAGE_MAX_BYTES, TASK_LINE_MAX_BYTES};
use crate::log::segment;
use protocol::{AcpAgent, ExecRequest, Permissions, StreamDialect, TaskFact, TaskRequest, log_line};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The limit of an event for its readers.
const EVENT_MAX_BYTES: usize = 1 << 20;

pub fn output_index(bytes: &[u8]) {
    let start = bytes.first_chunk().map_or(0, |raw| u64::from_le_bytes(*raw));
    let records = segment::decode_index(bytes, start);
    assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

pub fn event_line(bytes: &[u8]) {
    let (sound, _) = log_line::sound_prefix(bytes);
    assert!(sound <= bytes.len());
}

pub fn manifest(bytes: &[u8]) {
    if let Err(error) = manifest::parse(bytes) {
        assert!(!error.message.is_empty());
    }
}

pub fn route(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let _ = route::parse(method, path, query);
}

pub fn exec_request(bytes: &[u8]) {
    if let Ok(request) = request_body::decode::<ExecRequest>(bytes) {
        let _ = check_exec(&request);
    }
}

pub fn task_request(bytes: &[u8]) {
    if let Ok(request) = request_body::decode::<TaskRequest>(bytes) {
        let _ = check_task(&request);
    }
}

pub fn claude_line(bytes: &[u8]) {
    conversation(StreamDialect::Claude, bytes);
}

pub fn codex_line(bytes: &[u8]) {
    conversation(StreamDialect::Codex, bytes);
}

fn conversation(dialect: StreamDialect, bytes: &[u8]) {
    let mut conversation = Conversation::new(dialect);
    let mut facts = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let decoded = conversation.line(line, at as u64);
        facts.extend(decoded.into_iter().filter_map(|decoded| match decoded {
            Decoded::Fact(fact) => Some(fact),
            Decoded::Raw => None,
        }));
    }
    facts.extend(conversation.finish());
    for fact in facts {
        assert!(serde_json::to_vec(&fact).is_ok_and(|json| json.len() < EVENT_MAX_BYTES));
    }
    assert!(conversation.final_message().is_none_or(|text| text.len() <= FINAL_MESSAGE_MAX_BYTES));
}

/// Feeds the lines of an agent to a client that sent `initialize`, and to one whose prompt is in flight.
pub fn acp_line(bytes: &[u8]) {
    for prompted in [false, true] {
        let (mut machine, mut effects) = conversation_begun(prompted);
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            effects.extend(machine.step(Input::Line(line), at as u64));
            effects.extend(machine.step(Input::Tick, at as u64 * 100));
        }
        effects.extend(machine.step(Input::Stop, 0));
        effects.extend(machine.flush());
        for effect in effects {
            let Effect::Report(fact) = effect else { continue };
            assert!(serde_json::to_vec(&fact).is_ok_and(|json| json.len() < EVENT_MAX_BYTES));
        }
        assert!(machine.final_message().is_none_or(|text| text.len() <= FINAL_MESSAGE_MAX_BYTES));
    }
}

/// A client that sent `initialize`, or that a friendly agent led to its prompt; and its last effects.
fn conversation_begun(prompted: bool) -> (Machine, Vec<Effect>) {
    let agent = AcpAgent {
        name: "a".to_owned(),
        argv: vec!["a".to_owned()],
        files: BTreeMap::new(),
        authenticate: None,
        mode: Some("yolo".to_owned()),
        options: BTreeMap::from([("model".to_owned(), "m".to_owned())]),
        briefing: None,
        continues: false,
        permissions: Permissions::default(),
    };
    let mut machine = Machine::new(agent, "/".to_owned(), None);
    let mut effects = machine.step(Input::Begin(Box::default()), 0);
    while prompted && let Some(answer) = effects.iter().find_map(friendly_reply) {
        effects = machine.step(Input::Line(&answer), 0);
    }
    (machine, effects)
}

/// The response of a friendly agent, up to the prompt.
fn friendly_reply(effect: &Effect) -> Option<Vec<u8>> {
    let Effect::Send(line) = effect else { return None };
    let asked: Value = serde_json::from_slice(line).ok()?;
    let result = match asked.get("method")?.as_str()? {
        "initialize" => json!({"protocolVersion": 1, "agentCapabilities": {}}),
        "session/new" => json!({"sessionId": "s"}),
        "session/prompt" => return None,
        _ => json!({}),
    };
    serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": asked.get("id")?, "result": result})).ok()
}

/// Splits the text into pieces whose length and kind the bytes themselves determine.
pub fn joiner(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mut joiner, mut facts, mut now) = (LineJoiner::new(), Vec::new(), 0);
    let mut rest = &*text;
    let mut said = String::new();
    while let Some(first) = rest.bytes().next() {
        let length = rest
            .floor_char_boundary(1 + usize::from(first))
            .max(rest.chars().next().map_or(1, char::len_utf8));
        let voice = if first % 3 == 0 { TextKind::Thought } else { TextKind::Message };
        facts.extend(joiner.push(voice, &rest[..length], now));
        said.push_str(&rest[..length]);
        rest = &rest[length..];
        now += u64::from(first);
        facts.extend(joiner.tick(now));
        if first % 7 == 0 {
            facts.extend(joiner.flush());
        }
    }
    facts.extend(joiner.flush());
    let mut told = String::new();
    for fact in facts {
        let (TaskFact::Message(text) | TaskFact::Thought(text)) = fact else { panic!("{fact:?}") };
        assert!(text.text.len() <= TASK_LINE_MAX_BYTES);
        told.push_str(&text.text);
    }
    assert_eq!(told, said.replace('\n', ""));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UPDATES: [&str; 8] = [
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"x","kind":"execute","status":"pending","rawInput":{"command":"ls"},"locations":[{"path":"/a"}]}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":{"metadata":{"exit":7}},"content":[{"type":"diff","path":"/a","oldText":null,"newText":"b"}]}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","name":"Yes","kind":"allow_once"}]}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":1}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no","data":{"errorKind":"x"}}}"#,
    ];

    /// Lines of recorded runs of agents that print JSON.
    fn recorded() -> Vec<Vec<u8>> {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts");
        let read = |name| std::fs::read(here.join(name)).expect("a transcript");
        let all = ["claude/streamed.jsonl", "claude/whole.jsonl", "codex/done.jsonl"].map(read).concat();
        all.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// One of these lines with a value, found by its colon, replaced by another.
    fn corrupted(lines: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        let junk = prop_oneof![
            Just("null".to_owned()),
            Just("-1".to_owned()),
            Just("\"\"".to_owned()),
            Just("[]".to_owned()),
            Just("{\"a\":[{}]}".to_owned()),
            (0usize..1 << 18).prop_map(|length| format!("\"{}\"", "\\u0001".repeat(length / 6))),
            "[a-z0-9\"\\\\{}\\[\\]:,]{0,8}",
        ];
        (prop::sample::select(lines), any::<prop::sample::Index>(), junk).prop_map(|(line, at, junk)| {
            let begins = |(at, byte): (usize, &u8)| (*byte == b':').then_some(at + 1);
            let values: Vec<usize> = line.iter().enumerate().filter_map(begins).collect();
            let Some(from) = values.get(at.index(values.len().max(1))).copied() else { return line };
            let length = line[from..].iter().position(|byte| b",}".contains(byte)).unwrap_or(0);
            [&line[..from], junk.as_bytes(), &line[from + length..]].concat()
        })
    }

    fn lines(of: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![4 => corrupted(of), 1 => any::<Vec<u8>>()];
        prop::collection::vec(line, 0..10).prop_map(|lines| lines.join(&b'\n'))
    }

    proptest! {
        #[test]
        fn any_line_of_an_agent_can_be_read(text in lines(UPDATES.map(|line| line.into()).into())) {
            acp_line(&text);
        }

        #[test]
        fn any_line_of_an_agent_that_prints_json_can_be_read(text in lines(recorded())) {
            claude_line(&text);
            codex_line(&text);
            joiner(&text);
        }
    }

    /// Checks that the fuzz input reaches a running conversation.
    #[test]
    fn a_friendly_agent_gets_its_prompt_and_its_updates_are_reported() {
        let (mut machine, effects) = conversation_begun(true);
        let prompt = |effect: &Effect| matches!(effect, Effect::Send(line) if line.windows(14).any(|at| at == b"session/prompt"));
        assert!(effects.iter().any(prompt), "{effects:?}");
        let lines = UPDATES[..4].iter();
        let told: Vec<_> = lines.flat_map(|line| machine.step(Input::Line(line.as_bytes()), 0)).collect();
        for kind in ["message", "tool", "plan"] {
            let is = |effect: &Effect| matches!(effect, Effect::Report(fact) if fact.kind() == kind);
            assert!(told.iter().any(is), "{kind} in {told:?}");
        }
    }
}
