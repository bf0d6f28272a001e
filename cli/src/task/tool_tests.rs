use super::*;
use serde_json::json;

#[test]
fn a_detail_is_told_by_what_says_most() {
    let table = [
        (json!("ls -la"), "ls -la"),
        (json!({ "command": "ls", "timeout": 3 }), "ls"),
        (json!({ "command": ["bash", "-lc", "ls"] }), "bash -lc ls"),
        (json!({ "kind": "edit", "path": "a.rs" }), "a.rs"),
        (json!({ "content": "x", "filePath": "a.rs" }), "a.rs"),
        (json!({ "rawInput": { "command": "make" } }), "make"),
        (json!({ "count": 3, "why": null }), "count=3"),
        (json!({}), ""),
        (json!([1, 2]), "[1,2]"),
    ];
    for (detail, expected) in table {
        assert_eq!(key_detail(&detail), expected, "{detail}");
    }
}

fn tool(id: &str, title: &str, status: ToolStatus) -> Tool {
    let title = Some(title.to_owned()).filter(|title| !title.is_empty());
    Tool { id: id.to_owned(), title, status, ..Tool::default() }
}

#[test]
fn a_call_is_told_once_with_its_outcome() {
    let mut calls = OpenCalls::default();
    let input = Some(json!({ "command": "make" }));
    assert_eq!(calls.update(&Tool { input, ..tool("1", "bash", ToolStatus::Pending) }), None);
    assert_eq!(calls.update(&tool("2", "read", ToolStatus::Running)), None);
    let finished = calls.update(&tool("1", "", ToolStatus::Completed)).expect("it is over");
    assert_eq!(
        (finished.name.as_str(), finished.detail.as_str(), finished.outcome),
        ("bash", "make", Outcome::Done)
    );
    let failed = calls.update(&tool("3", "bash", ToolStatus::Failed)).expect("it is over");
    assert_eq!(failed.outcome, Outcome::Failed);
    let left = calls.unfinished(TaskStatus::Failed);
    assert_eq!((left.len(), left[0].name.as_str(), left[0].status.as_str()), (1, "read", "unfinished"));
    assert!(calls.unfinished(TaskStatus::Failed).is_empty());
}

#[test]
fn a_call_that_was_cancelled_with_its_task_is_not_told_as_done() {
    let mut calls = OpenCalls::default();
    for id in ["1", "2"] {
        calls.update(&Tool { exit_code: Some(143), ..tool(id, "sleep 60", ToolStatus::Running) });
    }
    let detail = calls.update(&tool("1", "", ToolStatus::Cancelled)).expect("it is over");
    assert_eq!((detail.status.as_str(), detail.outcome), ("cancelled", Outcome::Cancelled));
    let left = calls.unfinished(TaskStatus::Cancelled);
    assert_eq!((left[0].status.as_str(), left[0].outcome), ("cancelled", Outcome::Cancelled));
}

#[test]
fn too_many_open_calls_are_told_as_they_are() {
    let mut calls = OpenCalls::default();
    for n in 0..limits::OPEN_TOOLS_MAX {
        assert_eq!(calls.update(&tool(&n.to_string(), "bash", ToolStatus::Pending)), None);
    }
    let detail = calls.update(&tool("more", "bash", ToolStatus::Pending));
    assert_eq!(detail.expect("it is told").status, "pending");
}

#[test]
fn a_command_that_failed_shows_its_code_and_what_it_printed_first() {
    let mut calls = OpenCalls::default();
    let output = Some("one\n\ntwo\nthree\nfour\nfive\nsix".to_owned());
    calls.update(&Tool { output, ..tool("1", "npm test", ToolStatus::Running) });
    let ended = Tool { exit_code: Some(7), ..tool("1", "", ToolStatus::Completed) };
    let finished = calls.update(&ended).expect("it is over");
    assert_eq!((finished.status.as_str(), finished.outcome), ("exit 7", Outcome::Failed));
    assert_eq!(finished.output, ["one", "two", "three", "four", "five"]);
    let output = Some("fine".to_owned());
    let good = Tool { output, exit_code: Some(0), ..tool("2", "npm test", ToolStatus::Completed) };
    let finished = calls.update(&good).expect("it is over");
    assert_eq!((finished.status.as_str(), finished.output.len()), ("ok", 0));
}

#[test]
fn an_edit_is_told_by_how_many_lines_it_changed() {
    let diff = |old: Option<&str>, new: &str| Diff {
        path: "a".to_owned(),
        old: old.map(str::to_owned),
        new: new.to_owned(),
    };
    let table = [
        (diff(None, "a\nb\n"), (2, 0)),
        (diff(Some("a\nb\nc"), "a\nx\ny\nc"), (2, 1)),
        (diff(Some("a\na\na"), "a\na"), (0, 1)),
        (diff(Some("same"), "same"), (0, 0)),
        (diff(Some("gone"), ""), (0, 1)),
    ];
    for (diff, expected) in table {
        assert_eq!(changed_lines(&diff), expected, "{diff:?}");
    }
    let diffs = vec![diff(None, "a\nb"), diff(Some("x"), "y")];
    let edit = Tool { diffs, ..tool("1", "Edit a", ToolStatus::Completed) };
    assert_eq!(OpenCalls::default().update(&edit).expect("it is over").status, "+3 -1");
}
