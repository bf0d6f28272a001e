//! The WebSocket of a terminal viewer: input, output and the closing handshake.
//!
//! ```text
//!  runtimed ── frames ──▶ send_frames ──▶ binary; text where the position jumps; ping ──▶ viewer
//!  runtimed ◀── keys ─── next_input ◀── binary; text for the size; pong ◀─────────────── viewer
//! ```
//!
//! **Invariant:** nothing is queued here. A viewer that reads slowly holds up only its own reader of the log; a
//! dead one is found by its silence.

use super::{limits, terminal_frames::TerminalFrames};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostd_net::{
    backpressure::CHUNK_BYTES,
    websocket::{self, Goodbye, SocketSizes},
};
use hostd_store::access_watch::AccessEnd;
use protocol::{
    TtySize,
    api::{TerminalText, VIEWER_MESSAGE_MAX_BYTES, ViewerText},
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{interval, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, protocol::frame::coding::CloseCode},
};

/// A frame of output that waits for the socket, with its position message.
const WRITE_BUFFER_MAX_BYTES: usize = 2 * CHUNK_BYTES;

/// How the session of a viewer ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SocketEnd {
    /// The viewer left, or its connection broke.
    Disconnected,
    Silent,
    MessageTooLarge,
    /// The viewer violated the WebSocket protocol.
    ProtocolError,
    /// The viewer sent an unknown message.
    InvalidMessage(String),
    /// runtimed has no more output.
    OutputEnded,
    /// runtimed has no more output, and the exit of the exec is not known.
    ExitUnknown,
    /// The caller lost its access to the sandbox.
    AccessEnded(AccessEnd),
    ShuttingDown,
}

/// A message of a viewer.
#[derive(Debug, PartialEq, Eq)]
pub enum ViewerInput {
    Keys(Bytes),
    Resize(TtySize),
    Closed(SocketEnd),
}

pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(socket: S) -> WebSocketStream<S> {
    let sizes = SocketSizes {
        message_max_bytes: VIEWER_MESSAGE_MAX_BYTES,
        write_buffer_max_bytes: WRITE_BUFFER_MAX_BYTES,
    };
    websocket::accept(socket, sizes).await
}

/// Returns the next message. Safe to cancel: a partial message is kept.
pub async fn next_input(from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin)) -> ViewerInput {
    let silent_max = Duration::from_millis(limits::WEBSOCKET_SILENT_MAX_MS);
    loop {
        let message = match timeout(silent_max, from.next()).await {
            Err(_) => return ViewerInput::Closed(SocketEnd::Silent),
            Ok(None) => return ViewerInput::Closed(SocketEnd::Disconnected),
            Ok(Some(message)) => message,
        };
        match message {
            Ok(Message::Binary(bytes)) => return ViewerInput::Keys(bytes),
            Ok(Message::Text(text)) => return parse_text(&text),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(_)) => return ViewerInput::Closed(SocketEnd::Disconnected),
            Err(Error::Capacity(_)) => return ViewerInput::Closed(SocketEnd::MessageTooLarge),
            Err(Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt) => {
                return ViewerInput::Closed(SocketEnd::ProtocolError);
            }
            Err(_) => return ViewerInput::Closed(SocketEnd::Disconnected),
        }
    }
}

fn parse_text(text: &str) -> ViewerInput {
    match serde_json::from_str(text) {
        Ok(ViewerText::Resize { cols, rows }) => ViewerInput::Resize(TtySize { cols, rows }),
        Err(error) => ViewerInput::Closed(SocketEnd::InvalidMessage(format!(
            "text must be {{\"resize\":{{…}}}}: {error}"
        ))),
    }
}

/// Sends every frame as it comes, until there are no more.
pub async fn send_frames<R: AsyncRead + Unpin>(
    mut frames: TerminalFrames<R>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> SocketEnd {
    let mut pings = interval(Duration::from_millis(limits::WEBSOCKET_PING_MS));
    let mut expected = None;
    loop {
        let sent = tokio::select! {
            // Both are safe to cancel: a frame stays in the buffer, a missed tick comes later.
            frame = frames.next() => match frame {
                Ok(Some((at, bytes))) => {
                    let jumps = expected != Some(at);
                    expected = Some(at.saturating_add(bytes.len() as u64));
                    send_frame(to, jumps.then_some(at), bytes).await
                }
                Ok(None) | Err(_) => return SocketEnd::OutputEnded,
            },
            _ = pings.tick() => to.send(Message::Ping(Bytes::new())).await,
        };
        if sent.is_err() {
            return SocketEnd::Disconnected;
        }
    }
}

async fn send_frame(
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    at: Option<u64>,
    bytes: Bytes,
) -> Result<(), Error> {
    if let Some(at) = at {
        to.feed(text_message(&TerminalText::Position(at))).await?;
    }
    to.send(Message::Binary(bytes)).await
}

pub fn text_message(text: &TerminalText) -> Message {
    Message::text(serde_json::to_string(text).expect("no map in it"))
}

pub async fn close<S: AsyncRead + AsyncWrite + Unpin>(socket: WebSocketStream<S>, ended: &SocketEnd) {
    websocket::close(socket, goodbye(ended)).await;
}

fn goodbye(ended: &SocketEnd) -> Goodbye<'_> {
    use Goodbye::{Close, Rejected};
    match ended {
        SocketEnd::Disconnected => Goodbye::None,
        SocketEnd::Silent => Close(CloseCode::Again, "silent for too long; attach again"),
        SocketEnd::MessageTooLarge => Rejected(CloseCode::Size, "a message may have at most 65536 bytes"),
        SocketEnd::ProtocolError => Rejected(CloseCode::Protocol, "not the WebSocket protocol"),
        SocketEnd::InvalidMessage(why) => Close(CloseCode::Policy, why),
        SocketEnd::OutputEnded => Close(CloseCode::Normal, "ended"),
        SocketEnd::ExitUnknown => {
            Close(CloseCode::Again, "the sandbox does not answer; attach again in a moment")
        }
        SocketEnd::AccessEnded(end) => Close(CloseCode::Policy, end.reason()),
        SocketEnd::ShuttingDown => Close(CloseCode::Away, "hostd is shutting down; attach again in a moment"),
    }
}

#[cfg(test)]
#[path = "terminal_socket_tests.rs"]
mod tests;
