//! Attaches to a terminal until it ends or the user detaches, across any number of connections.
//!
//! ```text
//!  connect ──▶ relay ── exit ──▶ ended
//!    ▲  │        │ └── ~. ─────▶ detached
//!    │  └ stopped ┼────────────▶ ended: the sandbox does not run
//!    └── lost ◀───┘
//! ```

use super::local_terminal::{InputEvent, LocalTerminal};
use crate::{
    client::{ApiRequest, Client, ClientError},
    exec_outcome,
    failure::{Failure, eprint_line},
    limits,
    output::Output,
    retry::Retry,
    terminal::{self, RawMode},
    websocket::{self, Socket},
};
use futures_util::{SinkExt as _, StreamExt as _, stream::SplitSink};
use protocol::{
    SignalRequest, SignalScope,
    api::{ApiErrorCode, SUBPROTOCOL, TerminalText, VIEWER_MESSAGE_MAX_BYTES, ViewerText},
};
use std::{
    io::{IsTerminal as _, stdout},
    sync::Arc,
};
use tokio::{sync::mpsc, task::block_in_place, time::timeout};
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

/// Resets what a full-screen program may have changed: alternate screen, cursor, mouse, bracketed paste, colours.
const RESET_TERMINAL: &[u8] =
    b"\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m";

pub struct Viewer {
    pub client: Arc<Client>,
    pub output: Output,
    /// `/v1/sandboxes/{id}`.
    pub sandbox_path: String,
    pub exec: String,
    /// The sandbox argument as typed.
    pub sandbox_name: String,
    pub start_at: StartAt,
    /// Whether our input is sent.
    pub types: bool,
}

/// Start position of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The first byte, for a terminal that was just started.
    Beginning,
    /// The recent output, for a terminal that already runs.
    Recent,
}

enum ViewerOutcome {
    Ended,
    Detached(u8),
    HungUp,
}

enum ConnectionEnd {
    Finished(ViewerOutcome),
    Lost,
}

impl Viewer {
    /// Runs the viewer and returns the exit code of the command.
    pub async fn run(self) -> Result<u8, Failure> {
        let cannot = |error| Failure::io("switch the terminal to raw mode", error);
        let raw = if self.types { Some(RawMode::enter().map_err(cannot)?) } else { None };
        let outcome = Box::pin(self.run_connections()).await;
        let left = !matches!(outcome, Ok(ViewerOutcome::Ended));
        if left && stdout().is_terminal() {
            let _ = self.output.bytes(RESET_TERMINAL);
        }
        drop(raw);
        match outcome? {
            ViewerOutcome::Ended => {
                exec_outcome::report_exit(&self.client, self.output, &self.exec_path(), false).await
            }
            ViewerOutcome::Detached(code) => {
                let (sandbox, exec) = (&self.sandbox_name, &self.exec);
                eprint_line(&format!(
                    "\nslipway: detached, the terminal keeps running; reattach with `slipway attach {sandbox} {exec}`"
                ));
                Ok(code)
            }
            ViewerOutcome::HungUp => {
                // Our terminal is gone, so an error cannot be shown.
                let _ = self.client.send(self.signal("HUP", SignalScope::Group)).await;
                Ok(129)
            }
        }
    }

    async fn run_connections(&self) -> Result<ViewerOutcome, Failure> {
        let mut local = LocalTerminal::open(self.types)?;
        let mut retry = Retry::new();
        loop {
            let found = tokio::select! {
                // Cancelled only when the user leaves.
                found = self.connect(&mut retry, local.position) => found?,
                // Returns only when the user leaves.
                event = local.wait_disconnected() => return Ok(outcome_of(&event)),
            };
            let Some(socket) = found else { return Ok(ViewerOutcome::Ended) };
            if self.start_at == StartAt::Recent && local.position.is_none() {
                // Makes a full-screen program redraw. The error of an ended one is ignored.
                let _ = self.client.send(self.signal("WINCH", SignalScope::Tree)).await;
            }
            match self.relay(socket, &mut local, &mut retry).await? {
                ConnectionEnd::Finished(outcome) => return Ok(outcome),
                ConnectionEnd::Lost => retry.backoff(ClientError::Incomplete).await?,
            }
        }
    }

    /// Connects; `None` when the sandbox is not running any more, so that the exec has ended.
    async fn connect(&self, retry: &mut Retry, cursor: Option<u64>) -> Result<Option<Socket>, Failure> {
        let request = ApiRequest::get(format!("{}/terminals/{}", self.sandbox_path, self.exec));
        // Output into a file or pipe must be complete, so nothing may be skipped.
        let request = request.query_if("skip", (!stdout().is_terminal()).then_some(0));
        let request = match (cursor, self.start_at) {
            // A reconnect must not wake a sandbox that was stopped meanwhile.
            (Some(at), _) => request.query("after", at).query("wake", 0),
            (None, StartAt::Beginning) => request.query("after", 0),
            (None, StartAt::Recent) => request,
        };
        loop {
            let opened = websocket::open(
                &self.client,
                request.clone(),
                SUBPROTOCOL,
                limits::TERMINAL_MESSAGE_MAX_BYTES,
            );
            match opened.await {
                Ok(socket) => return Ok(Some(socket)),
                Err(error) if cursor.is_some() && error.is(ApiErrorCode::NotRunning) => return Ok(None),
                Err(error) => retry.backoff(error).await?,
            }
        }
    }

