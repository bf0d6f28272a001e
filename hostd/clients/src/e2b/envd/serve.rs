//! The routes of one sandbox.

use super::{
    auth::{self, Authorized, Found, Target},
    files::{self, Operation, Signed},
    filesystem, http_error,
    http_error::HttpError,
    info, process, refuse,
    refuse::refuse,
    user,
};
use crate::{
    Clients,
    e2b::{
        connect::{self, CallKind, CallOptions, Code, ConnectError},
        interpreter,
    },
    respond,
    select::ENVD_PORT,
};
use axum::{body::Body, response::Response};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use std::collections::HashMap;

/// A path of the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Health,
    Metrics,
    Envs,
    Files,
    Compose,
    Process(process::Method),
    Filesystem(filesystem::Method),
}

fn route(path: &str) -> Option<Route> {
    match path {
        "/health" => return Some(Route::Health),
        "/metrics" => return Some(Route::Metrics),
        "/envs" => return Some(Route::Envs),
        "/files" => return Some(Route::Files),
        "/files/compose" => return Some(Route::Compose),
        _ => {}
    }
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    match service {
        "process.Process" => process::Method::parse(method).map(Route::Process),
        "filesystem.Filesystem" => filesystem::Method::parse(method).map(Route::Filesystem),
        _ => None,
    }
}

pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    let Some(target) = Target::of(&request) else {
        let error = HttpError::bad_request("name the sandbox: by E2b-Sandbox-Id, or by the host <port>-<id>");
        return refuse(request.into_body(), error.respond()).await;
    };
    let found = match auth::find(clients, &target.sandbox).await {
        Ok(found) => found,
        Err(gone) => return refuse(request.into_body(), *gone).await,
    };
    if target.is_interpreter() {
        let (head, body) = request.into_parts();
        return match auth::authorize_interpreter(clients, &head, found).await {
            Ok(sandbox) => interpreter::serve(clients, &sandbox, Request::from_parts(head, body)).await,
            Err(error) => refuse(body, error.respond()).await,
        };
    }
    if target.port != ENVD_PORT {
        let closed = http_error::port_closed(&found.record.id, target.port);
        return refuse(request.into_body(), closed).await;
    }
    let Some(route) = route(request.uri().path()) else {
        return refuse(request.into_body(), unknown_path()).await;
    };
    match route {
        Route::Health if matches!(*request.method(), Method::GET | Method::HEAD) => {
            respond::empty(StatusCode::NO_CONTENT)
        }
        Route::Health => refuse(request.into_body(), method_not_allowed("GET")).await,
        Route::Files => Box::pin(serve_files(clients, request, found)).await.unwrap_or_else(|error| {
            // A part of the body may not have been read.
            let mut response = error.respond();
            refuse::closes(&mut response);
            response
        }),
        Route::Metrics | Route::Envs | Route::Compose | Route::Process(_) | Route::Filesystem(_) => {
            let (head, body) = request.into_parts();
            let sandbox = match auth::authorize(clients, &head, found).await {
                Ok(sandbox) => sandbox.check_key().await.map(|()| sandbox),
                Err(error) => Err(error),
            };
            match sandbox {
                // Large: it holds the calls of each method.
                Ok(sandbox) => {
                    let request = Request::from_parts(head, body);
                    Box::pin(serve_authorized(clients, route, sandbox, request)).await
                }
                Err(error) => refuse(body, error.respond()).await,
            }
        }
    }
}

