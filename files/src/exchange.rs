//! The way between a verb and its caller: the bytes of the request's body in, one reply and its bytes out.

use crate::FilesError;
use bytes::Bytes;
use protocol::files::FilesReply;
use std::{
    io::{self, Read},
    os::fd::BorrowedFd,
};

pub trait Exchange {
    /// The next bytes of the body; `None` at its end. An error where it ended early.
    fn receive(&mut self) -> io::Result<Option<Bytes>>;
    /// The one reply. An error where the caller is gone.
    fn reply(&mut self, reply: FilesReply) -> io::Result<()>;
    /// Bytes that follow the reply. Waits for a slow caller.
    fn send(&mut self, bytes: Bytes) -> io::Result<()>;
    /// Whether the caller is gone.
    fn is_cancelled(&self) -> bool;
    /// Readable, or hung up, when the caller is gone.
    fn cancel_fd(&self) -> Option<BorrowedFd<'_>>;
}

/// Turns a failure to reach the caller into the end of the verb.
pub fn gone(_: io::Error) -> FilesError {
    FilesError::Cancelled
}

/// The body as a reader.
pub struct BodyReader<'a> {
    exchange: &'a mut dyn Exchange,
    chunk: Bytes,
}

impl<'a> BodyReader<'a> {
    pub fn new(exchange: &'a mut dyn Exchange) -> Self {
        Self { exchange, chunk: Bytes::new() }
    }
}

impl Read for BodyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.exchange.receive()? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = self.chunk.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}
