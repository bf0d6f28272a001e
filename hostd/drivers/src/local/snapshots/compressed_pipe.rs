//! Compresses what is written into a pipe, on a thread of its own. All of it ends soon after the reader of the pipe is
//! gone, or takes nothing for long.
//!
//! ```text
//! writer ─▶ pipe ─▶ Source ─▶ compressor ─▶ Target ─▶ StallGuard ─▶ pipe ─▶ reader
//!             the source ends ◀─ `failed` ◀──────┘
//! ```

use super::super::{
    files::errno,
    limits::{EXPORT_STALL_MAX_MS, EXPORT_STALL_MIN_BYTES},
};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ruzstd::encoding::{CompressionLevel, compress};
use std::{
    cell::RefCell,
    io::{self, BufWriter, PipeReader, PipeWriter, Read, Write},
    os::fd::AsFd,
    time::{Duration, Instant},
};

const BUFFER_BYTES: usize = 256 << 10;

/// Runs work whose output is compressed into a pipe.
pub fn write_compressed(
    out: PipeWriter,
    work: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    compress_into(&mut StallGuard::of_export(out)?, work)
}

/// Runs work whose output is compressed into `out`, by a thread.
pub fn compress_into(
    out: &mut (dyn Write + Send),
    work: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (source, packed) = io::pipe()?;
    std::thread::scope(|scope| {
        let compressor = std::thread::Builder::new()
            .name("compress".to_owned())
            .spawn_scoped(scope, move || compress_pipe(source, out))?;
        let mut packed = BufWriter::with_capacity(BUFFER_BYTES, packed);
        let written = work(&mut packed).and_then(|()| packed.flush());
        // What is left in the buffer is not wanted where the work failed.
        drop(packed.into_parts());
        let compressed =
            compressor.join().map_err(|_| io::Error::other("the thread that compresses panicked"))?;
        // A reader that is gone ends the work as well: its own error says more.
        compressed.and(written)
    })
}

fn compress_pipe(source: PipeReader, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let failure = RefCell::new(None);
    let (source, target) = (Source { source, failure: &failure }, Target { out, failure: &failure });
    compress(source, target, CompressionLevel::Fastest);
    failure.into_inner().map_or(Ok(()), Err)
}

/// The compressor takes no errors: the first is kept, and the source ends.
struct Source<'a> {
    source: PipeReader,
    failure: &'a RefCell<Option<io::Error>>,
}

impl Read for Source<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.failure.borrow().is_none() {
            match self.source.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => *self.failure.borrow_mut() = Some(error),
                read => return read,
            }
        }
        Ok(0)
    }
}

struct Target<'a> {
    out: &'a mut (dyn Write + Send),
    failure: &'a RefCell<Option<io::Error>>,
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = self.out.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes into a pipe whose reader takes something from time to time.
pub struct StallGuard {
    out: PipeWriter,
    max: Duration,
    /// How long writes waited while fewer than [`EXPORT_STALL_MIN_BYTES`] were taken.
    waited: Duration,
    taken: usize,
}

impl StallGuard {
    /// With the patience that an export has with its reader.
    pub fn of_export(out: PipeWriter) -> io::Result<Self> {
        Self::new(out, Duration::from_millis(EXPORT_STALL_MAX_MS))
    }

    pub(super) fn new(out: PipeWriter, max: Duration) -> io::Result<Self> {
        fcntl(&out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(errno)?;
        Ok(Self { out, max, waited: Duration::ZERO, taken: 0 })
    }

    fn wait(&mut self) -> io::Result<()> {
        let left = self.max.saturating_sub(self.waited);
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the archive is not being read"));
        }
        let begun = Instant::now();
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut waited = [PollFd::new(self.out.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut waited, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(errno(error)),
        }
        self.waited += begun.elapsed();
        Ok(())
    }
}

impl Write for StallGuard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.out.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                Ok(length) => {
                    self.taken += length;
                    if self.taken >= EXPORT_STALL_MIN_BYTES {
                        (self.taken, self.waited) = (0, Duration::ZERO);
                    }
                    return Ok(length);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
