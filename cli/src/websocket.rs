//! Opens WebSockets of hostd.

use crate::client::{ApiRequest, Client, ClientError};
use hyper::{StatusCode, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens a WebSocket whose messages have at most `message_max_bytes`.
pub async fn open(
    client: &Client,
    request: ApiRequest,
    subprotocol: &str,
    message_max_bytes: usize,
) -> Result<Socket, ClientError> {
    let key = generate_key();
    let request = request
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", subprotocol)
        .header("sec-websocket-key", key.clone());
    let response = client.open(request).await?;
    let accepted = response.headers().get("sec-websocket-accept");
    let ours = accepted.is_some_and(|value| value.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !ours {
        return Err(ClientError::UnexpectedResponse(format!(
            "{} where a WebSocket was asked for",
            response.status()
        )));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(ClientError::ConnectionLost)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(message_max_bytes))
        .max_frame_size(Some(message_max_bytes))
        .write_buffer_size(0);
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await)
}
