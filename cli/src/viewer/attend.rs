//! Attends a terminal until it ends or the person leaves, through any number of connections.
//!
//! ```text
//!  connect ──▶ talk ── exit ──▶ ended
//!    ▲  │       │ └── ~. ─────▶ left
//!    │  └ gone ─┼─────────────▶ ended: the sandbox stopped
//!    └── cut ◀──┘
//! ```

use super::{
    seat::{Seat, Wish},
    socket::{self, Socket},
};
use crate::{
    client::{Ask, Client, ClientError},
    ending,
    failure::{Failure, eprint_line},
    limits,
    output::Output,
    patience::Patience,
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
const PLAIN_AGAIN: &[u8] =
    b"\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m";

pub struct Viewer {
    pub client: Arc<Client>,
    pub output: Output,
    /// `/v1/sandboxes/{id}`.
    pub sandbox_path: String,
    pub exec: String,
    /// The sandbox as the person calls it.
    pub sandbox_name: String,
    pub from: From,
    /// Whether our input goes there.
    pub types: bool,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The first byte: it was just started.
    Start,
    /// What was shown last.
    Recent,
}

enum Attended {
    Ended,
    Left(u8),
    HungUp,
}

enum Talked {
    Over(Attended),
    Cut,
}

impl Viewer {
    /// Gives the exit code of the command.
    pub async fn run(self) -> Result<u8, Failure> {
        let cannot = |error| Failure::io("switch the terminal to raw mode", error);
        let raw = if self.types { Some(RawMode::enter().map_err(cannot)?) } else { None };
        let attended = Box::pin(self.attend()).await;
        let left = !matches!(attended, Ok(Attended::Ended));
        if left && stdout().is_terminal() {
            let _ = self.output.bytes(PLAIN_AGAIN);
        }
        drop(raw);
        match attended? {
            Attended::Ended => ending::conclude(&self.client, self.output, &self.exec_path(), false).await,
            Attended::Left(code) => {
                let (sandbox, exec) = (&self.sandbox_name, &self.exec);
                eprint_line(&format!(
                    "\nslipway: left it, and it goes on; `slipway attach {sandbox} {exec}` comes back to it"
                ));
                Ok(code)
            }
            Attended::HungUp => {
                // Nobody can be told when this fails.
                let _ = self.client.send(self.signal("HUP", SignalScope::Group)).await;
                Ok(129)
            }
        }
    }

    async fn attend(&self) -> Result<Attended, Failure> {
        let mut seat = Seat::take(self.types)?;
        let mut patience = Patience::new();
        loop {
            let found = tokio::select! {
                // Given up only when the person leaves.
                found = self.connect(&mut patience, seat.cursor) => found?,
                // Ends only when he wants to leave.
                wish = seat.wait() => return Ok(left(&wish)),
            };
            let Some(socket) = found else { return Ok(Attended::Ended) };
            if self.from == From::Recent && seat.cursor.is_none() {
                // A full-screen program draws itself anew. One that has ended refuses it, rightly.
                let _ = self.client.send(self.signal("WINCH", SignalScope::Tree)).await;
            }
            match self.talk(socket, &mut seat, &mut patience).await? {
                Talked::Over(attended) => return Ok(attended),
                Talked::Cut => patience.wait(ClientError::Early).await?,
            }
        }
    }

    /// None when the sandbox does not run any more: how the command ended is known elsewhere.
    async fn connect(&self, patience: &mut Patience, cursor: Option<u64>) -> Result<Option<Socket>, Failure> {
        let ask = Ask::get(format!("{}/terminals/{}", self.sandbox_path, self.exec));
        // Who only keeps the output wants all of it.
        let ask = ask.query_if("skip", (!stdout().is_terminal()).then_some(0));
        let ask = match (cursor, self.from) {
            // A sandbox that was stopped meanwhile shall not be woken by us.
            (Some(at), _) => ask.query("after", at).query("wake", 0),
            (None, From::Start) => ask.query("after", 0),
            (None, From::Recent) => ask,
        };
        loop {
            match socket::open(&self.client, ask.clone()).await {
                Ok(socket) => return Ok(Some(socket)),
                Err(error) if cursor.is_some() && error.is(ApiErrorCode::NotRunning) => return Ok(None),
                Err(error) => patience.wait(error).await?,
            }
        }
    }

    async fn talk(
        &self,
        socket: Socket,
        seat: &mut Seat,
        patience: &mut Patience,
    ) -> Result<Talked, Failure> {
        let (to, mut from) = socket.split();
        let (out, queue) = mpsc::channel(limits::STDIN_PIECES);
        let mut writer = tokio::spawn(write(to, queue));
        // There is room: the queue is new.
        let _ = out.try_send(resize());
        if !seat.held.is_empty() {
            let _ = out.try_send(Message::binary(std::mem::take(&mut seat.held)));
        }
        let talked = loop {
            // A permit first: keys that cannot be sent are not read, and nothing is lost by cancelling either.
            let wish = async {
                let permit = tokio::select! {
                    permit = out.reserve() => permit,
                    wish = seat.signal() => return (None, wish),
                };
                (permit.ok(), seat.next().await)
            };
            tokio::select! {
                // Safe to cancel: what came of a message is kept.
                said = timeout(limits::TERMINAL_SILENT_MAX, from.next()) => match said {
                    Ok(Some(Ok(message))) => {
                        patience.renew();
                        if self.told(&message, seat)? {
                            break Talked::Over(Attended::Ended);
                        }
                    }
                    Ok(Some(Err(_)) | None) | Err(_) => break Talked::Cut,
                },
                (permit, wish) = wish => match (permit, wish) {
                    (_, wish @ (Wish::Leave(_) | Wish::HangUp)) => break Talked::Over(left(&wish)),
                    (Some(permit), Wish::Type(keys)) => permit.send(Message::binary(keys)),
                    (Some(permit), Wish::Resize) => permit.send(resize()),
                    (None, Wish::Type(_) | Wish::Resize) => {}
                },
            }
        };
        drop(out);
        // What is queued still goes out, unless nobody reads it.
        let _ = timeout(limits::TERMINAL_PART, &mut writer).await;
        writer.abort();
        Ok(talked)
    }

    /// Whether that was the last word.
    fn told(&self, message: &Message, seat: &mut Seat) -> Result<bool, Failure> {
        match message {
            Message::Binary(bytes) => {
                seat.showed(bytes.len());
                // A slow terminal must not stop pings from being answered by others of our threads.
                block_in_place(|| self.output.bytes(bytes))?;
            }
            Message::Text(text) => match serde_json::from_str(text) {
                Ok(TerminalText::Position(at)) => {
                    if let Some(lost) = seat.moves_to(at) {
                        eprint_line(&format!("\r\nslipway: {lost} bytes of output are passed over here"));
                    }
                }
                Ok(TerminalText::Exit(_)) => return Ok(true),
                // A newer hostd says more than we know.
                Err(_) => {}
            },
            Message::Close(Some(frame)) if is_refusal(frame.code) => {
                return Err(Failure::refused(format!("hostd ended the connection: {}", frame.reason)));
            }
            // The connection ends by itself.
            Message::Close(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        Ok(false)
    }

    fn exec_path(&self) -> String {
        format!("{}/execs/{}", self.sandbox_path, self.exec)
    }

    fn signal(&self, name: &str, scope: SignalScope) -> Ask {
        let body = SignalRequest { signal: name.to_owned(), scope };
        Ask::post(format!("{}/signal", self.exec_path())).json(&body)
    }
}

fn left(wish: &Wish) -> Attended {
    match wish {
        Wish::Leave(code) => Attended::Left(*code),
        Wish::Type(_) | Wish::Resize | Wish::HangUp => Attended::HungUp,
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
