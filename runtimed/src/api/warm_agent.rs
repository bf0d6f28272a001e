//! Handlers of requests about agents that are started in advance.

use super::request_body;
use super::response::{HttpResponse, Refusal, no_content, ok};
use super::route::WarmVerb;
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Handle, WarmCommand};
use hyper::body::Incoming;
use protocol::WarmName;

pub async fn respond(
    handle: &Handle,
    name: WarmName,
    verb: WarmVerb,
    body: Incoming,
) -> Result<HttpResponse, Refusal> {
    match verb {
        WarmVerb::Put => {
            let request = Box::new(request_body::read(body, BODY_MAX_BYTES).await?);
            Ok(ok(&handle.ask(|reply| WarmCommand::Put { name, request, reply }).await?))
        }
        WarmVerb::Get => Ok(ok(&handle.ask(|reply| WarmCommand::View { name, reply }).await?)),
        WarmVerb::End => {
            handle.ask(|reply| WarmCommand::End { name, reply }).await?;
            Ok(no_content())
        }
    }
}
