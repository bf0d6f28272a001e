//! The stdin of a job: the write end of its pipe, or its terminal.

use crate::sys::async_fd::{self, PolledFd};
use crate::sys::pty;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use protocol::TtySize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, MutexGuard};

pub struct JobInput {
    fd: AsyncFd<PolledFd<OwnedFd>>,
    /// Serializes writes: input of the start request is not mixed with input sent later.
    write_lock: Mutex<()>,
    /// Bytes written of the input that carries positions. Locked by its sender.
    offset: Mutex<u64>,
    pub tty: bool,
}

/// End of file, as typed on a terminal.
const CTRL_D: u8 = 4;

impl JobInput {
    pub fn new(fd: OwnedFd, tty: bool) -> io::Result<Self> {
        fcntl(fd.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { fd: async_fd::watch(fd)?, write_lock: Mutex::new(()), offset: Mutex::new(0), tty })
    }

    /// Writes all bytes, as fast as the job reads.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_counted(bytes, &mut 0).await
    }

    /// The same, and counts written bytes, also if it is cancelled.
    pub async fn write_counted(&self, mut bytes: &[u8], count: &mut u64) -> io::Result<()> {
        let _lock = self.write_lock.lock().await;
        while !bytes.is_empty() {
            let mut ready = self.fd.writable().await?;
            let written = ready.try_io(|fd| match nix::unistd::write(fd.get_ref().as_fd(), bytes) {
                Err(Errno::EINTR) => Ok(0),
                other => other.map_err(io::Error::from),
            });
            if let Ok(written) = written {
                let written = written?;
                *count += written as u64;
                bytes = &bytes[written..];
            }
        }
        Ok(())
    }

    /// Locks the position for one sender at a time: a sender that reconnects may overlap with its old
    /// connection.
    pub async fn offset(&self) -> MutexGuard<'_, u64> {
        self.offset.lock().await
    }

    /// Sends end of input. On a terminal it is a key, which within a line has to be typed twice; a pipe is
    /// closed by dropping it.
    pub async fn end(&self, within_line: bool) -> io::Result<()> {
        match (self.tty, within_line) {
            (false, _) => Ok(()),
            (true, false) => self.write_all(&[CTRL_D]).await,
            (true, true) => self.write_all(&[CTRL_D, CTRL_D]).await,
        }
    }

    pub fn resize(&self, size: TtySize) -> nix::Result<()> {
        pty::resize(&self.fd.get_ref().0, size)
    }
}
