//! Moves a job's output into its sink. Reads bytes, never lines: lines have no limit.

use super::acp_conversation::AcpConversation;
use super::child::Outputs;
use super::messages::JobSummary;
use super::output_sink::OutputSink;
use crate::core::manifest::log_pattern;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;
use protocol::Stream;
use regex_lite::Regex;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Requested size of each pipe.
pub const PIPE_BYTES: i32 = 1 << 20;
/// Size of one read.
const BUFFER_BYTES: usize = 256 << 10;
/// Length of an unfinished line that is kept to match the pattern.
const LINE_MAX_BYTES: usize = 4 << 10;

pub struct Pump {
    sources: Vec<Source>,
    sink: OutputSink,
    pattern: Option<Pattern>,
    buffer: Vec<u8>,
}

struct Source {
    fd: OwnedFd,
    stream: Stream,
}

/// Output that one read brought and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOutput {
    pub rotated: bool,
    pub matched: bool,
}

impl Pump {
    pub fn new(outputs: Outputs, sink: OutputSink, pattern: Option<&str>) -> Self {
        let source = |fd, stream| Source { fd, stream };
        let sources = match outputs {
            Outputs::Pipes { stdout, stderr } => {
                vec![source(stdout, Stream::Stdout), source(stderr, Stream::Stderr)]
            }
            Outputs::Terminal(master) => vec![source(master, Stream::Pty)],
        };
        let pattern =
            pattern.and_then(|p| log_pattern(p).ok()).map(|regex| Pattern { regex, line: Vec::new() });
        Self { sources, sink, pattern, buffer: vec![0; BUFFER_BYTES] }
    }

    /// The open sources, to poll.
    pub fn descriptors(&self) -> Vec<i32> {
        self.sources.iter().map(|source| source.fd.as_raw_fd()).collect()
    }

    pub fn borrowed(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|source| source.fd.as_fd())
    }

    /// Whether a read would not block.
    pub fn has_bytes(&self, descriptor: i32) -> bool {
        let Some(source) = self.sources.iter().find(|s| s.fd.as_raw_fd() == descriptor) else { return false };
        let mut fds = [PollFd::new(source.fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    pub fn is_closed(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn end(&self) -> u64 {
        self.sink.end()
    }

    pub fn lost(&self) -> u64 {
        self.sink.lost()
    }

    pub fn raw_end(&self) -> u64 {
        self.sink.raw_end()
    }

    /// The ACP conversation with the job, where there is one.
    pub fn acp(&mut self) -> Option<&mut AcpConversation> {
        self.sink.acp()
    }

    /// The job's stdin, when there is something to write.
    pub fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sink.writable_fd()
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.sink.next_wake()
    }

    /// Does what is due; whether a log file was rotated.
    pub fn tick(&mut self) -> bool {
        self.sink.tick()
    }

    pub fn request_stop(&mut self) {
        self.sink.request_stop();
    }

    /// Ends the output and sums it up, for jobs of tasks.
    pub fn conclude(&mut self) -> Option<JobSummary> {
        self.sink.conclude()
    }

    /// Drops the sink of a task, so that later output is discarded; a job's own log stays.
    pub fn detach(&mut self) {
        self.sink.detach();
    }

    /// Reads once from the source with this descriptor and stores the bytes; `None` where there were none.
    pub fn read_from(&mut self, descriptor: i32) -> Option<StoredOutput> {
        let at = self.sources.iter().position(|s| s.fd.as_raw_fd() == descriptor)?;
        match read(self.sources[at].fd.as_fd(), &mut self.buffer) {
            Ok(length) if length > 0 => Some(self.store(self.sources[at].stream, length)),
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            // End of file; a terminal fails with EIO when its last user is gone.
            Ok(_) | Err(_) => {
                self.sources.remove(at);
                None
            }
        }
    }

    /// Reads what was printed until now, at most as much as a pipe holds, because a process may go on
    /// printing.
    pub fn read_available(&mut self) {
        for descriptor in self.descriptors() {
            for _ in 0..PIPE_BYTES as usize / BUFFER_BYTES {
                if self.has_bytes(descriptor) {
                    self.read_from(descriptor);
                }
            }
        }
    }

    fn store(&mut self, stream: Stream, length: usize) -> StoredOutput {
        let bytes = &self.buffer[..length];
        let matched = self.pattern.as_mut().is_some_and(|pattern| pattern.scan(bytes));
        if matched {
            self.pattern = None;
        }
        StoredOutput { rotated: self.sink.append(stream, bytes), matched }
    }
}

/// Matches a pattern against lines, finished or not, of which the beginning is kept.
struct Pattern {
    regex: Regex,
    line: Vec<u8>,
}

impl Pattern {
    fn scan(&mut self, bytes: &[u8]) -> bool {
        bytes.split_inclusive(|b| *b == b'\n').any(|piece| {
            let room = LINE_MAX_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            let found = self.regex.is_match(&String::from_utf8_lossy(&self.line));
            if piece.ends_with(b"\n") {
                self.line.clear();
            }
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_across_reads_and_in_unfinished_lines() {
        let pattern =
            || Pattern { regex: Regex::new("ready in \\d+").expect("a good pattern"), line: Vec::new() };
        for (reads, found) in [
            (vec!["vite\nready in 30 ms\n"], true),
            (vec!["rea", "dy in", " 3"], true),
            (vec!["ready\n", "in 3\n"], false),
            (vec!["\u{1b}[1mready in 7"], true),
        ] {
            let mut pattern = pattern();
            assert_eq!(reads.iter().any(|r| pattern.scan(r.as_bytes())), found, "{reads:?}");
        }
    }

    #[test]
    fn a_line_without_end_costs_a_bounded_memory() {
        let mut pattern = Pattern { regex: Regex::new("never").expect("a good pattern"), line: Vec::new() };
        for _ in 0..100 {
            assert!(!pattern.scan(&[b'x'; 1000]));
        }
        assert!(pattern.line.len() <= LINE_MAX_BYTES);
    }
}
