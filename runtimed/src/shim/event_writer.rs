//! Records the output of a task's program as events: one per line, a long line in pieces, no byte altered.
//! Takes bounded memory.

use super::messages::TaskOutput;
use super::tail_buffer::TailBuffer;
use crate::core::agent::OutputProtocol;
use crate::limits::{BUILD_TAIL_MAX_BYTES, FINAL_MESSAGE_MAX_BYTES, TASK_LINE_MAX_BYTES};
use crate::log::TaskLog;
use crate::log::text_line::{PrintedText, TextSource};
use crate::sys::clock::wall_ms;
use protocol::{Stream, TaskFact};

pub struct EventWriter {
    log: TaskLog,
    protocol: OutputProtocol,
    /// The unfinished lines of stdout and stderr.
    open: [Vec<u8>; 2],
    tail: TailBuffer,
    lost_bytes: u64,
    /// Lost events before the current batch.
    lost_before: u64,
    /// Time of the current batch: all of its events have that time.
    now_ms: u64,
}

impl EventWriter {
    pub fn new(task: &TaskOutput) -> Self {
        let tail_bytes = match task.protocol {
            OutputProtocol::Command | OutputProtocol::Acp | OutputProtocol::Json(_) => {
                FINAL_MESSAGE_MAX_BYTES
            }
            OutputProtocol::Build => BUILD_TAIL_MAX_BYTES,
        };
        Self {
            log: TaskLog::after(&task.dir, task.last),
            protocol: task.protocol,
            open: [Vec::new(), Vec::new()],
            tail: TailBuffer::new(tail_bytes),
            lost_bytes: 0,
            lost_before: 0,
            now_ms: 0,
        }
    }

    pub fn last(&self) -> u64 {
        self.log.last()
    }

    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    pub fn tail(&mut self) -> Option<protocol::Payload> {
        self.tail.payload()
    }

    /// Sends a stop request in the program's protocol, where it has one.
    pub fn request_stop(&mut self) {
        match self.protocol {
            OutputProtocol::Command
            | OutputProtocol::Build
            | OutputProtocol::Acp
            | OutputProtocol::Json(_) => {}
        }
    }

    /// Appends output; whether a log file was rotated.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        if self.protocol == OutputProtocol::Build || stream != Stream::Stderr {
            self.tail.append(bytes);
        }
        self.begin_batch();
        let mut rotated = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            rotated |= self.push_piece(stream, piece);
        }
        self.end_batch(bytes.len()) || rotated
    }

    /// Begins a batch for bytes that were just read.
    pub fn begin_batch(&mut self) {
        self.now_ms = wall_ms();
        self.lost_before = self.log.lost();
    }

    /// Adds an event; whether a log file was rotated.
    pub fn push(&mut self, fact: TaskFact) -> bool {
        self.log.push(fact, self.now_ms).rotated
    }

    /// Stores the batch, which came from this many bytes; whether a log file was rotated.
    pub fn end_batch(&mut self, bytes: usize) -> bool {
        let rotated = self.log.flush().rotated;
        if self.log.lost() > self.lost_before {
            self.lost_bytes += bytes as u64;
        }
        rotated
    }

    /// Takes a line, or a part of one.
    fn push_piece(&mut self, stream: Stream, piece: &[u8]) -> bool {
        let slot = usize::from(stream == Stream::Stderr);
        let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |line| (line, true));
        if ends && self.open[slot].is_empty() && text.len() <= TASK_LINE_MAX_BYTES {
            return self.emit(stream, text, false);
        }
        let mut line = std::mem::take(&mut self.open[slot]);
        line.extend_from_slice(text);
        let mut rotated = false;
        let mut from = 0;
        while line.len() - from > TASK_LINE_MAX_BYTES {
            let length = whole_characters(&line[from..from + TASK_LINE_MAX_BYTES]);
            rotated |= self.emit(stream, &line[from..from + length], true);
            from += length;
        }
        line.drain(..from);
        if ends {
            rotated |= self.emit(stream, &line, false);
            line.clear();
        }
        self.open[slot] = line;
        rotated
    }

    /// Stores the unfinished lines.
    pub fn finish(&mut self) {
        self.now_ms = wall_ms();
        for (slot, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
            let line = std::mem::take(&mut self.open[slot]);
            if !line.is_empty() {
                self.emit(stream, &line, false);
            }
        }
        self.log.flush();
        self.log.record_lost(self.now_ms);
    }

    fn emit(&mut self, stream: Stream, bytes: &[u8], partial: bool) -> bool {
        let source = match (self.protocol, stream) {
            (OutputProtocol::Command, Stream::Stdout | Stream::Pty) => TextSource::Agent,
            (
                OutputProtocol::Command
                | OutputProtocol::Build
                | OutputProtocol::Acp
                | OutputProtocol::Json(_),
                _,
            ) => TextSource::Stream(stream),
        };
        self.log.push_text(PrintedText { source, bytes, partial }, self.now_ms).rotated
    }
}

