//! Attends a terminal until it ends or the person leaves, through any number of connections.
//!
//! ```text
//!  connect ──▶ talk ── exit ──▶ ended
//!    ▲  │       │ └── ~. ─────▶ left
//!    │  └ gone ─┼─────────────▶ ended: the sandbox stopped
//!    └── cut ◀──┘
//! ```

use super::{
    local_terminal::{InputEvent, LocalTerminal},
    socket::{self, Socket},
};
use crate::{
    client::{ApiRequest, Client, ClientError},
    exec_outcome,
    failure::{Failure, eprint_line},
    limits,
    output::Output,
    retry::Retry,
    terminal::{self, RawMode},
};
use futures_util::{SinkExt as _, StreamExt as _, stream::SplitSink};
use protocol::{
    SignalRequest, SignalScope,
    api::{ApiErrorCode, TerminalText, VIEWER_MESSAGE_MAX_BYTES, ViewerText},
};
use std::{
    io::{IsTerminal as _, stdout},
    sync::Arc,
};
use tokio::{sync::mpsc, task::block_in_place, time::timeout};
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

/// Out of whatever a full-screen program made of our terminal: its screen, hidden cursor, mouse, pastes, colours.
const RESET_TERMINAL: &[u8] =
    b"\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m";

pub struct Viewer {
    pub client: Arc<Client>,
    pub output: Output,
    /// `/v1/sandboxes/{id}`.
    pub sandbox_path: String,
    pub exec: String,
    /// The sandbox as the person calls it.
    pub sandbox_name: String,
    pub start_at: StartAt,
    /// Whether our input goes there.
    pub types: bool,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The first byte: it was just started.
    Beginning,
    /// What was shown last.
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
    /// Gives the exit code of the command.
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
                    "\nslipway: left it, and it goes on; `slipway attach {sandbox} {exec}` comes back to it"
                ));
                Ok(code)
            }
            ViewerOutcome::HungUp => {
                // Nobody can be told when this fails.
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
                // Given up only when the person leaves.
                found = self.connect(&mut retry, local.position) => found?,
                // Ends only when he wants to leave.
                event = local.wait_disconnected() => return Ok(outcome_of(&event)),
            };
            let Some(socket) = found else { return Ok(ViewerOutcome::Ended) };
            if self.start_at == StartAt::Recent && local.position.is_none() {
                // A full-screen program draws itself anew. One that has ended refuses it, rightly.
                let _ = self.client.send(self.signal("WINCH", SignalScope::Tree)).await;
            }
            match self.relay(socket, &mut local, &mut retry).await? {
                ConnectionEnd::Finished(outcome) => return Ok(outcome),
                ConnectionEnd::Lost => retry.backoff(ClientError::Incomplete).await?,
            }
        }
    }

    /// None when the sandbox does not run any more: how the command ended is known elsewhere.
    async fn connect(&self, retry: &mut Retry, cursor: Option<u64>) -> Result<Option<Socket>, Failure> {
        let request = ApiRequest::get(format!("{}/terminals/{}", self.sandbox_path, self.exec));
        // Who only keeps the output wants all of it.
        let request = request.query_if("skip", (!stdout().is_terminal()).then_some(0));
        let request = match (cursor, self.start_at) {
            // A sandbox that was stopped meanwhile shall not be woken by us.
            (Some(at), _) => request.query("after", at).query("wake", 0),
            (None, StartAt::Beginning) => request.query("after", 0),
            (None, StartAt::Recent) => request,
        };
        loop {
            match socket::open(&self.client, request.clone()).await {
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
        // There is room: the queue is new.
        let _ = out.try_send(resize());
        if !local.buffered_keys.is_empty() {
            let _ = out.try_send(Message::binary(std::mem::take(&mut local.buffered_keys)));
        }
        let end = loop {
            // A permit first: keys that cannot be sent are not read, and nothing is lost by cancelling either.
            let event = async {
                let permit = tokio::select! {
                    permit = out.reserve() => permit,
                    event = local.signal() => return (None, event),
                };
                (permit.ok(), local.next().await)
            };
            tokio::select! {
                // Safe to cancel: what came of a message is kept.
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
                    (None, InputEvent::Keys(_) | InputEvent::Resize) => {}
                },
            }
        };
        drop(out);
        // What is queued still goes out, unless nobody reads it.
        let _ = timeout(limits::TERMINAL_FLUSH_TIMEOUT, &mut writer).await;
        writer.abort();
        Ok(end)
    }

    /// Whether that was the last word.
    fn on_message(&self, message: &Message, local: &mut LocalTerminal) -> Result<bool, Failure> {
        match message {
            Message::Binary(bytes) => {
                local.advance(bytes.len());
                // A slow terminal must not stop pings from being answered by others of our threads.
                block_in_place(|| self.output.bytes(bytes))?;
            }
            Message::Text(text) => match serde_json::from_str(text) {
                Ok(TerminalText::Position(at)) => {
                    if let Some(lost) = local.set_position(at) {
                        eprint_line(&format!("\r\nslipway: {lost} bytes of output are passed over here"));
                    }
                }
                Ok(TerminalText::Exit(_)) => return Ok(true),
                // A newer hostd says more than we know.
                Err(_) => {}
            },
            Message::Close(Some(frame)) if is_refusal(frame.code) => {
                return Err(Failure::new(format!("hostd ended the connection: {}", frame.reason)));
            }
            // The connection ends by itself.
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

/// Whether the same would happen again.
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

/// Sends what is queued, in its order. Ends with the queue or the connection.
async fn write(mut to: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let sent = match message {
            Message::Binary(keys) => {
                let mut sent = Ok(());
                for piece in keys.chunks(VIEWER_MESSAGE_MAX_BYTES) {
                    sent = to.send(Message::binary(piece.to_vec())).await;
                    if sent.is_err() {
                        break;
                    }
                }
                sent
            }
            other => to.send(other).await,
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = to.close().await;
}
