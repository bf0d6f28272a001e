//! One viewer's WebSocket: what he says, what he is shown, and how one parts.
//!
//! ```text
//!  runtimed ── pieces ──▶ show ──▶ binary; text where the position jumps; ping ──▶ viewer
//!  runtimed ◀── typed ─── hear ◀── binary; text for the size; pong ◀────────────── viewer
//! ```
//!
//! **Invariant:** nothing is queued here. A viewer who reads slowly holds up only the stream from his own reader
//! of the log; one who is dead is found by his silence.

use super::{limits, pieces::Pieces};
use crate::backpressure::PIECE_BYTES;
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
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

/// The protocol's own bound for the reason in a close frame.
const REASON_MAX_BYTES: usize = 123;
/// Allocated for every viewer; keys are short.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// One piece of output that waits for the socket, and what is said around it.
const WRITE_BUFFER_MAX_BYTES: usize = 2 * PIECE_BYTES;

/// How it came to an end.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// He left, or his connection did.
    Left,
    Silent,
    TooLarge,
    /// He does not speak the protocol of WebSockets.
    Garbled,
    /// He said something else than what is understood.
    Strange(String),
    /// runtimed has no more to show.
    Shown,
    /// The same, and how the exec ended is not known.
    Gone,
    ShuttingDown,
}

/// What a viewer says.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Typed(Bytes),
    Resize(TtySize),
    End(Ended),
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

/// The next thing he says. Safe to cancel: what came of a message is kept.
pub async fn hear(from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin)) -> Heard {
    let silent_max = Duration::from_millis(limits::VIEWER_SILENT_MAX_MS);
    loop {
        let said = match timeout(silent_max, from.next()).await {
            Err(_) => return Heard::End(Ended::Silent),
            Ok(None) => return Heard::End(Ended::Left),
            Ok(Some(said)) => said,
        };
        match said {
            Ok(Message::Binary(bytes)) => return Heard::Typed(bytes),
            Ok(Message::Text(text)) => return understand(&text),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(_)) => return Heard::End(Ended::Left),
            Err(Error::Capacity(_)) => return Heard::End(Ended::TooLarge),
            Err(Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt) => {
                return Heard::End(Ended::Garbled);
            }
            Err(_) => return Heard::End(Ended::Left),
        }
    }
}

fn understand(text: &str) -> Heard {
    match serde_json::from_str(text) {
        Ok(ViewerText::Resize { cols, rows }) => Heard::Resize(TtySize { cols, rows }),
        Err(error) => Heard::End(Ended::Strange(format!("text must be {{\"resize\":{{…}}}}: {error}"))),
    }
}

/// Shows every piece as it comes, until there are no more.
pub async fn show<R: AsyncRead + Unpin>(
    mut pieces: Pieces<R>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> Ended {
    let mut pings = interval(Duration::from_millis(limits::VIEWER_PING_MS));
    let mut expected = None;
    loop {
        let sent = tokio::select! {
            // Both are safe to cancel: a piece stays in the buffer, a tick that is missed comes later.
            piece = pieces.next() => match piece {
                Ok(Some((at, bytes))) => {
                    let jumps = expected != Some(at);
                    expected = Some(at.saturating_add(bytes.len() as u64));
                    send_piece(to, jumps.then_some(at), bytes).await
                }
                Ok(None) | Err(_) => return Ended::Shown,
            },
            _ = pings.tick() => to.send(Message::Ping(Bytes::new())).await,
        };
        if sent.is_err() {
            return Ended::Left;
        }
    }
}

async fn send_piece(
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    at: Option<u64>,
    bytes: Bytes,
) -> Result<(), Error> {
    if let Some(at) = at {
        to.feed(told(&TerminalText::Position(at))).await?;
    }
    to.send(Message::Binary(bytes)).await
}

pub fn told(text: &TerminalText) -> Message {
    Message::text(serde_json::to_string(text).expect("no map in it"))
}

/// Says why, and waits a moment for him to hear it.
pub async fn part<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, ended: &Ended) {
    let frame = farewell(ended).map(|(code, reason)| {
        let fits = &reason[..reason.floor_char_boundary(REASON_MAX_BYTES)];
        CloseFrame { code, reason: fits.into() }
    });
    let parting = async {
        match frame {
            Some(frame) => socket.close(Some(frame)).await?,
            // The answer to his own farewell, if there was one, is waiting.
            None => socket.flush().await?,
        }
        if matches!(ended, Ended::TooLarge | Ended::Garbled) {
            // What he still sends is read, or the kernel would throw away what he was told.
            let mut ignored = [0; READ_BUFFER_BYTES];
            while socket.get_mut().read(&mut ignored).await? > 0 {}
        }
        while socket.next().await.transpose()?.is_some() {}
        Ok::<(), Error>(())
    };
    // Whether he listened is his own business.
    let _ = timeout(Duration::from_millis(limits::VIEWER_PART_MAX_MS), parting).await;
}

fn farewell(ended: &Ended) -> Option<(CloseCode, &str)> {
    Some(match ended {
        Ended::Left => return None,
        Ended::Silent => (CloseCode::Again, "silent for too long; attach again"),
        Ended::TooLarge => (CloseCode::Size, "a message may have 65536 bytes"),
        Ended::Garbled => (CloseCode::Protocol, "not the WebSocket protocol"),
        Ended::Strange(why) => (CloseCode::Policy, why),
        Ended::Shown => (CloseCode::Normal, "ended"),
        Ended::Gone => (CloseCode::Again, "the sandbox does not answer; attach again in a moment"),
        Ended::ShuttingDown => (CloseCode::Away, "hostd is shutting down; attach again in a moment"),
    })
}

#[cfg(test)]
#[path = "viewer_tests.rs"]
mod tests;
