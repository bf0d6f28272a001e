//! The tools of Claude Code by name: what a call is about, and what its result says.

use crate::core::json_fields::{first_line, items, short, text};
use crate::core::tool_limits::{truncate, truncate_plan};
use protocol::{Diff, PlanEntry, Tool, ToolStatus};
use serde_json::Value;

/// First line of the output of a failed command. The exit code is in no other place.
const EXIT_CODE: &str = "Exit code ";

/// A tool call.
#[derive(Debug, Clone, Default)]
pub struct ToolUse {
    pub tool: Tool,
    /// The tool edits the plan and is not reported as a tool; `plan` is the whole plan where the call carries
    /// it.
    pub plans: bool,
    pub plan: Option<Vec<PlanEntry>>,
    /// The changes that the call asks for.
    diffs: Vec<Diff>,
    runs: bool,
}

pub fn tool_use(name: &str, input: &Value) -> ToolUse {
    let kind = kind(name);
    let of = |field| text(input, field).unwrap_or_default();
    let path = ["file_path", "notebook_path", "path"].into_iter().find_map(|field| text(input, field));
    let about = match (kind, name) {
        ("execute", _) => of("command"),
        (_, "Grep" | "Glob") => of("pattern"),
        (_, "WebSearch") => of("query"),
        ("fetch", _) => of("url"),
        (_, "Task" | "Agent") => of("description"),
        _ => path.unwrap_or_default(),
    };
    let title = match (name, first_line(about)) {
        (name, "") => short(name),
        ("Bash", line) => short(line),
        (name, line) => short(&format!("{name} {line}")),
    };
    let todos = (name == "TodoWrite").then(|| items(input, "todos").iter().filter_map(entry).collect());
    let files = matches!(kind, "read" | "edit");
    let tool = Tool {
        title: Some(title),
        tool: Some(kind.to_owned()),
        input: Some(input).filter(|input| !input.is_null()).cloned(),
        paths: path.filter(|_| files).map(short).into_iter().collect(),
        ..Tool::default()
    };
    ToolUse {
        plans: matches!(name, "TodoWrite" | "TaskCreate" | "TaskUpdate"),
        plan: todos.map(truncate_plan),
        diffs: truncate(Tool { diffs: change_asked(name, input, path), ..Tool::default() }).diffs,
        runs: name == "Bash",
        tool: truncate(tool),
    }
}

fn kind(name: &str) -> &'static str {
    match name {
        "Bash" | "BashOutput" | "KillShell" => "execute",
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => "edit",
        "Read" | "NotebookRead" => "read",
        "Grep" | "Glob" | "LS" | "WebSearch" => "search",
        "WebFetch" => "fetch",
        "EnterPlanMode" | "ExitPlanMode" => "switch_mode",
        _ => "other",
    }
}

fn entry(todo: &Value) -> Option<PlanEntry> {
    let status = text(todo, "status").unwrap_or("pending").to_owned();
    Some(PlanEntry { content: text(todo, "content")?.to_owned(), status, priority: None })
}

fn change_asked(name: &str, input: &Value, path: Option<&str>) -> Vec<Diff> {
    let Some(path) = path else { return Vec::new() };
    let diff = |old: Option<&str>, new: &str| Diff {
        path: path.to_owned(),
        old: old.map(str::to_owned),
        new: new.to_owned(),
    };
    let replaced = |edit: &Value| Some(diff(Some(text(edit, "old_string")?), text(edit, "new_string")?));
    match name {
        "Write" => text(input, "content").map(|new| diff(None, new)).into_iter().collect(),
        "Edit" => replaced(input).into_iter().collect(),
        "MultiEdit" => items(input, "edits").iter().filter_map(replaced).collect(),
        _ => Vec::new(),
    }
}

/// The fields that the result of a tool adds.
pub fn tool_result(known: Option<ToolUse>, block: &Value, answer: &Value) -> Tool {
    let ToolUse { diffs, runs, .. } = known.unwrap_or_default();
    let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
    let printed = printed(block);
    let (exit_code, output) = if runs && failed { exit_code(&printed) } else { (None, printed.as_str()) };
    let changed = || change_seen(answer).unwrap_or(diffs);
    Tool {
        status: if failed { ToolStatus::Failed } else { ToolStatus::Completed },
        exit_code,
        output: Some(output.to_owned()).filter(|text| !text.is_empty()),
        diffs: if failed { Vec::new() } else { changed() },
        ..Tool::default()
    }
}

/// The text of a result, which is one string or several parts.
fn printed(block: &Value) -> String {
    match block.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn exit_code(printed: &str) -> (Option<i32>, &str) {
    let (first, rest) = printed.split_once('\n').unwrap_or((printed, ""));
    match first.strip_prefix(EXIT_CODE).and_then(|code| code.trim().parse().ok()) {
        Some(code) => (Some(code), rest),
        None => (None, printed),
    }
}

/// The changes that the result reports: changed hunks, or the whole content of a new file.
fn change_seen(answer: &Value) -> Option<Vec<Diff>> {
    let path = text(answer, "filePath")?;
    let hunks = answer.get("structuredPatch").and_then(Value::as_array)?;
    if hunks.is_empty() {
        let old = text(answer, "originalFile").map(str::to_owned);
        let new = text(answer, "content")?.to_owned();
        return Some(vec![Diff { path: path.to_owned(), old, new }]);
    }
    let side = |hunk: &Value, without: char| {
        let mut side = String::new();
        for line in items(hunk, "lines").iter().filter_map(Value::as_str) {
            // A backslash marks a comment on the line before.
            if !line.starts_with([without, '\\']) {
                let mut rest = line.chars();
                rest.next();
                side.extend([rest.as_str(), "\n"]);
            }
        }
        side
    };
    let diff =
        |hunk: &Value| Diff { path: path.to_owned(), old: Some(side(hunk, '+')), new: side(hunk, '-') };
    Some(hunks.iter().map(diff).collect())
}
