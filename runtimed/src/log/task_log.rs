//! The events of one task on disk: lines and files of the event log's format, in the directory of the task,
//! with the epoch 0. There is one writer at a time, and each begins a file of its own, so that a line torn by
//! the last one harms no other. A complete line is never removed and its number never reused: a reader may
//! have seen it. The last event, `done`, has a file of its own too, for which space is reserved when the task
//! is accepted: a full disk costs events and never the end.

use super::segment::Segment;
use super::text_line::PrintedText;
use super::{events, text_line};
use crate::limits::{TASK_DONE_RESERVED_BYTES, TASK_SEGMENT_MAX_BYTES};
use nix::fcntl::{FallocateFlags, fallocate};
use protocol::log_line::{self, file_name};
use protocol::{Cursor, Stream, TaskEvent, TaskFact, Text};
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines are collected up to this size and written at once.
const BATCH_BYTES: usize = 256 << 10;
const DONE_RESERVED: &str = "done.room";

pub struct TaskLog {
    dir: PathBuf,
    /// The last event that was stored.
    last: u64,
    file: Option<File>,
    file_bytes: u64,
    batch: Vec<u8>,
    batched: u64,
    /// Events that could not be stored and were not reported yet.
    unreported: u64,
    lost: u64,
    segment_max_bytes: u64,
}

/// Whether one write began another file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    pub rotated: bool,
}

/// How much of a batch was stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stored {
    /// The number of stored events, which are the first ones.
    stored: u64,
    rotated: bool,
}

impl TaskLog {
    /// Continues after the event `last`, in a new file.
    pub fn after(dir: &Path, last: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            last,
            file: None,
            file_bytes: 0,
            batch: Vec::new(),
            batched: 0,
            unreported: 0,
            lost: 0,
            segment_max_bytes: TASK_SEGMENT_MAX_BYTES,
        }
    }

    pub fn with_segment_max_bytes(mut self, bytes: u64) -> Self {
        self.segment_max_bytes = bytes;
        self
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    /// Events that could not be stored since this writer was created.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds an event to the batch; writes the batch when it is large.
    pub fn push(&mut self, fact: TaskFact, time_ms: u64) -> Flushed {
        if !self.may_push(time_ms) {
            return Flushed::default();
        }
        self.encode(fact, time_ms);
        self.flush_if_many()
    }

    /// The same for printed text, of which there may be much.
    pub fn push_text(&mut self, text: PrintedText<'_>, time_ms: u64) -> Flushed {
        if !self.may_push(time_ms) {
            return Flushed::default();
        }
        text_line::push(&mut self.batch, self.last + self.batched + 1, time_ms, text);
        self.batched += 1;
        self.flush_if_many()
    }

    /// Reports lost events first. Where that cannot be stored, nothing else can, and the next event is lost.
    fn may_push(&mut self, time_ms: u64) -> bool {
        let told = self.record_lost(time_ms);
        if !told {
            self.unreported += 1;
            self.lost += 1;
        }
        told
    }

    /// Records how many events were lost since the last report; whether that is stored, or none was lost.
    pub fn record_lost(&mut self, time_ms: u64) -> bool {
        if self.unreported == 0 || self.batched > 0 {
            return true;
        }
        let lost = self.unreported;
        let text = Text { text: format!("{lost} events could not be stored"), ..Text::default() };
        self.encode(TaskFact::Log { stream: Stream::Stderr, text, lost_events: Some(lost) }, time_ms);
        let told = self.write().stored > 0;
        if told {
            self.unreported = 0;
        }
        told
    }

    fn flush_if_many(&mut self) -> Flushed {
        if self.batch.len() >= BATCH_BYTES { self.flush() } else { Flushed::default() }
    }

    pub fn flush(&mut self) -> Flushed {
        let events = self.batched;
        let Stored { stored, rotated } = self.write();
        let lost = events.saturating_sub(stored);
        self.unreported += lost;
        self.lost += lost;
        Flushed { rotated }
    }

    fn encode(&mut self, fact: TaskFact, time_ms: u64) {
        let seq = self.last + self.batched + 1;
        let kind = fact.kind();
        let event = TaskEvent { seq, time_ms, fact };
        if log_line::push(&mut self.batch, cursor(seq), kind, &event).is_ok() {
            self.batched += 1;
        }
    }

    /// Stores the batch, or as much of it as there is space for.
    fn write(&mut self) -> Stored {
        let (batch, events) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batched));
        if batch.is_empty() {
            return Stored::default();
        }
        let stored = self.store(&batch, events);
        self.last += stored.stored;
        self.batch = batch;
        self.batch.clear();
        self.batch.shrink_to(BATCH_BYTES);
        stored
    }

    /// Stores a batch; what does not fit is lost. Complete lines stay and count: a reader may have seen them.
    fn store(&mut self, batch: &[u8], events: u64) -> Stored {
        self.file.take_if(|_| self.file_bytes >= self.segment_max_bytes);
        let begins = self.file.is_none();
        let path = self.dir.join(file_name(cursor(self.last + 1)));
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                self.file_bytes = 0;
                let Ok(file) = create(&path) else { return Stored::default() };
                none.insert(file)
            }
        };
        let written = write_most(file, batch);
        if written == batch.len() {
            self.file_bytes += written as u64;
            return Stored { stored: events, rotated: begins };
        }
        let (whole, stored) = whole_lines(&batch[..written]);
        if begins || written > 0 {
            // Nothing is written over a torn line: a reader of it would join the two.
            let _ = file.set_len(self.file_bytes + whole as u64);
            self.file = None;
        }
        if begins && whole == 0 {
            // An empty file would block the name for other writers.
            let _ = std::fs::remove_file(&path);
        }
        Stored { stored, rotated: begins && whole > 0 }
    }
}

