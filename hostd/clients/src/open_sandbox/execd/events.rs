//! The events of a command, as execd sends them: JSON objects, each with an empty line after it.

use super::super::{error::SandboxError, limits};
use crate::command_stream::{CommandEvent, CommandStream, ExitStatus};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use hostd_store::Clock;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use protocol::Stream;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// One command that is streamed to a client.
struct EventStream {
    command: CommandStream,
    clock: Clock,
    started: Instant,
    stdout: Utf8Carry,
    stderr: Utf8Carry,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The id comes next.
    New,
    Running,
    Ended,
}

/// Streams a command from its beginning to its end.
pub fn follow(command: CommandStream) -> Response {
    let events = EventStream {
        command,
        clock: Clock::new(),
        started: Instant::now(),
        stdout: Utf8Carry::default(),
        stderr: Utf8Carry::default(),
        phase: Phase::New,
    };
    respond(Body::from_stream(stream::unfold(events, |mut events| async move {
        let frames = events.next().await?;
        Some((Ok::<_, Infallible>(frames), events))
    })))
}

/// Tells the id of a command that goes on by itself.
pub fn begun(command: &CommandStream) -> Response {
    let timestamp = Clock::new().now_ms();
    let init = json!({"type": "init", "text": command.exec(), "timestamp": timestamp});
    let complete = json!({"type": "execution_complete", "execution_time": 0, "timestamp": timestamp});
    respond(Body::from(framed(&[init, complete])))
}

fn respond(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub fn framed(events: &[Value]) -> Bytes {
    events.iter().flat_map(|event| format!("{event}\n\n").into_bytes()).collect()
}

impl EventStream {
    /// Returns the next events; `None` after the end.
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::New => {
                self.phase = Phase::Running;
                Some(framed(&[self.stamped(json!({"type": "init", "text": self.command.exec()}))]))
            }
            Phase::Running => {
                let silence = Duration::from_millis(limits::KEEPALIVE_MS);
                // Cancelling loses nothing, see `CommandStream`.
                let events = match timeout(silence, self.command.next()).await {
                    Err(_) => vec![json!({"type": "ping", "text": "pong"})],
                    Ok(Ok(Some(event))) => self.translated(event),
                    Ok(Ok(None)) => return None,
                    Ok(Err(failure)) => {
                        self.phase = Phase::Ended;
                        let SandboxError { code, message, .. } = failure.into();
                        vec![error(&code, &message, &message)]
                    }
                };
                let events: Vec<Value> = events.into_iter().map(|event| self.stamped(event)).collect();
                Some(framed(&events))
            }
            Phase::Ended => None,
        }
    }

    fn stamped(&self, mut event: Value) -> Value {
        event["timestamp"] = json!(self.clock.now_ms());
        event
    }

    fn translated(&mut self, event: CommandEvent) -> Vec<Value> {
        match event {
            CommandEvent::Output { stream: Stream::Stderr, bytes } => {
                output("stderr", &self.stderr.push(&bytes))
            }
            CommandEvent::Output { stream: Stream::Stdout | Stream::Pty, bytes } => {
                output("stdout", &self.stdout.push(&bytes))
            }
            CommandEvent::Lost { bytes } => {
                output("stderr", &format!("[{bytes} bytes of output were not stored]\n"))
            }
            CommandEvent::Ended(exit) => {
                self.phase = Phase::Ended;
                let mut events = output("stdout", &self.stdout.finish());
                events.extend(output("stderr", &self.stderr.finish()));
                let time = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
                events.push(ended(&ExitStatus::from(&exit), time));
                events
            }
        }
    }
}

fn output(kind: &str, text: &str) -> Vec<Value> {
    if text.is_empty() { vec![] } else { vec![json!({"type": kind, "text": text})] }
}

/// A command that fails ends with an error, whose value is its exit status.
fn ended(status: &ExitStatus, time_ms: u64) -> Value {
    match status {
        ExitStatus::Code(0) => json!({"type": "execution_complete", "execution_time": time_ms}),
        ExitStatus::Code(code) => {
            error("CommandExecError", &code.to_string(), &format!("exit status {code}"))
        }
        ExitStatus::NotStarted { code, message } => error("CommandExecError", &code.to_string(), message),
        ExitStatus::Lost => {
            let message = "the sandbox stopped under the command, whose end was not observed";
            error("SandboxStopped", message, message)
        }
    }
}

fn error(name: &str, value: &str, trace: &str) -> Value {
    json!({"type": "error", "error": {"ename": name, "evalue": value, "traceback": [trace]}})
}

/// Joins characters that are split between two chunks of output. What is not UTF-8 is replaced, as these events are text.
#[derive(Debug, Default)]
struct Utf8Carry {
    rest: Vec<u8>,
}

impl Utf8Carry {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let kept = incomplete_suffix(&self.rest);
        let rest = self.rest.split_off(self.rest.len() - kept);
        let whole = std::mem::replace(&mut self.rest, rest);
        String::from_utf8_lossy(&whole).into_owned()
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

/// Counts the bytes at the end that may be the beginning of a character.
fn incomplete_suffix(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let starts = (from..bytes.len()).rev();
    let is_cut = |at: &usize| match std::str::from_utf8(&bytes[*at..]) {
        Ok(_) => false,
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
    };
    starts.into_iter().find(is_cut).map_or(0, |at| bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_comes_with_its_rest() {
        let text = "aü€😀z".as_bytes();
        for cut in 0..=text.len() {
            let mut carry = Utf8Carry::default();
            let joined = carry.push(&text[..cut]) + &carry.push(&text[cut..]) + &carry.finish();
            assert_eq!(joined.as_bytes(), text, "{cut}");
        }
        let mut carry = Utf8Carry::default();
        assert_eq!(carry.push(b"a\xff\xfe"), "a\u{fffd}\u{fffd}");
        assert_eq!(carry.push(b"\xe2\x82"), "");
        assert_eq!(carry.finish(), "\u{fffd}");
    }

    #[test]
    fn the_end_is_a_completion_or_an_error_with_the_status() {
        assert_eq!(ended(&ExitStatus::Code(0), 5)["type"], "execution_complete");
        let failed = ended(&ExitStatus::Code(3), 5);
        assert_eq!((&failed["type"], &failed["error"]["evalue"]), (&json!("error"), &json!("3")));
        assert_eq!(ended(&ExitStatus::Lost, 5)["error"]["ename"], "SandboxStopped");
    }
}
