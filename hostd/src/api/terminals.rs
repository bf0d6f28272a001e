//! Attaches a viewer to a terminal: the caller's connection becomes a WebSocket, relayed to a stream of
//! runtimed.

use super::{
    Api,
    access_lease::AccessLease,
    call::Call,
    connection_permits::ConnectionPermit,
    error::CallResult,
    execs, limits, relay,
    terminal_frames::TerminalFrames,
    terminal_socket::{self, SocketEnd, ViewerInput},
    websocket,
};
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use hostd_drivers::control::{Control, ControlError};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol::{
    ErrorCode, ExecId, Exit, TtySize,
    api::{SUBPROTOCOL, SandboxId, TerminalText},
};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, split},
    time::{Instant, sleep},
};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// The name of runtimed's stream protocol.
const PROTOCOL: &str = "slipway-terminal";

pub async fn attach(mut call: Call) -> CallResult {
    let id = call.exec_id()?;
    let query = call.query.runtimed_query(&["replay", "after", "skip"])?;
    let response = websocket::handshake(&call.headers, SUBPROTOCOL)?;
    let upgrade = call.take_upgrade()?;
    let permit = call.stream_permit()?;
    // The connection counts as active, not idle, while the terminal is attached.
    let active = call.permit.as_ref().map(ConnectionPermit::begin);
    let (sandbox, control) = call.control().await?;
    let path = format!("{}{query}", relay::runtimed_path(&["terminals", id.as_str()]));
    let inside = control.upgrade(&path, PROTOCOL, relay::CONTROL_TIMEOUT).await?;
    // Holding the control client keeps the sandbox awake while a viewer is attached.
    let (api, lease) = (call.api.clone(), call.lease.clone());
    let terminal = Terminal { api, lease, control, sandbox: sandbox.id, id };
    call.api.work.spawn(async move {
        let _held = (permit, active);
        if let Ok(outside) = upgrade.await {
            terminal.relay(outside, inside).await;
        }
    });
    Ok(response)
}

struct Terminal {
    api: Arc<Api>,
    lease: Arc<AccessLease>,
    control: Control,
    sandbox: SandboxId,
    id: ExecId,
}

impl Terminal {
    async fn relay(&self, outside: Upgraded, inside: Upgraded) {
        let (mut to_viewer, mut from_viewer) = terminal_socket::accept(TokioIo::new(outside)).await.split();
        let (from_inside, to_inside) = split(TokioIo::new(inside));
        let mut ended = tokio::select! {
            // Cancelling any branch loses nothing: the output is in the terminal's log, and a started frame
            // is finished before the next.
            ended = terminal_socket::send_frames(TerminalFrames::new(from_inside), &mut to_viewer) => ended,
            ended = self.relay_input(&mut from_viewer, to_inside) => ended,
            end = self.lease.ended() => SocketEnd::AccessEnded(end),
            () = self.api.closing.cancelled() => SocketEnd::ShuttingDown,
        };
        if ended == SocketEnd::OutputEnded {
            match self.exit_status().await {
                Some(exit) => {
                    drop(to_viewer.send(terminal_socket::text_message(&TerminalText::Exit(exit))).await);
                }
                None => ended = SocketEnd::ExitUnknown,
            }
        }
        let socket = to_viewer.reunite(from_viewer).expect("halves of one socket");
        terminal_socket::close(socket, &ended).await;
    }

    async fn relay_input(
        &self,
        from: &mut (impl Stream<Item = Result<Message, WsError>> + Unpin),
        mut to: impl AsyncWrite + Unpin,
    ) -> SocketEnd {
        loop {
            match terminal_socket::next_input(from).await {
                ViewerInput::Keys(bytes) => {
                    if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                        // The exec ended; its remaining output is still being sent.
                        return pending().await;
                    }
                }
                ViewerInput::Resize(size) => {
                    if let Err(ControlError::Refused(refused)) = self.resize(size).await
                        && refused.error.code == ErrorCode::InvalidRequest
                    {
                        return SocketEnd::InvalidMessage(refused.error.message);
                    }
                }
                ViewerInput::Closed(ended) => return ended,
            }
        }
    }

    async fn resize(&self, size: TtySize) -> Result<(), ControlError> {
        let body = serde_json::to_vec(&size).map_err(|error| ControlError::Malformed(error.to_string()))?;
        let path = relay::runtimed_path(&["execs", self.id.as_str(), "resize"]);
        relay::post(&self.control, &path, body.into()).await
    }

    /// Polls for the exit: when the sandbox stopped under the exec, its end is recorded a moment later.
    async fn exit_status(&self) -> Option<Exit> {
        let deadline = Instant::now() + Duration::from_millis(limits::EXIT_KNOWN_MAX_MS);
        loop {
            let exec = execs::find(&self.api, &self.sandbox, &self.id, None).await;
            let exit = exec.ok().and_then(|exec| exec.exit);
            if exit.is_some() || Instant::now() > deadline || self.api.closing.is_cancelled() {
                return exit;
            }
            sleep(Duration::from_millis(limits::EXIT_POLL_MS)).await;
        }
    }
}
