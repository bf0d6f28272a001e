//! Events of a task as messages of the Agent Client Protocol. Pure: the same events give the same messages, so that a
//! reader that begins again gets what it did not see.

use super::{limits, prompt_end, rpc::RpcError};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{
    BuildOutcome, BuildStatus, Diff, Encoding, Payload, Permission, PermissionState, PlanEntry, TaskId,
    TaskResult, Text, Tool, ToolStatus, api::TaskEventView,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Kinds of events that become messages.
pub const KINDS: &str = "message,thought,tool,plan,permission,build,done";
/// Kinds that later messages depend on.
pub const STATEFUL_KINDS: &str = "tool,permission";

const TOOL_KINDS: [&str; 9] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

/// The meaning of an event for an editor.
#[derive(Debug, Clone, PartialEq)]
pub enum Translated {
    Nothing,
    /// The `update` of a `session/update`.
    Update(Value),
    /// The agent asks: `toolCall` and `options` of a `session/request_permission`.
    Asked {
        permission: String,
        params: Value,
    },
    /// The request was decided, or withdrawn.
    Decided {
        permission: String,
    },
    /// The task ended: the result of its `session/prompt`.
    Done(Result<Value, RpcError>),
}

/// The translation of one task.
pub struct Translator {
    task: TaskId,
    tools: HashMap<String, ShownTool>,
}

/// Parts of a tool call that an update replaces as a whole.
#[derive(Default)]
struct ShownTool {
    output: Option<String>,
    diffs: Vec<Diff>,
}

#[derive(Deserialize)]
struct Plan {
    entries: Vec<PlanEntry>,
}

#[derive(Deserialize)]
struct Done {
    result: TaskResult,
}

impl Translator {
    pub fn new(task: TaskId) -> Self {
        Self { task, tools: HashMap::new() }
    }

    pub fn translate(&mut self, event: &TaskEventView) -> Translated {
        let translated = match event.kind.as_str() {
            "message" => fact(event).map(|text| chunk("agent_message_chunk", &text)),
            "thought" => fact(event).map(|text| chunk("agent_thought_chunk", &text)),
            "tool" => fact(event).map(|tool| self.tool(tool)),
            "plan" => fact(event).map(|plan: Plan| shown_plan(&plan.entries)),
            "permission" => fact(event).map(|permission| self.permission(permission)),
            "build" => fact(event).map(|build| self.build(&build)),
            "done" => fact(event).map(|Done { result }| Translated::Done(prompt_end::outcome(&result))),
            _ => None,
        };
        translated.unwrap_or(Translated::Nothing)
    }

    /// Ids of tool calls are unique among those of an agent's process, and sessions have several.
    fn tool_call_id(&self, id: &str) -> String {
        format!("{}:{id}", self.task)
    }

    fn tool(&mut self, tool: Tool) -> Translated {
        let known = self.tools.contains_key(&tool.id);
        let mut update = self.tool_call(&tool);
        update["sessionUpdate"] = json!(if known { "tool_call_update" } else { "tool_call" });
        if !known && update.get("title").is_none() {
            update["title"] = json!(tool.tool.as_deref().unwrap_or("tool"));
        }
        let changed = tool.output.is_some() || !tool.diffs.is_empty();
        if known || self.tools.len() < limits::TOOLS_REMEMBERED_MAX {
            let shown = self.tools.entry(tool.id).or_default();
            shown.output = tool.output.or(shown.output.take());
            if !tool.diffs.is_empty() {
                shown.diffs = tool.diffs;
            }
            if changed {
                update["content"] = content(shown.output.as_deref(), &shown.diffs);
            }
        } else if changed {
            update["content"] = content(tool.output.as_deref(), &tool.diffs);
        }
        Translated::Update(update)
    }

    /// The fields of a tool call, except its content.
    fn tool_call(&self, tool: &Tool) -> Value {
        let mut call = json!({"toolCallId": self.tool_call_id(&tool.id), "status": status(tool.status)});
        if let Some(title) = &tool.title {
            call["title"] = json!(title);
        }
        if let Some(kind) = &tool.tool {
            call["kind"] = json!(if TOOL_KINDS.contains(&kind.as_str()) { kind } else { "other" });
        }
        if let Some(input) = &tool.input {
            call["rawInput"] = input.clone();
        }
        if let Some(code) = tool.exit_code {
            call["rawOutput"] = json!({"exitCode": code});
        }
        if !tool.paths.is_empty() {
            call["locations"] = tool.paths.iter().map(|path| json!({"path": path})).collect();
        }
        call
    }

    fn permission(&self, asked: Permission) -> Translated {
        match asked.state {
            PermissionState::Asked => {
                let mut call = self.tool_call(&asked.about);
                call["status"] = json!("pending");
                if asked.about.output.is_some() || !asked.about.diffs.is_empty() {
                    call["content"] = content(asked.about.output.as_deref(), &asked.about.diffs);
                }
                let options = asked.options.iter();
                let options: Vec<Value> = options
                    .map(|option| json!({"optionId": option.id, "name": option.name, "kind": option.kind}))
                    .collect();
                let params = json!({"toolCall": call, "options": options});
                Translated::Asked { permission: asked.id, params }
            }
            PermissionState::Allowed | PermissionState::Denied | PermissionState::Withdrawn => {
                Translated::Decided { permission: asked.id }
            }
        }
    }

    /// A build check is shown like a tool call.
    fn build(&self, build: &BuildOutcome) -> Translated {
        let status = match build.status {
            BuildStatus::Skipped => return Translated::Nothing,
            BuildStatus::Passed => "completed",
            BuildStatus::Failed => "failed",
        };
        let output = build.output.as_ref().map(payload_text);
        Translated::Update(json!({
            "sessionUpdate": "tool_call", "toolCallId": self.tool_call_id("build"), "title": "Build check",
            "kind": "execute", "status": status, "content": content(output.as_deref(), &[]),
        }))
    }
}

/// Reads the fields of a kind; an event that is not as expected is left out.
fn fact<T: DeserializeOwned>(event: &TaskEventView) -> Option<T> {
    serde_json::from_value(Value::Object(event.fact.clone())).ok()
}

/// Lines come without their end, pieces of lines as they are.
fn chunk(kind: &str, text: &Text) -> Translated {
    let mut words = match text.encoding {
        Encoding::Utf8 => text.text.clone(),
        Encoding::Base64 => lossy(&text.text),
    };
    if !text.partial {
        words.push('\n');
    }
    Translated::Update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": words}}))
}

/// The prompt that a task was given.
pub fn user_message(prompt: &str) -> Value {
    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": prompt}})
}

fn shown_plan(entries: &[PlanEntry]) -> Translated {
    let one_of = |text: &str, known: &[&str], otherwise: &str| {
        known.iter().find(|word| **word == text).map_or(otherwise, |word| word).to_owned()
    };
    let entry = |entry: &PlanEntry| {
        let status = one_of(&entry.status, &["pending", "in_progress", "completed"], "pending");
        let priority = entry.priority.as_deref().unwrap_or_default();
        let priority = one_of(priority, &["high", "medium", "low"], "medium");
        json!({"content": entry.content, "status": status, "priority": priority})
    };
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    Translated::Update(json!({"sessionUpdate": "plan", "entries": entries}))
}

fn status(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::Running => "in_progress",
        ToolStatus::Completed => "completed",
        ToolStatus::Failed | ToolStatus::Cancelled => "failed",
    }
}

fn content(output: Option<&str>, diffs: &[Diff]) -> Value {
    let diff = |diff: &Diff| {
        let mut shown = json!({"type": "diff", "path": diff.path, "newText": diff.new});
        if let Some(old) = &diff.old {
            shown["oldText"] = json!(old);
        }
        shown
    };
    let text = |output: &str| json!({"type": "content", "content": {"type": "text", "text": output}});
    diffs.iter().map(diff).chain(output.map(text)).collect()
}

fn payload_text(payload: &Payload) -> String {
    match payload.encoding {
        Encoding::Utf8 => payload.data.clone(),
        Encoding::Base64 => lossy(&payload.data),
    }
}

fn lossy(base64: &str) -> String {
    String::from_utf8_lossy(&STANDARD.decode(base64).unwrap_or_default()).into_owned()
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
