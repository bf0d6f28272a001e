//! The protocol over HTTP: messages of the editor are POSTs, messages to it are streams of server-sent events, one of the
//! connection and one of each session.

use super::{
    Acp,
    attached::Attached,
    authentication,
    connection::Caller,
    feed::Feed,
    history,
    http_connections::{ConnectionOwner, HttpConnection},
    limits, methods,
    outbox::{Outbox, Outgoing},
    record,
    rpc::{self, Incoming},
    session_id::SessionId,
};
use crate::{
    ApiFailure, ClientParts,
    respond::{self, BodyError},
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, stream::unfold};
use hyper::{
    HeaderMap, Request, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::ApiErrorCode;
use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const EVENT_STREAM: &str = "text/event-stream";

/// A request of an authenticated caller.
pub struct HttpCall<'a> {
    pub parts: &'a ClientParts,
    pub acp: &'a Acp,
    pub caller: Caller,
    pub owner: ConnectionOwner,
    pub headers: HeaderMap,
}

impl HttpCall<'_> {
    pub async fn post(self, request: Request<Body>) -> Result<Response, ApiFailure> {
        let json =
            |value: &HeaderValue| value.to_str().is_ok_and(|kind| kind.starts_with("application/json"));
        if !self.headers.get(CONTENT_TYPE).is_some_and(json) {
            return Err(invalid("Content-Type must be application/json"));
        }
        let body = respond::read(request.into_body(), limits::MESSAGE_MAX_BYTES).await;
        let body = body.map_err(|error| {
            let code = match error {
                BodyError::TooLarge(_) => ApiErrorCode::TooLarge,
                BodyError::Broken => ApiErrorCode::InvalidRequest,
                BodyError::TimedOut => ApiErrorCode::TimedOut,
            };
            ApiFailure::new(code, error.to_string())
        })?;
        let message = match rpc::parse(&body) {
            Ok(message) => message,
            Err(malformed) => {
                let response = rpc::response(&malformed.id, Err(malformed.error));
                return Ok(respond::json(StatusCode::BAD_REQUEST, &response));
            }
        };
        let params = match &message {
            Incoming::Request { id, method, .. } if method == methods::INITIALIZE => {
                return Ok(self.initialize(&rpc::response(id, Ok(methods::initialize()))));
            }
            Incoming::Request { params, .. } | Incoming::Notification { params, .. } => Some(params),
            Incoming::Response { .. } => None,
        };
        let named = params.and_then(|params| params["sessionId"].as_str());
        let header = self.header(&SESSION_ID)?;
        if header.zip(named).is_some_and(|(header, named)| header != named) {
            return Err(invalid("Acp-Session-Id is not the sessionId of the message"));
        }
        let http = self.connection()?;
        // Not kept: the client closed the connection meanwhile.
        let _ = http.connection.receive(self.caller, &body).await;
        Ok(respond::empty(StatusCode::ACCEPTED))
    }

    fn initialize(&self, response: &serde_json::Value) -> Response {
        let id = authentication::connection_id(&self.parts.key, &self.owner.token);
        let mut response = respond::json(StatusCode::OK, response);
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert(CONNECTION_ID, id);
        }
        response
    }

    /// A stream of the connection, or of a session.
    pub async fn get(self) -> Result<Response, ApiFailure> {
        let accepts = |value: &HeaderValue| {
            value.to_str().is_ok_and(|kinds| kinds.contains(EVENT_STREAM) || kinds.contains("*/*"))
        };
        if !self.headers.get(ACCEPT).is_none_or(accepts) {
            return Err(invalid("Accept must be text/event-stream; or open a WebSocket"));
        }
        let after = self.header(&LAST_EVENT_ID)?.map(str::parse::<u64>).transpose();
        let after = after.map_err(|_| invalid("Last-Event-ID must be the id of an event of this stream"))?;
        let http = self.connection()?;
        match self.header(&SESSION_ID)? {
            None => connection_stream(http, after),
            Some(session) => {
                let session =
                    SessionId::parse(session).ok_or_else(|| not_found("no session with this id"))?;
                self.session_stream(http, &session, after).await
            }
        }
    }

    pub fn delete(&self) -> Result<Response, ApiFailure> {
        let id = self.verified_id()?;
        if self.acp.http.close(id) {
            return Ok(respond::empty(StatusCode::ACCEPTED));
        }
        Err(unknown_connection())
    }

    async fn session_stream(
        &self,
        http: Arc<HttpConnection>,
        id: &SessionId,
        after: Option<u64>,
    ) -> Result<Response, ApiFailure> {
        let api = &self.caller.api;
        let failed = |error: rpc::RpcError| match error.code {
            rpc::RESOURCE_NOT_FOUND => not_found(&error.message),
            _ => ApiFailure::new(ApiErrorCode::Internal, error.message),
        };
        record::load(api, id).await.map_err(failed)?;
        let session: Arc<Attached> = http.connection.attach(api, id).map_err(failed)?;
        let replaced = http.begin_stream(id);
        if let Some(after) = after {
            let tasks = history::tasks_after(api, id, after).await.map_err(failed)?;
            session.restart(after, history::queued(tasks), false);
        }
        let (sender, receiver) = mpsc::channel(limits::OUTGOING_MAX);
        let ended = session.ended.clone();
        let feed = Feed { api: api.clone(), session, to: Outbox::Stream(sender) };
        let stream = SessionStream { feed: Box::pin(feed.run()), receiver, replaced, ended, _http: http };
        Ok(event_stream(unfold(stream, SessionStream::next)))
    }

    fn connection(&self) -> Result<Arc<HttpConnection>, ApiFailure> {
        let id = self.verified_id()?;
        let now_ms = self.parts.clock.now_ms();
        let known = self.acp.http.get(&self.acp.shared(self.parts), &self.owner, id, now_ms)?;
        known.ok_or_else(unknown_connection)
    }

    fn verified_id(&self) -> Result<&str, ApiFailure> {
        let id = self.header(&CONNECTION_ID)?;
        let id = id.ok_or_else(|| invalid("send Acp-Connection-Id, from the response to initialize"))?;
        if authentication::verify_connection_id(&self.parts.key, &self.owner.token, id) {
            return Ok(id);
        }
        Err(unknown_connection())
    }

    fn header(&self, name: &HeaderName) -> Result<Option<&str>, ApiFailure> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        value.to_str().map(Some).map_err(|_| invalid("headers must be visible ASCII"))
    }
}

