//! The ACP client's state machine: an input and the time in, effects out.

use super::input_effect::{Effect, Input, PromptTurn};
use super::limits::{ID_MAX_BYTES, MESSAGE_MAX_BYTES};
use super::pending_permissions::PendingPermissions;
use super::prompt_turn::stopped;
use super::rpc::{self, Message, RpcError};
use super::settings::{SettingRequest, Settings, requested_settings};
use super::tools::Tools;
use crate::core::json_fields::{cut, text};
use crate::core::line_joiner::LineJoiner;
use protocol::{AcpAgent, ModelFact, Permissions, Stream, TaskFact, Text};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Version of the Agent Client Protocol that this client speaks.
pub(super) const VERSION: u64 = 1;

/// The agent's own report of how the turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub good: bool,
    /// Error message for the user.
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Initializing,
    Authenticating,
    Opening(OpenMethod),
    Setting,
    Ready,
    Prompting,
    Closed,
}

/// Ways to open a session, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMethod {
    Resume,
    Load,
    New,
}

#[derive(Debug)]
pub struct Machine {
    pub(super) agent: AcpAgent,
    pub(super) cwd: String,
    pub(super) state: State,
    /// Id of our request in flight.
    pub(super) request_id: u64,
    pub(super) can_resume: bool,
    pub(super) can_load: bool,
    /// Session to continue; cleared once every way to continue it was tried.
    pub(super) previous_session: Option<String>,
    pub(super) session: Option<String>,
    pub(super) settings_to_apply: VecDeque<SettingRequest>,
    /// The setting in flight, for log messages.
    pub(super) setting_label: String,
    pub(super) settings: Settings,
    pub(super) turn: Option<Box<PromptTurn>>,
    pub(super) permissions: Permissions,
    pub(super) pending_permissions: PendingPermissions,
    pub(super) tools: Tools,
    pub(super) text: LineJoiner,
    model: Option<String>,
    outcome: Option<Outcome>,
    /// When stdin is closed although the agent did not respond to the cancel.
    pub(super) stop_at: Option<u64>,
    pub(super) out: Vec<Effect>,
}

