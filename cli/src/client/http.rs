//! Requests and their answers. A connection is kept for the next request when the answer was read whole.

use super::{Ask, ClientError, Target};
use crate::limits;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http1::SendRequest};
use protocol::api::{ApiErrorBody, Page};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

type Sender = SendRequest<Full<Bytes>>;

/// Characters of a strange answer that are shown.
const EXCERPT_CHARS: usize = 200;

pub struct Client {
    target: Target,
    token: Option<String>,
    idle: Mutex<Option<Sender>>,
    answered: AtomicBool,
}

/// An answer with success, read whole.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
}

impl Answer {
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::Strange(format!("{error}: {}", excerpt(&self.body))))
    }
}

impl Client {
    pub fn new(target: Target, token: Option<String>) -> Self {
        Self { target, token, idle: Mutex::new(None), answered: AtomicBool::new(false) }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether hostd ever answered: one that never did is not "restarting".
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Sends a request and reads the answer whole.
    pub async fn send(&self, ask: Ask) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + ask.timeout;
        let late = ask.timeout;
        let (response, sender) = self.exchange(ask, deadline).await?;
        let body = collect(response, deadline, late).await?;
        self.keep(sender);
        Ok(Answer { body })
    }

    /// Sends a request and gives the answer as a stream; only its head has a deadline.
    pub async fn open(&self, ask: Ask) -> Result<Response<Incoming>, ClientError> {
        let deadline = Instant::now() + ask.timeout;
        Ok(self.exchange(ask, deadline).await?.0)
    }

    /// Reads a list to its end, page by page.
    pub async fn list(&self, ask: Ask) -> Result<Vec<Value>, ClientError> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(&ask, after.as_deref()).await?;
            items.extend(page.items);
            if page.next.is_none() || page.next == after || items.len() >= limits::LIST_MAX_ITEMS {
                return Ok(items);
            }
            after = page.next;
        }
    }

    /// One page of a list.
    pub async fn page(&self, ask: &Ask, after: Option<&str>) -> Result<Page<Value>, ClientError> {
        self.send(ask.clone().query_if("after", after)).await?.parse()
    }

    async fn exchange(
        &self,
        ask: Ask,
        deadline: Instant,
    ) -> Result<(Response<Incoming>, Sender), ClientError> {
        let late = ask.timeout;
        let request = self.request(ask)?;
        let mut sender = match self.idle_sender() {
            Some(sender) => sender,
            None => self.target.connect().await?,
        };
        let response = timeout_at(deadline, sender.send_request(request))
            .await
            .map_err(|_| ClientError::TimedOut(late))?
            .map_err(ClientError::Cut)?;
        self.answered.store(true, Ordering::Relaxed);
        let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if response.status().is_success() || upgraded {
            return Ok((response, sender));
        }
        let status = response.status();
        let body = collect(response, deadline, late).await?;
        match serde_json::from_slice::<ApiErrorBody>(&body) {
            Ok(told) => Err(ClientError::Api(Box::new(told.error))),
            Err(_) if status.is_server_error() => Err(ClientError::InBetween(status.to_string())),
            Err(_) => Err(ClientError::Strange(format!("{status} {}", excerpt(&body)))),
        }
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request =
            Request::builder().method(ask.method).uri(ask.target).header("host", self.target.host());
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(ask.body)).map_err(|error| {
            ClientError::BadUrl(format!("SLIPWAY_TOKEN or SLIPWAY_URL cannot be sent: {error}"))
        })
    }

    fn idle_sender(&self) -> Option<Sender> {
        self.idle.lock().ok()?.take().filter(|sender| sender.is_ready())
    }

    fn keep(&self, sender: Sender) {
        if let Ok(mut idle) = self.idle.lock() {
            *idle = Some(sender);
        }
    }
}

async fn collect(
    response: Response<Incoming>,
    deadline: Instant,
    late: Duration,
) -> Result<Bytes, ClientError> {
    let body = Limited::new(response.into_body(), limits::ANSWER_MAX_BYTES).collect();
    match timeout_at(deadline, body).await {
        Err(_) => Err(ClientError::TimedOut(late)),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) => Err(match error.downcast::<hyper::Error>() {
            Ok(cut) => ClientError::Cut(*cut),
            Err(_) => ClientError::Strange(format!("longer than {} MiB", limits::ANSWER_MAX_BYTES >> 20)),
        }),
    }
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect()
}