fn invalid(message: &str) -> ApiFailure {
    ApiFailure::new(ApiErrorCode::InvalidRequest, message)
}

fn not_found(message: &str) -> ApiFailure {
    ApiFailure::new(ApiErrorCode::NotFound, message)
}

fn unknown_connection() -> ApiFailure {
    not_found("no connection with this id and token; initialize anew, and resume your sessions")
}

fn connection_stream(http: Arc<HttpConnection>, after: Option<u64>) -> Result<Response, ApiFailure> {
    let Some((stream, after)) = http.kept.open(after) else {
        let message = "messages after this one are not kept any more; initialize anew";
        return Err(ApiFailure::new(ApiErrorCode::HistoryGone, message));
    };
    let ended = http.connection.ended.clone();
    let frames = unfold((http, after, ended), move |(http, after, ended)| async move {
        let next = tokio::select! {
            // Both are safe to cancel: a message stays until the stream moved on.
            next = timeout(limits::HEARTBEAT, http.kept.next(stream, after)) => next,
            () = ended.cancelled() => return None,
        };
        let (frame, after) = match next {
            Err(_) => (heartbeat(), after),
            Ok(Some((number, text))) => (frame(Some(number), &text), number),
            Ok(None) => return None,
        };
        Some((Ok(frame), (http, after, ended)))
    });
    Ok(event_stream(frames))
}

/// A stream of one session. The feed runs while the stream is read.
struct SessionStream {
    feed: Pin<Box<dyn Future<Output = ()> + Send>>,
    receiver: mpsc::Receiver<Outgoing>,
    replaced: CancellationToken,
    /// Cancelled when the session is closed, or opened anew: the editor then opens a stream of that.
    ended: CancellationToken,
    /// Keeps the connection in use.
    _http: Arc<HttpConnection>,
}

impl SessionStream {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let frame = tokio::select! {
            biased;
            () = self.replaced.cancelled() => return None,
            // Safe to cancel: a message stays in the channel.
            outgoing = self.receiver.recv() => {
                let outgoing = outgoing?;
                frame(outgoing.seq, &outgoing.message.to_string())
            }
            () = self.ended.cancelled() => return None,
            // Not cancelled: it goes on with the next call.
            () = &mut self.feed => return None,
            () = tokio::time::sleep(limits::HEARTBEAT) => heartbeat(),
        };
        Some((Ok(frame), self))
    }
}

fn frame(id: Option<u64>, message: &str) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}data: {message}\n\n").into()
}

fn heartbeat() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

fn event_stream(frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