/// Writes as much as there is space for; returns the number of bytes.
fn write_most(file: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(more) => written += more,
        }
    }
    written
}

/// The bytes of complete lines, and the number of lines.
fn whole_lines(bytes: &[u8]) -> (usize, u64) {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..whole].iter().filter(|byte| **byte == b'\n').count();
    (whole, lines as u64)
}

fn cursor(seq: u64) -> Cursor {
    Cursor { epoch: 0, seq }
}

/// Opens a file, and empties one whose writer died before its first complete line.
fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Reserves the space of the last event. Best effort.
pub fn reserve(dir: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .mode(0o600)
        .truncate(false)
        .open(dir.join(DONE_RESERVED))?;
    let _ = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, TASK_DONE_RESERVED_BYTES as i64);
    Ok(())
}

/// Writes the last event, after `last`, as a whole or not at all.
pub fn finish(dir: &Path, last: u64, fact: TaskFact, time_ms: u64) -> io::Result<()> {
    let (seq, kind) = (last + 1, fact.kind());
    let mut line = Vec::new();
    log_line::push(&mut line, cursor(seq), kind, &TaskEvent { seq, time_ms, fact })?;
    let room = dir.join(DONE_RESERVED);
    // Not truncated first: that would free the reserved space.
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&room)?;
    file.write_all(&line)?;
    file.set_len(line.len() as u64)?;
    std::fs::rename(room, dir.join(file_name(cursor(seq))))
}

/// The events of a task as found on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scan {
    pub segments: Vec<Segment>,
    /// The last complete event, 0 if there is none.
    pub last: u64,
}

/// The files, oldest first.
pub fn segments(dir: &Path) -> Vec<Segment> {
    let files = events::list(dir).unwrap_or_default();
    let segment = |first: &Cursor| {
        let bytes = std::fs::metadata(dir.join(file_name(*first))).ok()?.len();
        Some(Segment { start: first.seq, bytes, index_bytes: 0 })
    };
    files.iter().filter(|first| first.epoch == 0).filter_map(segment).collect()
}

pub fn scan(dir: &Path) -> Scan {
    let segments = segments(dir);
    let last = segments.last().map_or(0, |segment| {
        let (_, last) = log_line::sound_prefix(&read(dir, segment.start));
        last.map_or(segment.start.saturating_sub(1), |cursor| cursor.seq)
    });
    Scan { segments, last }
}

/// The events of one kind in one file. Others, of which there may be many, are not parsed.
pub fn of_kind<T: DeserializeOwned>(dir: &Path, start: u64, kind: &str) -> Vec<T> {
    let bytes = read(dir, start);
    let lines = log_line::lines(&bytes).filter(|line| line.kind == kind);
    lines.filter_map(|line| serde_json::from_str(line.json).ok()).collect()
}

/// The complete events of one file.
#[cfg(test)]
pub fn events_of(dir: &Path, start: u64) -> Vec<TaskEvent> {
    let bytes = read(dir, start);
    log_line::lines(&bytes).filter_map(|line| serde_json::from_str(line.json).ok()).collect()
}

pub fn remove(dir: &Path, start: u64) -> io::Result<()> {
    std::fs::remove_file(dir.join(file_name(cursor(start))))
}

fn read(dir: &Path, start: u64) -> Vec<u8> {
    std::fs::read(dir.join(file_name(cursor(start)))).unwrap_or_default()
}

#[cfg(test)]
mod tests;
