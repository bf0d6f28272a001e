//! The pipeline every request goes through, the same for each route of the table.

use super::{
    Api,
    admission::Seat,
    audit::Subject,
    body,
    call::{Call, Once},
    failure::{Answer, Failure, Refusal},
    hosts::{self, Peer},
    idempotency, identity, limits, older, openapi,
    query::Query,
    route::{Needs, Route, Takes},
    routes,
};
use crate::core::Identity;
use axum::{
    Router,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONNECTION, HeaderValue},
    http::Extensions,
    upgrade::OnUpgrade,
};
use protocol::api::ApiErrorCode;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

const REQUEST_ID: &str = "x-request-id";

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// The pattern of the route that answered, for the metrics.
#[derive(Clone, Copy)]
struct Matched(&'static str);

pub fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        let filter = MethodFilter::try_from(route.method.clone()).expect("the table has ordinary methods");
        let (api, path, route) = (api.clone(), route.path, Arc::new(route));
        let handler =
            move |params: Params, request: Request| dispatch(api.clone(), route.clone(), params, request);
        router = router.route(path, on(filter, handler));
    }
    router
        .fallback(async || Failure::new(ApiErrorCode::NotFound, "there is no such path; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Failure::new(ApiErrorCode::MethodNotAllowed, "this path has other methods; see /openapi.json")
        })
        .layer(from_fn_with_state(api, guard))
}

