//! A file as it is searched: with the ends of long lines left out, so that a line has a limit in memory and in time, and
//! with a look at the clock and the caller before every piece.

use crate::{
    Exchange,
    limits::{SEARCH_FILE_MAX_BYTES, SEARCH_LINE_MAX_BYTES},
};
use std::{
    cell::Cell,
    fs::File,
    io::{self, Read, Take},
    time::Instant,
};

/// How the reading of a file ended, or was cut.
#[derive(Default)]
pub struct Outcome {
    pub late: Cell<bool>,
    pub cancelled: Cell<bool>,
    /// Whether ends of lines were left out.
    pub cut: Cell<bool>,
}

pub struct Lines<'a> {
    file: Take<File>,
    exchange: &'a dyn Exchange,
    until: Instant,
    outcome: &'a Outcome,
    /// Bytes of the current line.
    line: usize,
}

impl<'a> Lines<'a> {
    pub fn new(file: File, exchange: &'a dyn Exchange, until: Instant, outcome: &'a Outcome) -> Self {
        Self { file: file.take(SEARCH_FILE_MAX_BYTES), exchange, until, outcome, line: 0 }
    }

    fn check(&self) -> io::Result<()> {
        self.outcome.cancelled.set(self.exchange.is_cancelled());
        self.outcome.late.set(Instant::now() >= self.until);
        if self.outcome.cancelled.get() || self.outcome.late.get() {
            return Err(io::Error::other("the search was ended"));
        }
        Ok(())
    }

    /// Leaves out the ends of long lines; returns how many bytes are left.
    fn shorten(&mut self, bytes: &mut [u8]) -> usize {
        let (mut kept, mut at) = (0, 0);
        while at < bytes.len() {
            let newline = bytes[at..].iter().position(|byte| *byte == b'\n');
            let end = newline.map_or(bytes.len(), |length| at + length);
            let keep = (end - at).min(SEARCH_LINE_MAX_BYTES - self.line);
            if keep < end - at {
                self.outcome.cut.set(true);
            }
            bytes.copy_within(at..at + keep, kept);
            kept += keep;
            self.line += keep;
            at = end;
            if newline.is_some() {
                bytes[kept] = b'\n';
                kept += 1;
                at += 1;
                self.line = 0;
            }
        }
        kept
    }
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.check()?;
            let count = self.file.read(buffer)?;
            let kept = self.shorten(&mut buffer[..count]);
            // A piece within a long line can be left out whole.
            if kept > 0 || count == 0 {
                return Ok(kept);
            }
        }
    }
}
