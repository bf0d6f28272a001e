//! An editor's WebSocket: one JSON-RPC message in each text message, both ways.

use super::{
    connection::{Caller, Connection, Shared, Transport},
    limits,
    outbox::{Outbox, Outgoing},
};
use crate::ApiFailure;
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostd_net::websocket::{self, Goodbye, SocketSizes};
use hyper::{
    Request,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use protocol::api::{ACP_SUBPROTOCOL, ApiErrorCode};
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    time::{interval, timeout},
};
use tokio_tungstenite::tungstenite::{Error, Message, protocol::frame::coding::CloseCode};

/// How the connection of an editor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Disconnected,
    Silent,
    MessageTooLarge,
    ProtocolError,
    ShuttingDown,
}

/// Accepts the handshake; the connection goes on in the background.
pub fn open(shared: &Shared, mut request: Request<Body>, caller: Caller) -> Result<Response, ApiFailure> {
    let invalid = |error: String| ApiFailure::new(ApiErrorCode::InvalidRequest, error);
    let response = websocket::handshake(request.headers(), ACP_SUBPROTOCOL);
    let response = response.map_err(|error| invalid(error.to_string()))?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| invalid("the connection cannot be upgraded".to_owned()))?;
    let name = ulid::Ulid::generate().to_string();
    let (sender, receiver) = mpsc::channel(limits::OUTGOING_MAX);
    let connection = Connection::new(name, Transport::Socket, Outbox::Stream(sender), shared);
    shared.work.spawn(async move {
        if let Ok(socket) = upgrade.await {
            run(socket, &connection, caller, receiver).await;
        }
        connection.ended.cancel();
    });
    Ok(response.map(|()| Body::empty()))
}

async fn run(
    socket: Upgraded,
    connection: &Arc<Connection>,
    caller: Caller,
    receiver: mpsc::Receiver<Outgoing>,
) {
    let sizes = SocketSizes {
        message_max_bytes: limits::MESSAGE_MAX_BYTES,
        write_buffer_max_bytes: limits::WRITE_BUFFER_MAX_BYTES,
    };
    let (mut to, mut from) = websocket::accept(TokioIo::new(socket), sizes).await.split();
    let end = tokio::select! {
        // Cancelling any of them loses nothing that a resumed session would not be told of again.
        end = send(receiver, &mut to) => end,
        end = receive(&mut from, connection, caller) => end,
        () = connection.ended.cancelled() => End::ShuttingDown,
    };
    connection.ended.cancel();
    let socket = to.reunite(from).expect("halves of one socket");
    websocket::close(socket, goodbye(end)).await;
}

async fn receive(
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    connection: &Arc<Connection>,
    caller: Caller,
) -> End {
    loop {
        let message = match timeout(limits::SILENT_MAX, from.next()).await {
            Err(_) => return End::Silent,
            Ok(None) => return End::Disconnected,
            Ok(Some(message)) => message,
        };
        match message {
            Ok(Message::Text(text)) => {
                if connection.receive(caller.clone(), text.as_bytes()).await.is_err() {
                    return End::Disconnected;
                }
            }
            // Only text has a meaning.
            Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(_)) => return End::Disconnected,
            Err(Error::Capacity(_)) => return End::MessageTooLarge,
            Err(Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt) => return End::ProtocolError,
            Err(_) => return End::Disconnected,
        }
    }
}

async fn send(
    mut receiver: mpsc::Receiver<Outgoing>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> End {
    let mut pings = interval(limits::PING);
    loop {
        let message = tokio::select! {
            // Both are safe to cancel: a message stays in the channel, a missed tick comes later.
            outgoing = receiver.recv() => match outgoing {
                Some(outgoing) => Message::text(outgoing.message.to_string()),
                None => return End::Disconnected,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if to.send(message).await.is_err() {
            return End::Disconnected;
        }
    }
}

fn goodbye(end: End) -> Goodbye<'static> {
    match end {
        End::Disconnected => Goodbye::None,
        End::Silent => Goodbye::Close(CloseCode::Again, "silent for too long; connect again and resume"),
        End::MessageTooLarge => {
            Goodbye::Rejected(CloseCode::Size, "a message may have at most 1048576 bytes")
        }
        End::ProtocolError => Goodbye::Rejected(CloseCode::Protocol, "not the WebSocket protocol"),
        End::ShuttingDown => {
            Goodbye::Close(CloseCode::Away, "hostd is shutting down; connect again in a moment and resume")
        }
    }
}
