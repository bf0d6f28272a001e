//! Tool updates as real agents send them, and the events made of them.

use super::limits::TOOL_OUTPUT_EVERY_MS;
use super::tools::Tools;
use crate::core::tool_limits::OUTPUT_MAX_BYTES;
use protocol::{Diff, Tool, ToolStatus};
use serde_json::{Value, json};

fn update(fields: Value) -> Value {
    let mut update = json!({"toolCallId": "t"});
    if let (Some(update), Value::Object(fields)) = (update.as_object_mut(), fields) {
        update.extend(fields);
    }
    update
}

fn tool(change: impl FnOnce(&mut Tool)) -> Tool {
    let mut tool = Tool { id: "t".to_owned(), ..Tool::default() };
    change(&mut tool);
    tool
}

#[test]
fn only_changes_of_a_tool_are_reported() {
    let mut tools = Tools::default();
    let begins =
        json!({"title": "bash", "kind": "execute", "status": "pending", "rawInput": {}, "content": []});
    let told = tools.update(&update(begins.clone()), 0).expect("news");
    assert_eq!(
        told,
        tool(|tool| (tool.title, tool.tool) = (Some("bash".to_owned()), Some("execute".to_owned())))
    );
    assert_eq!(tools.update(&update(begins), 1), None, "the same again");
    let runs = json!({"title": "make", "status": "in_progress", "rawInput": {"command": "make"},
        "locations": [{"path": "/app/x"}, {"path": "/app/x"}]});
    let told = tools.update(&update(runs), 2).expect("news");
    let expected = tool(|tool| {
        tool.status = ToolStatus::Running;
        tool.title = Some("make".to_owned());
        tool.input = Some(json!({"command": "make"}));
        tool.paths = vec!["/app/x".to_owned()];
    });
    assert_eq!(told, expected);
    let ends = json!({"status": "completed", "title": "make", "rawInput": {"command": "make"},
        "content": [{"type": "content", "content": {"type": "text", "text": "done"}}],
        "rawOutput": {"output": "done", "metadata": {"exit": 0}}});
    let told = tools.update(&update(ends), 3).expect("news");
    let expected = tool(|tool| {
        tool.status = ToolStatus::Completed;
        tool.output = Some("done".to_owned());
        tool.exit_code = Some(0);
    });
    assert_eq!(told, expected);
    assert_eq!(tools.update(&json!({"title": "without an id"}), 4), None);
}

#[test]
fn a_kind_that_an_agent_does_not_say_is_seen_by_what_it_is_given() {
    for (fields, kind) in [
        (json!({"rawInput": {"command": "make"}}), Some("execute")),
        (json!({"rawInput": {"path": "/x", "content": "y"}}), Some("edit")),
        (json!({"rawInput": {"path": "/x", "before": "y", "after": "z"}}), Some("edit")),
        (json!({"rawInput": {"file_path": "/x"}}), Some("read")),
        (json!({"rawInput": {"url": "http://x"}}), Some("fetch")),
        (json!({"rawInput": {"question": "why"}}), None),
        (json!({"kind": "think", "rawInput": {"command": "make"}}), Some("think")),
        (json!({"title": "make"}), None),
    ] {
        let told = Tools::default().update(&update(fields.clone()), 0).expect("news");
        assert_eq!(told.tool.as_deref(), kind, "{fields}");
    }
}

#[test]
fn output_and_exit_code_are_found_where_each_agent_puts_them() {
    for (fields, output, exit) in [
        (json!({"rawOutput": {"output": "x", "metadata": {"exit": 7}}}), Some("x"), Some(7)),
        (json!({"rawOutput": {"metadata": {"output": "grows"}}}), Some("grows"), None),
        (json!({"rawOutput": {"stdout": "a", "stderr": "b", "exit_code": 1}}), Some("a\nb"), Some(1)),
        (json!({"rawOutput": "plain"}), Some("plain"), None),
        (json!({"rawOutput": {"error": "no such file"}}), Some("no such file"), None),
        (
            json!({"_meta": {"terminal_output_delta": {"data": "piece", "terminal_id": "t"}}}),
            Some("piece"),
            None,
        ),
        (json!({"_meta": {"terminal_exit": {"exit_code": 2, "signal": null}}}), None, Some(2)),
        (
            json!({"status": "failed", "content": [{"type": "content", "content": {"type": "text", "text": "```\nExit code 7\noops"}}]}),
            Some("```\nExit code 7\noops"),
            Some(7),
        ),
        (json!({"rawOutput": {"exit_code": "odd"}, "content": "odd"}), None, None),
    ] {
        let told = Tools::default().update(&update(fields.clone()), 0).expect("news");
        assert_eq!((told.output.as_deref(), told.exit_code), (output, exit), "{fields}");
    }
}

