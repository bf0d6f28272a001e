//! An exchange: a message of the client and all that answers it, across restarts of hostd.

use super::{
    message::{self, is_answer},
    session::{Session, post, resume, session_id},
};
use crate::{
    client::{Client, ClientError},
    limits,
    retry::Retry,
    sse_body::{SseState, sse_body},
};
use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource as _};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::{Response, StatusCode, body::Incoming, header::CONTENT_TYPE};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Parts that all exchanges share.
pub struct Shared {
    pub client: Arc<Client>,
    pub session: Session,
    /// Lines for the client.
    pub lines: mpsc::Sender<String>,
}

/// An answer that was not written out yet.
enum Answered {
    /// Whole.
    Line(String),
    /// By events, all of which are written out.
    Streamed,
}

impl Shared {
    /// Carries out `initialize`: before any other message.
    pub async fn initialize(&self, message: Value) {
        let id = message["id"].clone();
        let line = message.to_string();
        let mut retry = Retry::new();
        let answer = loop {
            let opened = self.client.open_any(post(line.as_bytes())).await;
            let tried: Result<(), ClientError> = match opened {
                Ok(response) if response.status() == StatusCode::OK => {
                    let session = session_id(&response);
                    match whole(response).await {
                        Ok(body) => {
                            self.session.begun(message, session, &body).await;
                            break String::from_utf8_lossy(&body).into_owned();
                        }
                        Err(error) => Err(error),
                    }
                }
                Ok(response) if is_passing(response.status()) => {
                    Err(ClientError::Intermediary(response.status().to_string()))
                }
                Ok(response) => break refused(&id, response).await,
                // Not one that restarts: the address may be wrong.
                Err(error @ ClientError::NotServing { .. }) if !self.client.has_answered() => {
                    break failed(&id, &error);
                }
                Err(error) => Err(error),
            };
            if let Err(error) = tried
                && let Err(error) = retry.backoff(error).await
            {
                break failed(&id, &error);
            }
        };
        self.write(answer).await;
    }

    /// Carries out a request. `begun` is told when hostd has it.
    pub async fn request(&self, id: Value, line: &[u8], begun: watch::Sender<bool>) {
        let answer = match self.answer(&id, line, &begun).await {
            Ok(Answered::Line(answer)) => answer,
            Ok(Answered::Streamed) => return,
            Err(error) => failed(&id, &error),
        };
        self.write(answer).await;
    }

    async fn answer(
        &self,
        id: &Value,
        line: &[u8],
        begun: &watch::Sender<bool>,
    ) -> Result<Answered, ClientError> {
        let mut retry = Retry::new();
        let (mut last_event, mut renewed) = (None::<String>, false);
        loop {
            let session = self.session.headers().await;
            let request = last_event.as_deref().map_or_else(|| post(line), resume);
            let response = match self.client.open_any(session.apply(request)).await {
                Ok(response) => response,
                Err(error) => {
                    retry.backoff(error).await?;
                    continue;
                }
            };
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND if last_event.is_none() && !renewed => {
                    renewed = true;
                    if !self.session.renew(&self.client, &session).await? {
                        return Ok(Answered::Line(refused(id, response).await));
                    }
                    continue;
                }
                passing if is_passing(passing) => {
                    retry.backoff(ClientError::Intermediary(passing.to_string())).await?;
                    continue;
                }
                _ => return Ok(Answered::Line(refused(id, response).await)),
            }
            begun.send_replace(true);
            let received = if is_stream(&response) {
                self.stream(response, &mut last_event, &mut retry).await
            } else {
                whole(response).await.map(|body| Answered::Line(String::from_utf8_lossy(&body).into_owned()))
            };
            match received {
                Ok(answered) => return Ok(answered),
                Err(error) => retry.backoff(error).await?,
            }
        }
    }

    /// Writes out events up to the answer. After an error the last event says where to go on.
    async fn stream(
        &self,
        response: Response<Incoming>,
        last_event: &mut Option<String>,
        retry: &mut Retry,
    ) -> Result<Answered, ClientError> {
        let state = Arc::new(SseState::default());
        let mut events = sse_body(response.into_body(), Arc::clone(&state)).eventsource();
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| match error {
                EventStreamError::Transport(error) => error,
                other @ (EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                    ClientError::UnexpectedResponse(other.to_string())
                }
            })?;
            state.on_frame();
            retry.reset();
            let answered = is_answer(&event.data);
            if !event.data.is_empty() {
                self.write(event.data).await;
            }
            if !event.id.is_empty() {
                *last_event = Some(event.id);
            }
            if answered {
                return Ok(Answered::Streamed);
            }
        }
        Err(ClientError::Incomplete)
    }

    /// Sends a notification, or an answer of the client. A failure has no answer that could report it.
    pub async fn notify(&self, line: &[u8]) {
        let mut retry = Retry::new();
        loop {
            let session = self.session.headers().await;
            match self.client.open_any(session.apply(post(line))).await {
                Ok(response) if is_passing(response.status()) => {
                    let status = ClientError::Intermediary(response.status().to_string());
                    if retry.backoff(status).await.is_err() {
                        return;
                    }
                }
                Ok(_) => return,
                Err(error) => {
                    if retry.backoff(error).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Hands a line to the writer. It is gone where the client does not read any more.
    pub async fn write(&self, line: String) {
        let _ = self.lines.send(line).await;
    }
}

/// Whether hostd, or a proxy before it, may answer otherwise in a moment.
fn is_passing(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

fn is_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    let body = Limited::new(response.into_body(), limits::RESPONSE_MAX_BYTES).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|_| ClientError::Incomplete)
}

async fn refused(id: &Value, response: Response<Incoming>) -> String {
    let status = response.status().as_u16();
    let body = whole(response).await.unwrap_or_default();
    message::refusal(id, status, &body)
}

fn failed(id: &Value, error: &ClientError) -> String {
    message::error(id, message::INTERNAL_ERROR, &error.to_string())
}
