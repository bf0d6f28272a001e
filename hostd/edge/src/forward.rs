//! Forwards one request to the app and waits for the head of its response. Neither wakes a sandbox nor
//! writes error pages.

use super::{
    error_page::{Refusal, Unserved},
    limits,
    metrics::{ConnectionSource, EdgeMetrics},
    response_timeout::{GaveUp, ResponseTimeout},
    state::{Edge, connections_max},
};
use crate::{
    preview_target::PreviewTarget,
    upstream::{
        BodyError, RequestBody, SendError, SocketLimit, UpgradedConnection, UpstreamConnection, WindowPermit,
    },
};
use hostd_core::{
    NoResponse,
    edge::{RequestKind, RequestTraits},
};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    header::CONTENT_LENGTH,
};
use std::{
    io,
    pin::pin,
    sync::{Arc, LazyLock},
};
use tokio::time::sleep;
use tracing::debug;

/// Allows one socket for each visit there may be.
static SOCKET_LIMIT: LazyLock<SocketLimit> = LazyLock::new(|| SocketLimit::new(connections_max()));

/// Why a request was not served; and the request itself, where none of it was sent.
pub struct ForwardError {
    pub unserved: Unserved,
    pub unsent: Option<Box<Request<RequestBody>>>,
}

/// The app that a request is for.
pub struct Destination {
    pub target: Arc<PreviewTarget>,
    pub port: u16,
    pub traits: RequestTraits,
}

/// The app's reply to a request.
pub enum Forwarded {
    Response(Box<UpstreamConnection>, Response<Incoming>),
    /// The app answered an upgrade, but not with HTTP.
    NonHttp(UpgradedConnection),
}

/// Opens a connection on which nothing was sent yet.
pub async fn dial(target: &PreviewTarget, port: u16) -> Result<Box<UpstreamConnection>, Unserved> {
    // Read before the dial: a connection to a sandbox that stopped meanwhile is not kept.
    let epoch = target.connections.epoch();
    let permit = SOCKET_LIMIT.acquire().ok_or(Refusal::TooMany)?;
    let stream = target.dial(port).await.map_err(|error| dial_failed(&error))?;
    UpstreamConnection::handshake(stream, permit, epoch).await.map(Box::new).map_err(|error| closed(&error))
}

/// Sends a request to the app.
pub async fn forward(
    edge: &Edge,
    destination: &Destination,
    permit: WindowPermit,
    request: Request<RequestBody>,
) -> Result<Forwarded, ForwardError> {
    let timer = pin!(sleep(limits::DELIVERY_PROBE_EVERY));
    let keep_awake = destination.traits.wakes().then_some((&*destination.target, &*edge.waker));
    send(&edge.metrics, destination, &mut ResponseTimeout::new(keep_awake, permit, timer), request).await
}

