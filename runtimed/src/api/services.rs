//! Handlers of service requests.

use super::request_body;
use super::response::{HttpResponse, Refusal, ok};
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Command, Handle, LogHandle, LogKey, ServiceCommand, ServiceVerb};
use hyper::body::Incoming;
use protocol::{ServiceName, ServicesRequest};

pub async fn list(handle: &Handle) -> Result<HttpResponse, Refusal> {
    Ok(ok(&handle.ask(|reply| ServiceCommand::List { reply }).await?))
}

pub async fn put(handle: &Handle, body: Incoming) -> Result<HttpResponse, Refusal> {
    let ServicesRequest { services: specs } = request_body::read(body, BODY_MAX_BYTES).await?;
    Ok(ok(&handle.ask(|reply| ServiceCommand::Put { specs, reply }).await?))
}

pub async fn get(handle: &Handle, name: ServiceName) -> Result<HttpResponse, Refusal> {
    Ok(ok(&handle.ask(|reply| ServiceCommand::View { name, reply }).await?))
}

pub async fn drive(handle: &Handle, name: ServiceName, verb: ServiceVerb) -> Result<HttpResponse, Refusal> {
    Ok(ok(&handle.ask(|reply| ServiceCommand::Control { name, verb, reply }).await?))
}

pub async fn log(handle: &Handle, name: ServiceName) -> Result<LogHandle, Refusal> {
    let key = LogKey::Service(name);
    handle.ask(|reply| Command::Log { key, reply }).await
}
