//! What a job is sent on its input, as fast as it reads and within a bound. Writing never waits.

use crate::limits::ACP_UNREAD_MAX_BYTES;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What the buffer may keep while there is nothing to send.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

pub struct Outbox {
    input: Option<OwnedFd>,
    unread: Vec<u8>,
    /// The input ends when all of it is written.
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// As much as it takes now.
    Some,
    /// Nobody reads it any more, though there was more to say.
    Gone,
}

impl Outbox {
    pub fn new(input: Option<OwnedFd>) -> Self {
        let never_waits =
            |input: &OwnedFd| fcntl(input.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok();
        Self { input: input.filter(never_waits), unread: Vec::new(), closing: false }
    }

    /// Adds to what it is sent; nothing where its input has ended.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.input.is_some() && !self.closing {
            self.unread.extend_from_slice(bytes);
        }
    }

    /// Whether it left more unread than it may.
    pub fn is_full(&self) -> bool {
        self.unread.len() > ACP_UNREAD_MAX_BYTES
    }

    /// Its input ends when it has read all of it.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Its input ends now.
    pub fn hang_up(&mut self) {
        self.input = None;
        self.unread = Vec::new();
    }

    /// The descriptor to wait for, when there is something to write.
    pub fn writes_to(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.unread.is_empty()).map(AsFd::as_fd)
    }

    pub fn write(&mut self) -> Written {
        let Some(input) = &self.input else { return Written::Some };
        let mut written = 0;
        let mut gone = false;
        while written < self.unread.len() {
            match nix::unistd::write(input, &self.unread[written..]) {
                Ok(more) => written += more,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    gone = true;
                    break;
                }
            }
        }
        self.unread.drain(..written);
        if self.unread.is_empty() {
            self.unread.shrink_to(BUFFER_KEPT_BYTES);
        }
        if gone || (self.closing && self.unread.is_empty()) {
            self.hang_up();
        }
        if gone && !self.closing { Written::Gone } else { Written::Some }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{pipe, read};

    #[test]
    fn what_is_not_read_waits_and_the_end_comes_after_it() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut outbox = Outbox::new(Some(writer));
        outbox.push(&vec![b'x'; 1 << 20]);
        assert_eq!(outbox.write(), Written::Some);
        assert!(outbox.writes_to().is_some(), "a pipe holds less than that");
        outbox.close();
        outbox.push(b"too late");
        let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
        loop {
            match read(&reader, &mut buffer).expect("readable") {
                0 => break,
                more => bytes += more,
            }
            outbox.write();
        }
        assert_eq!(bytes, 1 << 20);
    }

    #[test]
    fn a_reader_that_is_gone_is_noticed_once() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut outbox = Outbox::new(Some(writer));
        drop(reader);
        outbox.push(b"hello");
        assert_eq!(outbox.write(), Written::Gone);
        outbox.push(&vec![b'x'; ACP_UNREAD_MAX_BYTES + 1]);
        assert!(!outbox.is_full(), "nothing is kept for nobody");
        assert_eq!(outbox.write(), Written::Some);
    }
}
