//! Handles one request of a browser, from its head to the response: routed to a preview, authorized,
//! forwarded when the sandbox is awake, else answered with an error page.

use super::{
    auth::{
        AccessDenied, AccessEnded, AuthDecision, HeaderAuthError, may_carry_credentials, redirect,
        sanitize_response,
    },
    error_page::{Format, Refusal, Unserved, Visitor, WAKE_PATH, wait_mode},
    forward::{Destination, ForwardError, Forwarded, forward},
    limits,
    metrics::{RequestStep, StatusClass},
    response_body::{AppBody, ResponseBody},
    smuggling_guard::RecordedHeads,
    splice::AppEnd,
    state::Edge,
    wake::{WakeStage, WakeTimings},
};
use crate::{
    preview_target::{PreviewTarget, RequestPermit, VisitRefused},
    upstream::RequestBody,
};
use hostd_core::{
    ErrorPage, NoResponse, Preview,
    edge::{HeaderRewrite, MalformedRequest, RequestKind, RequestTraits, authority, strip_hop_by_hop},
};
use hostd_net::backpressure::WriteWindow;
use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Incoming},
    header::{HeaderName, HeaderValue, TRANSFER_ENCODING},
    http::request::Parts,
};
use protocol::api::ApiErrorCode;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tracing::error;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The connection of a browser, as its requests see it.
pub struct ClientConnection {
    edge: Arc<Edge>,
    /// HTTP/1.1 only.
    heads: Option<Arc<RecordedHeads>>,
    /// Bounds what is written to this connection; HTTP/1.1 only.
    window: Option<Arc<WriteWindow>>,
    /// The app that gets the connection after the response.
    app: Mutex<Option<AppEnd>>,
}

impl ClientConnection {
    pub fn http1(edge: Arc<Edge>, heads: Arc<RecordedHeads>, window: Arc<WriteWindow>) -> Self {
        Self { edge, heads: Some(heads), window: Some(window), app: Mutex::default() }
    }

    pub fn http2(edge: Arc<Edge>) -> Self {
        Self { edge, heads: None, window: None, app: Mutex::default() }
    }