impl Machine {
    /// The `initialize` request is among the effects of the first step, whichever input that is.
    pub fn new(agent: AcpAgent, cwd: String, session: Option<String>) -> Self {
        let mut machine = Self {
            cwd,
            state: State::Initializing,
            request_id: 0,
            can_resume: false,
            can_load: false,
            previous_session: session,
            session: None,
            settings_to_apply: requested_settings(agent.mode.as_ref(), &agent.options).into(),
            setting_label: String::new(),
            settings: Settings::default(),
            turn: None,
            permissions: agent.permissions.clone(),
            pending_permissions: PendingPermissions::default(),
            tools: Tools::default(),
            text: LineJoiner::new(),
            model: None,
            outcome: None,
            stop_at: None,
            out: Vec::new(),
            agent,
        };
        let fs = json!({"readTextFile": false, "writeTextFile": false});
        machine.request(
            "initialize",
            &json!({
                "protocolVersion": VERSION,
                "clientCapabilities": {"fs": fs, "terminal": false},
                "clientInfo": {"name": "slipway", "title": "Slipway", "version": env!("CARGO_PKG_VERSION")},
            }),
        );
        machine
    }

    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// How the turn ended, once the agent reported it.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    pub fn final_message(&self) -> Option<String> {
        self.text.final_message()
    }

    /// When the next `Tick` is due, if ever.
    pub fn next_wake(&self) -> Option<u64> {
        let stop = self.stop_at.filter(|_| self.state != State::Closed);
        [stop, self.text.next_wake(), self.tools.next_wake()].into_iter().flatten().min()
    }

    pub fn step(&mut self, input: Input<'_>, now: u64) -> Vec<Effect> {
        match input {
            Input::Line(line) => self.on_line(line, now),
            Input::LineTooLong { bytes } => {
                self.log(format!("a line of {bytes} bytes was left out: too long"));
            }
            Input::Begin(turn) => self.begin(turn),
            Input::Permission(permit) => {
                let effects = self.pending_permissions.resolve(&permit);
                self.perform(effects);
            }
            Input::Stop => self.stop(now),
            Input::InputNotRead => self.end(Err("the agent does not read its input".to_owned())),
            Input::Tick => self.tick(now),
        }
        std::mem::take(&mut self.out)
    }

    /// Handles the end of the agent's output: held-back text is reported and open permissions are withdrawn.
    pub fn flush(&mut self) -> Vec<Effect> {
        let mut effects = self.pending_permissions.withdraw_all();
        // The agent is gone: responses to it are dropped.
        effects.retain(|effect| !matches!(effect, Effect::Send(_)));
        self.perform(effects);
        self.release();
        std::mem::take(&mut self.out)
    }

    fn release(&mut self) {
        let tools = self.tools.flush();
        self.report_tools(tools);
        let said = self.text.flush();
        self.report_text(said);
    }

    fn on_line(&mut self, line: &[u8], now: u64) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match rpc::parse(line) {
            None => self.out.push(Effect::OtherOutput(line.to_vec())),
            Some(Message::Notification { method, params }) => self.on_notification(&method, &params, now),
            Some(Message::Request { id, method, params }) => self.on_request(id, &method, &params),
            Some(Message::Response { id: Some(id), result }) if id == self.request_id => {
                self.on_response(result);
            }
            // A response to an unknown or already answered request.
            Some(Message::Response { .. }) => {}
        }
    }

    fn on_response(&mut self, result: Result<Value, RpcError>) {
        // A second response with the same id is ignored.
        self.request_id += 1;
        match (self.state, result) {
            (State::Initializing, Ok(answer)) => self.on_initialized(&answer),
            (State::Initializing, Err(error)) => {
                self.end(Err(format!("the agent did not begin: {}", error.message)));
            }
            (State::Authenticating, result) => {
                if let Err(error) = result {
                    // Whether this matters shows when a session is opened.
                    self.log(format!("authentication failed: {}", error.message));
                }
                self.open_session();
            }
            (State::Opening(how), Ok(answer)) => self.on_session_opened(how, &answer),
            (State::Opening(OpenMethod::New), Err(error)) => {
                self.end(Err(format!("the agent did not open a session: {}", error.message)));
            }
            (State::Opening(how), Err(error)) => {
                self.log(format!("the last session could not be continued: {}", error.message));
                if how == OpenMethod::Load {
                    self.previous_session = None;
                }
                self.can_resume = false;
                self.open_session();
            }
            (State::Setting, result) => {
                match result {
                    Ok(answer) => self.settings.renew(&answer),
                    Err(error) => {
                        self.log(format!("{} could not be set: {}", self.setting_label, error.message));
                    }
                }
                self.apply_next_setting();
            }
            (State::Prompting, Ok(answer)) => self.end(stopped(text(&answer, "stopReason"))),
            (State::Prompting, Err(error)) => self.end(Err(error.message)),
            (State::Ready | State::Closed, _) => {}
        }
    }

    fn tick(&mut self, now: u64) {
        let said = self.text.tick(now);
        self.out.extend(said.into_iter().map(Effect::Report));
        let tools = self.tools.tick(now);
        self.report_tools(tools);
        if self.state != State::Closed && self.stop_at.is_some_and(|at| at <= now) {
            self.end(Err("the agent did not stop when it was asked to".to_owned()));
        }
    }

    /// Ends the conversation; later calls have no effect.
    pub(super) fn end(&mut self, said: Result<(), String>) {
        if self.state == State::Closed {
            return;
        }
        let good = said.is_ok();
        let message = said.err().map(|words| cut(&words, MESSAGE_MAX_BYTES).to_owned());
        self.outcome = Some(Outcome { good, message });
        let effects = self.pending_permissions.withdraw_all();
        self.perform(effects);
        self.release();
        self.state = State::Closed;
        self.out.push(Effect::Close);
    }

    pub(super) fn request(&mut self, method: &str, params: &Value) {
        self.request_id += 1;
        self.out.push(Effect::Send(rpc::request(self.request_id, method, params)));
    }

    /// Reports the model that the agent claims to use, when it changed.
    pub(super) fn report_model(&mut self) {
        let Some(name) = self.settings.model().map(|name| cut(name, ID_MAX_BYTES).to_owned()) else { return };
        if self.model.as_ref() != Some(&name) {
            self.model = Some(name.clone());
            self.report(TaskFact::Model(Box::new(ModelFact::Claimed { name })));
        }
    }

    pub(super) fn report_tools(&mut self, tools: Vec<protocol::Tool>) {
        tools.into_iter().for_each(|tool| self.report(TaskFact::Tool(Box::new(tool))));
    }

    /// Reports a fact that is not text; the open line of text ends before it.
    pub(super) fn report(&mut self, fact: TaskFact) {
        let said = self.text.flush();
        self.out.extend(said.into_iter().chain([fact]).map(Effect::Report));
    }

    /// Reports a log line of our own; the agent's open line of text continues.
    pub(super) fn log(&mut self, words: String) {
        let text = Text { text: words, ..Text::default() };
        self.out.push(Effect::Report(TaskFact::Log { stream: Stream::Stderr, text, lost_events: None }));
    }

    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Report(fact) = effect {
                self.report(fact);
            } else {
                self.out.push(effect);
            }
        }
    }

    pub(super) fn other_output(&mut self, line: &[u8]) {
        self.out.push(Effect::OtherOutput(line.to_vec()));
    }

    pub(super) fn send(&mut self, line: Vec<u8>) {
        self.out.push(Effect::Send(line));
    }

    pub(super) fn report_text(&mut self, facts: Vec<TaskFact>) {
        self.out.extend(facts.into_iter().map(Effect::Report));
    }
}
