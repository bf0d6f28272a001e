//! Messages of a working agent: updates become facts, and every request gets a response.

use super::machine::{Machine, OpenMethod, State};
use super::pending_permissions::PermissionRequest;
use super::permission_rules;
use super::rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::core::json_fields::{items, text};
use crate::core::line_joiner::TextKind;
use crate::core::tool_limits::{PLAN_ENTRIES_MAX, truncate_plan};
use protocol::{PlanEntry, TaskFact};
use serde_json::Value;

impl Machine {
    /// Handles a notification. Those that say nothing about the task are only in the raw log of the agent.
    pub(super) fn on_notification(&mut self, method: &str, params: &Value, now: u64) {
        match method {
            "session/update" => {
                let session = text(params, "sessionId");
                if matches!(self.state, State::Opening(OpenMethod::Resume | OpenMethod::Load)) {
                    // History, which was reported when it happened.
                    return;
                }
                if self.session.is_some() && session != self.session.as_deref() {
                    // Another session that the agent opened for itself.
                    return;
                }
                self.update(&params["update"], now);
            }
            "$/cancel_request" => {
                let effects = self.pending_permissions.withdraw(&params["requestId"]);
                self.perform(effects);
            }
            _ => {}
        }
    }

    fn update(&mut self, update: &Value, now: u64) {
        match text(update, "sessionUpdate").unwrap_or_default() {
            "agent_message_chunk" => self.chunk(TextKind::Message, &update["content"], now),
            "agent_thought_chunk" => self.chunk(TextKind::Thought, &update["content"], now),
            "tool_call" | "tool_call_update" => {
                let tool = self.tools.update(update, now);
                self.report_tools(tool.into_iter().collect());
            }
            "plan" => self.report(TaskFact::Plan { entries: plan(update) }),
            "config_option_update" => {
                self.settings.renew(update);
                self.report_model();
            }
            // Usage and trouble with models are reported by the gateway; user messages are known. Raw
            // messages belong to the raw log of the agent, not to the events of the task.
            _ => {}
        }
    }

    fn chunk(&mut self, kind: TextKind, content: &Value, now: u64) {
        match (text(content, "type"), text(content, "text")) {
            // Text before the prompt is no reply to it.
            (Some("text"), Some(words)) if !matches!(self.state, State::Prompting | State::Closed) => {
                self.other_output(words.as_bytes());
            }
            (Some("text"), Some(words)) => {
                let facts = self.text.push(kind, words, now);
                self.report_text(facts);
            }
            // Other content, such as an image.
            _ => {}
        }
    }

    pub(super) fn on_request(&mut self, id: Value, method: &str, params: &Value) {
        if self.state == State::Closed {
            // The agent's stdin is closed: no response is possible.
            return;
        }
        if method != "session/request_permission" {
            // Methods that `initialize` did not offer: some agents call them all the same, and go on without
            // them.
            return self.send(rpc::error_response(&id, METHOD_NOT_FOUND, "method not found"));
        }
        if !params["toolCall"].is_object() {
            self.log("the agent asked for a permission without a tool call".to_owned());
            return self.send(rpc::error_response(&id, INVALID_PARAMS, "toolCall is missing"));
        }
        let (about, subjects) = self.tools.describe(&params["toolCall"]);
        let request = PermissionRequest { id, about, subjects, options: permission_rules::options(params) };
        let effects = match self.stop_at {
            Some(_) => self.pending_permissions.reject_late(&request),
            None => self.pending_permissions.receive(request, &self.permissions),
        };
        self.perform(effects);
    }
}

fn plan(update: &Value) -> Vec<PlanEntry> {
    let entry = |entry: &Value| PlanEntry {
        content: text(entry, "content").unwrap_or_default().to_owned(),
        status: text(entry, "status").unwrap_or("pending").to_owned(),
        priority: text(entry, "priority").map(str::to_owned),
    };
    truncate_plan(items(update, "entries").iter().take(PLAN_ENTRIES_MAX).map(entry).collect())
}
