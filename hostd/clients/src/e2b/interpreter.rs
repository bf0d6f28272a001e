//! E2B's code interpreter: code that runs in kernels of the sandbox, which keep their variables.
//!
//! ```text
//!  /execute, /contexts ─▶ an exec of slipway-interpreter, a program of the image `interpreter`
//!                              └─ its output: the status on the first line, then the body of the response
//! ```
//!
//! A client that leaves takes its code with it: the exec gets SIGTERM, and the kernel is interrupted.

mod running_code;
mod verb;

pub use running_code::RunningCodes;

use super::envd::{Authorized, HttpError};
use crate::{
    Clients,
    respond::{self, BodyError},
};
use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    Method, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use protocol::{
    Exit,
    api::{ExecAnswer, ExecCreate},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use verb::Verb;

/// The largest request: code, and variables for it.
const REQUEST_MAX_BYTES: usize = 8 << 20;
/// The line with the status.
const STATUS_MAX_BYTES: usize = 64 << 10;
const PROGRAM: &str = "slipway-interpreter";
const ABSENT: &str = "this sandbox has no code interpreter: create it from the template code-interpreter-v1, which is \
    the image interpreter (scripts/build-image interpreter)";

/// The first line of the program.
#[derive(Deserialize)]
struct Status {
    status: u16,
    #[serde(default)]
    message: String,
}

/// Whether the request has code to run.
pub fn runs_code(method: &Method, path: &str) -> bool {
    match Verb::of(method, path) {
        Some(Verb::Execute) => true,
        Some(Verb::Create | Verb::List | Verb::Remove { .. } | Verb::Restart { .. }) | None => false,
    }
}

pub async fn serve(clients: &Clients, sandbox: &Authorized, request: Request<Body>) -> Response {
    match run(clients, sandbox, request).await {
        Ok(response) => response,
        Err(error) => error.respond(),
    }
}

async fn run(clients: &Clients, sandbox: &Authorized, request: Request<Body>) -> Result<Response, HttpError> {
    if (request.method(), request.uri().path()) == (&Method::GET, "/health") {
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let verb = Verb::of(request.method(), request.uri().path());
    let verb =
        verb.ok_or_else(|| HttpError::new(StatusCode::NOT_FOUND, "the code interpreter has no such path"))?;
    let given = read_document(request.into_body()).await?;
    let home = clients.envd.homes.of(&sandbox.api).await;
    let codes = &clients.envd.codes;
    codes.interrupt_unfollowed(&sandbox.api).await?;
    let (code, id) = codes.begin(clients.parts.work.clone(), sandbox.api.clone());
    let create = ExecCreate {
        id: Some(id),
        argv: Some(vec![PROGRAM.to_owned(), verb.word().to_owned()]),
        cwd: Some(home.to_owned()),
        env: [("HOME".to_owned(), home.to_owned())].into_iter().collect(),
        stdin: Some(Value::Object(verb.document(given)).to_string()),
        wait: Some(false),
        ..ExecCreate::default()
    };
    let exec: ExecAnswer = match sandbox.api.post("/execs", &create).await {
        Ok(exec) => exec,
        Err(failure) => {
            // Refused, it has not started.
            if failure.status.is_client_error() {
                code.has_ended();
            }
            return Err(failure.into());
        }
    };
    let mut output = open_output(sandbox, &exec).await?;
    match first_line(&mut output).await {
        Some((status, rest)) => respond_with(&status, code.body(rest, output)),
        None => {
            code.has_ended();
            Err(why_silent(sandbox, &exec).await)
        }
    }
}

async fn read_document(body: Body) -> Result<Map<String, Value>, HttpError> {
    let whole = respond::read(body, REQUEST_MAX_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge(_) => HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        BodyError::Broken => HttpError::bad_request(error.to_string()),
        BodyError::TimedOut => HttpError::new(StatusCode::REQUEST_TIMEOUT, error.to_string()),
    })?;
    if whole.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(&whole)
        .map_err(|error| HttpError::bad_request(format!("not a JSON object: {error}")))
}

/// Returns the standard output of the program, as it comes.
async fn open_output(sandbox: &Authorized, exec: &ExecAnswer) -> Result<Body, HttpError> {
    let path = format!("/execs/{}/output?follow=1&stream=stdout", exec.id.as_str());
    let mut request = sandbox.api.request(Method::GET, &path);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/octet-stream"));
    Ok(sandbox.api.send(request).await?.into_body())
}

/// Reads the line with the status; returns it and what came after it. `None` where the program printed none.
async fn first_line(output: &mut Body) -> Option<(Status, Bytes)> {
    let mut read = BytesMut::new();
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let line = read.split_to(end + 1);
            return Some((serde_json::from_slice(&line).ok()?, read.freeze()));
        }
        if read.len() > STATUS_MAX_BYTES {
            return None;
        }
        if let Ok(data) = output.frame().await?.ok()?.into_data() {
            read.extend_from_slice(&data);
        }
    }
}

/// Why the program printed no status: it is not in the image, or it failed.
async fn why_silent(sandbox: &Authorized, exec: &ExecAnswer) -> HttpError {
    let ended = sandbox.api.get::<ExecAnswer>(&format!("/execs/{}?wait=10s", exec.id.as_str())).await;
    let exec = match ended {
        Ok(exec) => exec,
        Err(failure) => return failure.into(),
    };
    if let Some(Exit::SpawnFailed { .. }) = exec.exit {
        return HttpError::new(StatusCode::NOT_IMPLEMENTED, ABSENT);
    }
    let stderr = exec.stderr.unwrap_or_default();
    let last = stderr.trim_end().lines().next_back().unwrap_or("it printed nothing");
    HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the code interpreter failed: {last}"))
}

fn respond_with(status: &Status, body: Body) -> Result<Response, HttpError> {
    let code = StatusCode::from_u16(status.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !code.is_success() {
        return Err(HttpError::new(code, status.message.clone()));
    }
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
