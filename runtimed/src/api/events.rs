//! The event log as server-sent events, from any cursor on.

use super::body::{Body, Sender};
use super::reply::{Answer, Refusal, refuse, with_type};
use crate::log::event_reader::EventReadError;
use crate::log::{EventReader, EventsRead};
use crate::supervisor::Handle;
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use protocol::{Cursor, ErrorBody, ErrorCode};
use std::fmt::Write;
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_secs(15);
/// How soon a client should come back, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

pub fn answer(
    handle: &Handle,
    headers: &HeaderMap,
    after: Option<Cursor>,
    follow: bool,
) -> Result<Answer, Refusal> {
    let permit = handle.follower()?;
    let after = last_event_id(headers)?.or(after).unwrap_or_default();
    let newest = *handle.shared().events.borrow();
    if after > newest {
        // It would wait for events that never come.
        return Err(Box::new(ErrorBody::invalid(
            "after",
            format!("is {after}, but the log ends at {newest}"),
        )));
    }
    let mut reader = EventReader::new(&handle.shared().events_dir, after);
    // The first read decides between an answer and an error.
    let first = reader.read().map_err(gone)?;
    let mut news = handle.shared().events.clone();
    let body = Body::stream(|to: Sender| async move {
        let _permit = permit;
        let mut read = Ok(first);
        if to.send(Bytes::from_static(RETRY.as_bytes())).await.is_err() {
            return;
        }
        loop {
            let sent = match read {
                Ok(EventsRead::Lines(lines)) => to.send(frames(&lines)).await,
                Ok(EventsRead::End) if !follow => return,
                Ok(EventsRead::End) => match tokio::time::timeout(HEARTBEAT, news.changed()).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) => return,
                    Err(_) => to.send(Bytes::from_static(b": still here\n\n")).await,
                },
                Err(_) => return,
            };
            if sent.is_err() {
                return;
            }
            news.mark_unchanged();
            read = reader.read();
        }
    });
    Ok(with_type(StatusCode::OK, "text/event-stream", body))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Cursor>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    let bad = || Box::new(ErrorBody::invalid("Last-Event-ID", protocol::BadCursor.to_string()));
    parsed.map(Some).ok_or_else(bad)
}

fn gone(error: EventReadError) -> Refusal {
    match error {
        EventReadError::Trimmed { oldest } => {
            let gone = refuse(
                ErrorCode::HistoryGone,
                format!("events before {oldest} are gone; start without a cursor"),
            );
            Box::new(gone.with(|detail| detail.oldest = Some(oldest.to_string())))
        }
        EventReadError::Io(error) => {
            refuse(ErrorCode::Internal, format!("could not read the event log: {error}"))
        }
    }
}

fn frames(lines: &[crate::log::event_reader::OwnedLine]) -> Bytes {
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", line.cursor, line.kind, line.json);
    }
    Bytes::from(text)
}
