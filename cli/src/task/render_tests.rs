use super::*;
use crate::output::Output;
use serde_json::{Value, json};

fn render(terminal: bool, colour: bool) -> EventRenderer {
    EventRenderer::new(Style { output: Output { json: false, colour }, terminal })
}

fn view(number: u64, kind: &str, fact: &Value) -> TaskEventView {
    let mut event = json!({ "seq": number, "time": "2026-11-16T08:00:00.000Z", "number": number, "kind": kind,
        "sandbox": "01jb9xyzabcdefghjkmnpqrstv", "task": "t" });
    let fields = event.as_object_mut().expect("an object");
    fields.extend(fact.as_object().expect("an object").clone());
    serde_json::from_value(event).expect("an event")
}

/// Returns the bytes printed for the events.
fn printed(mut render: EventRenderer, events: &[(&str, Value)]) -> Vec<u8> {
    let numbered = events.iter().zip(1..);
    numbered.flat_map(|((kind, fact), number)| render.event(&view(number, kind, fact))).collect()
}

fn shown(events: &[(&str, Value)]) -> String {
    String::from_utf8(printed(render(true, false), events)).expect("text")
}

fn done() -> Value {
    serde_json::to_value(json!({ "result": crate::task::tests::result("{}") })).expect("JSON")
}

fn permission(state: &str) -> Value {
    let about = json!({ "id": "1", "title": "bash", "status": "pending", "input": { "command": "make" } });
    json!({ "id": "p1", "state": state, "about": about, "by": "rule" })
}

#[test]
fn a_reader_who_is_prompted_gets_no_instructions() {
    let mut render = render(true, false).answering(true);
    let shown = render.event(&view(1, "permission", &permission("asked")));
    assert_eq!(String::from_utf8(shown).expect("text"), "? allow: bash: make\n");
}

#[test]
fn every_kind_is_lines_for_a_person() {
    let table = [
        ("status", json!({ "phase": "preparing" }), "· preparing\n"),
        (
            "status",
            json!({ "phase": "agent", "checkpoint": { "state": "taken", "id": "3f2a91c0ffee77" } }),
            "· agent\n",
        ),
        (
            "status",
            json!({ "phase": "agent", "checkpoint": { "state": "unavailable", "why": "no git\nat all" } }),
            "· agent (checkpoint none: no git at all)\n",
        ),
        ("status", json!({ "phase": "done" }), ""),
        ("message", json!({ "text": "I will look." }), "I will look.\n"),
        ("message", json!({ "text": "" }), "\n"),
        ("message", json!({ "text": "aGk=", "encoding": "base64" }), "hi\n"),
        ("message", json!({ "text": "not base64", "encoding": "base64" }), "not base64\n"),
        ("thought", json!({ "text": "hm" }), "~ hm\n"),
        ("log", json!({ "stream": "stderr", "text": "warning: x" }), "warning: x\n"),
        (
            "log",
            json!({ "stream": "stdout", "text": "x", "lost_events": 4 }),
            "· 4 events could not be stored\nx\n",
        ),
        (
            "file",
            json!({ "path": { "data": "a.rs" }, "change": "modified", "added_lines": 2, "deleted_lines": 1 }),
            "M a.rs +2 -1\n",
        ),
        (
            "plan",
            json!({ "entries": [
                { "content": "look", "status": "completed" },
                { "content": "fix", "status": "in_progress" },
                { "content": "test", "status": "pending" },
            ] }),
            "· plan\n  [x] look\n  [~] fix\n  [ ] test\n",
        ),
        ("plan", json!({ "entries": "later" }), "· plan entries=later\n"),
        // The name that an agent has for its model is not shown.
        ("model", json!({ "name": "opus" }), ""),
        ("build", json!({ "status": "passed", "duration_ms": 1500 }), "· build passed in 1.5s\n"),
        ("build", json!({ "status": "failed", "duration_ms": 1500 }), "· build failed after 1.5s\n"),
        ("build", json!({ "status": "skipped", "duration_ms": 0 }), ""),
        ("usage", json!({ "input_tokens": 1, "output_tokens": 2 }), ""),
        ("weather", json!({ "sky": "blue\u{1b}[2J", "wind": null }), "· weather sky=blue\n"),
    ];
    for (kind, fact, expected) in table {
        assert_eq!(shown(&[(kind, fact.clone())]), expected, "{kind} {fact}");
    }
}

