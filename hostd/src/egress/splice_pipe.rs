//! Bytes from one socket to another within the kernel: where much comes, nothing of it is copied here.

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

/// Of all sandboxes: each is two descriptors.
static PIPE_PERMITS: Semaphore = Semaphore::const_new(PIPES_MAX);

/// Empty whenever nobody is within `pass`.
pub struct SplicePipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    _permit: SemaphorePermit<'static>,
}

impl SplicePipe {
    /// None where there are many, or descriptors are scarce: copying does as well.
    pub fn open() -> Option<Self> {
        let permit = PIPE_PERMITS.try_acquire().ok()?;
        let (read_end, write_end) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
        Some(Self { read_end, write_end, _permit: permit })
    }

    /// Waits for something to come and takes what there is, to be passed on by `drain`. Nothing is the end.
    pub async fn fill(&self, from: &TcpStream) -> io::Result<usize> {
        // The pipe is empty, so it is the socket that is waited for.
        from.async_io(Interest::READABLE, || splice_once(from, &self.write_end, PIPE_BYTES)).await
    }

    /// Passes on all that came.
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
