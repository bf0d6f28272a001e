//! The machine itself: an input and the time in, effects out.

use super::desk::Desk;
use super::limits::{ID_MAX_BYTES, MESSAGE_MAX_BYTES};
use super::rpc::{self, Heard, Wrong};
use super::settings::{Settings, Wish, wishes};
use super::tools::Tools;
use super::turn::stopped;
use super::words::{Effect, Input, Turn};
use crate::core::read::{cut, text};
use crate::core::voice::Joiner;
use protocol::{AcpAgent, ModelFact, Permissions, Stream, TaskFact, Text};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The version of the protocol that is spoken here.
pub(super) const VERSION: u64 = 1;

/// What an agent says of its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub good: bool,
    /// For people: what went wrong.
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Initializing,
    Authenticating,
    Opening(How),
    Setting,
    Ready,
    Prompting,
    Closed,
}

/// How a session is opened, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Resume,
    Load,
    New,
}

#[derive(Debug)]
pub struct Machine {
    pub(super) agent: AcpAgent,
    pub(super) cwd: String,
    pub(super) state: State,
    /// Of the request of ours that is under way.
    pub(super) asked: u64,
    pub(super) can_resume: bool,
    pub(super) can_load: bool,
    /// The one to go on with, until that was tried.
    pub(super) before: Option<String>,
    pub(super) session: Option<String>,
    pub(super) wishes: VecDeque<Wish>,
    /// What is being set, in words.
    pub(super) setting: String,
    pub(super) settings: Settings,
    pub(super) turn: Option<Box<Turn>>,
    pub(super) permissions: Permissions,
    pub(super) desk: Desk,
    pub(super) tools: Tools,
    pub(super) voice: Joiner,
    model: Option<String>,
    verdict: Option<Verdict>,
    /// It was told to stop, and when its input ends though it said nothing.
    pub(super) stop_at: Option<u64>,
    pub(super) out: Vec<Effect>,
}

impl Machine {
    /// The first thing that is said to an agent is in the effects of the first step, whatever that is.
    pub fn new(agent: AcpAgent, cwd: String, session: Option<String>) -> Self {
        let mut machine = Self {
            cwd,
            state: State::Initializing,
            asked: 0,
            can_resume: false,
            can_load: false,
            before: session,
            session: None,
            wishes: wishes(agent.mode.as_ref(), &agent.options).into(),
            setting: String::new(),
            settings: Settings::default(),
            turn: None,
            permissions: agent.permissions.clone(),
            desk: Desk::default(),
            tools: Tools::default(),
            voice: Joiner::new(),
            model: None,
            verdict: None,
            stop_at: None,
            out: Vec::new(),
            agent,
        };
        let fs = json!({"readTextFile": false, "writeTextFile": false});
        machine.ask(
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

    /// What it said of its end, once it did.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    pub fn final_message(&self) -> Option<String> {
        self.voice.final_message()
    }

    /// When a `Tick` is due, if ever.
    pub fn next_wake(&self) -> Option<u64> {
        let stop = self.stop_at.filter(|_| self.state != State::Closed);
        [stop, self.voice.next_wake(), self.tools.next_wake()].into_iter().flatten().min()
    }

    pub fn step(&mut self, input: Input<'_>, now: u64) -> Vec<Effect> {
        match input {
            Input::Line(line) => self.line(line, now),
            Input::Cut { bytes } => self.log(format!("a line of {bytes} bytes was left out: too long")),
            Input::Begin(turn) => self.begin(turn),
            Input::Permit(permit) => {
                let effects = self.desk.permit(&permit);
                self.perform(effects);
            }
            Input::Stop => self.stop(now),
            Input::Deaf => self.end(Err("the agent does not read its input".to_owned())),
            Input::Tick => self.tick(now),
        }
        std::mem::take(&mut self.out)
    }

    /// Nothing more will come: what was held back is told, and what it asked for nobody has to decide any more.
    pub fn flush(&mut self) -> Vec<Effect> {
        let mut effects = self.desk.withdraw_all();
        // Nobody is left to read an answer.
        effects.retain(|effect| !matches!(effect, Effect::Send(_)));
        self.perform(effects);
        self.release();
        std::mem::take(&mut self.out)
    }

    fn release(&mut self) {
        let tools = self.tools.flush();
        self.tell_tools(tools);
        let said = self.voice.flush();
        self.speak(said);
    }

    fn line(&mut self, line: &[u8], now: u64) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match rpc::parse(line) {
            None => self.out.push(Effect::Print(line.to_vec())),
            Some(Heard::Notice { method, params }) => self.notice(&method, &params, now),
            Some(Heard::Request { id, method, params }) => self.request(id, &method, &params),
            Some(Heard::Answer { id: Some(id), result }) if id == self.asked => self.answer(result),
            // To something that was never asked, or twice.
            Some(Heard::Answer { .. }) => {}
        }
    }

