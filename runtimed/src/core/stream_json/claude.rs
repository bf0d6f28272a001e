//! `claude -p --output-format stream-json --verbose`, with or without `--include-partial-messages`. With it
//! everything arrives twice, as increments and as a whole: increments are reported, and the whole only where
//! there were none.

use super::LineEvent;
use super::claude_tool::{ToolUse, tool_result, tool_use};
use crate::core::json_fields::{cut, items, short, text};
use crate::core::tool_limits::{ID_MAX_BYTES, PLAN_ENTRIES_MAX, truncate_plan};
use protocol::{ModelFact, PlanEntry, TaskFact, Tool, ToolStatus};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tool calls whose result has not arrived.
const TOOLS_OPEN_MAX: usize = 64;
/// Model name of messages that Claude Code writes itself.
const NO_MODEL: &str = "<synthetic>";

#[derive(Debug, Default)]
pub struct Reader {
    streamed: Streamed,
    open: BTreeMap<String, ToolUse>,
    /// Entries of the plan by id, which arrive one at a time.
    plan: Vec<(String, PlanEntry)>,
    /// Some text arrived as a message.
    any_text: bool,
}

/// Which kinds of content of the current message arrived as increments.
#[derive(Debug, Default)]
struct Streamed {
    message: String,
    text: bool,
    thought: bool,
}

