//! Sends the output of a process, and its end. The log of the exec has every byte: a client that connects again is sent what
//! may not have reached one.

use super::{Context, end, find, messages::OfProcess};
use crate::{
    ApiFailure,
    e2b::{
        connect::{Code, ConnectError, Sink},
        envd::{limits::OUTPUT_LINE_MAX_BYTES, sandbox_api::SandboxApi},
    },
};
use axum::body::Body;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::Method;
use protocol::{
    Chunk, Encoding, ExecId, Payload, Stream,
    api::{ApiErrorCode, ExecAnswer},
};
use std::borrow::Cow;

/// A process whose output is sent.
pub struct Follow {
    pub id: ExecId,
    pub pid: i32,
    /// The first position that is sent.
    pub after: u64,
}

/// Connects to a process that was started before.
pub async fn connect(context: Context, request: OfProcess, sink: Sink) -> Result<(), ConnectError> {
    let api = &context.sandbox.api;
    let exec = find::of(api, &request).await?;
    let not_found = || ConnectError::new(Code::NotFound, "process not found");
    let after = context.state.deliveries.resume_at(api.sandbox, &exec.id);
    let pid = exec.pid.ok_or_else(not_found)?;
    follow(&context, &sink, Follow { id: exec.id, pid, after }).await
}

/// Sends the start, the output from a position on, and the end.
pub async fn follow(context: &Context, sink: &Sink, mut process: Follow) -> Result<(), ConnectError> {
    sink.send(format!(r#"{{"event":{{"start":{{"pid":{}}}}}}}"#, process.pid).as_bytes()).await;
    let api = &context.sandbox.api;
    let mut output = open(api, &mut process).await?;
    loop {
        match output.next().await? {
            Chunk::Output { cursor, stream, payload, .. } => {
                sink.send(&data_event(stream, &payload)).await;
                context.state.deliveries.handed_over(api.sandbox, &process.id, cursor);
            }
            // The log has what could be stored of it.
            Chunk::Gap { .. } => {}
            Chunk::End { ended: true, .. } => break,
            Chunk::End { ended: false, .. } => return Err(cut(api)),
        }
    }
    let exec: ExecAnswer = api.get(&format!("/execs/{}?wait=30s", process.id.as_str())).await?;
    let exit = exec.exit.ok_or_else(|| cut(api))?;
    sink.send(end::event(&exit)?.to_string().as_bytes()).await;
    Ok(())
}

async fn open(api: &SandboxApi, process: &mut Follow) -> Result<OutputLines, ConnectError> {
    match output_from(api, process).await {
        Err(failure) if failure.error.code == ApiErrorCode::HistoryGone => {
            let oldest = failure.error.detail.oldest.as_deref().and_then(|oldest| oldest.parse().ok());
            process.after = oldest.ok_or(failure)?;
            Ok(output_from(api, process).await?)
        }
        opened => Ok(opened?),
    }
}

async fn output_from(api: &SandboxApi, process: &Follow) -> Result<OutputLines, ApiFailure> {
    let rest = format!("/execs/{}/output?follow=1&after={}", process.id.as_str(), process.after);
    let response = api.send(api.request(Method::GET, &rest)).await?;
    Ok(OutputLines { body: response.into_body(), rest: BytesMut::new(), sandbox: api.clone() })
}

/// Lines of output as the API streams them.
struct OutputLines {
    body: Body,
    rest: BytesMut,
    sandbox: SandboxApi,
}

impl OutputLines {
    async fn next(&mut self) -> Result<Chunk, ConnectError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(searched + end + 1);
                return serde_json::from_slice(&line).map_err(|_| cut(&self.sandbox));
            }
            searched = self.rest.len();
            if searched > OUTPUT_LINE_MAX_BYTES {
                return Err(cut(&self.sandbox));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => return Err(cut(&self.sandbox)),
            }
        }
    }
}

/// Output stopped before the process did; the client asks whether the sandbox is there, and connects again.
fn cut(api: &SandboxApi) -> ConnectError {
    let message = format!("the connection to sandbox {} ended before the stream completed", api.sandbox);
    ConnectError::new(Code::Unavailable, message)
}

fn data_event(stream: Stream, payload: &Payload) -> Vec<u8> {
    let name = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Pty => "pty",
    };
    let encoded: Cow<'_, str> = match payload.encoding {
        Encoding::Utf8 => BASE64_STANDARD.encode(&payload.data).into(),
        Encoding::Base64 => payload.data.as_str().into(),
    };
    // Base64 needs no escapes.
    format!(r#"{{"event":{{"data":{{"{name}":"{encoded}"}}}}}}"#).into_bytes()
}
