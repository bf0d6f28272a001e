//! A request, from its credential to its response.

use super::{
    call::Call, connect, create, error::E2bError, fork, lifecycle, limits, list, observe, query::Query,
};
use super::{
    route::{Operation, route},
    snapshots,
};
use crate::{ApiClient, Clients, Credential, respond, select::E2B_KEY, unread_body};
use axum::{body::Body, response::Response};
use hyper::{HeaderMap, Request, header::AUTHORIZATION};
use serde::de::IgnoredAny;

pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    let handler = async |request| answer(clients, request).await.unwrap_or_else(E2bError::respond);
    unread_body::handle(request, handler).await
}

async fn answer(clients: &Clients, request: Request<Body>) -> Result<Response, E2bError> {
    let operation = route(request.method(), request.uri().path())?;
    let key = key(request.headers());
    let credential = key.clone().map_or(Credential::Connection, Credential::Token);
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    let query = Query::parse(request.uri())?;
    let idempotency_key = request.headers().get("idempotency-key").cloned();
    // Nothing is read for a caller without a valid key.
    let _: IgnoredAny = api.get("/v1/identity").await?;
    let body = respond::read(request.into_body(), limits::BODY_MAX_BYTES).await?;
    perform(&Call { clients: clients.clone(), api, key, query, idempotency_key, body }, operation).await
}

async fn perform(call: &Call, operation: Operation) -> Result<Response, E2bError> {
    match operation {
        Operation::Create => create::create(call).await,
        Operation::ListAll => list::list_all(call).await,
        Operation::List => list::list(call).await,
        Operation::Get(id) => observe::get(call, &id).await,
        Operation::Kill(id) => lifecycle::kill(call, &id).await,
        Operation::SetTimeout(id) => lifecycle::set_timeout(call, &id).await,
        Operation::Refresh(id) => lifecycle::refresh(call, &id).await,
        Operation::Connect(id) => connect::connect(call, &id).await,
        Operation::Resume(id) => connect::resume(call, &id).await,
        Operation::Pause(id) => lifecycle::pause(call, &id).await,
        Operation::TakeSnapshot(id) => snapshots::take(call, &id).await,
        Operation::Fork(id) => fork::fork(call, &id).await,
        Operation::SetNetwork(id) => lifecycle::set_network(call, &id).await,
        Operation::Metrics(id) => observe::metrics(call, &id).await,
        Operation::LogLines(id) => observe::log_lines(call, &id).await,
        Operation::Logs(id) => observe::logs(call, &id).await,
        Operation::ListSnapshots => snapshots::list(call).await,
        Operation::DeleteTemplate(id) => snapshots::delete(call, &id).await,
    }
}

/// The key of the request; on E2B's own hostname, a token will do as well.
fn key(headers: &HeaderMap) -> Option<String> {
    if let Some(key) = headers.get(E2B_KEY) {
        return Some(key.to_str().unwrap_or_default().to_owned());
    }
    let value = headers.get(AUTHORIZATION)?;
    Some(hostd_core::bearer(value).unwrap_or_default().to_owned())
}