impl Reader {
    /// Decodes a line; `None` where its type is unknown.
    pub fn line(&mut self, line: &Value) -> Option<Vec<LineEvent>> {
        // Text of a subagent is no message of this agent.
        let below = line.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null());
        match text(line, "type")? {
            "system" => self.system(line),
            "stream_event" => Some(self.piece(line.get("event")?, below)),
            "assistant" => Some(self.assistant(line.get("message")?, below)),
            "user" => Some(self.user(line)),
            "result" => Some(self.result(line)),
            _ => None,
        }
    }

    fn system(&self, line: &Value) -> Option<Vec<LineEvent>> {
        Some(match text(line, "subtype")? {
            "init" => {
                let session = text(line, "session_id").map(|session| LineEvent::Session(session.to_owned()));
                let claimed = |name| LineEvent::Fact(TaskFact::Model(Box::new(ModelFact::Claimed { name })));
                let model = text(line, "model").map(|name| claimed(short(name)));
                session.into_iter().chain(model).collect()
            }
            "api_retry" => vec![LineEvent::Note(retry(line))],
            "permission_denied" => {
                let tool = text(line, "tool_name").unwrap_or("a tool");
                vec![LineEvent::Note(format!("permission for {} was denied", short(tool)))]
            }
            "status" | "thinking_tokens" | "compact_boundary" => Vec::new(),
            _ => return None,
        })
    }

    fn piece(&mut self, event: &Value, below: bool) -> Vec<LineEvent> {
        match text(event, "type") {
            Some("message_start") => {
                let id = event.get("message").and_then(|message| text(message, "id")).unwrap_or_default();
                self.streamed = Streamed { message: short(id), ..Streamed::default() };
                Vec::new()
            }
            Some("content_block_start") => {
                event.get("content_block").map_or_else(Vec::new, |block| self.block_begins(block))
            }
            Some("content_block_delta") => {
                event.get("delta").map_or_else(Vec::new, |delta| self.delta(delta, below))
            }
            Some("content_block_stop") => vec![LineEvent::Pause],
            _ => Vec::new(),
        }
    }

    /// Reports a tool before its input is complete: the content of a file takes a while to arrive.
    fn block_begins(&mut self, block: &Value) -> Vec<LineEvent> {
        let (Some("tool_use"), Some(id), Some(name)) =
            (text(block, "type"), text(block, "id"), text(block, "name"))
        else {
            return Vec::new();
        };
        let known = tool_use(name, &Value::Null);
        if known.plans {
            return Vec::new();
        }
        vec![fact(id, Tool { status: ToolStatus::Pending, ..known.tool })]
    }

    fn delta(&mut self, delta: &Value, below: bool) -> Vec<LineEvent> {
        match (text(delta, "text"), text(delta, "thinking")) {
            (Some(text), _) => {
                self.streamed.text = true;
                vec![self.text_event(text, below)]
            }
            (None, Some(thought)) => {
                self.streamed.thought = true;
                vec![LineEvent::Thought(thought.to_owned())]
            }
            (None, None) => Vec::new(),
        }
    }

    fn text_event(&mut self, text: &str, below: bool) -> LineEvent {
        if below {
            return LineEvent::Thought(text.to_owned());
        }
        self.any_text |= !text.trim().is_empty();
        LineEvent::Text(text.to_owned())
    }

    fn assistant(&mut self, message: &Value, below: bool) -> Vec<LineEvent> {
        let of_program = text(message, "model") == Some(NO_MODEL);
        let streamed = text(message, "id").is_some_and(|id| short(id) == self.streamed.message);
        let mut events = Vec::new();
        for block in items(message, "content") {
            match text(block, "type") {
                Some("text") if of_program => {
                    events.extend(text(block, "text").map(|text| LineEvent::Note(short(text))));
                }
                Some("text") if !(streamed && self.streamed.text) => {
                    let whole = text(block, "text").unwrap_or_default();
                    events.extend([self.text_event(whole, below), LineEvent::Pause]);
                }
                Some("thinking") if !(streamed && self.streamed.thought) => {
                    let whole = text(block, "thinking").unwrap_or_default();
                    events.extend([LineEvent::Thought(whole.to_owned()), LineEvent::Pause]);
                }
                Some("tool_use") => events.extend(self.tool_begins(block)),
                _ => {}
            }
        }
        events
    }

    fn tool_begins(&mut self, block: &Value) -> Option<LineEvent> {
        let (id, name) = (cut(text(block, "id")?, ID_MAX_BYTES), text(block, "name")?);
        let known = tool_use(name, block.get("input").unwrap_or(&Value::Null));
        let told = match known.plan.clone() {
            Some(entries) => Some(LineEvent::Fact(TaskFact::Plan { entries })),
            None if known.plans => None,
            None => Some(fact(id, Tool { status: ToolStatus::Running, ..known.tool.clone() })),
        };
        if self.open.len() < TOOLS_OPEN_MAX {
            self.open.insert(id.to_owned(), known);
        }
        told
    }

    fn user(&mut self, line: &Value) -> Vec<LineEvent> {
        let Some(message) = line.get("message") else { return Vec::new() };
        let answers = items(message, "content").iter();
        let answers = answers.filter(|block| text(block, "type") == Some("tool_result"));
        let answer = line.get("tool_use_result").unwrap_or(&Value::Null);
        answers.filter_map(|block| self.tool_ends(block, answer)).collect()
    }

    fn tool_ends(&mut self, block: &Value, answer: &Value) -> Option<LineEvent> {
        let id = cut(text(block, "tool_use_id")?, ID_MAX_BYTES);
        let known = self.open.remove(id);
        if known.as_ref().is_some_and(|known| known.plans) {
            return self.plan_changes(answer);
        }
        Some(fact(id, tool_result(known, block, answer)))
    }

    /// Entries are created and changed by tools of their own, and only the result carries the id of a new
    /// one.
    fn plan_changes(&mut self, answer: &Value) -> Option<LineEvent> {
        if let Some(made) = answer.get("task") {
            let (id, subject) = (text(made, "id")?, text(made, "subject")?);
            if self.plan.len() >= PLAN_ENTRIES_MAX {
                return None;
            }
            let content = short(subject);
            let entry = PlanEntry { content, status: "pending".to_owned(), priority: None };
            self.plan.push((short(id), entry));
        } else {
            let id = short(text(answer, "taskId")?);
            let status = text(answer.get("statusChange")?, "to")?;
            match status {
                "deleted" => self.plan.retain(|(known, _)| *known != id),
                status => {
                    let (_, entry) = self.plan.iter_mut().find(|(known, _)| *known == id)?;
                    entry.status = short(status);
                }
            }
        }
        let entries = truncate_plan(self.plan.iter().map(|(_, entry)| entry.clone()).collect());
        Some(LineEvent::Fact(TaskFact::Plan { entries }))
    }

    /// `subtype` is `success` and `terminal_reason` is `completed` even after a rejected key: neither is
    /// enough.
    fn result(&mut self, line: &Value) -> Vec<LineEvent> {
        let failed = line.get("is_error").and_then(Value::as_bool).unwrap_or(true);
        let reason = text(line, "terminal_reason").unwrap_or("completed");
        let good = !failed && reason == "completed";
        let mut events = Vec::new();
        let words = text(line, "result").filter(|text| !text.trim().is_empty());
        if good && !self.any_text {
            // Replies without a model call are only in the result.
            events.extend(words.map(|text| LineEvent::Text(text.to_owned())));
            events.push(LineEvent::End);
        }
        let errors: Vec<&str> = items(line, "errors").iter().filter_map(Value::as_str).collect();
        let errors = Some(errors.join("; ")).filter(|text| !text.is_empty());
        let why = errors.or_else(|| words.map(str::to_owned)).map(|text| short(&text));
        let message =
            if good { None } else { why.or_else(|| Some(format!("the agent ended: {}", short(reason)))) };
        events.push(LineEvent::Claim { good, message });
        events
    }
}

fn retry(line: &Value) -> String {
    let number = |name| line.get(name).and_then(Value::as_f64).map_or(0, |number| number as u64);
    let error = text(line, "error").unwrap_or("an error");
    let status = match number("error_status") {
        0 => String::new(),
        status => format!(" ({status})"),
    };
    let (attempt, attempts) = (number("attempt"), number("max_retries"));
    let wait_ms = number("retry_delay_ms");
    format!("the model failed: {}{status}; retry {attempt} of {attempts} in {wait_ms} ms", short(error))
}

fn fact(id: &str, tool: Tool) -> LineEvent {
    let tool = Tool { id: id.to_owned(), ..tool };
    LineEvent::Fact(TaskFact::Tool(Box::new(crate::core::tool_limits::truncate(tool))))
}
