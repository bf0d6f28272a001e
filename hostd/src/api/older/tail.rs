//! The output of an exec as one text that grows while the command runs.
//!
//! ```text
//! standard output, as it comes ──▶ ---stderr--- ──▶ standard error ──▶ exit_code: N
//! ```
//!
//! Nothing is kept here: both streams are in the log of the exec. A text without its last line was cut off.

use super::{
    super::{
        call::Call,
        failure::{Answer, Failure},
        pass::{self, WITHIN},
    },
    exec::exit_code,
};
use crate::control::{self, Control, ControlError};
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method,
    body::Incoming,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use protocol::{ExecId, ExecView};
use tokio_util::sync::CancellationToken;

struct Tail {
    exec: ExecId,
    /// Keeps the sandbox awake, too.
    control: Control,
    closing: CancellationToken,
    stage: Stage,
}

enum Stage {
    Output(Incoming),
    Errors(Incoming),
    Ended,
}

pub async fn stream(call: &Call, exec: &ExecId) -> Answer {
    let id = call.sandbox().await?.id;
    let (_, control) = call.api.fleet.control(&id).await?;
    let stage = Stage::Output(open(&control, exec, "stream=stdout&follow=1").await?);
    let tail = Tail { exec: exec.clone(), control, closing: call.api.closing.clone(), stage };
    let pieces = unfold(Some(tail), |tail| async {
        let mut tail = tail?;
        match tail.next().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), Some(tail))),
            // The connection is cut: nobody takes what came for all there is.
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn open(control: &Control, exec: &ExecId, query: &str) -> Result<Incoming, ControlError> {
    let path = format!("{}?{query}", pass::path(&["execs", exec.as_str(), "output"]));
    let request = control::request(&Method::GET, &path)
        .header(ACCEPT, "application/octet-stream")
        .body(Empty::new().boxed())
        .map_err(|error| ControlError::Garbled(error.to_string()))?;
    Ok(control.stream(request, WITHIN).await?.into_body())
}

impl Tail {
    /// The next piece of the text; nothing at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let closing = self.closing.clone();
        tokio::select! {
            // What was not read is still in the log.
            () = closing.cancelled() => Err("hostd is shutting down".into()),
            piece = self.piece() => piece,
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, BoxError> {
        match &mut self.stage {
            Stage::Output(body) => {
                if let Some(data) = data(body).await? {
                    return Ok(Some(data));
                }
                let errors = open(&self.control, &self.exec, "stream=stderr").await?;
                self.stage = Stage::Errors(errors);
                Ok(Some(Bytes::from_static(b"\n---stderr---\n")))
            }
            Stage::Errors(body) => {
                if let Some(data) = data(body).await? {
                    return Ok(Some(data));
                }
                self.stage = Stage::Ended;
                let view: ExecView =
                    self.control.get(&pass::path(&["execs", self.exec.as_str()]), WITHIN).await?;
                let exit = view.exit.ok_or("its output ended before it did")?;
                let code = exit_code(&exit).map_err(|failure: Failure| failure.error.message)?;
                Ok(Some(format!("\nexit_code: {code}\n").into()))
            }
            Stage::Ended => Ok(None),
        }
    }
}

/// Frames that are no data are skipped.
async fn data(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
