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
use hostd_net::backpressure::CHUNK_BYTES;
use protocol::{
    TtySize,
    api::{TerminalText, VIEWER_MESSAGE_MAX_BYTES, ViewerText},
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    time::{interval, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// The WebSocket protocol's limit for the reason in a close frame.
const REASON_MAX_BYTES: usize = 123;
/// Allocated for every viewer; input is short.
const READ_BUFFER_BYTES: usize = 4 << 10;
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
    let config = WebSocketConfig::default()
        .max_message_size(Some(VIEWER_MESSAGE_MAX_BYTES))
        .max_frame_size(Some(VIEWER_MESSAGE_MAX_BYTES))
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_MAX_BYTES);
    WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await
}

/// Returns the next message. Safe to cancel: a partial message is kept.
pub async fn next_input(from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin)) -> ViewerInput {
    let silent_max = Duration::from_millis(limits::TERMINAL_SILENT_MAX_MS);
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
    let mut pings = interval(Duration::from_millis(limits::TERMINAL_PING_MS));
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

/// Sends the close frame, and waits a moment for the viewer to read it.
pub async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, ended: &SocketEnd) {
    let frame = close_reason(ended).map(|(code, reason)| {
        let fits = &reason[..reason.floor_char_boundary(REASON_MAX_BYTES)];
        CloseFrame { code, reason: fits.into() }
    });
    let closing = async {
        match frame {
            Some(frame) => socket.close(Some(frame)).await?,
            // The reply to the viewer's own close frame, if there was one, is pending.
            None => socket.flush().await?,
        }
        if matches!(ended, SocketEnd::MessageTooLarge | SocketEnd::ProtocolError) {
            // Read what the viewer still sends: otherwise the kernel resets the connection and discards the
            // close frame.
            let mut ignored = [0; READ_BUFFER_BYTES];
            while socket.get_mut().read(&mut ignored).await? > 0 {}
        }
        while socket.next().await.transpose()?.is_some() {}
        Ok::<(), Error>(())
    };
    // The result does not matter: the session is over.
    let _ = timeout(Duration::from_millis(limits::TERMINAL_CLOSE_MAX_MS), closing).await;
}

fn close_reason(ended: &SocketEnd) -> Option<(CloseCode, &str)> {
    Some(match ended {
        SocketEnd::Disconnected => return None,
        SocketEnd::Silent => (CloseCode::Again, "silent for too long; attach again"),
        SocketEnd::MessageTooLarge => (CloseCode::Size, "a message may have at most 65536 bytes"),
        SocketEnd::ProtocolError => (CloseCode::Protocol, "not the WebSocket protocol"),
        SocketEnd::InvalidMessage(why) => (CloseCode::Policy, why),
        SocketEnd::OutputEnded => (CloseCode::Normal, "ended"),
        SocketEnd::ExitUnknown => (CloseCode::Again, "the sandbox does not answer; attach again in a moment"),
        SocketEnd::ShuttingDown => (CloseCode::Away, "hostd is shutting down; attach again in a moment"),
    })
}

#[cfg(test)]
#[path = "terminal_socket_tests.rs"]
mod tests;