#[test]
fn what_agents_do_is_lines_for_a_person() {
    let table = [
        (
            "tool",
            json!({ "id": "1", "title": "bash", "tool": "execute", "status": "completed", "input": { "command": "ls\n-la" } }),
            "> bash ls -la  ok\n",
        ),
        (
            "tool",
            json!({ "id": "1", "title": "npm test", "status": "completed", "exit_code": 1, "output": "1 failed\nsee log" }),
            "> npm test  exit 1\n  | 1 failed\n  | see log\n",
        ),
        (
            "tool",
            json!({ "id": "1", "title": "Write a", "status": "completed", "diffs": [{ "path": "a", "new": "1\n2" }] }),
            "> Write a  +2 -0\n",
        ),
        ("tool", json!({ "id": "1", "tool": "edit", "status": "failed" }), "> edit  failed\n"),
        ("tool", json!({ "id": "1", "title": "edit", "status": "running" }), ""),
        (
            "permission",
            permission("asked"),
            "? allow: bash: make\n  answer with `slipway task allow 01jb9xyzabcdefghjkmnpqrstv t p1`, or `slipway task deny …`\n",
        ),
        ("permission", permission("allowed"), "· allowed by a rule: bash: make\n"),
        ("permission", permission("denied"), "· denied by a rule: bash: make\n"),
        ("permission", permission("withdrawn"), "· no longer asked for by a rule: bash: make\n"),
        (
            "model",
            json!({ "call": 1, "provider": "anthropic", "state": "retrying", "attempt": 1, "status": 529, "retry_in_ms": 2000 }),
            "· anthropic 529, trying again in 2.0s (try 2)\n",
        ),
        (
            "model",
            json!({ "call": 1, "provider": "anthropic", "state": "failed", "attempt": 1, "status": 401, "error": "bad key" }),
            "· anthropic 401: bad key\n",
        ),
        (
            "model",
            json!({ "call": 1, "provider": "", "state": "failed", "attempt": 1, "status": 404, "error": "there is no model" }),
            "· the gateway 404: there is no model\n",
        ),
        (
            "model",
            json!({ "call": 1, "provider": "anthropic", "model": "large-4", "state": "succeeded", "attempt": 1 }),
            "· model anthropic/large-4\n",
        ),
    ];
    for (kind, fact, expected) in table {
        assert_eq!(shown(&[(kind, fact.clone())]), expected, "{kind} {fact}");
    }
}

#[test]
fn the_model_is_the_one_that_hostd_saw_and_told_once() {
    let call = |model: &str| json!({ "call": 1, "provider": "p", "model": model, "state": "succeeded" });
    let events = [
        ("model", json!({ "name": "opus" })),
        ("model", call("large-4")),
        ("model", call("large-4")),
        ("model", call("small-4")),
    ];
    assert_eq!(shown(&events), "· model p/large-4\n· model p/small-4\n");
}