/// Around everything, known path or not.
async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let subject = Subject {
        request_id: id.clone(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
    };
    let peer = request.extensions().get::<Peer>().copied();
    let missing = || Failure::new(ApiErrorCode::Forbidden, "the connection has no peer");
    let known = peer
        .ok_or_else(missing)
        .and_then(|peer| hosts::check(peer, request.headers(), request.uri(), &api.settings.names));
    let mut response = match known {
        Ok(()) => {
            request.extensions_mut().insert(subject.clone());
            next.run(request).await
        }
        Err(failure) => {
            let code = word(failure.error.code);
            api.audit.refused(subject.row(None, failure.error.code.http_status(), code));
            failure.into_response()
        }
    };
    let matched = response.extensions().get::<Matched>().map_or("-", |matched| matched.0);
    api.metrics.count(&subject.method, matched, response.status().as_u16());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The caller's own, if it is sane.
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
    let fallback =
        || Subject { request_id: String::new(), method: route.method.clone(), path: String::new() };
    let subject = request.extensions_mut().remove::<Subject>().unwrap_or_else(fallback);
    let (matched, older) = (Matched(route.path), route.older);
    let mut response = match admit(&api, &route, request.extensions(), request.headers()).await {
        Ok(who) => admitted(Admitted { api, route, who, subject }, params, request).await,
        Err((who, failure)) => {
            let code = failure.error.code;
            let refused = matches!(code, ApiErrorCode::Unauthorized | ApiErrorCode::Forbidden);
            if refused {
                api.audit.refused(subject.row(who.as_ref(), code.http_status(), word(code)));
            }
            let mut response = spoken(failure, &subject, older);
            if code == ApiErrorCode::TooMany {
                // There is no place for its connection.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    };
    response.extensions_mut().insert(matched);
    response
}

/// Who calls, if he may.
async fn admit(
    api: &Api,
    route: &Route,
    connection: &Extensions,
    headers: &HeaderMap,
) -> Result<Identity, (Option<Identity>, Failure)> {
    if route.needs == Needs::Nothing {
        return Ok(identity::nobody());
    }
    let peer = connection.get::<Peer>().copied();
    let peer =
        peer.ok_or_else(|| (None, Failure::new(ApiErrorCode::Forbidden, "the connection has no peer")))?;
    let who = identity::identify(api, peer, headers).await.map_err(|failure| (None, failure))?;
    if let Some(seat) = connection.get::<Arc<Seat>>()
        && let Err(failure) = seat.identify(&who)
    {
        return Err((Some(who), failure));
    }
    if route.needs.met_by(&who) {
        return Ok(who);
    }
    let message = format!("this call needs {}", route.needs.words());
    Err((Some(who), Failure::new(ApiErrorCode::Forbidden, message)))
}

/// A call that is let in.
struct Admitted {
    api: Arc<Api>,
    route: Arc<Route>,
    who: Identity,
    subject: Subject,
}

async fn admitted(this: Admitted, params: Params, request: Request) -> Response {
    let call = match prepare(&this, params, request).await {
        Ok(call) => call,
        Err(failure) => return this.conclude(Err(failure)).await,
    };
    if this.route.acts() {
        // In a task of its own: a caller who hangs up leaves nothing half done.
        let (subject, older) = (this.subject.clone(), this.route.older);
        let task = this.api.work.clone().spawn(async move {
            let work = idempotency::once(&this.route, &this.subject, call);
            let answer = until_closed(&this.api.closing, work).await;
            this.conclude(answer).await
        });
        return task.await.unwrap_or_else(|panic| spoken(Failure::internal(&panic), &subject, older));
    }
    // What only looks, or streams, ends with its caller.
    let answer = until_closed(&this.api.closing, (this.route.handler)(call)).await;
    this.conclude(answer).await
}

/// What is not done soon after the shutdown began is cut off, as a kill would: intents are written down
/// and everything may be repeated.
async fn until_closed(closing: &CancellationToken, work: impl Future<Output = Answer>) -> Answer {
    let closed = async {
        closing.cancelled().await;
        sleep(Duration::from_millis(limits::CLOSING_MS)).await;
    };
    tokio::select! {
        answer = work => answer,
        () = closed => {
            let message = "hostd is shutting down; what was begun goes on, ask for it again";
            Err(Failure::new(ApiErrorCode::ShuttingDown, message))
        }
    }
}

async fn prepare(this: &Admitted, params: Params, mut request: Request) -> Result<Call, Failure> {
    let not_text = |_| Failure::new(ApiErrorCode::NotFound, "nothing has this name: it is not UTF-8");
    let params = params.map_err(not_text)?;
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = Query::parse(request.uri(), &this.route.query)?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let seat = request.extensions_mut().remove::<Arc<Seat>>();
    let (parts, incoming) = request.into_parts();
    let (body, stream) = match this.route.takes {
        Takes::Stream => (Bytes::new(), Some(incoming)),
        Takes::Json => {
            let schema = openapi::request_schema(this.route.path, &this.route.method);
            (body::check(body::read(incoming).await?, schema)?, None)
        }
        Takes::Nothing => (nothing(&body::read(incoming).await?)?, None),
    };
    let (api, who) = (this.api.clone(), this.who.clone());
    let (headers, stream, claimed_ms) = (parts.headers, Once::new(stream), None);
    Ok(Call { api, who, params, query, headers, body, stream, upgrade, seat, claimed_ms })
}

/// An empty object will do where nothing is expected.
fn nothing(body: &Bytes) -> Result<Bytes, Failure> {
    let empty = body.iter().all(|byte| b"{} \t\r\n".contains(byte));
    if empty { Ok(Bytes::new()) } else { Err(Failure::invalid("body", "this call takes no body")) }
}

impl Admitted {
    async fn conclude(&self, answer: Answer) -> Response {
        let response = answer.unwrap_or_else(|failure| spoken(failure, &self.subject, self.route.older));
        let refusal = response.extensions().get::<Refusal>().copied();
        let refused =
            refusal.is_some_and(|refusal| refusal.foreign || refusal.code == ApiErrorCode::Forbidden);
        let code = refusal.and_then(|refusal| word(refusal.code));
        let row = self.subject.row(Some(&self.who), response.status().as_u16(), code);
        if self.route.acts() {
            self.api.audit.acted(row).await;
        } else if refused {
            self.api.audit.refused(row);
        }
        response
    }
}

/// A failure as an answer; its cause goes to the log, once.
fn spoken(failure: Failure, subject: &Subject, older: bool) -> Response {
    let request = &subject.request_id;
    match (&failure.cause, failure.error.code) {
        (Some(cause), ApiErrorCode::Internal) => {
            error!(request, path = subject.path, cause, "a request failed");
        }
        (Some(cause), code) => {
            debug!(request, path = subject.path, ?code, cause, "a request failed");
        }
        (None, _) => {}
    }
    if older { older::respond(failure) } else { failure.into_response() }
}

/// The code as it is on the wire.
fn word(code: ApiErrorCode) -> Option<String> {
    let text = serde_json::to_value(code).ok()?;
    text.as_str().map(str::to_owned)
}
