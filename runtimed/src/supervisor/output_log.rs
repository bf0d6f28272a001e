//! An output log as the supervisor tracks it: its files, its length, and whether it will grow.

use crate::log::segment::{self, Segment};
use protocol::{ExecId, ServiceName, TaskId};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// Identifies a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKey {
    Exec(ExecId),
    Service(ServiceName),
    /// The raw log of a task's agent.
    Task(TaskId),
    /// The document of a task's changes.
    TaskChanges(TaskId),
}

/// Published state of a log. A reader behind `end` has something to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogHead {
    /// The job runs, or could not be started.
    pub started: bool,
    pub end: u64,
    /// Where the job's own output ended; only leftover processes may write after that.
    pub ended: Option<u64>,
}

pub struct OutputLog {
    pub dir: PathBuf,
    pub segments: Vec<Segment>,
    head: watch::Sender<LogHead>,
    /// The shim was asked to report when the log is longer than this.
    armed: Option<u64>,
}

impl OutputLog {
    /// A log that has no files yet.
    pub fn fresh(dir: PathBuf) -> Self {
        Self { dir, segments: Vec::new(), head: watch::Sender::new(LogHead::default()), armed: None }
    }

    /// A log that may have files.
    pub fn existing(dir: PathBuf) -> Self {
        let mut log = Self::fresh(dir);
        log.measure();
        log
    }

    pub fn head(&self) -> LogHead {
        *self.head.borrow()
    }

    pub fn watch(&self) -> watch::Receiver<LogHead> {
        self.head.subscribe()
    }

    /// Position of the oldest byte.
    pub fn oldest(&self) -> u64 {
        self.segments.first().map_or_else(|| self.head().end, |segment| segment.start)
    }

    /// Size on disk, as last measured.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::disk_bytes).sum()
    }

    /// Reads the sizes of the files again.
    pub fn measure(&mut self) {
        self.segments = segment::list(&self.dir).unwrap_or_default();
        let stored = self.segments.last().map_or(0, |last| last.start.saturating_add(last.bytes));
        self.head.send_if_modified(|head| {
            let grew = stored > head.end;
            head.end = head.end.max(stored);
            grew
        });
    }

    pub fn grew(&mut self, end: u64) {
        self.armed = None;
        self.change(|head| head.end = head.end.max(end));
    }

    /// The job has ended; `end` is where its own output ends.
    pub fn ended(&self, end: u64) {
        self.change(|head| {
            head.started = true;
            head.end = head.end.max(end);
            head.ended = Some(end);
        });
    }

    pub fn change(&self, change: impl FnOnce(&mut LogHead)) {
        self.head.send_modify(change);
    }

    /// Whether the shim has to be asked again to report growth after `seen`.
    pub fn arm(&mut self, seen: u64) -> bool {
        let news = self.armed.is_none_or(|armed| seen < armed);
        if news {
            self.armed = Some(seen);
        }
        news
    }

    /// The shim is another one, or gone: nothing is armed there.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    pub fn remove_segment(&mut self, start: u64) {
        if let Err(error) = segment::remove(&self.dir, start) {
            tracing::error!(dir = %self.dir.display(), %error, "failed to trim log");
        }
        self.segments.retain(|segment| segment.start != start);
    }
}

/// The last lines of a part of a log, each shortened, to show to users.
pub fn last_lines(dir: &Path, part: Range<u64>, lines: usize, line_max_bytes: usize) -> Vec<String> {
    let window = part.end.saturating_sub(part.start).min((lines * line_max_bytes) as u64);
    let text = crate::log::reader::tail_bytes(dir, part.end, window);
    let text = String::from_utf8_lossy(&text);
    let mut last: Vec<String> =
        text.lines().rev().take(lines).map(|line| shorten(line, line_max_bytes)).collect();
    last.reverse();
    last
}

fn shorten(line: &str, max_bytes: usize) -> String {
    match line.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= max_bytes).last() {
        Some(end) if end < line.len() => format!("{}…", &line[..end]),
        _ => line.to_owned(),
    }
}
