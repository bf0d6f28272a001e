//! The link between an editor on standard input and output, and hostd: connects, and connects again while hostd restarts.

use super::bridge::{Bridge, Sent};
use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::Failure,
    limits,
    output::Output,
    retry::Retry,
    stdin,
    websocket::{self, Socket},
};
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use protocol::api::{ACP_MESSAGE_MAX_BYTES, ACP_SUBPROTOCOL};
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::tungstenite::Message;

pub struct Link {
    client: Arc<Client>,
    request: ApiRequest,
    output: Output,
    bridge: Bridge,
    lines: Lines,
}

/// How a connection ended.
enum End {
    /// The editor closed its end.
    EditorLeft,
    Lost,
}

impl Link {
    pub fn new(client: Arc<Client>, request: ApiRequest, output: Output) -> Self {
        let name = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        Self { client, request, output, bridge: Bridge::new(name), lines: Lines::read() }
    }

    /// Serves the editor until it leaves.
    pub async fn run(mut self) -> Result<(), Failure> {
        let mut retry = Retry::new();
        loop {
            let Some(socket) = self.connect(&mut retry).await? else { return Ok(()) };
            match self.relay(socket, &mut retry).await? {
                End::EditorLeft => return Ok(()),
                End::Lost => {
                    self.bridge.on_disconnected();
                    retry.backoff(ClientError::Incomplete).await?;
                }
            }
        }
    }

    /// Connects; `None` when the editor left meanwhile.
    async fn connect(&mut self, retry: &mut Retry) -> Result<Option<Socket>, Failure> {
        loop {
            let received_max = limits::ACP_RECEIVED_MAX_BYTES;
            let connecting = async {
                match websocket::open(&self.client, self.request.clone(), ACP_SUBPROTOCOL, received_max).await
                {
                    Ok(socket) => Ok(Some(socket)),
                    Err(error) => retry.backoff(error).await.map(|()| None),
                }
            };
            let line = tokio::select! {
                // Cancelled when the editor sends a message: the attempt begins anew.
                connected = connecting => match connected? {
                    Some(socket) => return Ok(Some(socket)),
                    None => continue,
                },
                line = self.lines.next() => line,
            };
            let Some(line) = line else { return Ok(None) };
            for sent in self.take(&line) {
                if let Sent::ToEditor(message) = sent {
                    self.print(&message)?;
                }
            }
        }
    }

    async fn relay(&mut self, socket: Socket, retry: &mut Retry) -> Result<End, Failure> {
        let (mut to, mut from) = socket.split();
        let mut pings = interval(limits::TUNNEL_PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = self.bridge.on_connected();
        loop {
            for message in sent {
                match message {
                    Sent::ToEditor(message) => self.print(&message)?,
                    Sent::Reconnect => return Ok(End::Lost),
                    Sent::ToHostd(message) => {
                        if to.send(Message::text(message.to_string())).await.is_err() {
                            return Ok(End::Lost);
                        }
                    }
                }
            }
            sent = tokio::select! {
                // All are safe to cancel: a partial line or message is kept, a missed tick comes later.
                line = self.lines.next() => match line {
                    Some(line) => self.take(&line),
                    None => {
                        drop(timeout(limits::TUNNEL_CLOSE_TIMEOUT, to.close()).await);
                        return Ok(End::EditorLeft);
                    }
                },
                received = timeout(limits::TUNNEL_SILENCE_MAX, from.next()) => match received {
                    Ok(Some(Ok(Message::Text(text)))) => {
                        let sent = self.bridge.on_hostd(&text);
                        if self.bridge.is_up() {
                            retry.reset();
                        }
                        sent
                    }
                    Ok(Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {
                        Vec::new()
                    }
                    Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return Ok(End::Lost),
                },
                _ = pings.tick() => {
                    if to.send(Message::Ping(Bytes::new())).await.is_err() {
                        return Ok(End::Lost);
                    }
                    Vec::new()
                }
            };
        }
    }

    fn take(&mut self, line: &Line) -> Vec<Sent> {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => Vec::new(),
            Line::Whole(line) => self.bridge.on_editor(line),
            // Not JSON either, which is what the editor is told.
            Line::TooLong => self.bridge.on_editor(b"a line of more than 1 MiB"),
        }
    }

    fn print(&self, message: &serde_json::Value) -> Result<(), Failure> {
        self.output.bytes(format!("{message}\n").as_bytes())
    }
}

enum Line {
    Whole(Bytes),
    TooLong,
}

/// The lines of standard input.
struct Lines {
    pieces: mpsc::Receiver<Bytes>,
    buffer: BytesMut,
    /// The rest of a line that is too long is being skipped.
    skipping: bool,
}

impl Lines {
    fn read() -> Self {
        Self { pieces: stdin::read(), buffer: BytesMut::new(), skipping: false }
    }

    /// Returns the next line; `None` at the end. Safe to cancel.
    async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end).freeze();
                self.buffer.advance(1);
                if !std::mem::take(&mut self.skipping) {
                    return Some(Line::Whole(line));
                }
            } else if self.buffer.len() > ACP_MESSAGE_MAX_BYTES {
                self.buffer.clear();
                if !std::mem::replace(&mut self.skipping, true) {
                    return Some(Line::TooLong);
                }
            } else {
                let piece = self.pieces.recv().await?;
                self.buffer.extend_from_slice(&piece);
            }
        }
    }
}
