//! Reads events as they happen (SSE), and goes on after the last one seen when the connection is cut.

use crate::{
    client::{Ask, Client, ClientError},
    failure::Failure,
    patience::Patience,
};
use eventsource_stream::{EventStream, Eventsource as _};
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use protocol::api::EventView;
use std::{pin::Pin, sync::Arc};

type Bodies = Pin<Box<dyn Stream<Item = Result<bytes::Bytes, hyper::Error>> + Send>>;

pub struct Feed {
    client: Arc<Client>,
    ask: Ask,
    last: Option<u64>,
    stream: Option<EventStream<Bodies>>,
    patience: Patience,
}

impl Feed {
    /// `after` is the sequence number of the last event already seen.
    pub fn new(client: Arc<Client>, ask: Ask, after: Option<u64>) -> Self {
        let ask = ask.header("accept", "text/event-stream");
        Self { client, ask, last: after, stream: None, patience: Patience::new() }
    }

    /// The next event that was not seen yet, and its JSON as it came.
    pub async fn next(&mut self) -> Result<(EventView, String), Failure> {
        loop {
            match self.try_next().await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(error) => {
                    self.stream = None;
                    self.patience.wait(error).await?;
                }
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<(EventView, String)>, ClientError> {
        if self.stream.is_none() {
            let ask = match self.last {
                Some(seq) => self.ask.clone().header("last-event-id", seq.to_string()),
                None => self.ask.clone(),
            };
            self.stream = Some(bodies(self.client.open(ask).await?.into_body()).eventsource());
        }
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let frame = match stream.next().await {
            None => return Err(ClientError::Early),
            Some(Err(eventsource_stream::EventStreamError::Transport(error))) => {
                return Err(ClientError::Cut(error));
            }
            Some(Err(error)) => return Err(ClientError::Strange(error.to_string())),
            Some(Ok(frame)) => frame,
        };
        let Ok(event) = serde_json::from_str::<EventView>(&frame.data) else {
            // A frame that is no event (a hello, a gap notice of a later hostd) is not for us.
            return Ok(None);
        };
        if self.last.is_some_and(|last| event.seq <= last) {
            return Ok(None);
        }
        self.patience.renew();
        self.last = Some(event.seq);
        Ok(Some((event, frame.data)))
    }
}

/// The data of a body as a stream of pieces.
fn bodies(body: Incoming) -> Bodies {
    Box::pin(stream::unfold(body, |mut body| async move {
        let frame = body.frame().await?;
        Some((frame.map(|frame| frame.into_data().unwrap_or_default()), body))
    }))
}