#[test]
fn a_question_about_a_change_shows_the_change() {
    let about = json!({ "id": "1", "title": "edit", "status": "pending",
        "diffs": [{ "path": "/home/sandbox/workspace/app/a.txt", "old": "one\ntwo\n", "new": "one\n2\n" }] });
    let asked = json!({ "id": "p1", "state": "asked", "about": about });
    insta::assert_snapshot!(shown(&[("permission", asked)]), @r"
    ? allow: edit a.txt
        @@ -1,2 +1,2 @@
         one
        -two
        +2
      answer with `slipway task allow 01jb9xyzabcdefghjkmnpqrstv t p1`, or `slipway task deny …`
    ");
}

#[test]
fn pieces_are_joined_and_other_voices_break_the_line() {
    let piece = |text: &str| json!({ "text": text, "partial": true });
    let log = |text: &str| json!({ "stream": "stderr", "text": text });
    let joined = shown(&[
        ("message", piece("one ")),
        ("message", piece("long ")),
        ("message", json!({ "text": "line" })),
        ("message", piece("cut ")),
        ("log", log("in between")),
        ("message", json!({ "text": "off" })),
        ("thought", piece("a ")),
        ("thought", json!({ "text": "b" })),
        ("message", piece("never ended")),
        ("status", json!({ "phase": "build" })),
    ]);
    assert_eq!(joined, "one long line\ncut \nin between\noff\n~ a b\nnever ended\n· build\n");
}

#[test]
fn it_is_known_when_the_cursor_is_in_a_line() {
    let mut render = render(true, false);
    render.event(&view(1, "message", &json!({ "text": "a", "partial": true })));
    assert!(render.is_mid_line());
    render.event(&view(2, "message", &json!({ "text": "b" })));
    assert!(!render.is_mid_line());
}

#[test]
fn a_file_gets_the_bytes_and_a_terminal_gets_text() {
    // ESC [ 2 J, a byte that is no text, and a return.
    let raw = json!({ "text": "G1sySv8NYQ==", "encoding": "base64" });
    let text = json!({ "text": "\u{1b}]0;title\u{7}b\u{1b}", "partial": true });
    let rest = json!({ "text": "[31mred" });
    let events = [
        ("message", raw),
        ("log", json!({ "stream": "stderr", "text": "\u{1b}[1mx" })),
        ("message", text),
        ("message", rest),
    ];
    assert_eq!(
        printed(render(false, false), &events),
        b"\x1b[2J\xff\ra\n\x1b[1mx\n\x1b]0;title\x07b\x1b[31mred\n"
    );
    assert_eq!(shown(&events), "\u{fffd}\na\nx\nbred\n");
}

#[test]
fn nothing_but_our_own_colours_reaches_a_terminal() {
    let evil = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}1m\u{8}\rfake";
    let each = |kind: &str, fact: Value| {
        let bytes = printed(render(true, true), &[(kind, fact)]);
        let text = String::from_utf8(bytes).expect("text");
        let ours = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];
        let rest = ours.iter().fold(text, |text, ours| text.replace(ours, ""));
        assert!(!rest.chars().any(|c| c.is_control() && c != '\n'), "{kind}: {rest:?}");
    };
    each("message", json!({ "text": evil }));
    each("thought", json!({ "text": evil }));
    each("log", json!({ "stream": "pty", "text": evil }));
    each(
        "tool",
        json!({ "id": evil, "title": evil, "status": evil, "input": { "command": evil, evil: evil } }),
    );
    each(
        "tool",
        json!({ "id": "1", "title": evil, "tool": evil, "status": "failed", "input": evil, "output": evil }),
    );
    each("model", json!({ "provider": evil, "state": "failed", "error": evil }));
    each("file", json!({ "path": { "data": evil }, "change": "added" }));
    each("plan", json!({ "entries": [{ "content": evil, "status": evil }, evil] }));
    each("plan", json!({ "entries": evil }));
    let about = json!({ "id": evil, "title": evil, "status": "pending", "input": { "command": evil },
        "diffs": [{ "path": evil, "old": evil, "new": "x" }] });
    each("permission", json!({ "id": evil, "state": "asked", "about": about }));
    each("permission", json!({ "id": evil, "state": "denied", "about": about, "by": evil }));
    each("model", json!({ "name": evil }));
    each("status", json!({ "phase": "agent", "checkpoint": { "state": "taken", "id": evil } }));
    each(evil, json!({ evil: evil }));
    let result = crate::task::tests::result(
        &json!({ "status": "failed", "message": evil, "final_message": { "data": evil },
            "failure_reason": "agent_failed", "agent_stderr": { "data": evil }, "models": [evil],
            "checkpoint": { "state": "unavailable", "why": evil },
            "files_changed": { "added": 1, "modified": 0, "deleted": 0, "added_lines": 1, "deleted_lines": 0,
                "files": [{ "path": { "data": evil }, "change": "added" }] } })
        .to_string(),
    );
    each("done", json!({ "result": result }));
}

#[test]
fn what_is_missing_is_said() {
    let mut render = render(true, false);
    let mut next = |number| {
        String::from_utf8(render.event(&view(number, "message", &json!({ "text": "x" })))).expect("text")
    };
    // A start in the middle is not a gap.
    assert_eq!(next(7), "x\n");
    assert_eq!(next(8), "x\n");
    assert_eq!(next(11), "· 2 events are missing here\nx\n");
}

#[test]
fn the_spinner_says_what_goes_on() {
    let mut render = render(true, false);
    let mut activity = |kind: &str, fact: Value| {
        render.event(&view(1, kind, &fact));
        render.current_activity().to_owned()
    };
    assert_eq!(activity("status", json!({ "phase": "agent" })), "agent");
    assert_eq!(activity("tool", json!({ "id": "1", "title": "bash\u{1b}", "status": "pending" })), "bash");
    assert_eq!(activity("tool", json!({ "id": "1", "title": "bash", "status": "completed" })), "agent");
    assert_eq!(activity("status", json!({ "phase": "build" })), "build");
}

#[test]
fn a_whole_task_reads_well() {
    let events = [
        ("status", json!({ "phase": "queued" })),
        ("status", json!({ "phase": "agent", "checkpoint": { "state": "taken", "id": "3f2a91c0ffee77" } })),
        ("message", json!({ "text": "Looking." })),
        ("tool", json!({ "id": "1", "title": "bash", "status": "pending", "input": { "command": "make" } })),
        ("tool", json!({ "id": "2", "title": "read", "status": "pending" })),
        ("tool", json!({ "id": "1", "title": "bash", "status": "completed" })),
        ("status", json!({ "phase": "done" })),
        ("done", done()),
    ];
    insta::assert_snapshot!(shown(&events), @r"
    · queued
    · agent
    Looking.
    > bash make  ok
    > read  unfinished
    succeeded after 12.3s (agent 12.3s)
      files       not known
    ");
    let colours = String::from_utf8(printed(render(true, true), &events[2..6])).expect("text");
    assert_eq!(colours, "Looking.\n> \u{1b}[1mbash\u{1b}[0m make  \u{1b}[32mok\u{1b}[0m\n");
}