    fn answer(&mut self, result: Result<Value, Wrong>) {
        // Whatever comes with the same number again is no answer any more.
        self.asked += 1;
        match (self.state, result) {
            (State::Initializing, Ok(answer)) => self.initialized(&answer),
            (State::Initializing, Err(wrong)) => {
                self.end(Err(format!("the agent did not begin: {}", wrong.words)));
            }
            (State::Authenticating, result) => {
                if let Err(wrong) = result {
                    // Whether that matters is seen when a session is opened.
                    self.log(format!("authentication failed: {}", wrong.words));
                }
                self.open();
            }
            (State::Opening(how), Ok(answer)) => self.opened(how, &answer),
            (State::Opening(How::New), Err(wrong)) => {
                self.end(Err(format!("the agent did not open a session: {}", wrong.words)));
            }
            (State::Opening(how), Err(wrong)) => {
                self.log(format!("the last session could not be taken up: {}", wrong.words));
                if how == How::Load {
                    self.before = None;
                }
                self.can_resume = false;
                self.open();
            }
            (State::Setting, result) => {
                match result {
                    Ok(answer) => self.settings.renew(&answer),
                    Err(wrong) => self.log(format!("{} could not be set: {}", self.setting, wrong.words)),
                }
                self.set_next();
            }
            (State::Prompting, Ok(answer)) => self.end(stopped(text(&answer, "stopReason"))),
            (State::Prompting, Err(wrong)) => self.end(Err(wrong.words)),
            (State::Ready | State::Closed, _) => {}
        }
    }

    fn tick(&mut self, now: u64) {
        let said = self.voice.tick(now);
        self.out.extend(said.into_iter().map(Effect::Tell));
        let tools = self.tools.tick(now);
        self.tell_tools(tools);
        if self.state != State::Closed && self.stop_at.is_some_and(|at| at <= now) {
            self.end(Err("the agent did not stop when it was asked to".to_owned()));
        }
    }

    /// The conversation is over, once.
    pub(super) fn end(&mut self, said: Result<(), String>) {
        if self.state == State::Closed {
            return;
        }
        let good = said.is_ok();
        let message = said.err().map(|words| cut(&words, MESSAGE_MAX_BYTES).to_owned());
        self.verdict = Some(Verdict { good, message });
        let effects = self.desk.withdraw_all();
        self.perform(effects);
        self.release();
        self.state = State::Closed;
        self.out.push(Effect::Close);
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        self.out.push(Effect::Send(rpc::request(self.asked, method, params)));
    }

    /// Tells which model the agent says it uses, when that is news.
    pub(super) fn claim_model(&mut self) {
        let Some(name) = self.settings.model().map(|name| cut(name, ID_MAX_BYTES).to_owned()) else { return };
        if self.model.as_ref() != Some(&name) {
            self.model = Some(name.clone());
            self.tell(TaskFact::Model(Box::new(ModelFact::Claimed { name })));
        }
    }

    pub(super) fn tell_tools(&mut self, tools: Vec<protocol::Tool>) {
        tools.into_iter().for_each(|tool| self.tell(TaskFact::Tool(Box::new(tool))));
    }

    /// Something else than words: the line that was being said ends before it.
    pub(super) fn tell(&mut self, fact: TaskFact) {
        let said = self.voice.flush();
        self.out.extend(said.into_iter().chain([fact]).map(Effect::Tell));
    }

    /// What we have to say ourselves. It interrupts nobody.
    pub(super) fn log(&mut self, words: String) {
        let text = Text { text: words, ..Text::default() };
        self.out.push(Effect::Tell(TaskFact::Log { stream: Stream::Stderr, text, lost_events: None }));
    }

    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Tell(fact) => self.tell(fact),
                other => self.out.push(other),
            }
        }
    }

    pub(super) fn print(&mut self, line: &[u8]) {
        self.out.push(Effect::Print(line.to_vec()));
    }

    pub(super) fn send(&mut self, line: Vec<u8>) {
        self.out.push(Effect::Send(line));
    }

    pub(super) fn speak(&mut self, facts: Vec<TaskFact>) {
        self.out.extend(facts.into_iter().map(Effect::Tell));
    }
}
