//! The output of an exec as one text that grows while the command runs.
//!
//! ```text
//! standard output, as it comes ──▶ ---stderr--- ──▶ standard error ──▶ exit_code: N
//! ```
//!
//! Nothing is buffered here: both streams are in the log of the exec. A text without its last line was cut off.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        relay::{self, CONTROL_TIMEOUT},
    },
    exec::exit_code,
};
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use hostd_drivers::control::{self, Control, ControlError};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method,
    body::Incoming,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use protocol::{ExecId, ExecView};
use tokio_util::sync::CancellationToken;

struct ExecStream {
    exec: ExecId,
    /// Also keeps the sandbox awake.
    control: Control,
    closing: CancellationToken,
    stage: StreamStage,
}

enum StreamStage {
    Output(Incoming),
    Errors(Incoming),
    Ended,
}

pub async fn stream(call: &Call, exec: &ExecId) -> CallResult {
    let id = call.sandbox().await?.id;
    let (_, control) = call.api.fleet.control(&id).await?;
    let stage = StreamStage::Output(open(&control, exec, "stream=stdout&follow=1").await?);
    let stream = ExecStream { exec: exec.clone(), control, closing: call.api.closing.clone(), stage };
    let chunks = unfold(Some(stream), |stream| async {
        let mut stream = stream?;
        match stream.next().await {
            Ok(chunk) => chunk.map(|chunk| (Ok(chunk), Some(stream))),
            // Abort the connection, so that the client does not take partial output for all of it.
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn open(control: &Control, exec: &ExecId, query: &str) -> Result<Incoming, ControlError> {
    let path = format!("{}?{query}", relay::runtimed_path(&["execs", exec.as_str(), "output"]));
    let request = control::request(&Method::GET, &path)
        .header(ACCEPT, "application/octet-stream")
        .body(Empty::new().boxed())
        .map_err(|error| ControlError::Malformed(error.to_string()))?;
    Ok(control.stream(request, CONTROL_TIMEOUT).await?.into_body())
}

impl ExecStream {
    /// The next chunk of the text; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let closing = self.closing.clone();
        tokio::select! {
            // Unread output is still in the log.
            () = closing.cancelled() => Err("hostd is shutting down".into()),
            chunk = self.next_chunk() => chunk,
        }
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        match &mut self.stage {
            StreamStage::Output(body) => {
                if let Some(data) = data(body).await? {
                    return Ok(Some(data));
                }
                let errors = open(&self.control, &self.exec, "stream=stderr").await?;
                self.stage = StreamStage::Errors(errors);
                Ok(Some(Bytes::from_static(b"\n---stderr---\n")))
            }
            StreamStage::Errors(body) => {
                if let Some(data) = data(body).await? {
                    return Ok(Some(data));
                }
                self.stage = StreamStage::Ended;
                let view: ExecView = self
                    .control
                    .get(&relay::runtimed_path(&["execs", self.exec.as_str()]), CONTROL_TIMEOUT)
                    .await?;
                let exit = view.exit.ok_or("the output ended before the command")?;
                let code = exit_code(&exit).map_err(|failure: CallError| failure.error.message)?;
                Ok(Some(format!("\nexit_code: {code}\n").into()))
            }
            StreamStage::Ended => Ok(None),
        }
    }
}

/// Returns the next data frame; other frames are skipped.
async fn data(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
