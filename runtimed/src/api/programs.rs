//! Requests about programs.

use super::reply::{Answer, Refusal, ok};
use super::request;
use crate::core::request::check_programs;
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Command, Handle};
use hyper::body::Incoming;
use protocol::ProgramsRequest;

pub async fn find(handle: &Handle, body: Incoming) -> Result<Answer, Refusal> {
    let request: ProgramsRequest = request::read(body, BODY_MAX_BYTES).await?;
    check_programs(&request)?;
    Ok(ok(&handle.ask(|reply| Command::Programs { programs: request.programs, reply }).await?))
}