/// The length of the prefix of whole characters; all of it where the bytes are no text anyway.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::task_log;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use protocol::{Encoding, Text};
    use std::path::Path;

    fn lines(dir: &Path) -> EventWriter {
        EventWriter::new(&TaskOutput {
            dir: dir.to_owned(),
            last: 0,
            protocol: OutputProtocol::Command,
            raw: None,
        })
    }

    /// The lines that the events of one stream add up to.
    fn lines_of(dir: &Path, of: Stream) -> Vec<Vec<u8>> {
        let (mut all, mut line) = (Vec::new(), Vec::new());
        for segment in task_log::segments(dir) {
            for event in task_log::events_of(dir, segment.start) {
                let (stream, text) = if let TaskFact::Message(text) = event.fact {
                    (Stream::Stdout, text)
                } else {
                    let TaskFact::Log { stream, text, .. } = event.fact else { continue };
                    (stream, text)
                };
                if stream != of {
                    continue;
                }
                match text.encoding {
                    Encoding::Utf8 => line.extend(text.text.bytes()),
                    Encoding::Base64 => line.extend(STANDARD.decode(text.text).expect("our base64")),
                }
                if !text.partial {
                    all.push(std::mem::take(&mut line));
                }
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_byte_is_altered_however_it_comes(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40)), 0..20),
        ) {
            let home = tempfile::tempdir().expect("a directory");
            let mut lines = lines(home.path());
            let mut model = [Vec::new(), Vec::new()];
            for (err, bytes) in &pieces {
                let stream = if *err { Stream::Stderr } else { Stream::Stdout };
                lines.append(stream, bytes);
                model[usize::from(*err)].extend_from_slice(bytes);
            }
            lines.finish();
            for (stream, bytes) in [Stream::Stdout, Stream::Stderr].into_iter().zip(model) {
                let mut expected: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                if expected.last().is_some_and(Vec::is_empty) {
                    expected.pop();
                }
                prop_assert_eq!(lines_of(home.path(), stream), expected);
            }
        }
    }

    #[test]
    fn a_long_line_comes_in_pieces_of_whole_characters_and_bounded_memory() {
        let home = tempfile::tempdir().expect("a directory");
        let mut lines = lines(home.path());
        let text = "é".repeat(TASK_LINE_MAX_BYTES);
        for piece in format!("x{text}{text}\nnext\n").as_bytes().chunks(10_000) {
            lines.append(Stream::Stdout, piece);
            assert!(lines.open[0].capacity() <= 4 * TASK_LINE_MAX_BYTES);
        }
        lines.finish();
        assert_eq!(
            lines_of(home.path(), Stream::Stdout),
            [format!("x{text}{text}").into_bytes(), b"next".to_vec()]
        );
        let first = &task_log::events_of(home.path(), 1)[0].fact;
        assert!(matches!(first, TaskFact::Message(Text { partial: true, encoding: Encoding::Utf8, .. })));
    }
}
