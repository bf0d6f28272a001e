//! Prints output of commands and services: byte for byte into files and pipes, filtered on a terminal.

use crate::{
    failure::{Failure, eprint_line},
    output::Output,
    output_stream::payload_bytes,
    sanitize::TerminalFilter,
    terminal,
};
use clap::Args;
use protocol::{Chunk, Stream};
use std::io::{self, IsTerminal, Write as _};

/// The flag `--raw`: prints output on a terminal unfiltered.
#[derive(Debug, Clone, Copy, Args)]
pub struct RawFlag {
    /// Print control sequences on a terminal too; by default only colours are kept
    #[arg(long)]
    pub raw: bool,
}

pub struct Printer {
    output: Output,
    stdout: StreamFilter,
    stderr: StreamFilter,
}

/// How one of our streams is written.
pub enum StreamFilter {
    Raw,
    Filtered(TerminalFilter),
}

impl Printer {
    pub fn new(output: Output, flag: RawFlag) -> Self {
        let stdout = StreamFilter::for_stream(&io::stdout(), flag);
        Self { output, stdout, stderr: StreamFilter::for_stream(&io::stderr(), flag) }
    }

    /// Prints a chunk to the stream that it came from; returns false for the last one.
    pub fn print(&mut self, chunk: &Chunk) -> Result<bool, Failure> {
        if self.output.json {
            self.output.json(chunk)?;
        }
        match chunk {
            Chunk::End { .. } => {
                self.end();
                return Ok(false);
            }
            Chunk::Gap { lost, .. } => {
                eprint_line(&format!("slipway: {lost} bytes of output are missing"));
            }
            Chunk::Output { .. } if self.output.json => {}
            Chunk::Output { stream: Stream::Stderr, payload, .. } => {
                let shown = self.stderr.filter(payload_bytes(payload)?.to_vec());
                // A closed standard error is ignored.
                let _ = io::stderr().write_all(&shown);
            }
            Chunk::Output { stream: Stream::Stdout | Stream::Pty, payload, .. } => {
                let shown = self.stdout.filter(payload_bytes(payload)?.to_vec());
                self.output.bytes(&shown)?;
            }
        }
        terminal::set_coloured(self.stdout.is_coloured() || self.stderr.is_coloured());
        Ok(true)
    }

    /// Prints the incomplete last characters. A closed output is ignored.
    fn end(&mut self) {
        let _ = self.output.bytes(&self.stdout.rest());
        let _ = io::stderr().write_all(&self.stderr.rest());
        terminal::set_coloured(false);
    }
}

impl StreamFilter {
    pub fn for_stream(stream: &impl IsTerminal, flag: RawFlag) -> Self {
        if flag.raw || !stream.is_terminal() { Self::Raw } else { Self::Filtered(TerminalFilter::default()) }
    }

    pub fn filter(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Raw => bytes,
            Self::Filtered(filter) => filter.feed(&bytes).into_bytes(),
        }
    }

    pub fn rest(&mut self) -> Vec<u8> {
        match self {
            Self::Raw => Vec::new(),
            Self::Filtered(filter) => filter.finish().into_bytes(),
        }
    }

    fn is_coloured(&self) -> bool {
        match self {
            Self::Raw => false,
            Self::Filtered(filter) => filter.is_coloured(),
        }
    }
}
