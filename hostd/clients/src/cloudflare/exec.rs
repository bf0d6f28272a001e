//! Commands, as server-sent events: `stdout` and `stderr` with base64, then `exit` or `error`, once.

use super::{
    BridgeResult, SandboxCall, document,
    error::{BridgeCode, BridgeError},
    limits,
    paths::{self, BridgePath},
    session,
};
use crate::{
    command_stream::{CommandEvent, CommandStream, ExitStatus},
    shell_session::{SessionCommand, SessionName},
};
use axum::{body::Body, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::stream;
use hyper::{
    HeaderMap, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use protocol::{Stream, api::ExecCreate};
use serde::Deserialize;
use std::{convert::Infallible, time::Duration};
use tokio::time::timeout;

const SESSION_HEADERS: [&str; 2] = ["x-session-id", "session-id"];
/// What the client puts before a command that is to run as another user.
const SUDO: [&str; 2] = ["sudo", "-u"];
const SANDBOX_USER: &str = "sandbox";

#[derive(Debug, Deserialize)]
struct ExecBody {
    argv: Vec<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    cwd: Option<String>,
}

pub async fn run(call: SandboxCall<'_>, headers: &HeaderMap, body: Body) -> BridgeResult {
    let session = session_of(headers)?;
    let body: ExecBody = document(body, None).await?;
    if let Some(session) = &session {
        session.check(&call.api, &call.id).await.map_err(session::failed)?;
    }
    let create = create(body, session.as_ref())?;
    let command = CommandStream::start(call.api, &call.id, create).await;
    let command = command.map_err(|failure| BridgeError::of(failure, BridgeCode::ExecTransportError))?;
    let events = stream::unfold(Some(command), |command| async move {
        let mut command = command?;
        let (frame, last) = next_frame(&mut command).await;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), (!last).then_some(command)))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Returns the next event as it is sent, and whether it is the last.
async fn next_frame(command: &mut CommandStream) -> (String, bool) {
    // Cancelling loses nothing, see `CommandStream`.
    let Ok(next) = timeout(Duration::from_millis(limits::KEEPALIVE_MS), command.next()).await else {
        return (": keepalive\n\n".to_owned(), false);
    };
    match next {
        Ok(Some(event)) => frame(event),
        Ok(None) => (error_frame(&lost()), true),
        Err(failure) => (error_frame(&BridgeError::of(failure, BridgeCode::ExecTransportError)), true),
    }
}

fn frame(event: CommandEvent) -> (String, bool) {
    match event {
        CommandEvent::Output { stream: Stream::Stderr, bytes } => (output_frame("stderr", &bytes), false),
        CommandEvent::Output { stream: Stream::Stdout | Stream::Pty, bytes } => {
            (output_frame("stdout", &bytes), false)
        }
        CommandEvent::Lost { bytes } => (format!(": {bytes} bytes of output were not stored\n\n"), false),
        CommandEvent::Ended(exit) => match ExitStatus::from(&exit) {
            ExitStatus::Code(code) => (exit_frame(code), true),
            ExitStatus::NotStarted { code, message } => {
                (output_frame("stderr", format!("{message}\n").as_bytes()) + &exit_frame(code), true)
            }
            ExitStatus::Lost => (error_frame(&lost()), true),
        },
    }
}

fn output_frame(name: &str, bytes: &[u8]) -> String {
    format!("event: {name}\ndata: {}\n\n", BASE64_STANDARD.encode(bytes))
}

fn exit_frame(code: i32) -> String {
    format!("event: exit\ndata: {{\"exit_code\": {code}}}\n\n")
}

fn error_frame(error: &BridgeError) -> String {
    format!("event: error\ndata: {}\n\n", error.to_json())
}

fn lost() -> BridgeError {
    let message = "the sandbox stopped under the command, whose end was not observed";
    BridgeError::new(StatusCode::BAD_GATEWAY, BridgeCode::ExecError, message)
}

fn session_of(headers: &HeaderMap) -> Result<Option<SessionName>, BridgeError> {
    let given = SESSION_HEADERS.iter().find_map(|name| headers.get(*name));
    let Some(given) = given else { return Ok(None) };
    let name = SessionName::parse(given.to_str().unwrap_or_default());
    name.map(Some).map_err(|error| BridgeError::invalid(error.to_string()))
}

/// Returns the command that the API runs.
fn create(body: ExecBody, session: Option<&SessionName>) -> Result<ExecCreate, BridgeError> {
    let argv = as_sandbox_user(body.argv)?;
    if argv.is_empty() {
        return Err(BridgeError::invalid("argv must be a non-empty array"));
    }
    let argv: Vec<String> = argv.into_iter().map(paths::through_link).collect();
    let timeout_s = body.timeout_ms.map(timeout_s).transpose()?;
    let cwd = body.cwd.map(|cwd| BridgePath::parse(cwd.as_bytes())).transpose()?;
    if let Some(session) = session {
        // The directory of the session, unless the request has another.
        let cwd = cwd.as_ref().and_then(BridgePath::directory);
        let argv = session.argv(cwd, SessionCommand::Argv(argv));
        return Ok(ExecCreate { argv: Some(argv), timeout_s, ..ExecCreate::default() });
    }
    let place = working_directory(cwd)?;
    Ok(ExecCreate { argv: Some(argv), timeout_s, ..place })
}

/// Returns an exec whose working directory is this one, by the name that clients know where the image has it.
pub fn working_directory(cwd: Option<BridgePath>) -> Result<ExecCreate, BridgeError> {
    let cwd = cwd.map_or_else(|| BridgePath::parse(b""), Ok)?;
    let inside = cwd.inside().ok_or_else(|| BridgeError::invalid("cwd must be UTF-8"))?;
    // Shells take this name of the directory where it is right, and find the other where it is not.
    let env = [("PWD".to_owned(), cwd.shown())].into();
    Ok(ExecCreate { cwd: Some(inside), env, ..ExecCreate::default() })
}

#[allow(clippy::cast_precision_loss)] // A timeout has far fewer digits.
fn timeout_s(ms: u64) -> Result<f64, BridgeError> {
    if !(1..=limits::TIMEOUT_MAX_MS).contains(&ms) {
        let message = format!("timeout_ms must be 1 to {}", limits::TIMEOUT_MAX_MS);
        return Err(BridgeError::invalid(message));
    }
    Ok(ms as f64 / 1000.0)
}

/// Every command runs as the sandbox's user: the client may name it, and no other. Variables of the command come before.
fn as_sandbox_user(argv: Vec<String>) -> Result<Vec<String>, BridgeError> {
    let variables = match argv.split_first() {
        Some((first, rest)) if first == "env" => {
            1 + rest.iter().take_while(|argument| argument.contains('=')).count()
        }
        Some(_) | None => 0,
    };
    let (before, command) = argv.split_at(variables);
    let [sudo, option, user, separator, command @ ..] = command else { return Ok(argv) };
    if [sudo, option] != SUDO || separator != "--" {
        return Ok(argv);
    }
    if user != SANDBOX_USER {
        let message = format!("commands run as the user {SANDBOX_USER}, not as {user:?}");
        return Err(BridgeError::new(StatusCode::FORBIDDEN, BridgeCode::InvalidRequest, message));
    }
    Ok([before, command].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Exit;

    fn body(argv: &[&str]) -> ExecBody {
        let argv = argv.iter().map(|argument| (*argument).to_owned()).collect();
        ExecBody { argv, timeout_ms: None, cwd: None }
    }

    #[test]
    fn a_command_becomes_one_of_the_api() {
        let made = create(body(&["ls", "-la", "--", "/workspace"]), None).expect("good");
        assert_eq!(made.argv.expect("given").join(" "), "ls -la -- /workspace/");
        assert_eq!(made.cwd.as_deref(), Some("/home/sandbox/workspace/app"));
        assert_eq!(made.env["PWD"], "/workspace");
        let made =
            create(ExecBody { timeout_ms: Some(1500), cwd: Some("sub".to_owned()), ..body(&["pwd"]) }, None);
        let made = made.expect("good");
        assert_eq!(made.timeout_s, Some(1.5));
        assert_eq!(made.cwd.as_deref(), Some("/home/sandbox/workspace/app/sub"));
        for bad in [
            body(&[]),
            body(&["sudo", "-u", "root", "--", "id"]),
            body(&["env", "A=b", "sudo", "-u", "root", "--", "id"]),
            ExecBody { timeout_ms: Some(0), ..body(&["id"]) },
            ExecBody { cwd: Some("/etc".to_owned()), ..body(&["id"]) },
        ] {
            let text = format!("{bad:?}");
            assert!(create(bad, None).is_err(), "{text}");
        }
        let made = create(body(&["sudo", "-u", "sandbox", "--", "id", "-u"]), None).expect("itself");
        assert_eq!(made.argv.expect("given"), ["id", "-u"]);
        let made = create(body(&["env", "A=b", "sudo", "-u", "sandbox", "--", "id"]), None).expect("itself");
        assert_eq!(made.argv.expect("given"), ["env", "A=b", "id"]);
    }

    #[test]
    fn events_are_framed_and_the_end_comes_once() {
        let output = |stream, text: &'static str| CommandEvent::Output { stream, bytes: text.into() };
        for (event, expected) in [
            (output(Stream::Stdout, "a\n"), ("event: stdout\ndata: YQo=\n\n", false)),
            (output(Stream::Stderr, "e"), ("event: stderr\ndata: ZQ==\n\n", false)),
            (
                CommandEvent::Ended(Exit::Exited { code: 3 }),
                ("event: exit\ndata: {\"exit_code\": 3}\n\n", true),
            ),
        ] {
            let (text, last) = frame(event);
            assert_eq!((text.as_str(), last), expected);
        }
        let (text, last) = frame(CommandEvent::Ended(Exit::Lost));
        assert!(last && text.starts_with("event: error\ndata: {\"error\":"), "{text}");
    }
}
