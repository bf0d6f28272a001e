//! Input, signals and sizes of processes that run.

use super::{
    find,
    messages::{
        Input, OfProcess, SendInputRequest, SendSignalRequest, Signal, SignalName, StreamInputRequest,
        UpdateRequest,
    },
    start,
};
use crate::{
    ApiFailure,
    e2b::{
        connect::{ClientStream, Code, ConnectError},
        envd::sandbox_api::SandboxApi,
    },
};
use axum::body::Body;
use hyper::Method;
use protocol::{
    ExecState, SignalRequest, SignalScope,
    api::{ApiErrorCode, ExecAnswer},
};

pub async fn send(api: &SandboxApi, request: SendInputRequest) -> Result<(), ConnectError> {
    let exec = running(find::exec(api, request.process.as_ref()).await?)?;
    write(api, &exec, request.input).await
}

/// Reads the process, then its input, message by message. Each is written before the next one is read.
pub async fn stream(api: &SandboxApi, body: Body) -> Result<(), ConnectError> {
    let mut messages = ClientStream::new(body);
    let mut exec: Option<ExecAnswer> = None;
    while let Some(message) = messages.next::<StreamInputRequest>().await? {
        match (message.start, message.data, &exec) {
            (Some(start), None, None) => exec = Some(running(find::of(api, &start).await?)?),
            (None, Some(data), Some(exec)) => write(api, exec, data.input).await?,
            (None, None, Some(_)) if message.keepalive.is_some() => {}
            (_, _, _) => {
                return Err(ConnectError::invalid(
                    "the first message names the process, the others have input",
                ));
            }
        }
    }
    match exec {
        Some(_) => Ok(()),
        None => Err(ConnectError::invalid("the stream names no process")),
    }
}

async fn write(api: &SandboxApi, exec: &ExecAnswer, input: Option<Input>) -> Result<(), ConnectError> {
    let Input { stdin, pty } = input.unwrap_or_default();
    let bytes = match (stdin, pty, exec.tty) {
        (Some(bytes), None, false) | (None, Some(bytes), true) => bytes.0,
        (Some(_), None, true) => {
            return Err(failed_precondition("the process has a PTY: send it input as pty"));
        }
        (None, Some(_), false) => {
            return Err(failed_precondition("the process has no PTY: send it input as stdin"));
        }
        (Some(_), Some(_), _) | (None, None, _) => {
            return Err(ConnectError::invalid("input is either stdin or pty"));
        }
    };
    put(api, exec, "", bytes).await
}

/// Closes standard input: the process reads its end.
pub async fn close(api: &SandboxApi, request: OfProcess) -> Result<(), ConnectError> {
    let exec = running(find::of(api, &request).await?)?;
    if exec.tty {
        return Err(failed_precondition("a PTY has no end of input: send it Ctrl+D"));
    }
    put(api, &exec, "?eof=1", Vec::new()).await
}

async fn put(api: &SandboxApi, exec: &ExecAnswer, query: &str, bytes: Vec<u8>) -> Result<(), ConnectError> {
    let mut request = api.request(Method::POST, &format!("/execs/{}/stdin{query}", exec.id.as_str()));
    *request.body_mut() = Body::from(bytes);
    api.send(request).await.map(drop).map_err(Into::into)
}

pub async fn resize(api: &SandboxApi, request: UpdateRequest) -> Result<(), ConnectError> {
    let exec = running(find::exec(api, request.process.as_ref()).await?)?;
    // A request without a size changes nothing.
    let Some(pty) = request.pty else { return Ok(()) };
    if !exec.tty {
        return Err(failed_precondition("the process has no PTY"));
    }
    Ok(api.order(&format!("/execs/{}/resize", exec.id.as_str()), &start::size_of(pty)?).await?)
}

pub async fn signal(api: &SandboxApi, request: SendSignalRequest) -> Result<(), ConnectError> {
    let exec = running(find::exec(api, request.process.as_ref()).await?)?;
    // A kill leaves nothing of the command; it may have started others, as shells do.
    let (signal, scope) = match request.signal {
        Some(Signal::Named(SignalName::Kill) | Signal::Number(9)) => ("KILL", SignalScope::Tree),
        Some(Signal::Named(SignalName::Term) | Signal::Number(15)) => ("TERM", SignalScope::Group),
        Some(Signal::Named(SignalName::Unspecified) | Signal::Number(_)) | None => {
            return Err(ConnectError::new(
                Code::Unimplemented,
                "the signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL",
            ));
        }
    };
    let request = SignalRequest { signal: signal.to_owned(), scope };
    let sent: Result<(), ApiFailure> =
        api.order(&format!("/execs/{}/signal", exec.id.as_str()), &request).await;
    sent.map_err(|failure| match failure.error.code {
        ApiErrorCode::NotRunning => ended(),
        _ => failure.into(),
    })
}

fn running(exec: ExecAnswer) -> Result<ExecAnswer, ConnectError> {
    match exec.state {
        ExecState::Running => Ok(exec),
        ExecState::Ended => Err(ended()),
    }
}

fn ended() -> ConnectError {
    ConnectError::new(Code::NotFound, "process not found: it has ended")
}

fn failed_precondition(message: &str) -> ConnectError {
    ConnectError::new(Code::FailedPrecondition, message)
}
