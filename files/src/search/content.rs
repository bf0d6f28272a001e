//! Searches the lines of files, as bytes.

use super::{
    Found,
    excerpt::excerpt,
    lines::{Lines, Outcome},
    pattern::{self, LineMatcher},
};
use crate::{
    Exchange, FilesError,
    limits::{SEARCH_FILE_MATCHES_MAX, SEARCH_LINE_MAX_BYTES},
    walk::Visited,
};
use grep_matcher::Matcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};
use protocol::files::LineMatch;
use std::{fs::File, io, time::Instant};

/// Bytes that the searcher holds: the longest line, and the piece behind it.
const HEAP_BYTES: usize = 2 * SEARCH_LINE_MAX_BYTES + (64 << 10);

pub struct ContentSearch {
    matcher: LineMatcher,
    searcher: Searcher,
    until: Instant,
}

impl ContentSearch {
    pub fn new(pattern: &str, ignore_case: bool, until: Instant) -> Result<Self, FilesError> {
        let matcher = pattern::compile(pattern, ignore_case)?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .heap_limit(Some(HEAP_BYTES))
            .binary_detection(BinaryDetection::quit(0))
            // The file can become shorter, which a mapping does not survive.
            .memory_map(MmapChoice::never())
            .bom_sniffing(false)
            .build();
        Ok(Self { matcher, searcher, until })
    }

    /// Adds the matches of a file. Returns whether the search goes on.
    pub fn search(
        &mut self,
        file: File,
        visited: &Visited<'_>,
        exchange: &dyn Exchange,
        found: &mut Found,
    ) -> Result<bool, FilesError> {
        let outcome = Outcome::default();
        let lines = Lines::new(file, exchange, self.until, &outcome);
        let before = found.items.len();
        let mut sink =
            Matches { matcher: &self.matcher, visited, found, matches: 0, full: false, binary: false };
        let searched = self.searcher.search_reader(&self.matcher, lines, &mut sink);
        let Matches { full, binary, .. } = sink;
        if binary {
            found.items.truncate(before);
        }
        if outcome.cancelled.get() {
            return Err(FilesError::Cancelled);
        }
        if outcome.late.get() {
            found.truncate("the search took too long: name a smaller tree".to_owned());
            return Ok(false);
        }
        if outcome.cut.get() {
            let reason = format!("lines were searched up to {SEARCH_LINE_MAX_BYTES} bytes");
            found.truncate(reason);
        }
        if searched.is_err() {
            found.truncate("a file could not be read to its end".to_owned());
        }
        Ok(!full)
    }
}

/// Takes the matches of one file.
struct Matches<'a, 'v> {
    matcher: &'a LineMatcher,
    visited: &'a Visited<'v>,
    found: &'a mut Found,
    matches: u64,
    /// Whether there is no room for more.
    full: bool,
    /// Whether the file is no text: what was found before that was seen is no match.
    binary: bool,
}

impl Sink for Matches<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        if self.matches > SEARCH_FILE_MATCHES_MAX {
            let reason = format!("files have more than {SEARCH_FILE_MATCHES_MAX} matches");
            self.found.truncate(reason);
            return Ok(false);
        }
        let line = found.bytes().strip_suffix(b"\n").unwrap_or(found.bytes());
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let begin = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let line = LineMatch {
            number: found.line_number().unwrap_or(0),
            column: begin as u64 + 1,
            text: excerpt(line, begin),
        };
        self.full = !self.found.add(self.visited, Some(line));
        Ok(!self.full)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}
