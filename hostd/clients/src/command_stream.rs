//! A command in a sandbox: started, and followed to its end through the API.
//!
//! **Invariant:** what was read is never read twice, also where the connection to the sandbox broke in between: the
//! position in the output is kept, and reading goes on there.

use crate::{ApiClient, ApiFailure};
use axum::body::{Body, BodyDataStream};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::Method;
use protocol::{
    Chunk, Encoding, ExecId, Exit, Payload, Stream,
    api::{ApiErrorCode, ExecAnswer, ExecCreate, SandboxId},
};
use std::time::Duration;
use tokio::time::sleep;

/// The longest line of output: a chunk of runtimed, escaped.
const LINE_MAX_BYTES: usize = 4 << 20;
/// How often reading is begun again without any progress.
const RETRIES_MAX: u32 = 5;
const RETRY_MS: u64 = 200;
/// How long the exit of a command may take to be known after its output has ended.
const EXIT_WAIT: &str = "30s";
/// The exit status of a command that was ended by its timeout, as `timeout` of coreutils has it.
const TIMED_OUT_CODE: i32 = 124;
/// The exit status of a command that is not there, as shells have it.
const NOT_FOUND_CODE: i32 = 127;
/// What shells add to the number of a signal.
const SIGNAL_CODE_BASE: i32 = 128;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    Output {
        stream: Stream,
        bytes: Bytes,
    },
    /// Output that was not stored.
    Lost {
        bytes: u64,
    },
    /// The last event.
    Ended(Exit),
}

/// The end of a command as protocols with exit statuses alone have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    /// The program could not be started.
    NotStarted {
        code: i32,
        message: String,
    },
    /// The sandbox died under the command.
    Lost,
}

impl From<&Exit> for ExitStatus {
    fn from(exit: &Exit) -> Self {
        match exit {
            Exit::Exited { code } => Self::Code(*code),
            Exit::Signalled { signal } => Self::Code(SIGNAL_CODE_BASE + signal),
            Exit::Oom => Self::Code(SIGNAL_CODE_BASE + SIGKILL),
            Exit::TimedOut => Self::Code(TIMED_OUT_CODE),
            Exit::Cancelled => Self::Code(SIGNAL_CODE_BASE + SIGINT),
            Exit::SpawnFailed { message } => {
                Self::NotStarted { code: NOT_FOUND_CODE, message: message.clone() }
            }
            Exit::Lost => Self::Lost,
        }
    }
}

/// Follows one command. Every method may be cancelled and called again: nothing is lost.
pub struct CommandStream {
    api: ApiClient,
    /// The path of the exec in the API.
    path: String,
    exec: ExecId,
    /// The position after the last chunk.
    cursor: u64,
    lines: Option<Lines>,
    retries: u32,
    ended: bool,
}

impl CommandStream {
    /// Starts a command; a sleeping sandbox is woken for it.
    pub async fn start(api: ApiClient, sandbox: &SandboxId, create: ExecCreate) -> Result<Self, ApiFailure> {
        let create = ExecCreate { wait: Some(false), ..create };
        let answer: ExecAnswer = api.post(&format!("/v1/sandboxes/{sandbox}/execs"), &create).await?;
        Ok(Self::follow(api, sandbox, answer.id, 0))
    }

    /// Follows a command that was started before, from this position of its output.
    pub fn follow(api: ApiClient, sandbox: &SandboxId, exec: ExecId, cursor: u64) -> Self {
        let path = format!("/v1/sandboxes/{sandbox}/execs/{exec}");
        Self { api, path, exec, cursor, lines: None, retries: 0, ended: false }
    }

    pub fn exec(&self) -> &ExecId {
        &self.exec
    }

