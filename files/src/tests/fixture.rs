//! A workspace in a temporary directory, and an exchange in memory.

use crate::{Exchange, FilesError, Workspace, limits::CHUNK_BYTES, perform};
use bytes::Bytes;
use protocol::files::{FilesReply, FilesRequest};
use std::{collections::VecDeque, fs::File, io, os::fd::BorrowedFd, path::PathBuf};
use tempfile::TempDir;

pub struct Fixture {
    pub outer: TempDir,
    pub workspace: Workspace,
}

impl Fixture {
    /// A workspace `top`, beside a file `secret` that no verb may reach.
    pub fn new() -> Self {
        let outer = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(outer.path().join("top")).expect("top");
        std::fs::write(outer.path().join("secret"), "secret").expect("secret");
        let top = File::open(outer.path().join("top")).expect("top");
        Self { outer, workspace: Workspace::new(top.into()) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join("top").join(name)
    }

    pub fn perform(&self, request: &FilesRequest, body: &[u8]) -> (Result<(), FilesError>, Recorder) {
        let mut exchange = Recorder::with_body(body);
        (perform(&self.workspace, &mut exchange, request), exchange)
    }

    /// The reply and the bytes after it, of a verb that succeeds.
    pub fn reply(&self, request: &FilesRequest, body: &[u8]) -> (FilesReply, Vec<u8>) {
        let (done, exchange) = self.perform(request, body);
        done.unwrap_or_else(|error| panic!("{request:?}: {:?}", error.failure()));
        (exchange.reply.expect("one reply"), exchange.sent)
    }
}

/// Keeps what a verb replies and sends.
#[derive(Default)]
pub struct Recorder {
    pub body: VecDeque<Bytes>,
    /// Whether the body ends early.
    pub cut: bool,
    pub cancelled: bool,
    pub reply: Option<FilesReply>,
    pub sent: Vec<u8>,
    /// Bytes that were sent, also where they are not kept.
    pub sent_bytes: u64,
    pub discards: bool,
}

impl Recorder {
    pub fn with_body(body: &[u8]) -> Self {
        let chunks = body.chunks(7).map(Bytes::copy_from_slice).collect();
        Self { body: chunks, ..Self::default() }
    }

    /// As [`Self::with_body`], in large pieces.
    pub fn with_large_body(body: Vec<u8>) -> Self {
        let mut body = Bytes::from(body);
        let mut chunks = VecDeque::new();
        while !body.is_empty() {
            chunks.push_back(body.split_to(body.len().min(100_000)));
        }
        Self { body: chunks, ..Self::default() }
    }
}

impl Exchange for Recorder {
    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        match self.body.pop_front() {
            None if self.cut => Err(io::ErrorKind::ConnectionReset.into()),
            chunk => Ok(chunk),
        }
    }

    fn reply(&mut self, reply: FilesReply) -> io::Result<()> {
        assert!(self.reply.is_none(), "one reply");
        self.reply = Some(reply);
        Ok(())
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        assert!(self.reply.is_some(), "bytes follow the reply");
        assert!(bytes.len() <= CHUNK_BYTES, "a chunk has a limit");
        if self.cancelled {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.sent_bytes += bytes.len() as u64;
        if !self.discards {
            self.sent.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    fn cancel_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
