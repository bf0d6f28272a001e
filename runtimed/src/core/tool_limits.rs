//! Limits of reported tools and plans: with everything at its limit an event still fits the readers of
//! events, although control characters make JSON text six times as long.

use super::json_fields::tail;
use protocol::{Diff, PlanEntry, Tool};
use serde_json::Value;

pub const ID_MAX_BYTES: usize = 256;
pub const TITLE_MAX_BYTES: usize = 1 << 10;
/// Input of a tool, its output, and each side of a diff.
pub const INPUT_MAX_BYTES: usize = 16 << 10;
pub const OUTPUT_MAX_BYTES: usize = 16 << 10;
pub const DIFF_SIDE_MAX_BYTES: usize = 8 << 10;
pub const DIFFS_MAX: usize = 4;
pub const PATHS_MAX: usize = 32;
pub const PATH_MAX_BYTES: usize = 1 << 10;
pub const PLAN_ENTRIES_MAX: usize = 100;
/// Cost of a value beside its text.
const VALUE_BYTES: usize = 8;

/// Truncates a tool to its limits and marks it where something was cut.
pub fn truncate(mut tool: Tool) -> Tool {
    cut(&mut tool.id, ID_MAX_BYTES);
    tool.title.as_mut().map(|title| cut(title, TITLE_MAX_BYTES));
    tool.tool.as_mut().map(|kind| cut(kind, ID_MAX_BYTES));
    if let Some(input) = tool.input.take() {
        let mut room = INPUT_MAX_BYTES;
        tool.input = Some(truncate_value(input, &mut room, &mut tool.truncated));
    }
    if let Some(output) = &mut tool.output
        && output.len() > OUTPUT_MAX_BYTES
    {
        // The end of the output holds the result.
        *output = tail(output, OUTPUT_MAX_BYTES).to_owned();
        tool.truncated = true;
    }
    tool.truncated |= tool.diffs.len() > DIFFS_MAX || tool.paths.len() > PATHS_MAX;
    tool.diffs.truncate(DIFFS_MAX);
    tool.paths.truncate(PATHS_MAX);
    for Diff { path, old, new } in &mut tool.diffs {
        tool.truncated |= cut(path, PATH_MAX_BYTES);
        tool.truncated |= cut(new, DIFF_SIDE_MAX_BYTES);
        tool.truncated |= old.as_mut().is_some_and(|old| cut(old, DIFF_SIDE_MAX_BYTES));
    }
    for path in &mut tool.paths {
        tool.truncated |= cut(path, PATH_MAX_BYTES);
    }
    tool
}

/// Truncates a plan to its limits.
pub fn truncate_plan(mut entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
    entries.truncate(PLAN_ENTRIES_MAX);
    for entry in &mut entries {
        cut(&mut entry.content, TITLE_MAX_BYTES);
        cut(&mut entry.status, ID_MAX_BYTES);
        entry.priority.as_mut().map(|priority| cut(priority, ID_MAX_BYTES));
    }
    entries
}

/// Keeps the beginning, in whole characters; whether something was cut.
fn cut(text: &mut String, max_bytes: usize) -> bool {
    let long = text.len() > max_bytes;
    if long {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.shrink_to_fit();
    }
    long
}

/// One text may take half of the remaining bytes: others follow it.
fn truncate_value(value: Value, room: &mut usize, truncated: &mut bool) -> Value {
    *room = room.saturating_sub(VALUE_BYTES);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
        Value::String(mut text) => {
            *truncated |= cut(&mut text, *room / 2);
            *room -= text.len();
            Value::String(text)
        }
        Value::Array(values) => {
            let mut kept = Vec::new();
            for value in values {
                if *room == 0 {
                    *truncated = true;
                    break;
                }
                kept.push(truncate_value(value, room, truncated));
            }
            Value::Array(kept)
        }
        Value::Object(fields) => {
            let mut kept = serde_json::Map::new();
            for (name, value) in fields {
                if *room <= name.len() {
                    *truncated = true;
                    continue;
                }
                *room -= name.len();
                kept.insert(name, truncate_value(value, room, truncated));
            }
            Value::Object(kept)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_small_tool_is_not_changed() {
        let tool = Tool {
            id: "1".to_owned(),
            input: Some(json!({"command": "ls", "many": [1, null, {"a": "b"}]})),
            output: Some("out".to_owned()),
            paths: vec!["a".to_owned()],
            ..Tool::default()
        };
        assert_eq!(truncate(tool.clone()), tool);
    }

    #[test]
    fn a_large_tool_is_truncated_and_marked() {
        let long = "é".repeat(1 << 20);
        let diff = Diff { path: long.clone(), old: Some(long.clone()), new: long.clone() };
        let tool = Tool {
            id: long.clone(),
            title: Some(long.clone()),
            tool: Some(long.clone()),
            input: Some(json!({"content": long, "file_path": "index.html", "more": vec![&long; 3]})),
            output: Some(format!("{long}end")),
            diffs: vec![diff; 9],
            paths: vec![long.clone(); 99],
            ..Tool::default()
        };
        let tool = truncate(tool);
        assert!(tool.truncated);
        assert_eq!(tool.input.as_ref().expect("some of it")["file_path"], "index.html");
        assert!(tool.output.as_ref().expect("some of it").ends_with("end"));
        assert!(serde_json::to_vec(&tool).expect("JSON").len() < 160 << 10);
    }

    proptest! {
        #[test]
        fn any_input_fits(text in "[a-zé\u{1}]{0,64}", times in 0usize..4000, depth in 0usize..100) {
            let mut value = json!([text.repeat(times), {text.repeat(9): text.repeat(times)}, vec![1; times]]);
            for _ in 0..depth {
                value = json!({"a": value});
            }
            let small = serde_json::to_vec(&value).expect("JSON").len() < INPUT_MAX_BYTES / 16;
            let tool = truncate(Tool { input: Some(value.clone()), ..Tool::default() });
            let told = tool.input.expect("something");
            prop_assert!(serde_json::to_vec(&told).expect("JSON").len() <= 6 * INPUT_MAX_BYTES);
            prop_assert!(tool.truncated || told == value);
            prop_assert!(!small || !tool.truncated);
        }
    }
}
