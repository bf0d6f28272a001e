//! A viewer of a terminal: the caller's connection becomes a WebSocket, joined to a stream of runtimed.

use super::{
    Api,
    admission::Seat,
    call::Call,
    execs,
    failure::{Answer, Failure},
    limits, pass,
    pieces::Pieces,
    viewer::{self, Ended, Heard},
};
use crate::control::{Control, ControlError};
use axum::{body::Body, response::Response};
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use hyper::{
    HeaderMap, Request,
    header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use protocol::{
    ErrorCode, ExecId, Exit, TtySize,
    api::{ApiErrorCode, SUBPROTOCOL, SandboxId, TerminalText},
};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, split},
    time::{Instant, sleep},
};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, handshake::server::create_response};

/// What runtimed calls its side.
const PROTOCOL: &str = "slipway-terminal";

pub async fn attach(mut call: Call) -> Answer {
    let id = call.exec_id()?;
    let query = call.query.passed_on(&["replay", "after", "skip"])?;
    let response = handshake(&call.headers)?;
    let upgrade = call.upgrade.take().ok_or_else(|| no_websocket("the connection cannot be upgraded"))?;
    let place = call.viewer()?;
    // The connection counts as long as the terminal is looked at, and is not taken for an idle one.
    let busy = call.seat.as_ref().map(Seat::begin);
    let (sandbox, control) = call.control().await?;
    let path = format!("{}{query}", pass::path(&["terminals", id.as_str()]));
    let inside = control.upgrade(&path, PROTOCOL, pass::WITHIN).await?;
    // The way is held, so that the sandbox stays awake while somebody looks.
    let terminal = Terminal { api: call.api.clone(), control, sandbox: sandbox.id, id };
    call.api.work.spawn(async move {
        let _held = (place, busy);
        if let Ok(outside) = upgrade.await {
            terminal.look(outside, inside).await;
        }
    });
    Ok(response)
}

/// What the caller offers to speak.
pub fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

fn handshake(headers: &HeaderMap) -> Answer {
    let mut request = Request::new(());
    *request.headers_mut() = headers.clone();
    let mut response = create_response(&request).map_err(|error| no_websocket(&error.to_string()))?;
    let mut offered = subprotocols(headers).peekable();
    if offered.peek().is_some() {
        if !offered.any(|name| name == SUBPROTOCOL) {
            let message =
                format!("the subprotocol is {SUBPROTOCOL}; offer it, beside the token if there is one");
            return Err(Failure::new(ApiErrorCode::InvalidRequest, message));
        }
        // Never the token.
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok::<Response, Failure>(response.map(|()| Body::empty()))
}

fn no_websocket(why: &str) -> Failure {
    let message = format!("open this as a WebSocket (Upgrade: websocket): {why}");
    Failure::new(ApiErrorCode::InvalidRequest, message)
}

struct Terminal {
    api: Arc<Api>,
    control: Control,
    sandbox: SandboxId,
    id: ExecId,
}

impl Terminal {
    async fn look(&self, outside: Upgraded, inside: Upgraded) {
        let (mut to_viewer, mut from_viewer) = viewer::accept(TokioIo::new(outside)).await.split();
        let (from_inside, to_inside) = split(TokioIo::new(inside));
        let mut ended = tokio::select! {
            // Cutting any of them off loses nothing: what the terminal showed is in its log, and a frame that
            // was begun is finished before the next.
            ended = viewer::show(Pieces::new(from_inside), &mut to_viewer) => ended,
            ended = self.listen(&mut from_viewer, to_inside) => ended,
            () = self.api.closing.cancelled() => Ended::ShuttingDown,
        };
        if ended == Ended::Shown {
            match self.exit().await {
                Some(exit) => drop(to_viewer.send(viewer::told(&TerminalText::Exit(exit))).await),
                None => ended = Ended::Gone,
            }
        }
        let socket = to_viewer.reunite(from_viewer).expect("halves of the same");
        viewer::part(socket, &ended).await;
    }

    async fn listen(
        &self,
        from: &mut (impl Stream<Item = Result<Message, WsError>> + Unpin),
        mut to: impl AsyncWrite + Unpin,
    ) -> Ended {
        loop {
            match viewer::hear(from).await {
                Heard::Typed(bytes) => {
                    if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                        // It ended; what it still printed is being shown.
                        return pending().await;
                    }
                }
                Heard::Resize(size) => {
                    if let Err(ControlError::Refused(refused)) = self.resize(size).await
                        && refused.error.code == ErrorCode::InvalidRequest
                    {
                        return Ended::Strange(refused.error.message);
                    }
                }
                Heard::End(ended) => return ended,
            }
        }
    }

    async fn resize(&self, size: TtySize) -> Result<(), ControlError> {
        let body = serde_json::to_vec(&size).map_err(|error| ControlError::Garbled(error.to_string()))?;
        let path = pass::path(&["execs", self.id.as_str(), "resize"]);
        pass::tell(&self.control, &path, body.into()).await
    }

    /// When the sandbox went away under it, that is known only a moment later.
    async fn exit(&self) -> Option<Exit> {
        let deadline = Instant::now() + Duration::from_millis(limits::EXIT_KNOWN_WITHIN_MS);
        loop {
            let exec = execs::look(&self.api, &self.sandbox, &self.id, None).await;
            let exit = exec.ok().and_then(|exec| exec.exit);
            if exit.is_some() || Instant::now() > deadline || self.api.closing.is_cancelled() {
                return exit;
            }
            sleep(Duration::from_millis(limits::EXIT_LOOK_MS)).await;
        }
    }
}
