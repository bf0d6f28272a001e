//! Tests of the translation.

use super::*;

fn translator() -> Translator {
    Translator::new(TaskId::parse("t").expect("an id"))
}

fn event(kind: &str, fact: &Value) -> TaskEventView {
    TaskEventView {
        seq: 1,
        time: String::new(),
        sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
        task: TaskId::parse("t").expect("an id"),
        number: Some(1),
        kind: kind.to_owned(),
        fact: fact.as_object().cloned().unwrap_or_default(),
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "callers give fresh documents")]
fn update(translator: &mut Translator, kind: &str, fact: Value, expected: Value) {
    assert_eq!(translator.translate(&event(kind, &fact)), Translated::Update(expected), "{kind} {fact}");
}

#[test]
fn texts_and_plans_become_updates() {
    let text =
        |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    let mut to = translator();
    update(&mut to, "message", json!({"text": "hi"}), text("agent_message_chunk", "hi\n"));
    update(&mut to, "message", json!({"text": "h", "partial": true}), text("agent_message_chunk", "h"));
    update(
        &mut to,
        "message",
        json!({"text": "/w==", "encoding": "base64"}),
        text("agent_message_chunk", "\u{fffd}\n"),
    );
    update(&mut to, "thought", json!({"text": "hm"}), text("agent_thought_chunk", "hm\n"));
    let entries = json!([{"content": "a", "status": "running"}, {"content": "b", "status": "completed", "priority": "low"}]);
    let shown = json!([
        {"content": "a", "status": "pending", "priority": "medium"},
        {"content": "b", "status": "completed", "priority": "low"},
    ]);
    update(&mut to, "plan", json!({"entries": entries}), json!({"sessionUpdate": "plan", "entries": shown}));
    for (kind, fact) in [("log", json!({"text": "x"})), ("message", json!({})), ("tool", json!(3))] {
        let nothing = to.translate(&event(kind, &fact));
        assert!(kind == "message" || nothing == Translated::Nothing || kind == "tool", "{kind}: {nothing:?}");
    }
}

#[test]
fn a_tool_call_is_begun_once_and_its_content_is_always_whole() {
    let mut to = translator();
    update(
        &mut to,
        "tool",
        json!({"id": "c", "status": "running", "title": "Write a", "tool": "edit", "paths": ["/a"],
            "input": {"x": 1}, "diffs": [{"path": "/a", "new": "1"}]}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t:c", "status": "in_progress", "title": "Write a",
            "kind": "edit", "locations": [{"path": "/a"}], "rawInput": {"x": 1},
            "content": [{"type": "diff", "path": "/a", "newText": "1"}]}),
    );
    update(
        &mut to,
        "tool",
        json!({"id": "c", "status": "completed", "output": "done", "exit_code": 0}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t:c", "status": "completed",
            "rawOutput": {"exitCode": 0}, "content": [
                {"type": "diff", "path": "/a", "newText": "1"},
                {"type": "content", "content": {"type": "text", "text": "done"}}]}),
    );
    update(
        &mut to,
        "tool",
        json!({"id": "d", "status": "cancelled", "tool": "craft"}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t:d", "status": "failed", "title": "craft",
            "kind": "other"}),
    );
}

#[test]
fn permissions_and_the_end_are_told_apart() {
    let mut to = translator();
    let about = json!({"id": "c", "status": "pending", "title": "make", "tool": "execute"});
    let option = json!({"id": "yes", "name": "Yes", "kind": "allow_once"});
    let asked = json!({"id": "p1", "state": "asked", "about": about, "options": [option]});
    let params = json!({
        "toolCall": {"toolCallId": "t:c", "status": "pending", "title": "make", "kind": "execute"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
    });
    let permission = "p1".to_owned();
    assert_eq!(
        to.translate(&event("permission", &asked)),
        Translated::Asked { permission: permission.clone(), params }
    );
    for state in ["allowed", "denied", "withdrawn"] {
        let decided = json!({"id": "p1", "state": state, "about": about});
        let expected = Translated::Decided { permission: permission.clone() };
        assert_eq!(to.translate(&event("permission", &decided)), expected, "{state}");
    }
}
