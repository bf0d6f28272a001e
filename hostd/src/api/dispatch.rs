//! The pipeline of every request, the same for each route of the table.

use super::{
    Api,
    access_lease::{AccessLease, lease_error},
    audit_writer::{AuditTarget, AuditedRequest},
    authenticate,
    call::{Call, TakeOnce},
    clients,
    connection_permits::{ActiveRequest, ConnectionPermit},
    error::{CallError, CallResult, ErrorExtension},
    files, idempotency, limits, older, openapi,
    peer::Peer,
    query::Query,
    rebinding_guard, request_body,
    request_trace::{self, RequestSubject},
    route::{RequestBody, RequiredAccess, Route},
    routes,
    views::AnsweredId,
};
use axum::{
    Router,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use bytes::Bytes;
use hostd_clients::{Clients, DelegatedIdentity, OnlySandbox};
use hostd_core::Identity;
use hostd_net::backpressure::SourceWindow;
use hostd_store::access_watch::AccessWatch;
use hostd_trace::TraceContext;
use hyper::{
    HeaderMap, Uri,
    header::{CONNECTION, HOST, HeaderValue},
    http::Extensions,
    upgrade::OnUpgrade,
};
use protocol::api::{ApiErrorCode, SandboxId};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error};

const REQUEST_ID: &str = "x-request-id";

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// The pattern of the matched route, for the metrics.
#[derive(Clone, Copy)]
struct MatchedRoute(&'static str);

/// The API as its listeners serve it, and the protocols of other clients on top of it.
pub struct Front {
    pub router: Router,
    pub clients: Clients,
}

/// Needed by the guard of all requests.
#[derive(Clone)]
struct GuardState {
    api: Arc<Api>,
    clients: Clients,
}

pub fn front(api: Arc<Api>) -> Front {
    let routes = routes_of(&api);
    let clients = clients::open(&api, routes.clone().layer(from_fn(name_subject)));
    let guarded = GuardState { api, clients: clients.clone() };
    Front { router: routes.layer(from_fn_with_state(guarded, guard)), clients }
}

/// Names the subject of a call that a protocol makes, for the audit log: the guard saw only the request behind it.
async fn name_subject(mut request: Request, next: Next) -> Response {
    let subject = subject(&request, request_id(request.headers()));
    request.extensions_mut().insert(subject);
    next.run(request).await
}

fn subject(request: &Request, request_id: String) -> AuditedRequest {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.audit_text()).unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    AuditedRequest { request_id, method, path, peer }
}

fn routes_of(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        let filter = MethodFilter::try_from(route.method.clone()).expect("the table has ordinary methods");
        let (api, path, route) = (api.clone(), route.path, Arc::new(route));
        let handler =
            move |params: Params, request: Request| dispatch(api.clone(), route.clone(), params, request);
        router = router.route(path, on(filter, handler));
    }
    router
        .fallback(async || {
            CallError::new(ApiErrorCode::NotFound, "no route with this path; see /openapi.json")
        })
        .method_not_allowed_fallback(async || {
            CallError::new(
                ApiErrorCode::MethodNotAllowed,
                "this path does not support this method; see /openapi.json",
            )
        })
}

