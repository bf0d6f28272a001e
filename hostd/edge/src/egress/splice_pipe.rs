//! Moves bytes from one socket to another inside the kernel (`splice`), for connections with much data.

use super::limits::{PIPE_BYTES, PIPES_MAX};
use nix::{
    errno::Errno,
    fcntl::{OFlag, SpliceFFlags, splice},
    unistd::pipe2,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};
use tokio::{
    io::Interest,
    net::TcpStream,
    sync::{Semaphore, SemaphorePermit},
};

/// Limits pipes of all sandboxes: each is two file descriptors.
static PIPE_PERMITS: Semaphore = Semaphore::const_new(PIPES_MAX);

/// A pipe that is empty between `drain` and the next `fill`.
pub struct SplicePipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    _permit: SemaphorePermit<'static>,
}

impl SplicePipe {
    /// None at the limit, or without free file descriptors: the caller copies instead.
    pub fn open() -> Option<Self> {
        let permit = PIPE_PERMITS.try_acquire().ok()?;
        let (read_end, write_end) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
        Some(Self { read_end, write_end, _permit: permit })
    }

    /// Waits for bytes and takes them into the pipe, for `drain`. Zero is the end of the stream.
    pub async fn fill(&self, from: &TcpStream) -> io::Result<usize> {
        // The pipe is empty, so only the socket can make `splice` block.
        from.async_io(Interest::READABLE, || splice_once(from, &self.write_end, PIPE_BYTES)).await
    }

    /// Writes so many bytes from the pipe to the socket.
    pub async fn drain(&self, to: &TcpStream, bytes: usize) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let sent = to.async_io(Interest::WRITABLE, || splice_once(&self.read_end, to, left)).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left -= sent;
        }
        Ok(())
    }
}

fn splice_once(from: impl AsFd, to: impl AsFd, max_bytes: usize) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        match splice(&from, None, &to, None, max_bytes, flags) {
            Err(Errno::EINTR) => {}
            splice_once => return Ok(splice_once?),
        }
    }
}