    pub fn take_app_end(&self) -> Option<AppEnd> {
        self.app.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn hand_over(&self, app: AppEnd) {
        *self.app.lock().unwrap_or_else(PoisonError::into_inner) = Some(app);
    }
}

/// The app answered an upgrade with something that is not HTTP: the connection is handed over without a
/// response of ours.
#[derive(Debug, thiserror::Error)]
#[error("the app does not speak HTTP here")]
pub struct HandedOver;

type Handled = Result<Response<ResponseBody>, HandedOver>;

pub async fn handle(client: Arc<ClientConnection>, request: Request<Incoming>) -> Handled {
    let (parts, body) = request.into_parts();
    let edge = &client.edge;
    let format = Format::of(&parts.method, &parts.headers);
    let has_body = !body.is_end_stream();
    let has_length = client.heads.as_ref().is_some_and(|heads| heads.on_parsed(&parts.method, has_body));
    let has_both_lengths = has_length && parts.headers.contains_key(TRANSFER_ENCODING);
    let authority = match authority(&parts).map(str::to_owned) {
        Ok(_) if has_both_lengths => Err(MalformedRequest::Length),
        other => other,
    };
    let handled = match authority {
        Ok(authority) if edge.is_client_host(&authority) => {
            Ok(edge.serve_client(&authority, Request::from_parts(parts, body)).await)
        }
        Ok(authority) => route(&client, &authority, parts, body).await,
        Err(MalformedRequest::Method) => Ok(edge.respond(format, &method_not_forwarded())),
        Err(wrong @ (MalformedRequest::Host | MalformedRequest::Length)) => {
            Ok(edge.refuse(format, Refusal::Malformed(wrong.reason())))
        }
    };
    if let Some(heads) = &client.heads {
        heads.on_response();
    }
    if let Ok(response) = &handled {
        edge.metrics.responses.of(StatusClass::of(response.status())).inc();
    }
    handled
}

fn method_not_forwarded() -> ErrorPage {
    let text = "CONNECT and TRACE are not forwarded to apps.";
    ErrorPage::new(ApiErrorCode::MethodNotAllowed, "This method is not served here", text)
}

/// Finds the preview that is asked for, and whether this visitor may see it.
async fn route(client: &ClientConnection, authority: &str, mut parts: Parts, body: Incoming) -> Handled {
    let edge = &client.edge;
    let format = Format::of(&parts.method, &parts.headers);
    let (preview, named, ended) = match edge.previews.parse(authority) {
        Some(preview) => (preview, Some(authority), None),
        None => match Box::pin(edge.auth.preview_from_headers(&parts)).await {
            Ok(Some((preview, ended))) => (preview, None, ended),
            Ok(None) => return Ok(edge.refuse(format, Refusal::NoPreview)),
            Err(denied) => return Ok(edge.respond(format, &denied.error_page())),
        },
    };
    let Some(target) = edge.targets.get(&preview.sandbox) else {
        let has_token = named.is_none();
        let visitor = Visitor { preview, format, trusted: edge.is_trusted(has_token) };
        return Ok(Box::pin(edge.absent_response(&visitor, has_token)).await);
    };
    let (has_pass, ended) = match named {
        None => (true, ended),
        Some(_) => match authorize(edge, &target, preview, &parts).await {
            Ok(admitted) => admitted,
            Err(response) => return Ok(*response),
        },
    };
    if !edge.auth.strip_credentials(&mut parts) {
        return Ok(edge.refuse(format, Refusal::CredentialInPath));
    }
    let visitor = Visitor { preview, format, trusted: edge.is_trusted(has_pass) };
    let visit = match edge.visit(&target) {
        Ok(visit) => visit,
        Err(VisitRefused::TooMany) => return Ok(edge.refuse(format, Refusal::TooMany)),
        Err(VisitRefused::Quota(scope)) => {
            edge.metrics.quota_refusals.inc();
            return Ok(edge.refuse(format, Refusal::QuotaExceeded(scope)));
        }
    };
    if parts.uri.path() == WAKE_PATH {
        return Ok(edge.progress_response(visitor, target, visit, wait_mode(parts.uri.query())));
    }
    serve(client, AuthorizedRequest { visitor, target, visit, ended, named, parts, body }).await
}

/// Returns whether the visitor has a pass, and when its access ends; the response for one that may not see the preview.
async fn authorize(
    edge: &Edge,
    target: &PreviewTarget,
    preview: Preview,
    parts: &Parts,
) -> Result<(bool, Option<AccessEnded>), Box<Response<ResponseBody>>> {
    let format = Format::of(&parts.method, &parts.headers);
    let private = edge.is_private(&target.record());
    if !private && !may_carry_credentials(parts) {
        return Ok((false, None));
    }
    let client = match private {
        true => {
            let revocations = edge.store.token_revocations();
            let caller = edge.client_caller(&preview.sandbox, &parts.headers).await;
            caller.map(|caller| (caller, revocations))
        }
        false => None,
    };
    let admitted = match client {
        Some((caller, revocations)) => edge.auth.admit_caller(&preview, caller, revocations).await,
        None => Box::pin(edge.auth.admit(&preview, private, parts)).await,
    };
    let response = match admitted {
        Ok((AuthDecision::Admitted { trusted }, ended)) => return Ok((trusted, ended)),
        Ok((AuthDecision::Redirect { location, cookie }, _)) => {
            redirect(&location, cookie).map(|()| ResponseBody::empty())
        }
        Ok((AuthDecision::Denied(denied), _)) => edge.respond(format, &denied.error_page()),
        Err(error) => {
            error!(%error, "failed to look up a preview link");
            edge.respond(format, &HeaderAuthError::Store(error).error_page())
        }
    };
    Err(Box::new(response))
}

struct AuthorizedRequest<'a> {
    visitor: Visitor,
    target: Arc<PreviewTarget>,
    visit: RequestPermit,
    /// Set where a token admitted the request.
    ended: Option<AccessEnded>,
    /// The hostname in the request; absent where headers name the sandbox.
    named: Option<&'a str>,
    parts: Parts,
    body: Incoming,
}

