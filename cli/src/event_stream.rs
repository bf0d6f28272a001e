//! SSE client for event streams of hostd. Reconnects after the last event received, without gaps or duplicates, and
//! gives up only on a permanent error.

use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::Failure,
    retry::{Notify, Retry},
    sse_body::{SseBody, SseState, sse_body},
};
use eventsource_stream::{EventStream as SseParser, EventStreamError, Eventsource as _};
use futures_util::StreamExt as _;
use hyper::StatusCode;
use std::sync::Arc;

pub struct EventStream {
    client: Arc<Client>,
    request: ApiRequest,
    last: Option<u64>,
    stream: Option<SseParser<SseBody>>,
    /// State of the stream beside its events.
    state: Arc<SseState>,
    retry: Retry,
}

/// An event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFrame {
    pub seq: u64,
    /// JSON of the event as received.
    pub data: String,
}

enum NextFrame {
    Event(EventFrame),
    /// A frame without a sequence number, or a duplicate.
    Skip,
    /// hostd reported that no more events will follow.
    End,
}

impl EventStream {
    /// Creates a stream that starts after the sequence number `after`.
    pub fn new(client: Arc<Client>, request: ApiRequest, after: Option<u64>, notify: Notify) -> Self {
        let request = request.header("accept", "text/event-stream");
        let retry = Retry::unlimited(notify);
        Self { client, request, last: after, stream: None, state: Arc::default(), retry }
    }

    /// Returns the next new event; `None` when no more will follow.
    pub async fn next(&mut self) -> Result<Option<EventFrame>, Failure> {
        loop {
            match self.poll().await {
                Ok(NextFrame::Event(frame)) => return Ok(Some(frame)),
                Ok(NextFrame::Skip) => {}
                Ok(NextFrame::End) => return Ok(None),
                Err(error @ ClientError::NotServing { .. }) if !self.client.has_answered() => {
                    return Err(error.into());
                }
                Err(error) => {
                    self.stream = None;
                    if let Some(pause) = self.state.retry_delay() {
                        self.retry.set_server_delay(pause);
                    }
                    self.retry.backoff(error).await?;
                }
            }
        }
    }

    async fn poll(&mut self) -> Result<NextFrame, ClientError> {
        let Some(stream) = &mut self.stream else { return self.connect().await };
        let frame = match stream.next().await {
            None => return Err(ClientError::Incomplete),
            Some(Err(EventStreamError::Transport(error))) => return Err(error),
            Some(Err(error)) => return Err(ClientError::UnexpectedResponse(error.to_string())),
            Some(Ok(frame)) => frame,
        };
        self.state.on_frame();
        // A frame of a newer hostd without its own id has an empty id, or that of the previous frame.
        let Ok(seq) = frame.id.parse::<u64>() else { return Ok(NextFrame::Skip) };
        if self.last.is_some_and(|last| seq <= last) {
            return Ok(NextFrame::Skip);
        }
        self.retry.reset();
        self.last = Some(seq);
        Ok(NextFrame::Event(EventFrame { seq, data: frame.data }))
    }

    async fn connect(&mut self) -> Result<NextFrame, ClientError> {
        let request = match self.last {
            Some(seq) => self.request.clone().header("last-event-id", seq.to_string()),
            None => self.request.clone(),
        };
        let response = self.client.open(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(NextFrame::End);
        }
        self.state = Arc::default();
        self.stream = Some(sse_body(response.into_body(), Arc::clone(&self.state)).eventsource());
        Ok(NextFrame::Skip)
    }
}
