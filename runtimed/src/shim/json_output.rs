//! Output of an agent that prints lines of JSON: bounded lines in, events out. The shim never writes to the
//! agent; PID 1 writes the prompt to its stdin. Output that is not JSON is in the raw log of the task and in
//! no event.

use super::event_writer::EventWriter;
use super::messages::{Claim, JobSummary, TaskOutput};
use super::raw_log::RawLog;
use super::tail_buffer::TailBuffer;
use crate::core::stream_json::{Conversation, Decoded};
use crate::limits::{AGENT_STDERR_MAX_BYTES, JSON_LINE_MAX_BYTES, LAST_LINE_MAX_BYTES};
use crate::sys::clock::monotonic_ms;
use protocol::{Encoding, Payload, Stream, StreamDialect, TaskFact, Text};

pub struct JsonOutput {
    events: EventWriter,
    conversation: Conversation,
    raw: Option<RawLog>,
    /// The unfinished line, and how many bytes of it were dropped beyond the limit.
    open: Vec<u8>,
    left_out: u64,
    /// The end of stderr, as the reason of an agent that claimed none.
    errors: TailBuffer,
    /// The end of all output that is not JSON, reported where the agent fails.
    stderr: TailBuffer,
}

impl JsonOutput {
    pub fn new(task: &TaskOutput, dialect: StreamDialect) -> Self {
        Self {
            events: EventWriter::new(task),
            conversation: Conversation::new(dialect),
            raw: task.raw.as_deref().and_then(|dir| RawLog::open(dir).ok()),
            open: Vec::new(),
            left_out: 0,
            errors: TailBuffer::new(LAST_LINE_MAX_BYTES),
            stderr: TailBuffer::new(AGENT_STDERR_MAX_BYTES),
        }
    }

    pub fn last(&self) -> u64 {
        self.events.last()
    }

    pub fn lost_bytes(&self) -> u64 {
        self.events.lost_bytes()
    }

    pub fn raw_end(&self) -> u64 {
        self.raw.as_ref().map_or(0, RawLog::end)
    }

    /// Appends output; whether a log file was rotated.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        self.events.begin_batch();
        let mut rotated = self.raw.as_mut().is_some_and(|raw| raw.append(stream, bytes));
        if stream == Stream::Stderr {
            self.errors.append(bytes);
            self.stderr.append(bytes);
            return rotated;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |line| (line, true));
            rotated |= self.push_piece(text, ends);
        }
        self.events.end_batch(bytes.len()) || rotated
    }

    fn push_piece(&mut self, text: &[u8], ends: bool) -> bool {
        if ends && self.open.is_empty() && text.len() <= JSON_LINE_MAX_BYTES {
            return self.line(text);
        }
        let room = JSON_LINE_MAX_BYTES.saturating_sub(self.open.len()).min(text.len());
        self.open.extend_from_slice(&text[..room]);
        self.left_out += (text.len() - room) as u64;
        ends && self.end_line()
    }

    /// Handles the end of the unfinished line.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.open);
        match std::mem::take(&mut self.left_out) {
            0 => self.line(&line),
            left_out => {
                let bytes = line.len() as u64 + left_out;
                let text =
                    format!("a line of {bytes} bytes is too long to be read; the task's log has its end");
                let text = Text { text, ..Text::default() };
                self.events.push(TaskFact::Log { stream: Stream::Stdout, text, lost_events: None })
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> bool {
        let mut rotated = false;
        for decoded in self.conversation.line(line, monotonic_ms()) {
            rotated |= match decoded {
                Decoded::Fact(fact) => self.events.push(fact),
                Decoded::Raw => {
                    self.stderr.append(line);
                    self.stderr.append(b"\n");
                    false
                }
            };
        }
        rotated
    }

    /// Records text that was held back long enough; whether a log file was rotated.
    pub fn tick(&mut self) -> bool {
        let facts = self.conversation.tick(monotonic_ms());
        self.record(facts)
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.conversation.next_wake()
    }

    fn record(&mut self, facts: Vec<TaskFact>) -> bool {
        if facts.is_empty() {
            return false;
        }
        self.events.begin_batch();
        let mut rotated = false;
        for fact in facts {
            rotated |= self.events.push(fact);
        }
        self.events.end_batch(0) || rotated
    }

    /// Ends the output and sums it up.
    pub fn conclude(&mut self) -> JobSummary {
        self.events.begin_batch();
        if !self.open.is_empty() {
            self.end_line();
        }
        let facts = self.conversation.finish();
        self.record(facts);
        self.events.finish();
        let session = self.conversation.session().map(str::to_owned);
        let claim = match self.conversation.claim() {
            Some((good, message)) => Claim { good, message: message.map(str::to_owned), session },
            None => Claim { good: false, message: self.last_error(), session },
        };
        let payload = |data| Payload { data, encoding: Encoding::Utf8 };
        let tail = self.conversation.final_message().map(payload);
        JobSummary { tail, claim: Some(claim), stderr: self.stderr.payload(), ..JobSummary::default() }
    }

    /// The last line of stderr, where the agent made no claim.
    fn last_error(&mut self) -> Option<String> {
        let errors = self.errors.payload().filter(|errors| errors.encoding == Encoding::Utf8)?;
        let mut lines = errors.data.lines().map(str::trim);
        lines.rfind(|line| !line.is_empty()).map(str::to_owned)
    }
}
