//! What an agent sends while it works: updates, which become facts, and requests, each of which is answered.

use super::desk::Request;
use super::limits::TITLE_MAX_BYTES;
use super::machine::{How, Machine, State};
use super::permit;
use super::rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::core::read::{cut, items, text};
use crate::core::tool::{PLAN_ENTRIES_MAX, fit_plan};
use crate::core::voice::Voice;
use protocol::{PlanEntry, TaskFact};
use serde_json::Value;

impl Machine {
    pub(super) fn notice(&mut self, method: &str, params: &Value, line: &[u8], now: u64) {
        match method {
            "session/update" => {
                let session = text(params, "sessionId");
                if matches!(self.state, State::Opening(How::Resume | How::Load)) {
                    // History, which was told when it was made.
                    return;
                }
                if self.session.is_some() && session != self.session.as_deref() {
                    // Of somebody that the agent employs.
                    return self.print(line);
                }
                self.update(&params["update"], line, now);
            }
            "$/cancel_request" => {
                let effects = self.desk.withdraw(&params["requestId"]);
                self.perform(effects);
            }
            _ => self.print(line),
        }
    }

    fn update(&mut self, update: &Value, line: &[u8], now: u64) {
        match text(update, "sessionUpdate").unwrap_or_default() {
            "agent_message_chunk" => self.chunk(Voice::Message, &update["content"], line, now),
            "agent_thought_chunk" => self.chunk(Voice::Thought, &update["content"], line, now),
            "tool_call" | "tool_call_update" => {
                let tool = self.tools.see(update, now);
                self.tell_tools(tool.into_iter().collect());
            }
            "plan" => self.tell(TaskFact::Plan { entries: plan(update) }),
            "config_option_update" => {
                self.settings.renew(update);
                self.claim_model();
            }
            // What it used is counted where it is used, what we said is known, and what it could be asked for
            // nobody asks for. The log of what it printed has all of it.
            "usage_update" | "user_message_chunk" | "available_commands_update" => {}
            "session_info_update" if !complains(update) => {}
            _ => self.print(line),
        }
    }

    fn chunk(&mut self, voice: Voice, content: &Value, line: &[u8], now: u64) {
        match (text(content, "type"), text(content, "text")) {
            // Nobody has asked it anything yet: that is no answer.
            (Some("text"), Some(words)) if !matches!(self.state, State::Prompting | State::Closed) => {
                self.print(words.as_bytes());
            }
            (Some("text"), Some(words)) => {
                let facts = self.voice.say(voice, words, now);
                self.speak(facts);
            }
            _ => self.print(line),
        }
    }

    pub(super) fn request(&mut self, id: Value, method: &str, params: &Value) {
        if self.state == State::Closed {
            // Its input has ended: there is no way to answer.
            return;
        }
        if method != "session/request_permission" {
            let method = cut(method, TITLE_MAX_BYTES);
            self.log(format!("the agent asked for {method:?}, which is not offered"));
            return self.send(rpc::refusal(&id, METHOD_NOT_FOUND, "method not found"));
        }
        if !params["toolCall"].is_object() {
            self.log("the agent asked to be allowed something and did not say what".to_owned());
            return self.send(rpc::refusal(&id, INVALID_PARAMS, "toolCall is missing"));
        }
        let (about, subjects) = self.tools.describe(&params["toolCall"]);
        let request = Request { id, about, subjects, options: permit::options(params) };
        let effects = match self.stop_at {
            Some(_) => self.desk.turn_away(&request),
            None => self.desk.take(request, &self.permissions),
        };
        self.perform(effects);
    }
}

/// Whether there is more in it than the title of a session: some tell of trouble with their model only here.
fn complains(update: &Value) -> bool {
    let told = update.get("_meta").and_then(Value::as_object);
    told.is_some_and(|meta| meta.values().any(|own| own.get("error").is_some_and(|error| !error.is_null())))
}

fn plan(update: &Value) -> Vec<PlanEntry> {
    let entry = |entry: &Value| PlanEntry {
        content: text(entry, "content").unwrap_or_default().to_owned(),
        status: text(entry, "status").unwrap_or("pending").to_owned(),
        priority: text(entry, "priority").map(str::to_owned),
    };
    fit_plan(items(update, "entries").iter().take(PLAN_ENTRIES_MAX).map(entry).collect())
}
