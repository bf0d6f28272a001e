//! Tool calls: collected until their result is known, then shown in a few lines. Pure.

use super::parse_event::fields;
use crate::limits;
use protocol::{Diff, TaskStatus, Tool, ToolStatus};
use serde_json::Value;
use std::collections::BTreeMap;

/// Input fields that describe a call best, best first.
const DETAIL_FIELDS: [&str; 9] =
    ["title", "command", "path", "file_path", "filePath", "url", "query", "pattern", "description"];
/// Output lines shown for a failed call, and bytes of output kept until then.
const OUTPUT_LINES: usize = 5;
const OUTPUT_MAX_BYTES: usize = 4 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ToolCall {
    title: String,
    kind: String,
    detail: String,
    output: String,
    exit_code: Option<i32>,
    /// Added and deleted lines.
    lines: Option<(u64, u64)>,
}

/// Calls without a result yet.
#[derive(Debug, Default)]
pub struct OpenCalls {
    open: BTreeMap<String, ToolCall>,
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCall {
    pub name: String,
    pub detail: String,
    pub status: String,
    pub outcome: Outcome,
    /// First lines of output of a failed call.
    pub output: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// Cancelled with its task.
    Cancelled,
}

impl OpenCalls {
    /// Updates a call; returns it when it is finished.
    pub fn update(&mut self, tool: &Tool) -> Option<FinishedCall> {
        let mut call = self.open.remove(&tool.id).unwrap_or_default();
        call.update(tool);
        let open = matches!(tool.status, ToolStatus::Pending | ToolStatus::Running);
        if open && self.open.len() < limits::OPEN_TOOLS_MAX {
            self.open.insert(tool.id.clone(), call);
            return None;
        }
        Some(call.finish(tool.status))
    }

    /// Returns the calls without a result when the task has ended.
    pub fn unfinished(&mut self, task: TaskStatus) -> Vec<FinishedCall> {
        let calls = std::mem::take(&mut self.open).into_values();
        let unfinished = |call: ToolCall| {
            if task == TaskStatus::Cancelled {
                return call.finish(ToolStatus::Cancelled);
            }
            let finished = call.finish(ToolStatus::Pending);
            FinishedCall {
                status: "unfinished".to_owned(),
                outcome: Outcome::Failed,
                output: Vec::new(),
                ..finished
            }
        };
        calls.map(unfinished).collect()
    }
}

impl ToolCall {
    /// Updates the fields that are present.
    fn update(&mut self, tool: &Tool) {
        if let Some(title) = tool.title.as_ref().filter(|title| !title.is_empty()) {
            title.clone_into(&mut self.title);
        }
        if let Some(kind) = &tool.tool {
            kind.clone_into(&mut self.kind);
        }
        let detail = tool.input.as_ref().map(key_detail).unwrap_or_default();
        if !detail.is_empty() {
            self.detail = detail;
        } else if let (true, Some(path)) = (self.detail.is_empty(), tool.paths.first()) {
            path.clone_into(&mut self.detail);
        }
        if let Some(output) = &tool.output {
            self.output = output.chars().take(OUTPUT_MAX_BYTES).collect();
        }
        self.exit_code = tool.exit_code.or(self.exit_code);
        if !tool.diffs.is_empty() {
            let sum = |(added, deleted), diff| {
                let (more, less) = changed_lines(diff);
                (added + more, deleted + less)
            };
            self.lines = Some(tool.diffs.iter().fold((0, 0), sum));
        }
    }

    fn finish(self, status: ToolStatus) -> FinishedCall {
        let code = self.exit_code.filter(|code| *code != 0);
        let outcome = match (status, code) {
            (ToolStatus::Cancelled, _) => Outcome::Cancelled,
            (ToolStatus::Failed, _) | (_, Some(_)) => Outcome::Failed,
            (ToolStatus::Pending | ToolStatus::Running | ToolStatus::Completed, None) => Outcome::Done,
        };
        let status = match (status, code, self.lines) {
            (ToolStatus::Cancelled, _, _) => "cancelled".to_owned(),
            (_, Some(code), _) => format!("exit {code}"),
            (ToolStatus::Failed, None, _) => "failed".to_owned(),
            (ToolStatus::Completed, None, Some((added, deleted))) => format!("+{added} -{deleted}"),
            (ToolStatus::Completed, None, None) => "ok".to_owned(),
            (ToolStatus::Pending, None, _) => "pending".to_owned(),
            (ToolStatus::Running, None, _) => "running".to_owned(),
        };
        let name = if self.title.is_empty() { self.kind } else { self.title };
        // The title often contains the detail.
        let detail = if name.contains(&self.detail) { String::new() } else { self.detail };
        let lines = self.output.lines().filter(|line| !line.trim().is_empty());
        let output = lines.take(OUTPUT_LINES).map(str::to_owned).collect();
        let output = if outcome == Outcome::Failed { output } else { Vec::new() };
        FinishedCall { name, detail, status, outcome, output }
    }
}

/// Counts added and deleted lines without the common prefix and suffix; not a minimal diff.
fn changed_lines(diff: &Diff) -> (u64, u64) {
    let old: Vec<&str> = diff.old.as_deref().unwrap_or_default().lines().collect();
    let new: Vec<&str> = diff.new.lines().collect();
    let same = |(old, new): &(&&str, &&str)| old == new;
    let front = old.iter().zip(&new).take_while(same).count();
    let back = old[front..].iter().rev().zip(new[front..].iter().rev()).take_while(same).count();
    let left = |all: usize| u64::try_from(all - front - back).unwrap_or(u64::MAX);
    (left(new.len()), left(old.len()))
}

/// Returns the input field that describes a call best.
pub fn key_detail(detail: &Value) -> String {
    let Some(map) = detail.as_object() else {
        return detail.as_str().map_or_else(|| detail.to_string(), ToOwned::to_owned);
    };
    let nested = ["input", "rawInput", "raw_input"].iter().filter_map(|name| map.get(*name)?.as_object());
    let found = std::iter::once(map)
        .chain(nested)
        .find_map(|map| DETAIL_FIELDS.iter().find_map(|name| map.get(*name).and_then(text_of)));
    found.unwrap_or_else(|| fields(map))
}

/// Returns text, or a list of words joined; some agents pass commands as lists.
fn text_of(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return (!text.is_empty()).then(|| text.to_owned());
    }
    let words: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
    words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