/// Wraps all requests, whether or not a route matches.
async fn guard(State(state): State<GuardState>, request: Request, next: Next) -> Response {
    let (started, api, method) = (Instant::now(), state.api.clone(), request.method().clone());
    let id = request_id(request.headers());
    let mut trace = request_trace::begin(api.settings.tracer.as_ref(), request.headers());
    let logged = request_trace::log_span(&id);
    let work = Box::pin(checked(state, (request, id.clone()), next));
    let mut response = trace.run(work).instrument(logged).await;
    let matched = response.extensions().get::<MatchedRoute>().map_or("-", |matched| matched.0);
    let status = response.status();
    api.metrics.count_request(&method, matched, status.as_u16(), started.elapsed());
    if trace.is_recorded() {
        let subject = response.extensions_mut().remove::<RequestSubject>();
        request_trace::describe(&mut trace, (&method, matched, status), (&id, subject));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Passes a request on, to a protocol or to the routes, if its connection and its names are good.
async fn checked(
    GuardState { api, clients }: GuardState,
    (mut request, id): (Request, String),
    next: Next,
) -> Response {
    let subject = subject(&request, id.clone());
    let peer = request.extensions().get::<Peer>().copied();
    let missing = || CallError::new(ApiErrorCode::Forbidden, "the connection has no peer");
    let checked = peer
        .ok_or_else(missing)
        .and_then(|peer| rebinding_guard::check(peer, request.headers(), request.uri(), &api.settings.names));
    let checked = checked.and_then(|()| Ok(clients.select(&request)?));
    match checked {
        Ok(None) => {
            set_host(&mut request);
            request.extensions_mut().insert(subject.clone());
            next.run(request).await
        }
        Ok(Some(protocol)) => {
            set_host(&mut request);
            set_request_id(&mut request, &id);
            let mut response = clients.serve(protocol, request).await;
            response.extensions_mut().insert(MatchedRoute(protocol.name()));
            response
        }
        Err(failure) => {
            let code = code_text(failure.error.code);
            let status = (failure.error.code.http_status(), code);
            api.audit.record_refusal(subject.row(None, AuditTarget::default(), status));
            failure.into_response()
        }
    }
}

/// Gives a request of HTTP/2, which names its host in the URI, the Host that handlers read.
fn set_host(request: &mut Request) {
    let authority = request.uri().authority().and_then(|name| HeaderValue::from_str(name.as_str()).ok());
    if let Some(authority) = authority {
        request.headers_mut().entry(HOST).or_insert(authority);
    }
}

/// Gives the calls that a protocol makes for this request its id.
fn set_request_id(request: &mut Request, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        request.headers_mut().insert(REQUEST_ID, value);
    }
}

/// The caller's own request id, if it is well-formed.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let sane = |text: &&str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        (1..=limits::REQUEST_ID_MAX_BYTES).contains(&text.len()) && text.bytes().all(safe)
    };
    given.filter(sane).map_or_else(new_id, str::to_owned)
}

/// A ULID in lower case.
pub fn new_id() -> String {
    ulid::Ulid::generate().to_string().to_ascii_lowercase()
}

