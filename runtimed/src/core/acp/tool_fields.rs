//! Where the different agents put the fields of a tool in an update.

use crate::core::json_fields::{cut, first_text, items, text};
use crate::core::tool_limits::{DIFFS_MAX, ID_MAX_BYTES, PATHS_MAX};
use protocol::{Diff, ToolStatus};
use serde_json::Value;

pub fn id(update: &Value) -> Option<String> {
    text(update, "toolCallId").filter(|id| !id.is_empty()).map(|id| cut(id, ID_MAX_BYTES).to_owned())
}

pub fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Guesses the kind of a tool from its input: some agents do not send the kind.
pub fn kind_by_input(update: &Value) -> Option<&'static str> {
    const PATHS: [&str; 3] = ["path", "file_path", "filePath"];
    const CHANGES: [&str; 7] = ["content", "after", "new_string", "newString", "new_str", "patch", "diff"];
    let input = update.get("rawInput")?;
    if first_text(input, &["command", "cmd"]).is_some() {
        Some("execute")
    } else if first_text(input, &["url"]).is_some() {
        Some("fetch")
    } else if first_text(input, &PATHS).is_none() {
        None
    } else if CHANGES.iter().any(|name| input.get(name).is_some()) {
        Some("edit")
    } else {
        Some("read")
    }
}

pub fn status(update: &Value) -> Option<ToolStatus> {
    match text(update, "status")? {
        "pending" => Some(ToolStatus::Pending),
        "in_progress" => Some(ToolStatus::Running),
        "completed" => Some(ToolStatus::Completed),
        "failed" => Some(ToolStatus::Failed),
        _ => None,
    }
}

pub fn paths(update: &Value) -> Vec<String> {
    let paths = items(update, "locations").iter().filter_map(|location| text(location, "path"));
    let mut all: Vec<String> =
        paths.filter(|path| !path.is_empty()).take(PATHS_MAX + 1).map(str::to_owned).collect();
    all.dedup();
    all
}

pub fn diffs(update: &Value) -> Vec<Diff> {
    let diffs = items(update, "content").iter().filter(|item| text(item, "type") == Some("diff"));
    let one = |item: &Value| {
        let side = |name| text(item, name).map(str::to_owned);
        Some(Diff { path: side("path")?, old: side("oldText"), new: side("newText").unwrap_or_default() })
    };
    // One more than is reported, so that truncation is noticed.
    diffs.take(DIFFS_MAX + 1).filter_map(one).collect()
}

/// Output of a tool since the last update, for agents that send increments.
pub fn printed(update: &Value) -> Option<&str> {
    let meta = update.get("_meta")?;
    ["terminal_output_delta", "terminal_output"].iter().find_map(|name| text(meta.get(name)?, "data"))
}

/// The whole output of a tool, from whichever field the agent uses.
pub fn output(update: &Value) -> Option<String> {
    let texts = items(update, "content").iter().filter(|item| text(item, "type") == Some("content"));
    let texts: Vec<&str> = texts.filter_map(|item| text(&item["content"], "text")).collect();
    if !texts.is_empty() {
        return Some(texts.join("\n"));
    }
    let raw = update.get("rawOutput")?;
    if let Some(whole) = raw.as_str().or_else(|| first_text(raw, &["output", "formatted_output"])) {
        return Some(whole.to_owned());
    }
    if let Some(growing) = raw.get("metadata").and_then(|metadata| first_text(metadata, &["output"])) {
        return Some(growing.to_owned());
    }
    let streams: Vec<&str> =
        ["stdout", "stderr"].iter().filter_map(|name| first_text(raw, &[name])).collect();
    if !streams.is_empty() {
        return Some(streams.join("\n"));
    }
    first_text(raw, &["error", "message"]).map(str::to_owned)
}

/// The exit code, from whichever field the agent uses.
pub fn exit_code(update: &Value) -> Option<i32> {
    let raw = &update["rawOutput"];
    let places = [
        &raw["metadata"]["exit"],
        &raw["exit_code"],
        &raw["exitCode"],
        &raw["structuredContent"]["exit_code"],
        &update["_meta"]["terminal_exit"]["exit_code"],
    ];
    places.into_iter().find_map(Value::as_i64).and_then(|code| i32::try_from(code).ok())
}

/// Parses `Exit code 7` at the start of the output: some agents report the code in no other way.
pub fn exit_code_in_text(output: &str) -> Option<i32> {
    let words = output.trim_start_matches(['`', '\n', ' ']).strip_prefix("Exit code ")?;
    words.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
