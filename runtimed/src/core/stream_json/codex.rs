//! `codex exec --json`: items that start and complete within one turn. There are no increments, and an error
//! may be one that Codex recovered from, so only the last claim about the turn counts.

use super::LineEvent;
use crate::core::json_fields::{first_line, items, short, text};
use crate::core::tool_limits::{truncate, truncate_plan};
use protocol::{PlanEntry, TaskFact, Tool, ToolStatus};
use serde_json::{Value, json};

/// Shell prefixes that Codex puts before commands.
const SHELLS: [&str; 4] = ["/bin/bash -lc ", "bash -lc ", "/bin/sh -c ", "/bin/sh -lc "];

#[derive(Debug)]
pub struct Reader;

impl Reader {
    pub fn line(&mut self, line: &Value) -> Option<Vec<LineEvent>> {
        let bad = |message: Option<&str>| LineEvent::Claim { good: false, message: message.map(short) };
        Some(match text(line, "type")? {
            "thread.started" => vec![LineEvent::Session(text(line, "thread_id")?.to_owned())],
            "turn.started" => Vec::new(),
            "item.started" | "item.updated" => item(line.get("item")?, false)?,
            "item.completed" => item(line.get("item")?, true)?,
            "turn.completed" => vec![LineEvent::Claim { good: true, message: None }],
            "turn.failed" => vec![bad(line.get("error").and_then(|error| text(error, "message")))],
            "error" => {
                let message = text(line, "message")?;
                vec![LineEvent::Note(short(message)), bad(Some(message))]
            }
            _ => return None,
        })
    }
}

fn item(item: &Value, ended: bool) -> Option<Vec<LineEvent>> {
    let tool = |tool: Tool| {
        let id = text(item, "id").unwrap_or_default().to_owned();
        vec![LineEvent::Fact(TaskFact::Tool(Box::new(truncate(Tool {
            id,
            status: status(item, ended),
            ..tool
        }))))]
    };
    Some(match text(item, "type")? {
        "agent_message" | "reasoning" if !ended => Vec::new(),
        "agent_message" => vec![LineEvent::Text(text(item, "text")?.to_owned()), LineEvent::End],
        "reasoning" => vec![LineEvent::Thought(text(item, "text")?.to_owned()), LineEvent::End],
        "command_execution" => tool(command(item)),
        "file_change" => tool(file_change(item)),
        "mcp_tool_call" => tool(mcp_call(item)),
        "web_search" => tool(Tool {
            title: Some(format!("Search {}", first_line(text(item, "query").unwrap_or_default()))),
            tool: Some("search".to_owned()),
            ..Tool::default()
        }),
        "todo_list" => vec![LineEvent::Fact(TaskFact::Plan { entries: plan(item) })],
        "error" => vec![LineEvent::Note(short(text(item, "message")?))],
        _ => return None,
    })
}

fn status(item: &Value, ended: bool) -> ToolStatus {
    match (text(item, "status"), ended) {
        (Some("failed" | "declined"), _) => ToolStatus::Failed,
        (_, true) => ToolStatus::Completed,
        (_, false) => ToolStatus::Running,
    }
}

fn command(item: &Value) -> Tool {
    let command = text(item, "command").unwrap_or_default();
    let code = item.get("exit_code").and_then(Value::as_i64);
    Tool {
        title: Some(first_line(unwrapped(command)).to_owned()),
        tool: Some("execute".to_owned()),
        input: Some(json!({ "command": command })),
        output: text(item, "aggregated_output").filter(|text| !text.is_empty()).map(str::to_owned),
        exit_code: code.and_then(|code| i32::try_from(code).ok()),
        ..Tool::default()
    }
}

/// The command without its shell prefix and quotes, where they can be told apart.
fn unwrapped(command: &str) -> &str {
    let Some(line) = SHELLS.iter().find_map(|shell| command.strip_prefix(shell)) else { return command };
    let quoted = |quote: char| line.strip_prefix(quote)?.strip_suffix(quote).filter(|it| !it.contains(quote));
    quoted('\'').or_else(|| quoted('"')).unwrap_or(line)
}

fn file_change(item: &Value) -> Tool {
    let changes = items(item, "changes");
    let paths: Vec<String> =
        changes.iter().filter_map(|change| text(change, "path")).map(str::to_owned).collect();
    let all = |kind| !changes.is_empty() && changes.iter().all(|change| text(change, "kind") == Some(kind));
    let (verb, tool) = match (all("delete"), all("add")) {
        (true, _) => ("Delete", "delete"),
        (_, true) => ("Write", "edit"),
        (false, false) => ("Edit", "edit"),
    };
    Tool {
        title: Some(format!("{verb} {}", paths.join(", "))),
        tool: Some(tool.to_owned()),
        paths,
        ..Tool::default()
    }
}

fn mcp_call(item: &Value) -> Tool {
    let of = |name| text(item, name).unwrap_or_default();
    let error = item.get("error").and_then(|error| text(error, "message"));
    let contents = item.get("result").map_or(&[][..], |result| items(result, "content"));
    let answer: Vec<&str> = contents.iter().filter_map(|content| text(content, "text")).collect();
    let output = error.map_or_else(|| answer.join("\n"), str::to_owned);
    Tool {
        title: Some(format!("{} {}", of("server"), of("tool"))),
        tool: Some("other".to_owned()),
        input: item.get("arguments").filter(|value| !value.is_null()).cloned(),
        output: Some(output).filter(|text| !text.is_empty()),
        ..Tool::default()
    }
}

fn plan(item: &Value) -> Vec<PlanEntry> {
    let entry = |entry: &Value| {
        let done = entry.get("completed").and_then(Value::as_bool).unwrap_or_default();
        Some(PlanEntry {
            content: text(entry, "text")?.to_owned(),
            status: if done { "completed" } else { "pending" }.to_owned(),
            priority: None,
        })
    };
    truncate_plan(items(item, "items").iter().filter_map(entry).collect())
}
