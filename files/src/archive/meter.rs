//! Measures an archive while it is unpacked, and ends it where it is too large, too slow, or a bomb.

use crate::{
    Exchange, FilesError,
    exchange::BodyReader,
    limits::{
        ARCHIVE_FREE_BYTES, ARCHIVE_HEADER_MAX_BYTES, ARCHIVE_MAX_BYTES, ARCHIVE_MAX_ENTRIES,
        ARCHIVE_RATIO_MAX, UNPACK_WORK_MAX_MS, UPLOAD_PACE_MIN_BYTES, UPLOAD_PACE_MS,
    },
};
use std::{
    cell::{Cell, RefCell},
    io::{self, Read},
    time::{Duration, Instant},
};

#[derive(Debug, Clone)]
pub struct Bounds {
    pub entries: u64,
    pub bytes: u64,
    /// Bytes that are unpacked whatever was received.
    pub free_bytes: u64,
    pub ratio: u64,
    pub header_bytes: u64,
    pub work: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: ARCHIVE_MAX_ENTRIES,
            bytes: ARCHIVE_MAX_BYTES,
            free_bytes: ARCHIVE_FREE_BYTES,
            ratio: ARCHIVE_RATIO_MAX,
            header_bytes: ARCHIVE_HEADER_MAX_BYTES,
            work: Duration::from_millis(UNPACK_WORK_MAX_MS),
        }
    }
}

/// Shared by the readers of one archive, which lie in each other.
pub struct Meter {
    bounds: Bounds,
    started: Instant,
    waited: Cell<Duration>,
    received: Cell<u64>,
    decoded: Cell<u64>,
    unpacked: Cell<u64>,
    entries: Cell<u64>,
    /// What is left for the headers of the next entry; none while content is read.
    headers_left: Cell<Option<u64>>,
    /// When the pace was looked at last: the time waited and the bytes received until then.
    pace: Cell<(Duration, u64)>,
    /// The first reason to end. Errors of readers pass through code of others, which keeps only their text.
    failure: RefCell<Option<FilesError>>,
}