/// Sends on a pooled connection, if there is one; it may be dead without a sign. A request of which nothing
/// was sent, or that may be sent twice, is then sent once more on a new connection. A request that never
/// reached the app is sent again as often as it takes.
async fn send(
    metrics: &EdgeMetrics,
    destination: &Destination,
    timeout: &mut ResponseTimeout<'_>,
    mut request: Request<RequestBody>,
) -> Result<Forwarded, ForwardError> {
    let Destination { target, port, traits } = destination;
    let is_upgrade = traits.kind == RequestKind::Upgrade;
    let without_body = request.body().is_end_stream();
    let repeatable = traits.idempotent && without_body;
    let idle_for_max = if repeatable { limits::HOLD_MAX } else { limits::IDLE_UNREPEATABLE_MAX };
    let mut pooled = if is_upgrade { None } else { target.connections.take(*port, idle_for_max) };
    let mut once_more = true;
    loop {
        let source = if pooled.is_some() { ConnectionSource::Reused } else { ConnectionSource::Opened };
        let (mut connection, fresh) = match pooled.take() {
            Some(connection) => (connection, false),
            None => match timeout.run(None, dial(target, *port)).await? {
                Ok(connection) => (connection, true),
                Err(unserved) => return Err(ForwardError { unserved, unsent: Some(Box::new(request)) }),
            },
        };
        metrics.upstream_connections.of(source).inc();
        let copy = (repeatable || fresh && without_body).then(|| copy_of(&request));
        timeout.on_send(fresh && copy.is_some());
        let (sent, meter) = connection.send(request);
        let error = match (timeout.run(Some(meter), sent).await, copy) {
            (Ok(Ok(response)), _) => {
                timeout.on_delivered();
                return check_response(is_upgrade, connection, response).map_err(ForwardError::from);
            }
            (Err(GaveUp::Undelivered), Some(copy)) => {
                request = copy;
                continue;
            }
            (Err(gave_up), _) => return Err(gave_up.into()),
            (Ok(Err(SendError::NotSent(unsent, _))), _) if !fresh => {
                request = *unsent;
                continue;
            }
            (Ok(Err(SendError::Broken { received_bytes, .. })), Some(copy))
                if repeatable && (!fresh || once_more && !received_bytes) =>
            {
                once_more = !fresh;
                request = copy;
                continue;
            }
            (Ok(Err(error)), _) => error,
        };
        return match connection.into_non_http() {
            Some(stream) if is_upgrade => Ok(Forwarded::NonHttp(stream)),
            Some(_) => Err(NoResponse::NotHttp.into()),
            None => Err(send_failed(error).into()),
        };
    }
}

/// Refuses responses that cannot be forwarded.
fn check_response(
    is_upgrade: bool,
    connection: Box<UpstreamConnection>,
    mut response: Response<Incoming>,
) -> Result<Forwarded, Unserved> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS && !is_upgrade {
        return Err(NoResponse::NotHttp.into());
    }
    if response.body().size_hint().exact().is_none() {
        // The body ends where its framing says, whatever length was announced.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(Forwarded::Response(connection, response))
}

fn copy_of(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// Maps a failed dial to what the visitor is told. A dial that was not even tried is not reported as a closed
/// port.
pub(super) fn dial_failed(error: &io::Error) -> Unserved {
    if error.kind() == io::ErrorKind::ResourceBusy {
        Refusal::TooMany.into()
    } else if error.kind() == io::ErrorKind::TimedOut {
        // The queue of the port is full, and the app accepts nothing from it.
        timed_out()
    } else {
        NoResponse::PortClosed.into()
    }
}

fn send_failed(error: SendError) -> Unserved {
    let error = match error {
        SendError::HeadTooLarge => return NoResponse::NotHttp.into(),
        SendError::NotSent(_, error) | SendError::Broken { error, .. } => error,
    };
    match BodyError::of(&error) {
        Some(BodyError::Stalled) => Refusal::Malformed("Its body did not come whole and in time.").into(),
        Some(BodyError::Malformed(_)) => {
            Refusal::Malformed("Its body is malformed: a chunk or a trailer cannot be read.").into()
        }
        None if error.is_parse() => NoResponse::NotHttp.into(),
        None => closed(&error),
    }
}

fn closed(error: &hyper::Error) -> Unserved {
    debug!(%error, "app closed the connection without a response");
    NoResponse::Closed.into()
}

fn timed_out() -> Unserved {
    NoResponse::TimedOut { after_ms: limits::RESPONSE_MAX_MS }.into()
}

impl From<Unserved> for ForwardError {
    fn from(unserved: Unserved) -> Self {
        Self { unserved, unsent: None }
    }
}

impl From<NoResponse> for ForwardError {
    fn from(reason: NoResponse) -> Self {
        Unserved::from(reason).into()
    }
}

impl From<GaveUp> for ForwardError {
    fn from(gave_up: GaveUp) -> Self {
        match gave_up {
            // A request that cannot be sent again is waited for like one that was delivered.
            GaveUp::NoResponse | GaveUp::Undelivered => timed_out().into(),
        }
    }
}
