//! Formats tasks: a table, and the details of one. Pure.

use super::{
    style::Style,
    summary::{Listing, summary},
};
use crate::{
    humanize::age,
    output::{Colour, Output},
    sanitize::one_line,
    table::{Cell, Table},
    text::{truncate, wire_name},
};
use protocol::{TaskStatus, api::TaskAnswer};

/// Columns of a prompt in a list, and characters of it in the details.
const PROMPT_COLUMNS: usize = 50;
const PROMPT_WHOLE_CHARS: usize = 2_000;

pub fn table(tasks: &[TaskAnswer], output: Output) -> String {
    let mut table = Table::new(["ID", "STATUS", "AGENT", "AGE", "PROMPT"]);
    for task in tasks {
        table.row([
            task.id.as_str().into(),
            status_cell(task),
            task.agent.clone().into(),
            age(&task.created_at).into(),
            truncate(&task.prompt, PROMPT_COLUMNS).into(),
        ]);
    }
    table.render(output)
}

/// Formats the status, with the current phase or the failure reason.
fn status_text(task: &TaskAnswer) -> String {
    let status = wire_name(&task.status);
    match (task.status, task.failure_reason) {
        (TaskStatus::Running, _) if task.cancelling => format!("{status} (cancelling)"),
        (TaskStatus::Running, _) if !task.open_permissions.is_empty() => {
            format!("waiting for permission {}", truncate(&task.open_permissions.join(", "), PROMPT_COLUMNS))
        }
        (TaskStatus::Running, _) => format!("{status} ({})", wire_name(&task.phase)),
        (TaskStatus::Failed, Some(reason)) => format!("{status} ({})", wire_name(&reason)),
        (TaskStatus::Queued, _) if task.cancelling => format!("{status} (cancelling)"),
        (TaskStatus::Queued | TaskStatus::Succeeded | TaskStatus::Failed | TaskStatus::Cancelled, _) => {
            status
        }
    }
}

fn status_cell(task: &TaskAnswer) -> Cell {
    let colour = match task.status {
        TaskStatus::Queued | TaskStatus::Running => Colour::Yellow,
        TaskStatus::Succeeded => Colour::Green,
        TaskStatus::Failed => Colour::Red,
        TaskStatus::Cancelled => Colour::Dim,
    };
    Cell::painted(status_text(task), colour)
}

pub fn describe(task: &TaskAnswer, style: Style) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| text.push_str(&format!("{name:<10}  {value}\n"));
    field("id", task.id.as_str());
    field("sandbox", task.sandbox_id.as_str());
    field("status", &status_text(task));
    if let Some(first) = task.open_permissions.first() {
        let (sandbox, id, first) = (task.sandbox_id, &task.id, truncate(first, PROMPT_COLUMNS));
        field(
            "answer",
            &format!(
                "`slipway task allow {sandbox} {id} {first}`, or `deny`; `task follow` shows what it is"
            ),
        );
    }
    field("agent", &truncate(&task.agent, PROMPT_COLUMNS));
    field("prompt", &one_line(&task.prompt, PROMPT_WHOLE_CHARS));
    field("created", &format!("{} ago", age(&task.created_at)));
    if let Some(result) = &task.result {
        text.push('\n');
        text.push_str(&summary(result, style, Listing::Whole));
    }
    text
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
