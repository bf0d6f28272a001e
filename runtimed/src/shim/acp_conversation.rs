//! The shim's side of an ACP conversation: lines to and from the agent, and the events they become. An agent
//! that does not read blocks nothing, and one that prints without end takes bounded memory. Output that is no
//! message is in the raw log of the task and in no event.

use super::event_writer::EventWriter;
use super::messages::{
    Claim, ConversationReport, ConversationSpec, JobSummary, MESSAGE_MAX_BYTES, TaskOutput,
};
use super::raw_log::RawLog;
use super::stdin_queue::{StdinQueue, WriteResult};
use super::tail_buffer::TailBuffer;
use crate::core::acp::{Effect, Input, Machine, PermissionChoice, PermissionDecision, PromptTurn};
use crate::limits::{ACP_LINE_MAX_BYTES, AGENT_STDERR_MAX_BYTES, WARM_FACTS_MAX, WARM_TOLD_MAX_BYTES};
use crate::sys::clock::monotonic_ms;
use protocol::{Encoding, Payload, Stream, TaskFact, Text};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Capacity that the line buffer keeps between two lines.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

pub struct AcpConversation {
    machine: Machine,
    /// The events and the raw log of the task; none before there is a task.
    events: Option<EventWriter>,
    raw: Option<RawLog>,
    before_task: BeforeTask,
    /// The end of all output that is no message, reported where the agent fails.
    stderr: TailBuffer,
    /// The unfinished line, and how many bytes of it were dropped.
    open: Vec<u8>,
    left_out: u64,
    stdin: StdinQueue,
    pending_events: Vec<ConversationEvent>,
    rotated: bool,
}

/// Events that the loop of the shim acts on.
#[derive(Debug, PartialEq, Eq)]
pub enum ConversationEvent {
    Report(ConversationReport),
    Waits(bool),
    Concluded,
}

/// Output of an agent that was started in advance, before its task.
#[derive(Default)]
struct BeforeTask {
    facts: Vec<TaskFact>,
    /// Facts dropped beyond the limit.
    left_out: u64,
    /// The beginning of the output, for the raw log of the task.
    printed: Vec<(Stream, Vec<u8>)>,
    bytes: usize,
}

impl BeforeTask {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let room = WARM_TOLD_MAX_BYTES.saturating_sub(self.bytes).min(bytes.len());
        if room > 0 {
            self.bytes += room;
            self.printed.push((stream, bytes[..room].to_vec()));
        }
    }
}

impl AcpConversation {
    pub fn begin(
        spec: ConversationSpec,
        task: Option<&TaskOutput>,
        input: Option<OwnedFd>,
        cwd: &Path,
    ) -> Self {
        let ConversationSpec { agent, session, turn } = spec;
        let mut conversation = Self {
            machine: Machine::new(agent, cwd.display().to_string(), session),
            events: task.map(EventWriter::new),
            raw: task.and_then(raw),
            before_task: BeforeTask::default(),
            stderr: TailBuffer::new(AGENT_STDERR_MAX_BYTES),
            open: Vec::new(),
            left_out: 0,
            stdin: StdinQueue::new(input),
            pending_events: Vec::new(),
            rotated: false,
        };
        conversation.batch(0, |conversation| match turn {
            Some(turn) => conversation.step(Input::Begin(Box::new(turn))),
            None => conversation.step(Input::Tick),
        });
        conversation
    }

    /// Gives a task to an agent that was started in advance.
    pub fn adopt(&mut self, task: &TaskOutput, turn: PromptTurn) {
        let before_task = std::mem::take(&mut self.before_task);
        (self.events, self.raw) = (Some(EventWriter::new(task)), raw(task));
        for (stream, bytes) in &before_task.printed {
            self.append_raw(*stream, bytes);
        }
        self.batch(0, |conversation| {
            before_task.facts.into_iter().for_each(|fact| conversation.record(fact));
            if before_task.left_out > 0 {
                conversation
                    .log(format!("{} events from before the task were left out", before_task.left_out));
            }
            conversation.step(Input::Begin(Box::new(turn)));
        });
    }

