//! Reads the output of an exec or the log of a service. Reconnects at the cursor of the last chunk, without gaps or
//! duplicates.

use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::{Failure, eprint_line},
    limits,
    retry::Retry,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use protocol::{Chunk, Encoding, Payload, api::ApiErrorCode};
use std::sync::Arc;

pub struct OutputStream {
    client: Arc<Client>,
    /// Request of the first connection, with `tail` where given.
    first_request: ApiRequest,
    /// Request of every later connection, to which the cursor is added.
    resume_request: ApiRequest,
    follow: bool,
    cursor: Option<u64>,
    lines: Option<BodyLines>,
    retry: Retry,
}

impl OutputStream {
    /// Creates a stream of the resource at `path`, starting `tail` lines before the end, or with everything.
    pub fn new(client: Arc<Client>, path: &str, follow: bool, tail: Option<u64>) -> Self {
        let read = ApiRequest::get(path).query_if("follow", follow.then_some(1));
        let first_request = read.clone().query_if("tail", tail);
        // A reconnect must not wake a sandbox that was stopped meanwhile.
        let resume_request = read.query("wake", 0);
        Self { client, first_request, resume_request, follow, cursor: None, lines: None, retry: Retry::new() }
    }

    /// Returns the next new chunk; `End` is the last.
    pub async fn next(&mut self) -> Result<Chunk, Failure> {
        loop {
            match self.try_next().await {
                Ok(Some(chunk)) => return Ok(chunk),
                Ok(None) => {}
                Err(error) if error.is(ApiErrorCode::HistoryGone) => self.skip_trimmed(&error)?,
                Err(error) => {
                    self.lines = None;
                    self.retry.backoff(error).await?;
                }
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<Chunk>, ClientError> {
        if self.lines.is_none() {
            let request = match self.cursor {
                Some(cursor) => self.resume_request.clone().query("after", cursor),
                None => self.first_request.clone(),
            };
            self.lines = Some(BodyLines::new(self.client.open(request).await?.into_body()));
        }
        let line = match &mut self.lines {
            Some(lines) => lines.next().await?,
            None => None,
        };
        let line = line.ok_or(ClientError::Incomplete)?;
        let chunk = serde_json::from_slice(&line)
            .map_err(|error| ClientError::UnexpectedResponse(error.to_string()))?;
        if matches!(chunk, Chunk::End { ended: false, .. }) && self.follow {
            // The sandbox or hostd is going away while the job still runs.
            return Err(ClientError::Incomplete);
        }
        Ok(self.record(chunk))
    }

    /// Records the cursor of a chunk, and drops a duplicate.
    fn record(&mut self, chunk: Chunk) -> Option<Chunk> {
        let (cursor, is_end) = match &chunk {
            Chunk::Output { cursor, .. } | Chunk::Gap { cursor, .. } => (*cursor, false),
            Chunk::End { cursor, .. } => (*cursor, true),
        };
        let new = self.cursor.is_none_or(|seen| cursor > seen);
        if new {
            self.retry.reset();
            self.cursor = Some(cursor);
        }
        (new || is_end).then_some(chunk)
    }

    fn skip_trimmed(&mut self, error: &ClientError) -> Result<(), Failure> {
        let oldest =
            error.api().and_then(|api| api.detail.oldest.as_deref()).and_then(|text| text.parse().ok());
        let oldest: u64 = oldest.ok_or_else(|| Failure::new(error.to_string()))?;
        if self.cursor.is_some_and(|cursor| oldest <= cursor) {
            return Err(Failure::new(error.to_string()));
        }
        eprint_line("slipway: older output was deleted; continuing with the oldest output that is kept");
        self.cursor = Some(oldest);
        self.lines = None;
        Ok(())
    }
}

/// Decodes a payload to bytes.
pub fn payload_bytes(payload: &Payload) -> Result<Bytes, Failure> {
    match payload.encoding {
        Encoding::Utf8 => Ok(Bytes::copy_from_slice(payload.data.as_bytes())),
        Encoding::Base64 => STANDARD
            .decode(&payload.data)
            .map(Bytes::from)
            .map_err(|error| ClientError::UnexpectedResponse(format!("base64: {error}")).into()),
    }
}

/// A response body line by line. A last line without a line feed is incomplete and dropped.
struct BodyLines {
    body: Incoming,
    buffer: BytesMut,
    /// Bytes of the buffer that are known to contain no line feed.
    searched: usize,
}

impl BodyLines {
    fn new(body: Incoming) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > limits::LINE_MAX_BYTES {
                return Err(ClientError::UnexpectedResponse("a line that is too long".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::ConnectionLost(error)),
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }
}
