//! Reads a streamed response line by line: events and pull progress.

use super::{
    EngineError,
    client::{Engine, timed_out},
    limits::LINE_MAX_BYTES,
};
use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::timeout;

pub struct LineReader {
    engine: Engine,
    what: &'static str,
    body: Incoming,
    /// Longest wait for the next piece of the body; `None` waits without limit.
    idle_timeout: Option<Duration>,
    buffer: BytesMut,
    /// Bytes at the start of the buffer that are known to hold no line end.
    scanned: usize,
    /// Set while the first line of the buffer exceeds the limit and is being dropped.
    skipping: bool,
    ended: bool,
}

impl LineReader {
    pub fn of(engine: &Engine, what: &'static str, body: Incoming, idle_timeout: Option<Duration>) -> Self {
        let buffer = BytesMut::new();
        Self {
            engine: engine.clone(),
            what,
            body,
            idle_timeout,
            buffer,
            scanned: 0,
            skipping: false,
            ended: false,
        }
    }

    /// Returns the next line that is neither empty nor too long. Returns `None` after an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        let next = self.next_line().await;
        self.ended |= next.is_err();
        next
    }

    async fn next_line(&mut self) -> Result<Option<Bytes>, EngineError> {
        loop {
            if let Some(line) = self.line() {
                let too_long = std::mem::take(&mut self.skipping);
                if too_long || line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                tracing::warn!(
                    what = self.what,
                    LINE_MAX_BYTES,
                    "skipping a line of the container engine that is too long"
                );
                self.skipping = true;
                self.buffer.clear();
                self.scanned = 0;
            }
            self.read().await?;
        }
    }

    /// Takes the first line from the buffer; at the end of the response, also one without a line end.
    fn line(&mut self) -> Option<Bytes> {
        if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            let line = self.buffer.split_to(self.scanned + at).freeze();
            self.buffer.advance(1);
            self.scanned = 0;
            return Some(line);
        }
        self.scanned = self.buffer.len();
        if !self.ended || self.buffer.is_empty() {
            return None;
        }
        self.scanned = 0;
        Some(self.buffer.split().freeze())
    }

    async fn read(&mut self) -> Result<(), EngineError> {
        let frame = match self.idle_timeout {
            Some(idle_timeout) => timeout(idle_timeout, self.body.frame())
                .await
                .map_err(|_| timed_out(self.what, idle_timeout))?,
            None => self.body.frame().await,
        };
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => {
                self.buffer.clear();
                self.scanned = 0;
                return Err(self.engine.connection_error(self.what, &error));
            }
            None => self.ended = true,
        }
        Ok(())
    }
}
