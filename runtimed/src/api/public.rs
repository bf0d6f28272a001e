//! Handles requests of the sandboxed code: its own status and holds, nothing else. These clients are not
//! trusted, and cannot slow down the control socket.

use super::response::{HttpResponse, Refusal, no_content, ok, refuse};
use super::{request_body, route};
use crate::limits::{PUBLIC_BODY_MAX_BYTES, PUBLIC_HOLDS_MAX};
use crate::supervisor::{Command, Handle, HoldCommand};
use hyper::body::Incoming;
use hyper::{Method, Request};
use protocol::ErrorCode;

pub async fn handle_request(handle: &Handle, http: Request<Incoming>) -> Result<HttpResponse, Refusal> {
    let path = http.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match (http.method(), segments.as_slice()) {
        (&Method::GET, ["v1", "status"]) => Ok(ok(&handle.ask(|reply| Command::OwnStatus { reply }).await?)),
        (&Method::GET, ["v1", "holds"]) => Ok(ok(&handle.ask(|reply| HoldCommand::List { reply }).await?)),
        (&Method::PUT, ["v1", "holds", name]) => {
            let name = route::hold_name(name)?;
            let request = request_body::read_or_default(http.into_body(), PUBLIC_BODY_MAX_BYTES).await?;
            let at_most = PUBLIC_HOLDS_MAX;
            Ok(ok(&handle.ask(|reply| HoldCommand::Take { name, request, at_most, reply }).await?))
        }
        (&Method::DELETE, ["v1", "holds", name]) => {
            let name = route::hold_name(name)?;
            handle.ask(|reply| HoldCommand::Release { name, reply }).await?;
            Ok(no_content())
        }
        _ => Err(refuse(
            ErrorCode::NotFound,
            "this socket only has GET /v1/status, GET /v1/holds and PUT and DELETE /v1/holds/NAME",
        )),
    }
}
