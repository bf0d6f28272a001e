//! An answer that comes line by line: events, and how far a pull is.

use super::{
    EngineError,
    client::{Engine, late},
    limits::LINE_MAX_BYTES,
};
use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::timeout;

pub struct Lines {
    engine: Engine,
    what: &'static str,
    body: Incoming,
    /// Between two pieces of the answer; none waits for ever.
    silence: Option<Duration>,
    buffer: BytesMut,
    /// How much of the buffer holds no end of a line.
    seen: usize,
    /// The line that the buffer begins with is too long to be used.
    skipping: bool,
    ended: bool,
}

impl Lines {
    pub fn of(engine: &Engine, what: &'static str, body: Incoming, silence: Option<Duration>) -> Self {
        let buffer = BytesMut::new();
        Self { engine: engine.clone(), what, body, silence, buffer, seen: 0, skipping: false, ended: false }
    }

    /// The next line that is not empty, and not longer than is read. After an error there is none.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        let next = self.pull().await;
        self.ended |= next.is_err();
        next
    }

    async fn pull(&mut self) -> Result<Option<Bytes>, EngineError> {
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
                    "a line of the container engine is too long"
                );
                self.skipping = true;
                self.buffer.clear();
                self.seen = 0;
            }
            self.read().await?;
        }
    }

    /// The first line of the buffer; at the end of the answer also one without an end.
    fn line(&mut self) -> Option<Bytes> {
        if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.seen..]) {
            let line = self.buffer.split_to(self.seen + at).freeze();
            self.buffer.advance(1);
            self.seen = 0;
            return Some(line);
        }
        self.seen = self.buffer.len();
        if !self.ended || self.buffer.is_empty() {
            return None;
        }
        self.seen = 0;
        Some(self.buffer.split().freeze())
    }

    async fn read(&mut self) -> Result<(), EngineError> {
        let frame = match self.silence {
            Some(silence) => {
                timeout(silence, self.body.frame()).await.map_err(|_| late(self.what, silence))?
            }
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
                self.seen = 0;
                return Err(self.engine.broken(self.what, &error));
            }
            None => self.ended = true,
        }
        Ok(())
    }
}