    /// Appends output.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) {
        self.append_raw(stream, bytes);
        match stream {
            Stream::Stderr => self.stderr.append(bytes),
            Stream::Stdout | Stream::Pty => self.batch(bytes.len(), |conversation| {
                bytes.split_inclusive(|byte| *byte == b'\n').for_each(|piece| conversation.push_piece(piece));
            }),
        }
    }

    /// Appends to the raw log of the task.
    fn append_raw(&mut self, stream: Stream, bytes: &[u8]) {
        match &mut self.raw {
            Some(raw) => self.rotated |= raw.append(stream, bytes),
            None if self.events.is_none() => self.before_task.print(stream, bytes),
            // The raw log could not be opened.
            None => {}
        }
    }

    /// Takes a line, or a part of one.
    fn push_piece(&mut self, piece: &[u8]) {
        let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |line| (line, true));
        if ends && self.open.is_empty() && self.left_out == 0 {
            return self.step(Input::Line(text));
        }
        let room = if self.left_out > 0 { 0 } else { ACP_LINE_MAX_BYTES.saturating_sub(self.open.len()) };
        if text.len() > room {
            self.left_out += (self.open.len() + text.len()) as u64;
            self.open = Vec::new();
        } else {
            self.open.extend_from_slice(text);
        }
        if ends {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.open);
        match std::mem::take(&mut self.left_out) {
            0 => self.step(Input::Line(&line)),
            bytes => self.step(Input::LineTooLong { bytes }),
        }
        line.clear();
        line.shrink_to(BUFFER_KEPT_BYTES);
        self.open = line;
    }

    pub fn permit(&mut self, permit: PermissionDecision) {
        self.batch(0, |conversation| conversation.step(Input::Permission(permit)));
    }

    pub fn request_stop(&mut self) {
        self.batch(0, |conversation| conversation.step(Input::Stop));
    }

    pub fn tick(&mut self) {
        if self.next_wake().is_some_and(|at| at <= monotonic_ms()) {
            self.batch(0, |conversation| conversation.step(Input::Tick));
        }
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.machine.next_wake()
    }

    /// Closes the agent's stdin now, read or not.
    pub fn close_now(&mut self) {
        self.stdin.close_now();
    }

    /// The agent's stdin, when there is something to write.
    pub fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.writable_fd()
    }

    /// Writes as much as the pipe takes.
    pub fn write(&mut self) {
        if self.stdin.write() == WriteResult::Closed {
            self.log("the agent has closed its stdin".to_owned());
        }
    }

    pub fn pending_events(&mut self) -> Vec<ConversationEvent> {
        std::mem::take(&mut self.pending_events)
    }

    /// Whether a log file was rotated since the last call.
    pub fn has_rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    pub fn last(&self) -> u64 {
        self.events.as_ref().map_or(0, EventWriter::last)
    }

    pub fn raw_end(&self) -> u64 {
        self.raw.as_ref().map_or(0, RawLog::end)
    }

    pub fn lost_bytes(&self) -> u64 {
        self.events.as_ref().map_or(0, EventWriter::lost_bytes)
    }

    /// Ends the conversation and sums it up.
    pub fn conclude(&mut self) -> JobSummary {
        self.batch(0, |conversation| {
            if !conversation.open.is_empty() || conversation.left_out > 0 {
                conversation.end_line();
            }
            let effects = conversation.machine.flush();
            conversation.perform(effects);
        });
        self.events.iter_mut().for_each(EventWriter::finish);
        let outcome = self.machine.outcome().cloned();
        let claim = Claim {
            good: outcome.as_ref().is_some_and(|outcome| outcome.good),
            message: outcome.and_then(|outcome| outcome.message),
            session: self.machine.session().map(str::to_owned),
        };
        let tail = self.machine.final_message().map(|data| Payload { data, encoding: Encoding::Utf8 });
        JobSummary { tail, claim: Some(claim), stderr: self.stderr.payload(), ..JobSummary::default() }
    }

    fn step(&mut self, input: Input<'_>) {
        let effects = self.machine.step(input, monotonic_ms());
        self.perform(effects);
        if self.stdin.is_full() {
            self.close_now();
            let effects = self.machine.step(Input::InputNotRead, monotonic_ms());
            self.perform(effects);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(line) => {
                    self.stdin.push(&line);
                    self.write();
                }
                Effect::Report(fact) => self.record(fact),
                Effect::OtherOutput(line) => {
                    self.stderr.append(&line);
                    self.stderr.append(b"\n");
                }
                Effect::Session(session) => self.report(ConversationReport::Session { session }),
                Effect::Ready => self.report(ConversationReport::Ready),
                Effect::PermissionAsked { permission, options } => {
                    self.report(ConversationReport::Asked { permission, options: fitting_options(options) });
                }
                Effect::PermissionClosed { permission } => {
                    self.report(ConversationReport::Settled { permission });
                }
                Effect::AwaitsDecision(waits) => self.pending_events.push(ConversationEvent::Waits(waits)),
                Effect::Close => {
                    self.stdin.close();
                    self.write();
                    self.pending_events.push(ConversationEvent::Concluded);
                }
            }
        }
    }

    fn report(&mut self, report: ConversationReport) {
        self.pending_events.push(ConversationEvent::Report(report));
    }

    fn log(&mut self, words: String) {
        let text = Text { text: words, ..Text::default() };
        self.record(TaskFact::Log { stream: Stream::Stderr, text, lost_events: None });
    }

    fn record(&mut self, fact: TaskFact) {
        match &mut self.events {
            Some(events) => self.rotated |= events.push(fact),
            None if self.before_task.facts.len() < WARM_FACTS_MAX => self.before_task.facts.push(fact),
            None => self.before_task.left_out += 1,
        }
    }

    /// Stores the events of one action, which came from this many bytes, as one batch.
    fn batch(&mut self, bytes: usize, read: impl FnOnce(&mut Self)) {
        self.events.iter_mut().for_each(EventWriter::begin_batch);
        read(self);
        if let Some(events) = &mut self.events {
            self.rotated |= events.end_batch(bytes);
        }
    }
}

fn raw(task: &TaskOutput) -> Option<RawLog> {
    task.raw.as_deref().and_then(|dir| RawLog::open(dir).ok())
}

/// Options that fit into a message; callers decide about the others by allow or deny.
fn fitting_options(options: Vec<PermissionChoice>) -> Vec<PermissionChoice> {
    let mut room = MESSAGE_MAX_BYTES / 2;
    let mut fits = |option: &PermissionChoice| {
        let bytes = serde_json::to_string(option).map_or(usize::MAX, |json| json.len() + 1);
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(room);
        left.is_some()
    };
    options.into_iter().filter(|option| fits(option)).collect()
}
