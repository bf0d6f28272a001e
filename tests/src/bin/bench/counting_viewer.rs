//! Viewers of a stream of server-sent events that cost as little as viewers can: they count.

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tests::TcpViewer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How every event begins that is counted.
const EVENT: &[u8] = b"event: message\n";
/// The text before the time at which an event was created.
const STAMP: &[u8] = b"made at ";
const STAMP_DIGITS: usize = 19;

pub struct CountingViewer {
    stream: TcpStream,
    buffer: Vec<u8>,
    kept: usize,
}

/// The measurements of one viewer.
#[derive(Clone, Copy)]
pub struct ViewerSamples {
    pub first: Instant,
    pub last: Instant,
}

impl CountingViewer {
    /// Connects, and waits for the greeting: from then on it misses nothing.
    pub async fn open(to: &TcpViewer) -> Result<Self> {
        let mut stream = TcpStream::connect(&to.address).await?;
        stream.write_all(to.request.as_bytes()).await?;
        let mut buffer = vec![0; 256 << 10];
        let mut kept = 0;
        while memmem::find(&buffer[..kept], b"retry: 1000\n\n").is_none() {
            let read = stream.read(&mut buffer[kept..]).await?;
            ensure!(read > 0, "{}", String::from_utf8_lossy(&buffer[..kept]));
            kept += read;
        }
        ensure!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..kept]));
        Ok(Self { stream, buffer, kept })
    }

    /// Reads until it has seen so many events.
    pub async fn count(mut self, events: usize) -> Result<ViewerSamples> {
        let (mut seen, mut first) = (0, None);
        loop {
            seen += self.take(EVENT, |_| {});
            if seen > 0 {
                first.get_or_insert_with(Instant::now);
            }
            if seen >= events {
                ensure!(seen == events, "{seen} events of {events}");
                return Ok(ViewerSamples { first: first.context("an event")?, last: Instant::now() });
            }
            self.read().await.with_context(|| format!("after {seen} of {events} events"))?;
        }
    }

    /// How long each of so many events took from the agent to here.
    pub async fn delays(mut self, events: usize) -> Result<Vec<Duration>> {
        let mut delays = Vec::with_capacity(events);
        while delays.len() < events {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            self.take(STAMP, |rest| {
                let digits = rest.get(..STAMP_DIGITS).and_then(|digits| std::str::from_utf8(digits).ok());
                if let Some(made) = digits.and_then(|digits| digits.parse().ok()) {
                    delays.push(now.saturating_sub(Duration::from_nanos(made)));
                }
            });
            if delays.len() < events {
                self.read().await?;
            }
        }
        Ok(delays)
    }

    async fn read(&mut self) -> Result<()> {
        let read = self.stream.read(&mut self.buffer[self.kept..]).await?;
        ensure!(read > 0, "the stream ended");
        self.kept += read;
        Ok(())
    }

    /// Counts the marks in what was read. The end may be half of one, and waits for what comes.
    fn take(&mut self, mark: &[u8], mut each: impl FnMut(&[u8])) -> usize {
        let bytes = &self.buffer[..self.kept];
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let mut marks = 0;
        for at in memmem::find_iter(&bytes[..whole], mark) {
            marks += 1;
            each(&bytes[at + mark.len()..whole]);
        }
        // A mark that ends with its line is whole; one that began in the last line is not counted yet.
        self.buffer.copy_within(whole..self.kept, 0);
        self.kept -= whole;
        marks
    }
}

/// From the first event at any of them to the last at the last.
pub fn span(all: &[ViewerSamples]) -> Duration {
    let first = all.iter().map(|each| each.first).min();
    let last = all.iter().map(|each| each.last).max();
    first.zip(last).map_or(Duration::MAX, |(first, last)| last - first)
}
