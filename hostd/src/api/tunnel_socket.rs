//! The bytes of a tunnel, between a WebSocket and one TCP connection to an app.
//!
//! ```text
//!  app ── bytes ──▶ outward ── binary; an empty one is the end; ping ──▶ client
//!  app ◀── bytes ── inward ◀── binary; an empty one is the end; pong ─── client
//! ```
//!
//! **Invariant:** nothing is queued here beyond one message for each direction. A client that does not read holds up
//! the app, an app that does not read holds up the client, and neither holds up the other direction.

use super::{access_lease::AccessLease, limits};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostd_drivers::Stream as AppStream;
use hostd_edge::{AppActivity, Waker, limits::HALF_CLOSED_MAX};
use hostd_net::{
    backpressure::{CHUNK_BYTES, read_chunk},
    websocket::{self, Goodbye, SocketSizes},
};
use hostd_store::access_watch::AccessEnd;
use hyper_util::rt::TokioIo;
use protocol::api::TUNNEL_MESSAGE_MAX_BYTES;
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, split},
    sync::watch,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_tungstenite::tungstenite::{Error, Message, protocol::frame::coding::CloseCode};
use tokio_util::sync::CancellationToken;

const SIZES: SocketSizes = SocketSizes {
    message_max_bytes: TUNNEL_MESSAGE_MAX_BYTES,
    // A message and a ping that wait for the socket.
    write_buffer_max_bytes: 2 * CHUNK_BYTES,
};

/// What a tunnel needs beside its two ends.
pub struct Tunnel<W: Waker> {
    pub activity: AppActivity,
    pub waker: W,
    pub lease: Arc<AccessLease>,
    pub closing: CancellationToken,
}

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TunnelEnd {
    /// Both directions ended.
    Finished,
    /// The client left, or its connection broke.
    Disconnected,
    Silent,
    /// The app reset the connection, or its sandbox stopped.
    Reset,
    MessageTooLarge,
    ProtocolError,
    /// The client sent text, or bytes after its end.
    InvalidMessage,
    /// The caller lost its access to the sandbox.
    AccessEnded(AccessEnd),
    ShuttingDown,
}

/// The directions that have ended.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    inward: bool,
    outward: bool,
}

pub async fn relay<W, S>(tunnel: Tunnel<W>, outside: S, app: Box<dyn AppStream>)
where
    W: Waker,
    S: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let socket = websocket::accept(TokioIo::new(outside), SIZES).await;
    let (mut to_client, mut from_client) = socket.split();
    let (from_app, to_app) = split(app);
    let (ended, watcher) = watch::channel(Ended::default());
    let end = tokio::select! {
        // Cancelling any branch loses nothing that could still be delivered: the tunnel is over.
        end = inward(&tunnel, &mut from_client, to_app, &ended) => end,
        end = outward(&tunnel, from_app, &mut to_client, &ended) => end,
        () = finished(watcher) => TunnelEnd::Finished,
        end = tunnel.lease.ended() => TunnelEnd::AccessEnded(end),
        () = tunnel.closing.cancelled() => TunnelEnd::ShuttingDown,
    };
    // The sandbox may sleep while the client says goodbye.
    drop(tunnel);
    let socket = to_client.reunite(from_client).expect("halves of one socket");
    websocket::close(socket, goodbye(end)).await;
}