    /// Returns the next event; `None` after the end.
    pub async fn next(&mut self) -> Result<Option<CommandEvent>, ApiFailure> {
        while !self.ended {
            if self.lines.is_none() {
                self.lines = Some(self.open().await?);
            }
            let Some(lines) = &mut self.lines else { continue };
            let Ok(Some(line)) = lines.next().await else {
                self.begin_again().await?;
                continue;
            };
            let chunk = serde_json::from_slice(&line).map_err(|error| malformed(&error.to_string()))?;
            if let Some(event) = self.chunk(chunk).await? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    async fn open(&mut self) -> Result<Lines, ApiFailure> {
        let path = format!("{}/output?follow=1&after={}", self.path, self.cursor);
        let response = self.api.send(ApiClient::request(Method::GET, &path)).await?;
        Ok(Lines::new(response.into_body()))
    }

    /// Reads from the last position again, a few times.
    async fn begin_again(&mut self) -> Result<(), ApiFailure> {
        self.retries += 1;
        if self.retries > RETRIES_MAX {
            let message = "the output of the command broke off again and again";
            return Err(ApiFailure::new(ApiErrorCode::SandboxFailed, message));
        }
        sleep(Duration::from_millis(RETRY_MS)).await;
        self.lines = None;
        Ok(())
    }

    async fn chunk(&mut self, chunk: Chunk) -> Result<Option<CommandEvent>, ApiFailure> {
        match chunk {
            Chunk::Output { cursor, stream, offset: _, payload } => {
                self.cursor = cursor;
                self.retries = 0;
                Ok(Some(CommandEvent::Output { stream, bytes: decoded(payload)? }))
            }
            Chunk::Gap { cursor, lost } => {
                self.cursor = cursor;
                Ok(Some(CommandEvent::Lost { bytes: lost }))
            }
            Chunk::End { .. } => {
                let exec: ExecAnswer = self.api.get(&format!("{}?wait={EXIT_WAIT}", self.path)).await?;
                let Some(exit) = exec.exit else {
                    self.begin_again().await?;
                    return Ok(None);
                };
                self.ended = true;
                Ok(Some(CommandEvent::Ended(exit)))
            }
        }
    }
}

/// Everything that a command printed.
#[derive(Debug)]
pub struct CollectedOutput {
    pub stdout: BytesMut,
    pub stderr: BytesMut,
    pub exit: Exit,
}

impl CommandStream {
    /// Follows the command to its end. More output than this fails.
    pub async fn collect(mut self, max_bytes: usize) -> Result<CollectedOutput, ApiFailure> {
        let (mut stdout, mut stderr) = (BytesMut::new(), BytesMut::new());
        while let Some(event) = self.next().await? {
            match event {
                CommandEvent::Output { stream: Stream::Stderr, bytes } => stderr.extend_from_slice(&bytes),
                CommandEvent::Output { stream: Stream::Stdout | Stream::Pty, bytes } => {
                    stdout.extend_from_slice(&bytes);
                }
                CommandEvent::Lost { bytes } => {
                    let message = format!("{bytes} bytes of the output were not stored");
                    return Err(ApiFailure::new(ApiErrorCode::SandboxFailed, message));
                }
                CommandEvent::Ended(exit) => return Ok(CollectedOutput { stdout, stderr, exit }),
            }
            if stdout.len() + stderr.len() > max_bytes {
                let message = format!("the result is larger than {max_bytes} bytes");
                return Err(ApiFailure::new(ApiErrorCode::TooLarge, message));
            }
        }
        Err(malformed("its end is missing"))
    }

    /// Reads what there is after the position of this stream, up to this size, and returns the position after it.
    pub async fn read_now(mut self, max_bytes: usize) -> Result<(BytesMut, u64), ApiFailure> {
        let path = format!("{}/output?wake=0&after={}", self.path, self.cursor);
        let response = self.api.send(ApiClient::request(Method::GET, &path)).await?;
        let (mut lines, mut output) = (Lines::new(response.into_body()), BytesMut::new());
        while output.len() < max_bytes {
            let Ok(Some(line)) = lines.next().await else { break };
            match serde_json::from_slice(&line).map_err(|error| malformed(&error.to_string()))? {
                Chunk::Output { cursor, payload, .. } => {
                    output.extend_from_slice(&decoded(payload)?);
                    self.cursor = cursor;
                }
                Chunk::Gap { cursor, .. } => self.cursor = cursor,
                Chunk::End { .. } => break,
            }
        }
        Ok((output, self.cursor))
    }
}

fn decoded(payload: Payload) -> Result<Bytes, ApiFailure> {
    match payload.encoding {
        Encoding::Utf8 => Ok(payload.data.into()),
        Encoding::Base64 => {
            let bytes =
                BASE64_STANDARD.decode(payload.data).map_err(|error| malformed(&error.to_string()))?;
            Ok(bytes.into())
        }
    }
}

/// Output comes from a sandbox, which is not trusted to send what it should.
fn malformed(why: &str) -> ApiFailure {
    ApiFailure::new(ApiErrorCode::SandboxFailed, format!("the sandbox sent malformed output: {why}"))
}

/// The lines of a body.
struct Lines {
    body: BodyDataStream,
    buffer: BytesMut,
}

/// The body broke, or has a line that is too long.
struct BrokenBody;

impl Lines {
    fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), buffer: BytesMut::new() }
    }

    /// Returns the next line, without its end; what follows the last one is dropped.
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenBody> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(searched + at + 1);
                line.truncate(searched + at);
                return Ok(Some(line.freeze()));
            }
            searched = self.buffer.len();
            if searched > LINE_MAX_BYTES {
                return Err(BrokenBody);
            }
            match self.body.next().await {
                Some(Ok(data)) => self.buffer.extend_from_slice(&data),
                Some(Err(_)) => return Err(BrokenBody),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_joined_over_the_frames_of_a_body() {
        let frames: [&[u8]; 5] = [b"on", b"e\ntwo", b"\n", b"\nthree\nrest", b""];
        let frames = frames.map(|frame| Ok::<_, std::io::Error>(Bytes::from_static(frame)));
        let mut lines = Lines::new(Body::from_stream(futures_util::stream::iter(frames)));
        let mut read = Vec::new();
        while let Ok(Some(line)) = lines.next().await {
            read.push(line);
        }
        assert_eq!(read, ["one", "two", "", "three"]);
    }

    #[tokio::test]
    async fn an_endless_line_is_refused() {
        let frames = futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 1 << 16]))
        });
        assert!(Lines::new(Body::from_stream(frames)).next().await.is_err());
    }

    #[test]
    fn every_end_has_a_status() {
        for (exit, expected) in [
            (Exit::Exited { code: 3 }, ExitStatus::Code(3)),
            (Exit::Signalled { signal: 15 }, ExitStatus::Code(143)),
            (Exit::Oom, ExitStatus::Code(137)),
            (Exit::TimedOut, ExitStatus::Code(124)),
            (Exit::Cancelled, ExitStatus::Code(130)),
            (
                Exit::SpawnFailed { message: "no".to_owned() },
                ExitStatus::NotStarted { code: 127, message: "no".to_owned() },
            ),
            (Exit::Lost, ExitStatus::Lost),
        ] {
            assert_eq!(ExitStatus::from(&exit), expected);
        }
    }
}
