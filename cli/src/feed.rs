//! Reads events as they happen (SSE), and goes on after the last one seen when the connection is cut. Gives
//! up only when hostd says something final.

use crate::{
    client::{Ask, Client, ClientError},
    failure::Failure,
    patience::{Patience, Tell},
    wire::{Seen, Wire, wire},
};
use eventsource_stream::{EventStream, EventStreamError, Eventsource as _};
use futures_util::StreamExt as _;
use hyper::StatusCode;
use std::sync::Arc;

pub struct Feed {
    client: Arc<Client>,
    ask: Ask,
    last: Option<u64>,
    stream: Option<EventStream<Wire>>,
    /// What the stream said beside its events.
    seen: Arc<Seen>,
    patience: Patience,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub seq: u64,
    /// Its JSON as it came.
    pub data: String,
}

enum Step {
    Event(Frame),
    /// Not for us, or seen before.
    Nothing,
    /// There will never be more.
    End,
}

impl Feed {
    /// `after` is the sequence number of the last event already seen.
    pub fn new(client: Arc<Client>, ask: Ask, after: Option<u64>, tell: Tell) -> Self {
        let ask = ask.header("accept", "text/event-stream");
        let patience = Patience::endless(tell);
        Self { client, ask, last: after, stream: None, seen: Arc::default(), patience }
    }

    /// The next event that was not seen yet; `None` when hostd says that there is no more.
    pub async fn next(&mut self) -> Result<Option<Frame>, Failure> {
        loop {
            match self.step().await {
                Ok(Step::Event(frame)) => return Ok(Some(frame)),
                Ok(Step::Nothing) => {}
                Ok(Step::End) => return Ok(None),
                Err(error @ ClientError::NotServing { .. }) if !self.client.has_answered() => {
                    return Err(error.into());
                }
                Err(error) => {
                    self.stream = None;
                    if let Some(pause) = self.seen.retry() {
                        self.patience.asked(pause);
                    }
                    self.patience.wait(error).await?;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step, ClientError> {
        let Some(stream) = &mut self.stream else { return self.connect().await };
        let frame = match stream.next().await {
            None => return Err(ClientError::Early),
            Some(Err(EventStreamError::Transport(error))) => return Err(error),
            Some(Err(error)) => return Err(ClientError::Strange(error.to_string())),
            Some(Ok(frame)) => frame,
        };
        self.seen.framed();
        // A frame without a number of its own (a notice of a later hostd) has none or the one before.
        let Ok(seq) = frame.id.parse::<u64>() else { return Ok(Step::Nothing) };
        if self.last.is_some_and(|last| seq <= last) {
            return Ok(Step::Nothing);
        }
        self.patience.renew();
        self.last = Some(seq);
        Ok(Step::Event(Frame { seq, data: frame.data }))
    }

    async fn connect(&mut self) -> Result<Step, ClientError> {
        let ask = match self.last {
            Some(seq) => self.ask.clone().header("last-event-id", seq.to_string()),
            None => self.ask.clone(),
        };
        let response = self.client.open(ask).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Step::End);
        }
        self.seen = Arc::default();
        self.stream = Some(wire(response.into_body(), Arc::clone(&self.seen)).eventsource());
        Ok(Step::Nothing)
    }
}
