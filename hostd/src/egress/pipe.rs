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
static PLACES: Semaphore = Semaphore::const_new(PIPES_MAX);

/// Empty whenever nobody is within `pass`.
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    _place: SemaphorePermit<'static>,
}

impl Pipe {
    /// None where there are many, or descriptors are scarce: copying does as well.
    pub fn open() -> Option<Self> {
        let place = PLACES.try_acquire().ok()?;
        let (out, into) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
        Some(Self { out, into, _place: place })
    }

    /// Waits for something to come and takes what there is, to be passed on by `drain`. Nothing is the end.
    pub async fn fill(&self, from: &TcpStream) -> io::Result<usize> {
        // The pipe is empty, so it is the socket that is waited for.
        from.async_io(Interest::READABLE, || moved(from, &self.into, PIPE_BYTES)).await
    }

    /// Passes on all that came.
    pub async fn drain(&self, to: &TcpStream, bytes: usize) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let sent = to.async_io(Interest::WRITABLE, || moved(&self.out, to, left)).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left -= sent;
        }
        Ok(())
    }
}

fn moved(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        match splice(&from, None, &to, None, most, flags) {
            Err(Errno::EINTR) => {}
            moved => return Ok(moved?),
        }
    }
}