async fn serve_authorized(
    clients: &Clients,
    route: Route,
    sandbox: Authorized,
    request: Request<Body>,
) -> Response {
    let expected = match route {
        Route::Metrics | Route::Envs | Route::Health | Route::Files => "GET",
        Route::Compose | Route::Process(_) | Route::Filesystem(_) => "POST",
    };
    if request.method().as_str() != expected {
        return refuse(request.into_body(), method_not_allowed(expected)).await;
    }
    if matches!(route, Route::Metrics | Route::Envs | Route::Compose)
        && let Err(error) = user::check(request.headers())
    {
        return refuse(request.into_body(), HttpError::from(error).respond()).await;
    }
    let answer = match route {
        Route::Metrics => info::metrics(&sandbox, clients.parts.clock.now_ms()).await,
        Route::Envs => info::envs(&sandbox).await,
        Route::Compose => files::compose(sandbox, request.into_body()).await,
        Route::Process(method) => {
            return call(method.kind(), request, async |options, body| {
                let context = process::Context { sandbox, state: clients.envd.clone(), options };
                process::serve(method, context, body).await
            })
            .await;
        }
        Route::Filesystem(method) => {
            return call(method.kind(), request, async |options, body| {
                filesystem::serve(method, sandbox, clients.envd.clone(), options, body).await
            })
            .await;
        }
        Route::Health | Route::Files => return unknown_path(),
    };
    answer.unwrap_or_else(|error| error.respond())
}

/// A Connect call whose headers are as they must be.
async fn call(
    kind: CallKind,
    request: Request<Body>,
    serve: impl AsyncFnOnce(CallOptions, Body) -> Response,
) -> Response {
    let options = CallOptions::parse(kind, request.headers());
    let checked = options.and_then(|options| {
        user::check(request.headers()).map_err(|error| Ok(error.into()))?;
        Ok(options)
    });
    match checked {
        Ok(options) => within(kind, options, serve(options, request.into_body())).await,
        Err(Ok(error)) => refuse(request.into_body(), connect::failed(kind, &error)).await,
        Err(Err(_)) => refuse(request.into_body(), connect::unsupported_media_type(kind)).await,
    }
}

/// Ends a call with one message at its deadline; streams have theirs in the body.
async fn within(kind: CallKind, options: CallOptions, answer: impl Future<Output = Response>) -> Response {
    match (kind, options.timeout) {
        (CallKind::Unary, Some(timeout)) => {
            tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
                connect::failed(
                    kind,
                    &ConnectError::new(Code::DeadlineExceeded, "the timeout of the call has passed"),
                )
            })
        }
        (CallKind::Unary, None) | (CallKind::ServerStream | CallKind::ClientStream, _) => answer.await,
    }
}

async fn serve_files(clients: &Clients, request: Request<Body>, found: Found) -> Result<Response, HttpError> {
    let (head, body) = request.into_parts();
    let query = query_of(head.uri.query().unwrap_or_default());
    let operation = match head.method {
        Method::GET | Method::HEAD => Operation::Read,
        Method::POST => Operation::Write,
        _ => return Ok(method_not_allowed("GET, POST")),
    };
    let sandbox = match Signed::of(&query) {
        // A signature is for clients that have no token.
        Some(signed) if !head.headers.contains_key(crate::select::E2B_SANDBOX_TOKEN) => {
            let now_s = clients.parts.clock.now_ms() / 1000;
            let check = |token: &str| signed.check(operation, token, now_s);
            auth::authorize_signed(clients, &head, found, check).await?
        }
        Some(_) | None => auth::authorize(clients, &head, found).await?,
    };
    user::check_name(query.get("username").map(String::as_str))?;
    user::check(&head.headers)?;
    let path = query.get("path").map(String::as_str);
    match operation {
        Operation::Read => {
            let path = files::parse(path.unwrap_or_default())?;
            files::download(&sandbox, head.method, &path, &head.headers).await
        }
        Operation::Write => files::upload(&sandbox, path, &head.headers, body).await,
    }
}

/// The parameters of a URL. Of one that occurs twice the first counts.
fn query_of(query: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        found.entry(name.into_owned()).or_insert_with(|| value.into_owned());
    }
    found
}

fn unknown_path() -> Response {
    let message = "no such path or method of this sandbox";
    respond::json(StatusCode::NOT_FOUND, &json!({"code": Code::Unimplemented.name(), "message": message}))
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response =
        HttpError::new(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed} here")).respond();
    response.headers_mut().insert(hyper::header::ALLOW, hyper::header::HeaderValue::from_static(allowed));
    response
}