async fn dispatch(api: Arc<Api>, route: Arc<Route>, params: Params, mut request: Request) -> Response {
    let given = request.extensions_mut().remove::<AuditedRequest>();
    let subject = given.unwrap_or_else(|| subject(&request, String::new()));
    let named: Vec<(&str, &str)> = params.iter().flatten().collect();
    let target = AuditTarget::of(route.doc.id, &named);
    let (matched, older) = (MatchedRoute(route.path), route.older);
    let about = RequestSubject::of(&params);
    about.log();
    let revocations = api.store.token_revocations();
    let mut response = match authorize(&api, &route, &params, RequestHead::of(&request)).await {
        Ok(caller) => {
            let required = route.required.on_sandbox();
            let watch = AccessWatch::new(api.store.clone(), caller.clone(), api.clock, revocations);
            let lease = AccessLease::new(watch, required);
            let bound = lease.clone();
            let this = AuthorizedRequest { api, route, caller, lease, subject, target };
            bound.bind(handle(this, params, request).await)
        }
        Err((caller, failure)) => {
            let code = failure.error.code;
            let refused = matches!(code, ApiErrorCode::Unauthorized | ApiErrorCode::Forbidden);
            if refused {
                let status = (code.http_status(), code_text(code));
                api.audit.record_refusal(subject.row(caller.as_ref(), target, status));
            }
            let mut response = error_response(failure, &subject, older);
            if code == ApiErrorCode::TooMany {
                // The connection has no permit and must not stay open.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    };
    response.extensions_mut().insert(matched);
    response.extensions_mut().insert(about);
    response
}

/// A request without its body.
#[derive(Clone, Copy)]
struct RequestHead<'a> {
    uri: &'a Uri,
    headers: &'a HeaderMap,
    connection: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    fn of(request: &'a Request) -> Self {
        Self { uri: request.uri(), headers: request.headers(), connection: request.extensions() }
    }
}

/// Returns the caller, if the caller may use this route.
async fn authorize(
    api: &Api,
    route: &Route,
    params: &Params,
    head: RequestHead<'_>,
) -> Result<Identity, (Option<Identity>, CallError)> {
    match route.required {
        RequiredAccess::Anonymous => return Ok(authenticate::anonymous()),
        RequiredAccess::Signature => {
            let signed = files::authenticate_signature(api, &route.method, params.as_ref().ok(), head.uri);
            return signed.await.map_err(|failure| (None, failure));
        }
        RequiredAccess::Read
        | RequiredAccess::Write
        | RequiredAccess::Own
        | RequiredAccess::Admin
        | RequiredAccess::Operator => {}
    }
    let RequestHead { connection, headers, .. } = head;
    let peer = connection.get::<Peer>().copied();
    let peer =
        peer.ok_or_else(|| (None, CallError::new(ApiErrorCode::Forbidden, "the connection has no peer")))?;
    let caller = match connection.get::<DelegatedIdentity>() {
        Some(DelegatedIdentity(caller)) => authenticate::delegated(api, caller).await,
        None => authenticate::authenticate(api, peer, headers).await,
    };
    let caller = caller.map_err(|failure| (None, failure))?;
    if let Some(request) = connection.get::<Arc<ActiveRequest>>()
        && let Err(failure) = request.identify(&caller)
    {
        return Err((Some(caller), failure));
    }
    if let Some(OnlySandbox(only)) = connection.get::<OnlySandbox>()
        && !is_of_sandbox(route, params, only)
    {
        let message = "this credential is for another sandbox";
        return Err((Some(caller), CallError::new(ApiErrorCode::Forbidden, message)));
    }
    if route.required.met_by(&caller) {
        return Ok(caller);
    }
    let message = format!("this call needs {}", route.required.description());
    Err((Some(caller), CallError::new(ApiErrorCode::Forbidden, message)))
}

/// Whether a call is about this sandbox.
fn is_of_sandbox(route: &Route, params: &Params, sandbox: &SandboxId) -> bool {
    let named = params.as_ref().ok().and_then(|params| params.iter().find(|(name, _)| *name == "id"));
    let same = named.is_some_and(|(_, id)| id.parse::<SandboxId>().is_ok_and(|id| id == *sandbox));
    same && route.path.starts_with("/v1/sandboxes/{id}")
}

/// A request whose caller may use the route.
struct AuthorizedRequest {
    api: Arc<Api>,
    route: Arc<Route>,
    caller: Identity,
    lease: Arc<AccessLease>,
    subject: AuditedRequest,
    target: AuditTarget,
}

async fn handle(this: AuthorizedRequest, params: Params, request: Request) -> Response {
    let call = match build_call(&this, params, request).await {
        Ok(call) => call,
        Err(failure) => return this.finish(Err(failure)).await,
    };
    if this.route.mutates() {
        // In a task of its own: a caller that disconnects leaves nothing half done.
        let (subject, older, lease) = (this.subject.clone(), this.route.older, this.lease.clone());
        let tasks = this.api.work.clone();
        let work = async move {
            let work = idempotency::run_once(&this.route, &this.subject, call);
            let answer = until_shutdown(&this.api.closing, work).await;
            this.finish(answer).await
        };
        let work = TraceContext::within(TraceContext::current(), work).in_current_span();
        let task = tasks.spawn(work);
        return tokio::select! {
            biased;
            done = task => {
                done.unwrap_or_else(|panic| error_response(CallError::internal(&panic), &subject, older))
            }
            // The task goes on and is audited; only its response is withheld.
            end = lease.ended_on_sandbox() => error_response(lease_error(end), &subject, older),
        };
    }
    // Reads and streams end with their caller, and with its access.
    let answer = tokio::select! {
        biased;
        answer = until_shutdown(&this.api.closing, (this.route.handler)(call)) => answer,
        // As safe as a caller that disconnects.
        end = this.lease.ended() => Err(lease_error(end)),
    };
    this.finish(answer).await
}

/// Cuts off work that is not done soon after the shutdown began. As safe as a kill: intents are persisted and
/// every action may be repeated.
async fn until_shutdown(closing: &CancellationToken, work: impl Future<Output = CallResult>) -> CallResult {
    let closed = async {
        closing.cancelled().await;
        sleep(Duration::from_millis(limits::CLOSING_MS)).await;
    };
    tokio::select! {
        answer = work => answer,
        () = closed => {
            let message = "hostd is shutting down; the operation goes on, send the request again";
            Err(CallError::new(ApiErrorCode::ShuttingDown, message))
        }
    }
}

async fn build_call(
    this: &AuthorizedRequest,
    params: Params,
    mut request: Request,
) -> Result<Call, CallError> {
    let not_text = |_| CallError::new(ApiErrorCode::NotFound, "no resource with this name: it is not UTF-8");
    let params = params.map_err(not_text)?;
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = Query::parse(request.uri(), &this.route.query)?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let permit = request.extensions_mut().remove::<Arc<ConnectionPermit>>();
    let source = request.extensions_mut().remove::<SourceWindow>();
    let (parts, incoming) = request.into_parts();
    let (body, stream) = match this.route.body {
        RequestBody::Stream => (Bytes::new(), Some(incoming)),
        RequestBody::Json => {
            let schema = openapi::request_schema(this.route.path, &this.route.method);
            (request_body::check(request_body::read(incoming).await?, schema)?, None)
        }
        RequestBody::Empty => (check_empty_body(&request_body::read(incoming).await?)?, None),
    };
    let (api, caller, lease) = (this.api.clone(), this.caller.clone(), this.lease.clone());
    let (headers, stream, claimed_ms) = (parts.headers, TakeOnce::new(stream), None);
    Ok(Call { api, caller, lease, params, query, headers, body, stream, source, upgrade, permit, claimed_ms })
}

/// An empty object is accepted where no body is expected.
fn check_empty_body(body: &Bytes) -> Result<Bytes, CallError> {
    let empty = body.iter().all(|byte| b"{} \t\r\n".contains(byte));
    if empty { Ok(Bytes::new()) } else { Err(CallError::invalid("body", "this call takes no body")) }
}

impl AuthorizedRequest {
    async fn finish(&self, answer: CallResult) -> Response {
        let response =
            answer.unwrap_or_else(|failure| error_response(failure, &self.subject, self.route.older));
        let refusal = response.extensions().get::<ErrorExtension>().copied();
        let refused =
            refusal.is_some_and(|refusal| refusal.foreign || refusal.code == ApiErrorCode::Forbidden);
        let code = refusal.and_then(|refusal| code_text(refusal.code));
        let made = response.extensions().get::<AnsweredId>().map(|AnsweredId(id)| id.as_str());
        let target = self.target.clone().made(made, self.route.makes_sandbox());
        let row = self.subject.row(Some(&self.caller), target, (response.status().as_u16(), code));
        if self.route.is_audited() {
            self.api.audit.record_action(row).await;
        } else if refused {
            self.api.audit.record_refusal(row);
        }
        response
    }
}

/// Turns an error into a response, and logs its cause once.
fn error_response(failure: CallError, subject: &AuditedRequest, older: bool) -> Response {
    let request = &subject.request_id;
    match (&failure.cause, failure.error.code) {
        (Some(cause), ApiErrorCode::Internal) => {
            error!(request, path = subject.path, cause, "request failed");
        }
        (Some(cause), code) => {
            debug!(request, path = subject.path, ?code, cause, "request failed");
        }
        (None, _) => {}
    }
    if older { older::respond(failure) } else { failure.into_response() }
}

/// The code as it is on the wire.
fn code_text(code: ApiErrorCode) -> Option<String> {
    let text = serde_json::to_value(code).ok()?;
    text.as_str().map(str::to_owned)
}