/// Moves bytes of the client to the app. Goes on after the client's end, to notice when the client leaves.
async fn inward<W: Waker>(
    tunnel: &Tunnel<W>,
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    mut to: impl AsyncWrite + Unpin,
    ended: &watch::Sender<Ended>,
) -> TunnelEnd {
    let silent_max = Duration::from_millis(limits::WEBSOCKET_SILENT_MAX_MS);
    loop {
        // The timer runs only while this waits for the client, and not while the app does not read.
        let message = match timeout(silent_max, from.next()).await {
            Err(_) => return TunnelEnd::Silent,
            Ok(None) => return TunnelEnd::Disconnected,
            Ok(Some(message)) => message,
        };
        let bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Ok(Message::Text(_)) => return TunnelEnd::InvalidMessage,
            Ok(Message::Close(_)) => return TunnelEnd::Disconnected,
            Err(Error::Capacity(_)) => return TunnelEnd::MessageTooLarge,
            Err(Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt) => {
                return TunnelEnd::ProtocolError;
            }
            Err(_) => return TunnelEnd::Disconnected,
        };
        if ended.borrow().inward {
            return TunnelEnd::InvalidMessage;
        }
        tunnel.activity.record_bytes(bytes.len());
        if tunnel.activity.thaw(&tunnel.waker).await.is_err() || deliver(&mut to, &bytes).await.is_err() {
            return TunnelEnd::Reset;
        }
        if bytes.is_empty() {
            ended.send_modify(|ended| ended.inward = true);
        }
    }
}

/// Writes bytes; none are the end.
async fn deliver(to: &mut (impl AsyncWrite + Unpin), bytes: &Bytes) -> std::io::Result<()> {
    if bytes.is_empty() {
        return to.shutdown().await;
    }
    to.write_all(bytes).await?;
    to.flush().await
}

/// Moves bytes of the app to the client, and pings. Goes on after the app's end, for the pings.
async fn outward<W: Waker>(
    tunnel: &Tunnel<W>,
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    ended: &watch::Sender<Ended>,
) -> TunnelEnd {
    let mut pings = interval(Duration::from_millis(limits::WEBSOCKET_PING_MS));
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut over = false;
    loop {
        let chunk = async { if over { pending().await } else { read_chunk(&mut from).await } };
        let message = tokio::select! {
            // Both are safe to cancel: a chunk is read at once or not at all, a missed tick comes later.
            chunk = chunk => match chunk {
                Ok(chunk) => Message::Binary(chunk),
                Err(_) => return TunnelEnd::Reset,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if let Message::Binary(chunk) = &message {
            tunnel.activity.record_bytes(chunk.len());
            over = chunk.is_empty();
        }
        if to.send(message).await.is_err() {
            return TunnelEnd::Disconnected;
        }
        if over {
            ended.send_modify(|ended| ended.outward = true);
        }
    }
}

/// Returns when both directions have ended; or the app's has, and for long the client sends nothing that ends its own:
/// the socket keeps the network of the sandbox alive.
async fn finished(mut ended: watch::Receiver<Ended>) {
    // The sender lives as long as this is polled.
    let _ = ended.wait_for(|ended| ended.outward).await;
    let both = async { drop(ended.wait_for(|ended| ended.inward).await) };
    tokio::select! {
        () = both => {}
        () = sleep(HALF_CLOSED_MAX) => {}
    }
}

fn goodbye(end: TunnelEnd) -> Goodbye<'static> {
    use Goodbye::{Close, Rejected};
    match end {
        TunnelEnd::Finished => Close(CloseCode::Normal, "ended"),
        TunnelEnd::Disconnected => Goodbye::None,
        TunnelEnd::Silent => Close(CloseCode::Again, "silent for too long"),
        TunnelEnd::Reset => Close(CloseCode::Error, "the app reset the connection, or its sandbox stopped"),
        TunnelEnd::MessageTooLarge => Rejected(CloseCode::Size, "a message may have at most 65536 bytes"),
        TunnelEnd::ProtocolError => Rejected(CloseCode::Protocol, "not the WebSocket protocol"),
        TunnelEnd::InvalidMessage => {
            Close(CloseCode::Unsupported, "only binary messages, and none after an empty one")
        }
        TunnelEnd::AccessEnded(end) => Close(CloseCode::Policy, end.reason()),
        TunnelEnd::ShuttingDown => {
            Close(CloseCode::Away, "hostd is shutting down; connect again in a moment")
        }
    }
}
