//! Queue of bytes for a job's stdin, with a limit. Writing never blocks.

use crate::limits::ACP_UNREAD_MAX_BYTES;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Capacity that the buffer keeps while the queue is empty.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

pub struct StdinQueue {
    input: Option<OwnedFd>,
    unread: Vec<u8>,
    /// Stdin is closed once the queue is empty.
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// As much as the pipe takes now.
    Progress,
    /// The job closed its stdin before the queue was empty.
    Closed,
}

impl StdinQueue {
    pub fn new(input: Option<OwnedFd>) -> Self {
        let never_waits =
            |input: &OwnedFd| fcntl(input.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok();
        Self { input: input.filter(never_waits), unread: Vec::new(), closing: false }
    }

    /// Adds bytes; ignored once stdin is closed.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.input.is_some() && !self.closing {
            self.unread.extend_from_slice(bytes);
        }
    }

    /// Whether more bytes are unread than allowed.
    pub fn is_full(&self) -> bool {
        self.unread.len() > ACP_UNREAD_MAX_BYTES
    }

    /// Closes stdin once the queue is empty.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Closes stdin now.
    pub fn close_now(&mut self) {
        self.input = None;
        self.unread = Vec::new();
    }

    /// The descriptor to poll, when the queue is not empty.
    pub fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.unread.is_empty()).map(AsFd::as_fd)
    }

    pub fn write(&mut self) -> WriteResult {
        let Some(input) = &self.input else { return WriteResult::Progress };
        let mut written = 0;
        let mut closed = false;
        while written < self.unread.len() {
            match nix::unistd::write(input, &self.unread[written..]) {
                Ok(more) => written += more,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    closed = true;
                    break;
                }
            }
        }
        self.unread.drain(..written);
        if self.unread.is_empty() {
            self.unread.shrink_to(BUFFER_KEPT_BYTES);
        }
        if closed || (self.closing && self.unread.is_empty()) {
            self.close_now();
        }
        if closed && !self.closing { WriteResult::Closed } else { WriteResult::Progress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{pipe, read};

    #[test]
    fn unread_bytes_are_queued_and_stdin_is_closed_after_them() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut queue = StdinQueue::new(Some(writer));
        queue.push(&vec![b'x'; 1 << 20]);
        assert_eq!(queue.write(), WriteResult::Progress);
        assert!(queue.writable_fd().is_some(), "a pipe holds less than that");
        queue.close();
        queue.push(b"too late");
        let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
        loop {
            match read(&reader, &mut buffer).expect("readable") {
                0 => break,
                more => bytes += more,
            }
            queue.write();
        }
        assert_eq!(bytes, 1 << 20);
    }

    #[test]
    fn a_reader_that_is_gone_is_noticed_once() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut queue = StdinQueue::new(Some(writer));
        drop(reader);
        queue.push(b"hello");
        assert_eq!(queue.write(), WriteResult::Closed);
        queue.push(&vec![b'x'; ACP_UNREAD_MAX_BYTES + 1]);
        assert!(!queue.is_full(), "nothing is queued without a reader");
        assert_eq!(queue.write(), WriteResult::Progress);
    }
}