async fn serve(client: &ClientConnection, request: AuthorizedRequest<'_>) -> Handled {
    let AuthorizedRequest { visitor, target, visit, mut ended, named, mut parts, body } = request;
    let (edge, preview) = (&client.edge, visitor.preview);
    let traits = RequestTraits::of(&parts);
    let is_upgrade = traits.kind == RequestKind::Upgrade;
    // Taken before the state is read: the actor that puts it to sleep looks for leases after saying so.
    let lease = target.lease();
    if traits.wakes() {
        target.traffic.touch();
    }
    let policy = target.record().blueprint.preview_headers;
    let rewrite = HeaderRewrite { previews: &edge.previews, preview, authority: named, policy };
    rewrite.rewrite_request(&mut parts, is_upgrade);
    let body = match body.is_end_stream() {
        true => RequestBody::empty(),
        false => RequestBody::new(body, target.traffic.stream(), edge.auth.scanner(), client.window.clone()),
    };
    let destination = Destination { target, port: preview.port, traits };
    let forwarding = forward_when_awake(edge, preview, &destination, Request::from_parts(parts, body));
    let forwarded = match &mut ended {
        None => forwarding.await,
        Some(ended) => tokio::select! {
            biased;
            forwarded = forwarding => forwarded,
            // As safe as a browser that disconnects.
            _ = ended => return Ok(edge.respond(visitor.format, &AccessDenied::Revoked.error_page())),
        },
    };
    let Destination { target, port, traits } = destination;
    // The lease is held until the stream of the response counts: the actor sees one of them.
    let (forwarded, timing) = match forwarded {
        Ok(forwarded) => forwarded,
        Err(unserved) => {
            drop(lease);
            edge.metrics.error_pages.inc();
            return Ok(Box::pin(edge.error_response(&visitor, &target, unserved)).await);
        }
    };
    let (connection, response) = match forwarded {
        Forwarded::Response(connection, response) => (connection, response),
        Forwarded::NonHttp(connection) => {
            client.hand_over(AppEnd::new(connection, visit, ended));
            return Err(HandedOver);
        }
    };
    let (mut head, incoming) = response.into_parts();
    if is_upgrade && head.status == StatusCode::SWITCHING_PROTOCOLS {
        edge.metrics.upgrades.inc();
        client.hand_over(AppEnd::new(Box::pin(connection.into_upgraded()).await, visit, ended));
        strip_hop_by_hop(&mut head.headers, true);
        sanitize_response(&mut head.headers);
        return Ok(Response::from_parts(head, ResponseBody::empty()));
    }
    edge.metrics.served.inc();
    head.version = Version::HTTP_11;
    rewrite.rewrite_response(&mut head.headers, traits.framed);
    sanitize_response(&mut head.headers);
    if let Some(timing) = timing {
        head.headers.append(SERVER_TIMING, timing);
    }
    let body = AppBody::new(incoming, connection, port, visit, edge.waker.clone());
    Ok(Response::from_parts(head, ResponseBody::App(body.until(ended))))
}

/// Forwards a request when the app can take it; until then it is held as it is.
async fn forward_when_awake(
    edge: &Arc<Edge>,
    preview: Preview,
    destination: &Destination,
    mut request: Request<RequestBody>,
) -> Result<(Forwarded, Option<HeaderValue>), Unserved> {
    let started = Instant::now();
    let mut timing = None;
    let mut refused = false;
    for left in (0..limits::WAKE_TRIES).rev() {
        if refused || !destination.target.is_up() {
            edge.metrics.held.inc();
            // Boxed, as all that is rare here: every request moves and keeps what this future takes.
            let held_at = Instant::now();
            let timings = Box::pin(wait_until_ready(edge, preview, destination)).await?;
            edge.metrics.request_steps.of(RequestStep::Held).observe(held_at.elapsed().as_secs_f64());
            timing = HeaderValue::from_str(&timings.header(started.elapsed())).ok();
        }
        let permit = destination.target.connections.permit(preview.port).await;
        if left > 0 && !destination.target.is_up() {
            // Put to sleep while this request waited for its permit.
            continue;
        }
        let sent_at = Instant::now();
        match forward(edge, destination, permit, request).await {
            Ok(forwarded) => {
                edge.metrics.request_steps.of(RequestStep::App).observe(sent_at.elapsed().as_secs_f64());
                return Ok((forwarded, timing));
            }
            Err(ForwardError { unsent: Some(unsent), .. }) if left > 0 && !refused => {
                (request, refused) = (*unsent, true);
            }
            Err(error) => return Err(error.unserved),
        }
    }
    unreachable!("the last round returns")
}

/// Returns when the sandbox is up and the port is listened on.
async fn wait_until_ready(
    edge: &Arc<Edge>,
    preview: Preview,
    destination: &Destination,
) -> Result<WakeTimings, Unserved> {
    let Destination { target, traits, .. } = destination;
    if !traits.wakes() && !target.is_up() {
        return Err(Refusal::Asleep.into());
    }
    let within = match traits.kind {
        RequestKind::Navigation => limits::NAVIGATION_HOLD_MAX,
        RequestKind::Upgrade | RequestKind::Other => limits::HOLD_MAX,
    };
    match edge.wake_within(target, preview, within).await {
        WakeStage::Ready(timings) => Ok(timings),
        WakeStage::Failed(reason) => Err(reason.into()),
        WakeStage::Starting | WakeStage::Listening => Err(NoResponse::Waking.into()),
    }
}
