//! Reads a log for one client: from the requested position, at the client's pace, to the end or following.

use super::response::{HttpResponse, Refusal, refuse, with_type};
use super::response_body::{ResponseBody, Sender};
use super::route::{ReadFrom, ReadLog};
use super::stream_format::{Format, payload};
use crate::limits::{CHUNK_MAX_BYTES, TAIL_MAX_BYTES};
use crate::log::{Read, ReadError, Reader, segment};
use crate::supervisor::{Command, Handle, LogHandle};
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use protocol::{Chunk, ErrorCode, Stream};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// A comment after this long without output, so that a dead client is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub fn respond(
    handle: &Handle,
    log: LogHandle,
    read: ReadLog,
    headers: &HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let format = Format::of(headers);
    let read = resumed(read, headers, format)?;
    let permit = handle.follower_permit()?;
    let at = position(&log, read.from, read.stream)?;
    let follower = Follower {
        reader: Reader::new(&log.dir, at),
        log,
        handle: handle.clone(),
        read,
        format,
        _permit: permit,
    };
    let body = ResponseBody::stream(|sender| follower.run(sender));
    Ok(with_type(StatusCode::OK, format.content_type(), body))
}

/// `Last-Event-ID` of a reconnecting server-sent-events client overrides the query.
fn resumed(read: ReadLog, headers: &HeaderMap, format: Format) -> Result<ReadLog, Refusal> {
    let Some(value) = headers.get("last-event-id").filter(|_| format == Format::Sse) else { return Ok(read) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    let bad = || Box::new(protocol::ErrorBody::invalid("Last-Event-ID", "must be the id of an event"));
    Ok(ReadLog { from: ReadFrom::After(parsed.ok_or_else(bad)?), ..read })
}

/// The position to begin at. A trimmed or future position is an error.
pub fn position(log: &LogHandle, from: ReadFrom, stream: Option<Stream>) -> Result<u64, Refusal> {
    let stored = segment::list(&log.dir).unwrap_or_default();
    let stored_end = stored.last().map_or(0, |last| last.start.saturating_add(last.bytes));
    let end = log.head.borrow().end.max(stored_end);
    let oldest = stored.first().map_or(end, |first| first.start);
    match from {
        ReadFrom::Start => Ok(oldest),
        ReadFrom::Last(bytes) => Ok(end.saturating_sub(bytes).max(oldest)),
        ReadFrom::Lines(lines) => Ok(line_start(log, end, lines, stream).max(oldest)),
        ReadFrom::After(at) if at < oldest => {
            let gone =
                refuse(ErrorCode::HistoryGone, format!("output before {oldest} was trimmed; start there"));
            Err(Box::new(gone.with(|detail| detail.oldest = Some(oldest.to_string()))))
        }
        ReadFrom::After(at) if at > end => {
            let message = format!("is {at}, but the log ends at {end}");
            Err(Box::new(protocol::ErrorBody::invalid("after", message)))
        }
        ReadFrom::After(at) => Ok(at),
    }
}

/// The position of the last `lines` lines, within a limited distance from the end. Lines of one stream are
/// counted without output of the other in between.
fn line_start(log: &LogHandle, end: u64, lines: usize, stream: Option<Stream>) -> u64 {
    let mut reader = Reader::new(&log.dir, end.saturating_sub(TAIL_MAX_BYTES));
    let mut starts = VecDeque::new();
    let mut at_start = true;
    while lines > 0 && reader.position() < end {
        // Not beyond the end at the beginning: the log may grow faster than it is read.
        let left = (end - reader.position()).min(CHUNK_MAX_BYTES as u64);
        let bytes = match reader.read(left as usize, end) {
            Ok(Read::Bytes { stream: of, bytes, .. }) if stream.is_none_or(|wanted| wanted == of) => bytes,
            Ok(Read::Bytes { .. } | Read::Gap { .. }) => continue,
            Err(ReadError::Trimmed { oldest }) if oldest > reader.position() => {
                reader.seek(oldest);
                continue;
            }
            Ok(Read::End) | Err(_) => break,
        };
        for (at, byte) in (reader.position() - bytes.len() as u64..).zip(bytes) {
            if std::mem::replace(&mut at_start, byte == b'\n') {
                starts.push_back(at);
                if starts.len() > lines {
                    starts.pop_front();
                }
            }
        }
    }
    starts.front().copied().unwrap_or(end)
}

struct Follower {
    handle: Handle,
    log: LogHandle,
    reader: Reader,
    read: ReadLog,
    format: Format,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    async fn run(mut self, to: Sender) {
        loop {
            let head = *self.log.head.borrow_and_update();
            let stop_at = head.ended.filter(|_| self.read.follow);
            if stop_at.is_some_and(|end| self.reader.position() >= end) {
                return self.end(&to, true).await;
            }
            // A follower of an ended exec stops where that ended, whatever leftover processes printed since.
            let left = stop_at.map_or(u64::MAX, |end| end - self.reader.position());
            let next = match self.reader.read(left.min(CHUNK_MAX_BYTES as u64) as usize, head.end) {
                Ok(Read::Bytes { stream, stream_at, bytes }) => self.bytes(stream, stream_at, bytes),
                Ok(Read::Gap { lost }) => Some(self.gap(lost)),
                Err(ReadError::Trimmed { oldest }) => Some(self.skip_to(oldest)),
                Ok(Read::End) if self.read.follow && head.ended.is_none() => match self.wait(&to).await {
                    WaitResult::News => None,
                    WaitResult::Over => return self.end(&to, true).await,
                    WaitResult::Gone => return,
                },
                Ok(Read::End) => return self.end(&to, head.ended.is_some()).await,
                Err(ReadError::Io(error)) => {
                    tracing::error!(dir = %self.log.dir.display(), %error, "failed to read log");
                    return;
                }
            };
            let Some(piece) = next.filter(|piece| !piece.is_empty()) else { continue };
            if to.send(piece).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the log grew. The shim reports at once if it already did.
    async fn wait(&mut self, to: &Sender) -> WaitResult {
        let seen = self.reader.position();
        self.handle.send(Command::Arm { key: self.log.key.clone(), seen }).await;
        loop {
            match tokio::time::timeout(HEARTBEAT, self.log.head.changed()).await {
                Ok(Ok(())) => return WaitResult::News,
                // The log is gone: its service was removed.
                Ok(Err(_)) => return WaitResult::Over,
                Err(_) if self.format == Format::Sse => {
                    if to.send(Bytes::from_static(b": still here\n\n")).await.is_err() {
                        return WaitResult::Gone;
                    }
                }
                Err(_) if to.is_closed() => return WaitResult::Gone,
                Err(_) => {}
            }
        }
    }

    fn bytes(&mut self, stream: Stream, offset: u64, bytes: Vec<u8>) -> Option<Bytes> {
        if self.read.stream.is_some_and(|wanted| wanted != stream) {
            return None;
        }
        if self.format == Format::Raw {
            return Some(Bytes::from(bytes));
        }
        let (payload, used) = payload(&bytes);
        let cursor = self.reader.position() - (bytes.len() - used) as u64;
        if used < bytes.len() {
            self.reader.seek(cursor);
        }
        Some(self.format.encode(&Chunk::Output { cursor, stream, offset, payload }))
    }

    fn gap(&self, lost: u64) -> Bytes {
        self.format.encode(&Chunk::Gap { cursor: self.reader.position(), lost })
    }

    /// Skips output that was trimmed while following: the client gets a gap.
    fn skip_to(&mut self, oldest: u64) -> Bytes {
        let lost = oldest.saturating_sub(self.reader.position());
        self.reader.seek(oldest);
        self.gap(lost)
    }

    async fn end(&self, to: &Sender, ended: bool) {
        let piece = self.format.encode(&Chunk::End { cursor: self.reader.position(), ended });
        if !piece.is_empty() {
            let _ = to.send(piece).await;
        }
    }
}

enum WaitResult {
    News,
    /// Nothing more will come.
    Over,
    /// The client disconnected.
    Gone,
}