impl Meter {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            started: Instant::now(),
            waited: Cell::default(),
            received: Cell::default(),
            decoded: Cell::default(),
            unpacked: Cell::default(),
            entries: Cell::default(),
            headers_left: Cell::default(),
            pace: Cell::default(),
            failure: RefCell::default(),
        }
    }

    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Counts an entry, before anything is done for it.
    pub fn entry(&self) -> Result<(), FilesError> {
        self.entries.set(self.entries.get() + 1);
        self.check_entries(self.entries.get())
    }

    pub fn check_entries(&self, entries: u64) -> Result<(), FilesError> {
        if entries <= self.bounds.entries {
            return Ok(());
        }
        let message = format!("the archive has more than {} entries", self.bounds.entries);
        Err(FilesError::TooMany { message })
    }

    /// Says that headers of one entry are read from now on.
    pub fn begin_headers(&self) {
        self.headers_left.set(Some(self.bounds.header_bytes));
    }

    /// Says that content is read from now on.
    pub fn begin_content(&self) {
        self.headers_left.set(None);
    }

    /// Counts bytes of content.
    pub fn unpack(&self, bytes: usize) -> io::Result<()> {
        self.unpacked.set(self.unpacked.get().saturating_add(bytes as u64));
        self.check_size(self.unpacked.get())?;
        self.check_work()
    }

    /// Ends where the work takes too long.
    pub fn check_work(&self) -> io::Result<()> {
        if self.started.elapsed().saturating_sub(self.waited.get()) <= self.bounds.work {
            return Ok(());
        }
        let message = format!("the archive took longer than {} s to unpack", self.bounds.work.as_secs());
        Err(self.fail(FilesError::TimedOut { message }))
    }

    /// The reason behind an error of a reader.
    pub fn error(&self, error: &io::Error) -> FilesError {
        let failure = self.failure.borrow_mut().take();
        failure.unwrap_or_else(|| FilesError::invalid(format!("the archive is corrupt: {error}")))
    }

    fn fail(&self, failure: FilesError) -> io::Error {
        self.failure.borrow_mut().get_or_insert(failure);
        io::Error::other("unpacking was ended")
    }

    /// `bytes` of what the archive unpacks to, headers or content.
    fn check_size(&self, bytes: u64) -> io::Result<()> {
        let Bounds { bytes: max, free_bytes, ratio, .. } = self.bounds;
        let by_ratio = free_bytes.saturating_add(self.received.get().saturating_mul(ratio));
        let message = match bytes {
            bytes if bytes > max => format!("the archive unpacks to more than {max} bytes"),
            bytes if bytes > by_ratio => {
                format!("the archive unpacks to more than {ratio} times its size and {free_bytes} bytes")
            }
            _ => return Ok(()),
        };
        Err(self.fail(FilesError::TooLarge { message }))
    }

    fn receive(&self, bytes: usize, waited: Duration) -> io::Result<()> {
        let waited = self.waited.get() + waited;
        let received = self.received.get().saturating_add(bytes as u64);
        self.waited.set(waited);
        self.received.set(received);
        if received > self.bounds.bytes {
            let message = format!("the archive has more than {} bytes", self.bounds.bytes);
            return Err(self.fail(FilesError::TooLarge { message }));
        }
        let (since, before) = self.pace.get();
        if waited.saturating_sub(since) >= Duration::from_millis(UPLOAD_PACE_MS) {
            if received - before < UPLOAD_PACE_MIN_BYTES {
                let message = "the archive arrives too slowly".to_owned();
                return Err(self.fail(FilesError::TimedOut { message }));
            }
            self.pace.set((waited, received));
        }
        Ok(())
    }

    fn decode(&self, bytes: usize) -> io::Result<()> {
        self.decoded.set(self.decoded.get().saturating_add(bytes as u64));
        if let Some(left) = self.headers_left.get() {
            let Some(left) = left.checked_sub(bytes as u64) else {
                let message = format!("an entry has more than {} bytes of headers", self.bounds.header_bytes);
                return Err(self.fail(FilesError::TooLarge { message }));
            };
            self.headers_left.set(Some(left));
        }
        self.check_size(self.decoded.get())?;
        self.check_work()
    }
}

/// The bytes of the archive as they arrive.
pub struct Received<'a> {
    body: BodyReader<'a>,
    meter: &'a Meter,
}

impl<'a> Received<'a> {
    pub fn new(exchange: &'a mut dyn Exchange, meter: &'a Meter) -> Self {
        Self { body: BodyReader::new(exchange), meter }
    }
}

impl Read for Received<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        let count = self.body.read(buffer).map_err(|error| self.meter.fail(FilesError::BodyCut(error)))?;
        self.meter.receive(count, since.elapsed())?;
        Ok(count)
    }
}

/// The bytes of a tar archive, after their compression.
pub struct Decoded<'a, R> {
    source: R,
    meter: &'a Meter,
}

impl<'a, R> Decoded<'a, R> {
    pub fn new(source: R, meter: &'a Meter) -> Self {
        Self { source, meter }
    }
}

impl<R: Read> Read for Decoded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.meter.decode(count)?;
        Ok(count)
    }
}

/// The content of an entry: as many bytes as its header says, or an error.
pub struct Whole<'a, R> {
    source: R,
    left: u64,
    meter: &'a Meter,
}

impl<'a, R: Read> Whole<'a, R> {
    pub fn new(source: R, size: u64, meter: &'a Meter) -> Self {
        Self { source, left: size, meter }
    }

    /// Reads what is left.
    pub fn drain(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink()).map(drop)
    }
}

impl<R: Read> Read for Whole<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..want])?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a file"));
        }
        self.left -= count as u64;
        self.meter.unpack(count)?;
        Ok(count)
    }
}
