//! Reads the event log: the lines after a cursor, in order, each once.

use super::events;
use protocol::Cursor;
use protocol::log_line::{self, LogLine, file_name};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Size of a read; grows only for longer lines.
pub const READ_BYTES: usize = 64 << 10;

pub struct EventReader {
    dir: PathBuf,
    after: Cursor,
    open: Option<OpenFile>,
    /// Kept between reads, and dropped at the end: most followers wait most of the time.
    buffer: Vec<u8>,
}

struct OpenFile {
    first: Cursor,
    file: File,
    /// Where the first unread line begins.
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsRead {
    /// At least one line was read.
    Lines,
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum EventReadError {
    #[error("events before {oldest} are gone")]
    Trimmed { oldest: Cursor },
    #[error("read the event log")]
    Io(#[from] io::Error),
}

impl EventReader {
    /// Reads lines after `after`; `Cursor::default()` is the oldest kept line.
    pub fn new(dir: &Path, after: Cursor) -> Self {
        Self { dir: dir.to_owned(), after, open: None, buffer: Vec::new() }
    }

    /// Cursor of the last line that was read.
    pub fn after(&self) -> Cursor {
        self.after
    }

    /// Reads the next lines, as many as one read brings. `known` is the cursor of an existing event: another
    /// file is looked for only if that was not reached.
    pub fn read(
        &mut self,
        known: Cursor,
        mut each: impl FnMut(LogLine<'_>),
    ) -> Result<EventsRead, EventReadError> {
        while self.open.is_some() || self.open_first()? {
            if self.read_on(&mut each)? {
                return Ok(EventsRead::Lines);
            }
            if self.after >= known {
                break;
            }
            let Some(next) = self.next_file()? else { break };
            // The old file may have grown before the new one was created, and does not grow any more.
            if self.read_on(&mut each)? {
                return Ok(EventsRead::Lines);
            }
            self.open = Some(OpenFile::at(&self.dir, next)?);
        }
        self.buffer = Vec::new();
        Ok(EventsRead::End)
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
        self.open = Some(OpenFile::at(&self.dir, *first)?);
        Ok(true)
    }

    fn next_file(&self) -> Result<Option<Cursor>, EventReadError> {
        let Some(open) = &self.open else { return Ok(None) };
        let files = events::list(&self.dir)?;
        // A file in which nothing could be stored is removed, and another one may get its name.
        if open.offset == 0 && files.contains(&open.first) && !open.is_still_at(&self.dir)? {
            return Ok(Some(open.first));
        }
        let Some(next) = files.iter().find(|first| **first > open.first) else { return Ok(None) };
        // A file that was trimmed while it was read may have been followed by others that are gone too.
        if !files.contains(&open.first) && !self.is_next(*next) {
            return Err(EventReadError::Trimmed { oldest: *next });
        }
        Ok(Some(*next))
    }

    /// Whether a file begins with the event after the cursor.
    fn is_next(&self, first: Cursor) -> bool {
        first.epoch == self.after.epoch && first.seq.checked_sub(1) == Some(self.after.seq)
    }

    /// Reads lines of the open file; whether there were any. Lines before the cursor and damaged lines are
    /// skipped.
    fn read_on(&mut self, each: &mut impl FnMut(LogLine<'_>)) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        loop {
            let bytes = open.next_lines(&mut self.buffer)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let before = self.after;
            for line in log_line::lines(bytes).filter(|line| line.cursor > before) {
                self.after = line.cursor;
                each(line);
            }
            if self.after > before {
                return Ok(true);
            }
        }
    }
}

impl OpenFile {
    fn at(dir: &Path, first: Cursor) -> io::Result<Self> {
        Ok(Self { first, file: File::open(dir.join(file_name(first)))?, offset: 0 })
    }

    /// Whether the directory entry still refers to this file.
    fn is_still_at(&self, dir: &Path) -> io::Result<bool> {
        let named = std::fs::metadata(dir.join(file_name(self.first)))?;
        Ok(named.ino() == self.file.metadata()?.ino())
    }

    /// Whole lines from the offset on; empty where there is none yet. Longer lines grow the buffer for as
    /// long as they are read.
    fn next_lines<'b>(&mut self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        buffer.truncate(READ_BYTES);
        buffer.shrink_to(READ_BYTES);
        let mut filled = 0;
        loop {
            if buffer.len() < filled + READ_BYTES {
                buffer.resize(filled + READ_BYTES, 0);
            }
            let read = self.file.read_at(&mut buffer[filled..], self.offset + filled as u64)?;
            if let Some(last) = buffer[filled..filled + read].iter().rposition(|byte| *byte == b'\n') {
                let whole = filled + last + 1;
                self.offset += whole as u64;
                return Ok(&buffer[..whole]);
            }
            if read == 0 {
                return Ok(&[]);
            }
            filled += read;
        }
    }
}