    async fn relay(
        &self,
        socket: Socket,
        local: &mut LocalTerminal,
        retry: &mut Retry,
    ) -> Result<ConnectionEnd, Failure> {
        let (to, mut from) = socket.split();
        let (out, queue) = mpsc::channel(limits::STDIN_PIECES);
        let mut writer = tokio::spawn(write(to, queue));
        // The new queue has capacity.
        let _ = out.try_send(resize());
        if !local.buffered_keys.is_empty() {
            let _ = out.try_send(Message::binary(std::mem::take(&mut local.buffered_keys)));
        }
        let end = loop {
            // Reserve capacity first: keys that cannot be sent are not read, and cancelling loses nothing.
            let event = async {
                let permit = tokio::select! {
                    permit = out.reserve() => permit,
                    event = local.signal() => return (None, event),
                };
                (permit.ok(), local.next().await)
            };
            tokio::select! {
                // Safe to cancel: a partially received message is kept.
                said = timeout(limits::TERMINAL_SILENCE_MAX, from.next()) => match said {
                    Ok(Some(Ok(message))) => {
                        retry.reset();
                        if self.on_message(&message, local)? {
                            break ConnectionEnd::Finished(ViewerOutcome::Ended);
                        }
                    }
                    Ok(Some(Err(_)) | None) | Err(_) => break ConnectionEnd::Lost,
                },
                (permit, event) = event => match (permit, event) {
                    (_, event @ (InputEvent::Detach(_) | InputEvent::HangUp)) => break ConnectionEnd::Finished(outcome_of(&event)),
                    (Some(permit), InputEvent::Keys(keys)) => permit.send(Message::binary(keys)),
                    (Some(permit), InputEvent::Resize) => permit.send(resize()),
                    (None, InputEvent::Keys(keys)) => local.buffer_keys(&keys),
                    // The next connection sends the size.
                    (None, InputEvent::Resize) => {}
                },
            }
        };
        drop(out);
        // Flush the queue, unless the peer does not read. The next connection sends keys that this one did not.
        if let Ok(Ok(unsent)) = timeout(limits::TERMINAL_FLUSH_TIMEOUT, &mut writer).await {
            local.buffered_keys.splice(0..0, unsent);
        }
        writer.abort();
        Ok(end)
    }

    /// Handles a message; returns whether it was the last.
    fn on_message(&self, message: &Message, local: &mut LocalTerminal) -> Result<bool, Failure> {
        match message {
            Message::Binary(bytes) => {
                local.advance(bytes.len());
                // A slow terminal must not block other threads that answer pings.
                block_in_place(|| self.output.bytes(bytes))?;
            }
            Message::Text(text) => match serde_json::from_str(text) {
                Ok(TerminalText::Position(at)) => {
                    if let Some(lost) = local.set_position(at) {
                        eprint_line(&format!("\r\nslipway: {lost} bytes of output were skipped"));
                    }
                }
                Ok(TerminalText::Exit(_)) => return Ok(true),
                // An unknown message of a newer hostd.
                Err(_) => {}
            },
            Message::Close(Some(frame)) if is_refusal(frame.code) => {
                return Err(Failure::new(format!("hostd ended the connection: {}", frame.reason)));
            }
            // hostd closes the connection.
            Message::Close(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        Ok(false)
    }

    fn exec_path(&self) -> String {
        format!("{}/execs/{}", self.sandbox_path, self.exec)
    }

    fn signal(&self, name: &str, scope: SignalScope) -> ApiRequest {
        let body = SignalRequest { signal: name.to_owned(), scope };
        ApiRequest::post(format!("{}/signal", self.exec_path())).json(&body)
    }
}

fn outcome_of(event: &InputEvent) -> ViewerOutcome {
    match event {
        InputEvent::Detach(code) => ViewerOutcome::Detached(*code),
        InputEvent::Keys(_) | InputEvent::Resize | InputEvent::HangUp => ViewerOutcome::HungUp,
    }
}

/// Returns whether a reconnect would be refused again.
fn is_refusal(code: CloseCode) -> bool {
    matches!(
        code,
        CloseCode::Protocol
            | CloseCode::Unsupported
            | CloseCode::Invalid
            | CloseCode::Policy
            | CloseCode::Size
    )
}

fn resize() -> Message {
    let size = terminal::size();
    let text = ViewerText::Resize { cols: size.cols, rows: size.rows };
    Message::text(serde_json::to_string(&text).expect("no map in it"))
}

/// Sends queued messages in order. Ends with the queue or the connection, and returns the keys that were not sent: the
/// end of a connection is often noticed by the first message that it does not take.
async fn write(mut to: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>) -> Vec<u8> {
    let (mut connected, mut unsent) = (true, Vec::new());
    while let Some(message) = queue.recv().await {
        if let Message::Binary(keys) = &message {
            let sent = if connected { send_keys(&mut to, keys).await } else { 0 };
            connected = sent == keys.len();
            unsent.extend_from_slice(&keys[sent..]);
        } else {
            // Of use to this connection only.
            connected = connected && to.send(message).await.is_ok();
        }
        if !connected {
            // What is queued already is still received.
            queue.close();
        }
    }
    let _ = to.close().await;
    unsent
}

/// Sends keys in messages that hostd accepts; returns how many were sent.
async fn send_keys(to: &mut SplitSink<Socket, Message>, keys: &[u8]) -> usize {
    let mut sent = 0;
    for chunk in keys.chunks(VIEWER_MESSAGE_MAX_BYTES) {
        if to.send(Message::binary(chunk.to_vec())).await.is_err() {
            return sent;
        }
        sent += chunk.len();
    }
    sent
}