#[test]
fn a_diff_is_reported_once() {
    let mut tools = Tools::default();
    let edit = json!({"content": [{"type": "diff", "path": "/a", "oldText": null, "newText": "x"}]});
    let told = tools.update(&update(edit.clone()), 0).expect("news");
    assert_eq!(told.diffs, [Diff { path: "/a".to_owned(), old: None, new: "x".to_owned() }]);
    assert_eq!(tools.update(&update(edit), 1), None);
}

#[test]
fn incremental_output_is_reported_at_intervals_and_whole() {
    let mut tools = Tools::default();
    let piece = |text: &str| update(json!({"_meta": {"terminal_output_delta": {"data": text}}}));
    assert_eq!(tools.update(&piece("a"), 0).and_then(|tool| tool.output).as_deref(), Some("a"));
    assert_eq!(tools.update(&piece("b"), 1), None);
    assert_eq!(tools.update(&piece("c"), 2), None);
    assert_eq!(tools.next_wake(), Some(TOOL_OUTPUT_EVERY_MS));
    assert_eq!(tools.tick(TOOL_OUTPUT_EVERY_MS - 1), []);
    let told = tools.tick(TOOL_OUTPUT_EVERY_MS);
    assert_eq!(told.iter().map(|tool| tool.output.as_deref()).collect::<Vec<_>>(), [Some("abc")]);
    assert_eq!(tools.next_wake(), None);
    assert_eq!(tools.update(&piece("d"), TOOL_OUTPUT_EVERY_MS + 1), None);
    let ends = tools.update(&update(json!({"status": "completed"})), TOOL_OUTPUT_EVERY_MS + 2).expect("news");
    assert_eq!((ends.status, ends.output.as_deref()), (ToolStatus::Completed, Some("abcd")));
    let long = tools.update(&piece(&"x".repeat(3 * OUTPUT_MAX_BYTES)), 10_000).expect("news");
    assert!(long.truncated && long.output.is_some_and(|output| output.len() == OUTPUT_MAX_BYTES));
}

#[test]
fn what_a_permission_is_about_is_all_that_is_known() {
    let mut tools = Tools::default();
    tools.update(&update(json!({"title": "edit", "kind": "edit", "rawInput": {"filePath": "/a"}})), 0);
    let asks = json!({"content": [{"type": "diff", "path": "/b", "oldText": "x", "newText": "y"}], "title": "edit /b"});
    let (about, subjects) = tools.describe(&update(asks.clone()));
    assert_eq!(
        (about.title.as_deref(), about.tool.as_deref(), about.diffs.len()),
        (Some("edit /b"), Some("edit"), 1)
    );
    assert_eq!(about.input, Some(json!({"filePath": "/a"})));
    assert_eq!(format!("{subjects:?}"), r#"Subjects { all: ["/a", "/b"], cut: false }"#);
    let told = tools.update(&update(asks), 1).expect("it was not told of the tool");
    assert_eq!(told.diffs.len(), 1);
}

#[test]
fn a_tool_that_a_cancel_cut_off_is_no_success() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let diff = json!([{"type": "diff", "path": "/a", "oldText": null, "newText": "x"}]);
    for (ends, expected) in [
        // The way OpenCode and Claude Code end a cancelled tool.
        (json!({"status": "completed", "content": text("User aborted the command")}), ToolStatus::Cancelled),
        (json!({"status": "failed"}), ToolStatus::Cancelled),
        (json!({"status": "completed", "rawOutput": {"metadata": {"exit": 143}}}), ToolStatus::Cancelled),
        // A tool that completed before the cancel.
        (json!({"status": "completed", "rawOutput": {"metadata": {"exit": 0}}}), ToolStatus::Completed),
        (json!({"status": "completed", "content": diff}), ToolStatus::Completed),
        (json!({"content": text("more")}), ToolStatus::Running),
    ] {
        let mut tools = Tools::default();
        tools.update(&update(json!({"title": "sleep 60", "status": "in_progress"})), 0);
        tools.update(&json!({"toolCallId": "before", "title": "ls", "status": "completed"}), 0);
        tools.cancel();
        let told = tools.update(&update(ends.clone()), 1_000).expect("news");
        assert_eq!(told.status, expected, "{ends}");
        let again =
            tools.update(&update(json!({"status": "completed", "title": "again"})), 1_001).expect("news");
        let before = tools.update(&json!({"toolCallId": "before", "title": "ls -l"}), 1_002).expect("news");
        let later = if expected == ToolStatus::Completed { expected } else { ToolStatus::Cancelled };
        assert_eq!((again.status, before.status), (later, ToolStatus::Completed), "{ends}");
    }
}
