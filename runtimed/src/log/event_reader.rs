//! A reader of the event log: gives the lines after a cursor, in order, each once.

use super::{event_line, events};
use protocol::Cursor;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What is read from a file at once. Longer than any line we write.
const READ_BYTES: usize = 64 << 10;

pub struct EventReader {
    dir: PathBuf,
    after: Cursor,
    open: Option<Open>,
}

struct Open {
    first: Cursor,
    file: File,
    /// Where the first unread line begins.
    offset: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum EventsRead {
    /// Whole lines, and the cursor of the last of them.
    Lines(Vec<OwnedLine>),
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedLine {
    pub cursor: Cursor,
    pub kind: String,
    pub json: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EventReadError {
    #[error("events before {oldest} are gone")]
    Trimmed { oldest: Cursor },
    #[error("read the event log")]
    Io(#[from] io::Error),
}

impl EventReader {
    /// Reads what comes after `after`; `Cursor::default()` is the beginning of whatever is kept.
    pub fn new(dir: &Path, after: Cursor) -> Self {
        Self { dir: dir.to_owned(), after, open: None }
    }

    pub fn read(&mut self) -> Result<EventsRead, EventReadError> {
        loop {
            if self.open.is_none() && !self.open_first()? {
                return Ok(EventsRead::End);
            }
            if let Some(lines) = self.read_open()? {
                if lines.is_empty() {
                    continue;
                }
                return Ok(EventsRead::Lines(lines));
            }
            if !self.open_next()? {
                return Ok(EventsRead::End);
            }
        }
    }

    /// Opens the file that holds the cursor: the last that begins at or before it.
    fn open_first(&mut self) -> Result<bool, EventReadError> {
        let files = events::list(&self.dir)?;
        let Some(oldest) = files.first() else { return Ok(false) };
        let from_the_start = self.after == Cursor::default();
        if !from_the_start && self.after < *oldest && !self.is_next(*oldest) {
            return Err(EventReadError::Trimmed { oldest: *oldest });
        }
        let first = files.iter().rfind(|first| **first <= self.after).unwrap_or(oldest);
        self.open = Some(Open::at(&self.dir, *first)?);
        Ok(true)
    }

    fn open_next(&mut self) -> Result<bool, EventReadError> {
        let Some(open) = &self.open else { return Ok(false) };
        let files = events::list(&self.dir)?;
        let Some(next) = files.iter().find(|first| **first > open.first) else { return Ok(false) };
        // A file that was trimmed while it was read may have been followed by others that are gone too.
        if !files.contains(&open.first) && !self.is_next(*next) {
            return Err(EventReadError::Trimmed { oldest: *next });
        }
        self.open = Some(Open::at(&self.dir, *next)?);
        Ok(true)
    }

    /// Whether a file begins with the very event that comes next.
    fn is_next(&self, first: Cursor) -> bool {
        first.epoch == self.after.epoch && first.seq.checked_sub(1) == Some(self.after.seq)
    }

    /// The next lines of the open file; nothing at its end. Lines before the cursor and damaged lines are
    /// passed over, which can leave none.
    fn read_open(&mut self) -> io::Result<Option<Vec<OwnedLine>>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let bytes = open.next_lines()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut lines = Vec::new();
        for line in bytes.split(|b| *b == b'\n').filter_map(event_line::decode) {
            if line.cursor > self.after {
                self.after = line.cursor;
                let (kind, json) = (line.kind.to_owned(), line.json.to_owned());
                lines.push(OwnedLine { cursor: line.cursor, kind, json });
            }
        }
        Ok(Some(lines))
    }
}

impl Open {
    fn at(dir: &Path, first: Cursor) -> io::Result<Self> {
        Ok(Self { first, file: File::open(dir.join(events::file_name(first)))?, offset: 0 })
    }

    /// Whole lines from the offset on; empty where there is none yet. Lines longer than a read grow it.
    fn next_lines(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            self.file.seek(SeekFrom::Start(self.offset + bytes.len() as u64))?;
            let read = (&mut self.file).take(READ_BYTES as u64).read_to_end(&mut bytes)?;
            if let Some(last) = bytes.iter().rposition(|b| *b == b'\n') {
                bytes.truncate(last + 1);
                self.offset += bytes.len() as u64;
                return Ok(bytes);
            }
            if read == 0 {
                return Ok(Vec::new());
            }
        }
    }
}
