//! What all WebSockets of hostd do alike: the handshake, limits, and the closing handshake.

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::{
    HeaderMap, Request, Response,
    header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL},
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error,
        handshake::server::create_response,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// The WebSocket protocol's limit for the reason in a close frame.
pub const REASON_MAX_BYTES: usize = 123;
/// Allocated for every connection; most of what clients send is short.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// How long the closing handshake of a WebSocket may take.
const CLOSE_MAX: Duration = Duration::from_millis(1_000);

/// Why a request does not become a WebSocket.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error("open this as a WebSocket (Upgrade: websocket): {0}")]
    NotAnUpgrade(String),
    #[error("the subprotocol is {0}; offer it, beside the token if there is one")]
    OtherSubprotocol(&'static str),
}

/// Sizes of one kind of WebSocket.
#[derive(Debug, Clone, Copy)]
pub struct SocketSizes {
    /// A message of the client.
    pub message_max_bytes: usize,
    /// Messages of ours that wait for the socket.
    pub write_buffer_max_bytes: usize,
}

/// The last words of a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye<'a> {
    /// The client left first.
    None,
    Close(CloseCode, &'a str),
    /// The same, to a client that violated the protocol and may still be sending.
    Rejected(CloseCode, &'a str),
}

/// The WebSocket subprotocols that the caller offers.
pub fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Returns the response that accepts the handshake, if the client offers this subprotocol or none.
pub fn handshake(headers: &HeaderMap, subprotocol: &'static str) -> Result<Response<()>, HandshakeError> {
    let mut request = Request::new(());
    *request.headers_mut() = headers.clone();
    let response = create_response(&request);
    let mut response = response.map_err(|error| HandshakeError::NotAnUpgrade(error.to_string()))?;
    let mut offered = subprotocols(headers).peekable();
    if offered.peek().is_some() {
        if !offered.any(|name| name == subprotocol) {
            return Err(HandshakeError::OtherSubprotocol(subprotocol));
        }
        // Never echo the token.
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
    }
    Ok(response)
}

pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(socket: S, sizes: SocketSizes) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(sizes.message_max_bytes))
        .max_frame_size(Some(sizes.message_max_bytes))
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(sizes.write_buffer_max_bytes);
    WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await
}

/// Sends the close frame, and waits a moment for the client to read it.
pub async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, goodbye: Goodbye<'_>) {
    let frame = |code: CloseCode, reason: &str| CloseFrame {
        code,
        reason: reason[..reason.floor_char_boundary(REASON_MAX_BYTES)].into(),
    };
    let closing = async {
        match goodbye {
            Goodbye::Close(code, reason) | Goodbye::Rejected(code, reason) => {
                socket.close(Some(frame(code, reason))).await?;
            }
            // The reply to the client's own close frame, if there was one, is pending.
            Goodbye::None => socket.flush().await?,
        }
        if let Goodbye::Rejected(..) = goodbye {
            // Read what the client still sends: otherwise the kernel resets the connection and discards the
            // close frame.
            let mut ignored = [0; READ_BUFFER_BYTES];
            while socket.get_mut().read(&mut ignored).await? > 0 {}
        }
        while socket.next().await.transpose()?.is_some() {}
        Ok::<(), Error>(())
    };
    // The result does not matter: the session is over.
    let _ = timeout(CLOSE_MAX, closing).await;
}
