//! Handlers of program requests.

use super::request_body;
use super::response::{HttpResponse, Refusal, ok};
use crate::core::validation::check_programs;
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Command, Handle};
use hyper::body::Incoming;
use protocol::ProgramsRequest;

pub async fn find(handle: &Handle, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request: ProgramsRequest = request_body::read(body, BODY_MAX_BYTES).await?;
    check_programs(&request)?;
    Ok(ok(&handle.ask(|reply| Command::Programs { programs: request.programs, reply }).await?))
}
