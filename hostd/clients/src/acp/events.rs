//! Reads events of tasks from the API: in pages, or as a stream of server-sent events.

use super::limits;
use crate::{ApiClient, ApiFailure};
use axum::body::{Body, BodyDataStream};
use bytes::{Buf as _, BytesMut};
use futures_util::StreamExt as _;
use hyper::{
    Method, StatusCode,
    header::{ACCEPT, HeaderValue},
};
use protocol::api::{ApiErrorCode, Page, TaskEventView};

const FRAME_END: &[u8] = b"\n\n";

/// Events of one task, as they come.
pub struct EventStream {
    body: BodyDataStream,
    buffer: BytesMut,
}

/// Opens the events of a task after this one; `None` where there will be none.
pub async fn open(
    api: &ApiClient,
    task: &str,
    since: u64,
    kinds: &str,
) -> Result<Option<EventStream>, ApiFailure> {
    let mut request = ApiClient::request(Method::GET, &format!("{task}/events?since={since}&kind={kinds}"));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = api.send(request).await?;
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(None);
    }
    let body: Body = response.into_body();
    Ok(Some(EventStream { body: body.into_data_stream(), buffer: BytesMut::new() }))
}

impl EventStream {
    /// Returns the next event; `None` at the end of the stream, whatever the reason. Safe to cancel.
    pub async fn next(&mut self) -> Option<TaskEventView> {
        loop {
            while let Some(end) = find(&self.buffer, FRAME_END) {
                let frame = self.buffer.split_to(end);
                self.buffer.advance(FRAME_END.len());
                if let Some(event) = parse(&frame) {
                    return Some(event);
                }
            }
            if self.buffer.len() > limits::EVENT_MAX_BYTES {
                return None;
            }
            let chunk = self.body.next().await?.ok()?;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}

/// Reads a page of the events of a task after this one.
pub async fn page(
    api: &ApiClient,
    task: &str,
    since: u64,
    kinds: &str,
) -> Result<Page<TaskEventView>, ApiFailure> {
    let limit = limits::PAGE_MAX;
    api.get(&format!("{task}/events?follow=0&since={since}&kind={kinds}&limit={limit}")).await
}

/// Where the history begins now, if a part of it was deleted.
pub fn oldest_kept(failure: &ApiFailure) -> Option<u64> {
    if failure.error.code != ApiErrorCode::HistoryGone {
        return None;
    }
    failure.error.detail.oldest.as_ref()?.parse().ok()
}

/// Comments and `retry:` are no events.
fn parse(frame: &[u8]) -> Option<TaskEventView> {
    let data = frame.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "))?;
    serde_json::from_slice(data).ok()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_found_wherever_the_stream_is_cut() {
        let event = |seq: u64| {
            format!(
                "id: {seq}\nevent: message\ndata: {{\"seq\":{seq},\"time\":\"\",\"sandbox\":\
                 \"01jb9xyzabcdefghjkmnpqrstv\",\"task\":\"t\",\"kind\":\"message\",\"text\":\"x\"}}\n\n"
            )
        };
        let text = format!("retry: 1000\n\n{}: still here\n\n{}", event(1), event(2));
        for cut in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let chunks = [first.to_vec(), second.to_vec()].map(Ok::<_, std::io::Error>);
            let body = Body::from_stream(futures_util::stream::iter(chunks));
            let mut stream = EventStream { body: body.into_data_stream(), buffer: BytesMut::new() };
            let mut seen = Vec::new();
            while let Some(event) = stream.next().await {
                seen.push(event.seq);
            }
            assert_eq!(seen, [1, 2], "cut at {cut}");
        }
    }
}
