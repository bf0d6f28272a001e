//! The event log as server-sent events, from any cursor on.

use super::response::{HttpResponse, Refusal, refuse, with_type};
use super::response_body::{ResponseBody, Sender};
use crate::log::event_reader::EventReadError;
use crate::log::{EventReader, EventsRead};
use crate::supervisor::Handle;
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use protocol::log_line::LogLine;
use protocol::{Cursor, ErrorBody, ErrorCode};
use std::fmt::Write;
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_secs(15);
/// Reconnection delay for clients, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

pub fn respond(
    handle: &Handle,
    headers: &HeaderMap,
    after: Option<Cursor>,
    follow: bool,
) -> Result<HttpResponse, Refusal> {
    let permit = handle.follower_permit()?;
    let after = last_event_id(headers)?.or(after).unwrap_or_default();
    let newest = *handle.shared().events.borrow();
    if after > newest {
        // The reader would wait for events that never come.
        return Err(Box::new(ErrorBody::invalid(
            "after",
            format!("is {after}, but the log ends at {newest}"),
        )));
    }
    let mut reader = EventReader::new(&handle.shared().events_dir, after);
    let mut news = handle.shared().events.clone();
    // The first read decides between a stream and an error.
    let first = read(&mut reader, *news.borrow_and_update()).map_err(history_gone)?;
    let body = ResponseBody::stream(|to: Sender| async move {
        let _permit = permit;
        let mut found = first;
        if to.send(Bytes::from_static(RETRY.as_bytes())).await.is_err() {
            return;
        }
        loop {
            let sent = match found {
                Some(frames) => to.send(frames).await,
                None if !follow => return,
                None => match tokio::time::timeout(HEARTBEAT, news.changed()).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) => return,
                    Err(_) => to.send(Bytes::from_static(b": still here\n\n")).await,
                },
            };
            let newest = *news.borrow_and_update();
            match read(&mut reader, newest) {
                Ok(more) if sent.is_ok() => found = more,
                Ok(_) | Err(_) => return,
            }
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

fn history_gone(error: EventReadError) -> Refusal {
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

/// The next events as frames; `None` at the end.
fn read(reader: &mut EventReader, newest: Cursor) -> Result<Option<Bytes>, EventReadError> {
    let mut text = String::new();
    let read = reader.read(newest, |LogLine { cursor, kind, json }| {
        let _ = write!(text, "id: {cursor}\nevent: {kind}\ndata: {json}\n\n");
    })?;
    Ok((read == EventsRead::Lines).then(|| Bytes::from(text)))
}
