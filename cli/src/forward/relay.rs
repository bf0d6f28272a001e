//! Moves the bytes of one forwarded connection. An empty binary message is the end of its direction, either way.

use crate::{
    client::{ApiRequest, Client, ClientError},
    limits,
    websocket::{self, Socket},
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use nix::{
    libc,
    sys::socket::{setsockopt, sockopt},
};
use protocol::api::{TUNNEL_MESSAGE_MAX_BYTES, TUNNEL_SUBPROTOCOL};
use std::future::pending;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest},
    net::TcpStream,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::tungstenite::{Error, Message, protocol::frame::coding::CloseCode};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayEnd {
    /// Both directions ended.
    Finished,
    /// The local program is gone.
    LocalGone,
    /// The app, its sandbox or hostd is gone.
    RemoteGone,
}

pub async fn open(client: &Client, request: ApiRequest) -> Result<Socket, ClientError> {
    websocket::open(client, request, TUNNEL_SUBPROTOCOL, limits::TUNNEL_MESSAGE_MAX_BYTES).await
}

/// Relays until both directions have ended, or one end is gone; then the other end is reset.
pub async fn relay(mut local: TcpStream, socket: Socket) {
    let (mut to_hostd, mut from_hostd) = socket.split();
    let (mut from_local, mut to_local) = local.split();
    let end = tokio::select! {
        // Cancelling loses nothing that could still be delivered: the connection is over.
        end = upward(&mut from_local, &mut to_hostd) => end,
        end = downward(&mut from_hostd, &mut to_local) => end,
    };
    match end {
        RelayEnd::Finished => {}
        RelayEnd::LocalGone => drop(timeout(limits::TUNNEL_CLOSE_TIMEOUT, to_hostd.close()).await),
        RelayEnd::RemoteGone => reset(&local),
    }
}

/// Sends what the local program writes, and pings. Goes on after its end, for the pings.
async fn upward(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> RelayEnd {
    let mut pings = interval(limits::TUNNEL_PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = vec![0; limits::TUNNEL_READ_BYTES.min(TUNNEL_MESSAGE_MAX_BYTES)];
    let mut over = false;
    loop {
        let read = async { if over { pending().await } else { from.read(&mut buffer).await } };
        let message = tokio::select! {
            // Both are safe to cancel: bytes are read at once or not at all, a missed tick comes later.
            read = read => match read {
                Ok(count) => {
                    over = count == 0;
                    Message::Binary(Bytes::copy_from_slice(&buffer[..count]))
                }
                Err(_) => return RelayEnd::LocalGone,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if to.send(message).await.is_err() {
            return RelayEnd::RemoteGone;
        }
    }
}

/// Writes what hostd sends, to the close of the WebSocket.
async fn downward(
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> RelayEnd {
    loop {
        // The timer runs only while this waits for hostd, and not while the local program does not read.
        let written = match timeout(limits::TUNNEL_SILENCE_MAX, from.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) if bytes.is_empty() => to.shutdown().await,
            Ok(Some(Ok(Message::Binary(bytes)))) => to.write_all(&bytes).await,
            Ok(Some(Ok(Message::Close(frame)))) => {
                let normal = frame.is_some_and(|frame| frame.code == CloseCode::Normal);
                return if normal { RelayEnd::Finished } else { RelayEnd::RemoteGone };
            }
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_) | Message::Text(_)))) => {
                Ok(())
            }
            Ok(Some(Err(_)) | None) | Err(_) => return RelayEnd::RemoteGone,
        };
        if written.is_err() {
            return RelayEnd::LocalGone;
        }
    }
}

/// Makes the local program see a reset when the connection is dropped, and no regular end.
pub fn reset(local: &TcpStream) {
    // An error is ignored: then it sees an end.
    let _ = setsockopt(local, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}

/// Returns when the local program has reset the connection; one that only ended its direction still waits.
pub async fn closed(local: &TcpStream) {
    // An error of the wait itself ends the wait too.
    let _ = local.ready(Interest::ERROR).await;
}
