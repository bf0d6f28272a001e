//! The events of a task for one client: after a number, at the client's pace, to the newest one or until
//! `done`.

use super::response::{HttpResponse, Refusal, no_content, refuse, with_type};
use super::response_body::{ResponseBody, Sender};
use super::stream_format::Format;
use crate::log::event_reader::{EventReadError, READ_BYTES};
use crate::log::{EventReader, EventsRead};
use crate::supervisor::{Handle, TaskCommand, TaskEvents};
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use protocol::log_line::{LogLine, push_number};
use protocol::{Cursor, ErrorBody, ErrorCode, TaskId};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

const HEARTBEAT: Duration = Duration::from_secs(15);
const RETRY: &str = "retry: 1000\n\n";

pub struct EventsRequest {
    pub after: Option<u64>,
    pub follow: bool,
    pub format: Format,
}

/// `Last-Event-ID` of a reconnecting server-sent-events client overrides the query.
pub fn resumed(after: Option<u64>, headers: &HeaderMap, format: Format) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id").filter(|_| format == Format::Sse) else {
        return Ok(after);
    };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    let bad = || Box::new(ErrorBody::invalid("Last-Event-ID", "must be the id of an event"));
    parsed.map(Some).ok_or_else(bad)
}

pub async fn respond(handle: &Handle, id: TaskId, request: EventsRequest) -> Result<HttpResponse, Refusal> {
    let permit = handle.follower_permit()?;
    let asked = id.clone();
    let events = handle.ask(|reply| TaskCommand::Events { id: asked, reply }).await?;
    let head = *events.head.borrow();
    let after = request.after.unwrap_or(events.oldest - 1);
    if after + 1 < events.oldest {
        return Err(history_gone(events.oldest));
    }
    if head.done && after > head.last {
        let message = format!("is {after}, but the last event is {}", head.last);
        return Err(Box::new(ErrorBody::invalid("after", message)));
    }
    let format = if request.format == Format::Sse { Format::Sse } else { Format::Ndjson };
    if format == Format::Sse && head.done && after == head.last {
        // 204 tells an EventSource not to reconnect.
        return Ok(no_content());
    }
    let follower = Follower {
        reader: EventReader::new(&events.dir, Cursor { epoch: 0, seq: after }),
        handle: handle.clone(),
        follow: request.follow,
        id,
        events,
        format,
        _permit: permit,
    };
    Ok(with_type(StatusCode::OK, format.content_type(), ResponseBody::stream(|sender| follower.run(sender))))
}

fn history_gone(oldest: u64) -> Refusal {
    let gone = refuse(ErrorCode::HistoryGone, format!("events before {oldest} were trimmed; start there"));
    Box::new(gone.with(|detail| detail.oldest = Some(oldest.to_string())))
}

struct Follower {
    handle: Handle,
    id: TaskId,
    events: TaskEvents,
    reader: EventReader,
    follow: bool,
    format: Format,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    async fn run(mut self, to: Sender) {
        if self.format == Format::Sse && to.send(Bytes::from_static(RETRY.as_bytes())).await.is_err() {
            return;
        }
        loop {
            // Marked as seen before the read, so that later events wake the follower.
            let head = *self.events.head.borrow_and_update();
            match self.read(head.last) {
                Ok(Some(piece)) => {
                    if to.send(piece).await.is_err() {
                        return;
                    }
                }
                Ok(None) if head.done || !self.follow => return,
                Ok(None) => {
                    if !self.wait(&to).await {
                        return;
                    }
                }
                // The client reconnects and gets the oldest position with the error.
                Err(EventReadError::Trimmed { .. }) => return,
                Err(EventReadError::Io(error)) => {
                    tracing::error!(task = %self.id, %error, "failed to read task events");
                    return;
                }
            }
        }
    }

    /// Waits until there may be more; whether the client is still there.
    async fn wait(&mut self, to: &Sender) -> bool {
        let seen = self.reader.after().seq;
        self.handle.send(TaskCommand::Arm { id: self.id.clone(), seen }).await;
        loop {
            match tokio::time::timeout(HEARTBEAT, self.events.head.changed()).await {
                Ok(Ok(())) => return true,
                // The task was dropped.
                Ok(Err(_)) => return false,
                // A heartbeat notices a client that is gone.
                Err(_) => {
                    if to.send(Bytes::from_static(self.heartbeat())).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    fn heartbeat(&self) -> &'static [u8] {
        match self.format {
            Format::Sse => b": still here\n\n",
            Format::Ndjson | Format::Raw => b"\n",
        }
    }

    /// The next events in the client's format, one piece per read; `None` at the end.
    fn read(&mut self, known: u64) -> Result<Option<Bytes>, EventReadError> {
        // Without following, all events are read, published or not.
        let seq = if self.follow { known } else { u64::MAX };
        let sse = self.format == Format::Sse;
        let mut piece = Vec::new();
        let read = self.reader.read(Cursor { epoch: 0, seq }, |line| {
            if piece.is_empty() {
                piece.reserve(if sse { READ_BYTES + READ_BYTES / 4 } else { READ_BYTES });
            }
            encode(&mut piece, line, sse);
        })?;
        Ok((read == EventsRead::Lines).then(|| Bytes::from(piece)))
    }
}

fn encode(piece: &mut Vec<u8>, line: LogLine<'_>, sse: bool) {
    if !sse {
        piece.extend_from_slice(line.json.as_bytes());
        piece.push(b'\n');
        return;
    }
    piece.extend_from_slice(b"id: ");
    push_number(piece, line.cursor.seq);
    for part in ["\nevent: ", line.kind, "\ndata: ", line.json, "\n\n"] {
        piece.extend_from_slice(part.as_bytes());
    }
}
