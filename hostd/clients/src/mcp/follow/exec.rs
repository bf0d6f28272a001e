//! A command and its output. With progress, each chunk is one notification, so that the client sees every byte once;
//! without, only the end is waited for.

use super::follower::{Progress, Reopening, Step};
use crate::{
    ApiClient, ApiFailure,
    mcp::{address::Address, call::Call, limits, lines::Lines, tools::exec_result},
};
use hyper::{
    Method,
    header::{ACCEPT, HeaderValue},
};
use protocol::{
    Chunk, Encoding, ExecId, ExecState, Stream,
    api::{ApiErrorCode, ExecAnswer, SandboxId},
};
use rmcp::model::JsonObject;
use serde_json::json;
use std::time::Duration;

/// Key of what a notification says of its chunk: the stream, and its bytes where they are not text.
const CHUNK_META: &str = "slipway/output";

pub struct ExecFollower {
    call: Call,
    path: String,
    position: u64,
    output: Output,
    /// Whether its output was read before: then a sandbox that was stopped meanwhile is not woken for it.
    opened: bool,
    reopening: Reopening,
}

enum Output {
    /// To be opened at the position.
    Closed,
    Open(Lines),
    /// Not wanted, gone or complete: only the end is waited for.
    Skipped,
}

impl ExecFollower {
    pub fn new(call: Call, sandbox: SandboxId, exec: &ExecId, position: u64) -> Self {
        let output = if call.progress.is_some() { Output::Closed } else { Output::Skipped };
        let path = format!("/v1/sandboxes/{sandbox}/execs/{exec}");
        Self { call, path, position, output, opened: false, reopening: Reopening::default() }
    }

    pub async fn next(&mut self) -> Step {
        loop {
            let step = match &mut self.output {
                Output::Closed => self.open().await,
                Output::Skipped => self.wait().await,
                Output::Open(lines) => match lines.next().await {
                    Ok(line) => self.read(&line),
                    Err(_) => {
                        self.output = Output::Closed;
                        self.reopening.after_cut().await
                    }
                },
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    async fn open(&mut self) -> Option<Step> {
        let address = Address::new(format!("{}/output", self.path)).query("follow", "1");
        let address = address.query("after", &self.position.to_string());
        let address = address.query_if("wake", self.opened.then_some("0")).build();
        let mut request = ApiClient::request(Method::GET, &address);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/x-ndjson"));
        match self.call.api.send(request).await {
            Ok(response) => {
                self.output = Output::Open(Lines::new(response.into_body()));
                self.opened = true;
                None
            }
            Err(failure) if is_output_gone(&failure) => {
                self.output = Output::Skipped;
                None
            }
            Err(failure) => self.reopening.after(failure).await,
        }
    }

    fn read(&mut self, line: &[u8]) -> Option<Step> {
        let Ok(chunk) = serde_json::from_slice::<Chunk>(line) else {
            self.output = Output::Skipped;
            return None;
        };
        self.reopening.reset();
        match chunk {
            Chunk::Output { cursor, stream, payload, .. } => {
                self.position = cursor;
                let mut meta = json!({"stream": stream_name(stream)});
                let message = match payload.encoding {
                    Encoding::Utf8 => payload.data,
                    Encoding::Base64 => {
                        meta["base64"] = payload.data.into();
                        String::new()
                    }
                };
                Some(self.progress(message, meta))
            }
            Chunk::Gap { cursor, lost } => {
                self.position = cursor;
                Some(self.progress(String::new(), json!({"lost_bytes": lost})))
            }
            Chunk::End { cursor, ended } => {
                self.position = cursor;
                self.output = if ended { Output::Skipped } else { Output::Closed };
                None
            }
        }
    }

    fn progress(&self, message: String, meta: serde_json::Value) -> Step {
        let meta = JsonObject::from_iter([(CHUNK_META.to_owned(), meta)]);
        Step::Progress(Progress { position: self.position, message, meta: Some(meta) })
    }

    async fn wait(&mut self) -> Option<Step> {
        let wait = format!("{}s", limits::EXEC_WAIT_S);
        let found =
            self.call.api.get::<ExecAnswer>(&Address::new(&self.path).query("wait", &wait).build()).await;
        match found {
            Ok(exec) if exec.state == ExecState::Ended => Some(Step::Done(Box::new(exec_result(&exec)))),
            Ok(_) => {
                self.reopening.reset();
                // A paused sandbox is answered for at once.
                tokio::time::sleep(Duration::from_millis(limits::LOOK_EVERY_MS)).await;
                None
            }
            Err(failure) => self.reopening.after(failure).await,
        }
    }
}

/// Whether the exec has no output any more, but may have a record.
fn is_output_gone(failure: &ApiFailure) -> bool {
    matches!(
        failure.error.code,
        ApiErrorCode::HistoryGone
            | ApiErrorCode::NotFound
            | ApiErrorCode::Gone
            | ApiErrorCode::NotRunning
            | ApiErrorCode::SandboxFailed
    )
}

fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Pty => "pty",
    }
}
