//! Transcripts of real runs against a fake model, and the events made of them.

use super::*;
use protocol::TaskFact;
use std::fmt::Write;
use std::path::Path;

fn transcript(name: &str) -> Vec<u8> {
    let path = format!("../tests/transcripts/{name}.jsonl");
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a transcript")
}

fn dialect(name: &str) -> StreamDialect {
    if name.starts_with("claude/") { StreamDialect::Claude } else { StreamDialect::Codex }
}

/// Renders the events, one a line, and the outcome.
fn render(dialect: StreamDialect, lines: &[u8]) -> String {
    let mut conversation = Conversation::new(dialect);
    let mut told = String::new();
    let show = |told: &mut String, fact: &TaskFact| {
        let json = serde_json::to_string(fact).expect("a fact is JSON");
        writeln!(told, "{json}").expect("a string takes everything");
    };
    for line in lines.split(|byte| *byte == b'\n') {
        for decoded in conversation.line(line, 0) {
            match decoded {
                Decoded::Fact(fact) => show(&mut told, &fact),
                Decoded::Raw => told.push_str(&format!("raw: {}\n", String::from_utf8_lossy(line))),
            }
        }
    }
    conversation.finish().iter().for_each(|fact| show(&mut told, fact));
    let (claim, session) = (conversation.claim(), conversation.session());
    let last = conversation.final_message();
    write!(told, "claim: {claim:?}\nsession: {session:?}\nfinal message: {last:?}").expect("as above");
    told
}

#[test]
fn transcripts_of_real_runs_become_events() {
    for name in [
        "claude/streamed",
        "claude/whole",
        "claude/refused",
        "claude/retried",
        "claude/max_turns",
        "claude/no_session",
        "codex/done",
        "codex/refused",
        "codex/failed",
    ] {
        insta::assert_snapshot!(name.replace('/', "_"), render(dialect(name), &transcript(name)));
    }
}

/// Streamed text arrives twice and is reported once.
#[test]
fn streamed_and_whole_messages_are_reported_once() {
    let lines = transcript("claude/streamed");
    let whole: Vec<u8> = lines
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !String::from_utf8_lossy(line).contains("\"stream_event\""))
        .flatten()
        .copied()
        .collect();
    // Only the announcement of a tool has no counterpart in the whole messages.
    let streamed = render(StreamDialect::Claude, &lines);
    let streamed: Vec<&str> = streamed
        .lines()
        .filter(|line| !line.contains("\"pending\",\"input\"") && !is_announced(line))
        .collect();
    let whole = render(StreamDialect::Claude, &whole);
    assert_eq!(streamed, whole.lines().collect::<Vec<_>>());
}

fn is_announced(line: &str) -> bool {
    line.contains("\"type\":\"tool\"") && line.contains("\"status\":\"pending\"")
}

#[test]
fn lines_that_the_transcripts_do_not_have() {
    for (dialect, line, expected) in [
        (StreamDialect::Claude, "not json", "raw: not json"),
        (StreamDialect::Claude, "[1]", "raw: [1]"),
        (StreamDialect::Claude, "{}", "raw: {}"),
        (
            StreamDialect::Claude,
            r#"{"type":"system","subtype":"news"}"#,
            "raw: {\"type\":\"system\",\"subtype\":\"news\"}",
        ),
        (
            StreamDialect::Claude,
            r#"{"type":"result"}"#,
            "claim: Some((false, Some(\"the agent ended: completed\")))",
        ),
        (
            StreamDialect::Claude,
            r#"{"type":"result","is_error":false,"terminal_reason":"aborted_tools","result":"x"}"#,
            "claim: Some((false, Some(\"x\")))",
        ),
        (
            StreamDialect::Claude,
            r#"{"type":"result","is_error":false,"result":"42"}"#,
            "{\"type\":\"message\",\"text\":\"42\"}\nclaim: Some((true, None))",
        ),
        (
            StreamDialect::Claude,
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"below"}]}}"#,
            "{\"type\":\"thought\",\"text\":\"below\"}",
        ),
        (
            StreamDialect::Codex,
            r#"{"type":"item.updated","item":{"id":"i","type":"todo_list","items":[{"text":"a","completed":true},{"text":"b"}]}}"#,
            "{\"type\":\"plan\",\"entries\":[{\"content\":\"a\",\"status\":\"completed\"},{\"content\":\"b\",\"status\":\"pending\"}]}",
        ),
        (
            StreamDialect::Codex,
            r#"{"type":"item.completed","item":{"id":"i","type":"mcp_tool_call","server":"s","tool":"t","status":"failed","error":{"message":"no"}}}"#,
            "{\"type\":\"tool\",\"id\":\"i\",\"title\":\"s t\",\"tool\":\"other\",\"status\":\"failed\",\"output\":\"no\"}",
        ),
        (StreamDialect::Codex, r#"{"type":"item.completed","item":{"type":"new"}}"#, "raw: "),
    ] {
        let told = render(dialect, line.as_bytes());
        assert!(told.contains(expected), "{line}\n{told}");
    }
}

/// An error that the agent recovered from does not count.
#[test]
fn the_last_claim_counts() {
    let lines = "{\"type\":\"error\",\"message\":\"Reconnecting\"}\n{\"type\":\"turn.completed\"}";
    assert!(render(StreamDialect::Codex, lines.as_bytes()).contains("claim: Some((true, None))"));
}
