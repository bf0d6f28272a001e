//! The shim's side of a conversation with an agent: lines to and from it, and what they mean as events. An agent
//! that does not read holds up nobody, and one that prints without end costs a bounded memory. What it prints beside
//! its messages is in the log of the task and in no event.

use super::lines::Lines;
use super::outbox::{Outbox, Written};
use super::raw::Raw;
use super::tail::Tail;
use super::wire::{Claim, MESSAGE_MAX_BYTES, Said, TalkReport, TalkSpec, TaskOutput};
use crate::core::acp::{Choice, Effect, Input, Machine, Permit, Turn};
use crate::limits::{ACP_LINE_MAX_BYTES, AGENT_STDERR_MAX_BYTES, WARM_FACTS_MAX, WARM_TOLD_MAX_BYTES};
use crate::sys::clock::monotonic_ms;
use protocol::{Encoding, Payload, Stream, TaskFact, Text};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// What a buffer may keep between two lines.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

pub struct Talk {
    machine: Machine,
    /// The events of the task, and all that was printed; none while there is no task yet.
    lines: Option<Lines>,
    raw: Option<Raw>,
    early: Early,
    /// The end of what it printed beside its messages, told where it fails.
    stderr: Tail,
    /// The line that is not finished yet, and how many bytes of it were left out.
    open: Vec<u8>,
    left_out: u64,
    outbox: Outbox,
    notes: Vec<Note>,
    rotated: bool,
}

/// What the shim has to know, or to pass on.
#[derive(Debug, PartialEq, Eq)]
pub enum Note {
    Report(TalkReport),
    Waits(bool),
    /// All is said.
    Concluded,
}

/// What came before there was a task.
#[derive(Default)]
struct Early {
    facts: Vec<TaskFact>,
    /// Facts that were too many.
    left_out: u64,
    /// The beginning of what was printed, for the log of the task.
    printed: Vec<(Stream, Vec<u8>)>,
    bytes: usize,
}

impl Early {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let room = WARM_TOLD_MAX_BYTES.saturating_sub(self.bytes).min(bytes.len());
        if room > 0 {
            self.bytes += room;
            self.printed.push((stream, bytes[..room].to_vec()));
        }
    }
}

impl Talk {
    pub fn begin(spec: TalkSpec, task: Option<&TaskOutput>, input: Option<OwnedFd>, cwd: &Path) -> Self {
        let TalkSpec { agent, session, turn } = spec;
        let mut talk = Self {
            machine: Machine::new(agent, cwd.display().to_string(), session),
            lines: task.map(Lines::new),
            raw: task.and_then(raw),
            early: Early::default(),
            stderr: Tail::new(AGENT_STDERR_MAX_BYTES),
            open: Vec::new(),
            left_out: 0,
            outbox: Outbox::new(input),
            notes: Vec::new(),
            rotated: false,
        };
        talk.read_at_once(0, |talk| match turn {
            Some(turn) => talk.step(Input::Begin(Box::new(turn))),
            None => talk.step(Input::Tick),
        });
        talk
    }

    /// A task for an agent that was started in advance.
    pub fn adopt(&mut self, task: &TaskOutput, turn: Turn) {
        let early = std::mem::take(&mut self.early);
        (self.lines, self.raw) = (Some(Lines::new(task)), raw(task));
        for (stream, bytes) in &early.printed {
            self.keep(*stream, bytes);
        }
        self.read_at_once(0, |talk| {
            early.facts.into_iter().for_each(|fact| talk.tell(fact));
            if early.left_out > 0 {
                talk.say(format!("{} things that came before the task were left out", early.left_out));
            }
            talk.step(Input::Begin(Box::new(turn)));
        });
    }

    /// Takes what it printed.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) {
        self.keep(stream, bytes);
        match stream {
            Stream::Stderr => self.stderr.append(bytes),
            Stream::Stdout | Stream::Pty => self.read_at_once(bytes.len(), |talk| {
                bytes.split_inclusive(|byte| *byte == b'\n').for_each(|piece| talk.piece(piece));
            }),
        }
    }

    /// Everything that it prints, for the log of its task.
    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        match &mut self.raw {
            Some(raw) => self.rotated |= raw.append(stream, bytes),
            None if self.lines.is_none() => self.early.print(stream, bytes),
            // The log could not be opened.
            None => {}
        }
    }

    /// A line, or a part of one.
    fn piece(&mut self, piece: &[u8]) {
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
            bytes => self.step(Input::Cut { bytes }),
        }
        line.clear();
        line.shrink_to(BUFFER_KEPT_BYTES);
        self.open = line;
    }

    pub fn permit(&mut self, permit: Permit) {
        self.read_at_once(0, |talk| talk.step(Input::Permit(permit)));
    }

    pub fn ask_to_stop(&mut self) {
        self.read_at_once(0, |talk| talk.step(Input::Stop));
    }

    pub fn tick(&mut self) {
        if self.next_wake().is_some_and(|at| at <= monotonic_ms()) {
            self.read_at_once(0, |talk| talk.step(Input::Tick));
        }
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.machine.next_wake()
    }

    /// Its input ends now, whatever it has read of it.
    pub fn hang_up(&mut self) {
        self.outbox.hang_up();
    }

    /// The descriptor to wait for, when there is something to write.
    pub fn writes_to(&self) -> Option<BorrowedFd<'_>> {
        self.outbox.writes_to()
    }

    /// Writes what it takes without waiting.
    pub fn write(&mut self) {
        if self.outbox.write() == Written::Gone {
            self.say("the agent does not read its input any more".to_owned());
        }
    }

    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Whether another file was begun since this was last asked.
    pub fn has_rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    pub fn last(&self) -> u64 {
        self.lines.as_ref().map_or(0, Lines::last)
    }

    pub fn raw_end(&self) -> u64 {
        self.raw.as_ref().map_or(0, Raw::end)
    }

    pub fn lost_bytes(&self) -> u64 {
        self.lines.as_ref().map_or(0, Lines::lost_bytes)
    }

    /// It has ended: what is left is told, and what it said of its end is summed up.
    pub fn conclude(&mut self) -> Said {
        self.read_at_once(0, |talk| {
            if !talk.open.is_empty() || talk.left_out > 0 {
                talk.end_line();
            }
            let effects = talk.machine.flush();
            talk.perform(effects);
        });
        self.lines.iter_mut().for_each(Lines::finish);
        let verdict = self.machine.verdict().cloned();
        let claim = Claim {
            good: verdict.as_ref().is_some_and(|verdict| verdict.good),
            message: verdict.and_then(|verdict| verdict.message),
            session: self.machine.session().map(str::to_owned),
        };
        let tail = self.machine.final_message().map(|data| Payload { data, encoding: Encoding::Utf8 });
        Said { tail, claim: Some(claim), stderr: self.stderr.payload(), ..Said::default() }
    }

    fn step(&mut self, input: Input<'_>) {
        let effects = self.machine.step(input, monotonic_ms());
        self.perform(effects);
        if self.outbox.is_full() {
            self.hang_up();
            let effects = self.machine.step(Input::Deaf, monotonic_ms());
            self.perform(effects);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(line) => {
                    self.outbox.push(&line);
                    self.write();
                }
                Effect::Tell(fact) => self.tell(fact),
                Effect::Print(line) => {
                    self.stderr.append(&line);
                    self.stderr.append(b"\n");
                }
                Effect::Session(session) => self.report(TalkReport::Session { session }),
                Effect::Ready => self.report(TalkReport::Ready),
                Effect::Asked { permission, options } => {
                    self.report(TalkReport::Asked { permission, options: tellable(options) });
                }
                Effect::Settled { permission } => self.report(TalkReport::Settled { permission }),
                Effect::Waits(waits) => self.notes.push(Note::Waits(waits)),
                Effect::Close => {
                    self.outbox.close();
                    self.write();
                    self.notes.push(Note::Concluded);
                }
            }
        }
    }

    fn report(&mut self, report: TalkReport) {
        self.notes.push(Note::Report(report));
    }

    fn say(&mut self, words: String) {
        let text = Text { text: words, ..Text::default() };
        self.tell(TaskFact::Log { stream: Stream::Stderr, text, lost_events: None });
    }

    fn tell(&mut self, fact: TaskFact) {
        match &mut self.lines {
            Some(lines) => self.rotated |= lines.push(fact),
            None if self.early.facts.len() < WARM_FACTS_MAX => self.early.facts.push(fact),
            None => self.early.left_out += 1,
        }
    }

    /// What comes of one thing, of so many bytes, is stored as one.
    fn read_at_once(&mut self, bytes: usize, read: impl FnOnce(&mut Self)) {
        self.lines.iter_mut().for_each(Lines::begin);
        read(self);
        if let Some(lines) = &mut self.lines {
            self.rotated |= lines.settle(bytes);
        }
    }
}

fn raw(task: &TaskOutput) -> Option<Raw> {
    task.raw.as_deref().and_then(|dir| Raw::open(dir).ok())
}

/// Those that fit into a message; without the others one decides by allowing or denying.
fn tellable(options: Vec<Choice>) -> Vec<Choice> {
    let mut room = MESSAGE_MAX_BYTES / 2;
    let mut fits = |option: &Choice| {
        let bytes = serde_json::to_string(option).map_or(usize::MAX, |json| json.len() + 1);
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(room);
        left.is_some()
    };
    options.into_iter().filter(|option| fits(option)).collect()
}
