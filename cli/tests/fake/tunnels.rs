//! Tunnels of the fake hostd, by the number of their port.
//!
//! | port | what it does |
//! |---|---|
//! | 7 | echoes, and ends when the client does |
//! | 8 | greets, and goes away without an end |
//! | 13 | greets, ends, and reads what the client still says: it is in `heard` |
//! | anything else | nothing listens |

use super::serve::{FakeResponse, document, error};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::{Request, body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};

#[derive(Default)]
pub struct Tunnels {
    heard: watch::Sender<Vec<u8>>,
}

impl Tunnels {
    /// Waits until port 13 has heard this to the end.
    pub async fn wait_heard(&self, text: &[u8]) {
        self.heard.subscribe().wait_for(|heard| heard == text).await.expect("the sender lives");
    }

    /// Accepts a tunnel: the value of `Sec-WebSocket-Accept`; or refuses it.
    pub fn answer(
        self: &Arc<Self>,
        port: &str,
        request: &mut Request<Incoming>,
    ) -> Result<String, FakeResponse> {
        if !matches!(port, "7" | "8" | "13") {
            let mut body = error("port_closed", &format!("nothing listens on port {port}"));
            body["error"]["retryable"] = json!(true);
            return Err(document(502, &body));
        }
        assert_eq!(request.headers()["sec-websocket-protocol"], "slipway.tunnel");
        let accept = derive_accept_key(request.headers()["sec-websocket-key"].as_bytes());
        let (this, port) = (Arc::clone(self), port.to_owned());
        tokio::spawn(this.serve(port, hyper::upgrade::on(request)));
        Ok(accept)
    }

    async fn serve(self: Arc<Self>, port: String, upgrade: OnUpgrade) {
        let Ok(upgraded) = upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        if port != "7" {
            socket.send(Message::binary("hello\n")).await.expect("sent");
        }
        if port == "8" {
            return;
        }
        if port == "13" {
            socket.send(Message::Binary(Bytes::new())).await.expect("sent");
        }
        let mut heard = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Binary(bytes) = message else { continue };
            heard.extend_from_slice(&bytes);
            let over = bytes.is_empty();
            if port == "7" {
                socket.send(Message::Binary(bytes)).await.expect("sent");
            }
            if over {
                break;
            }
        }
        self.heard.send_replace(heard);
        let frame = CloseFrame { code: CloseCode::Normal, reason: "ended".into() };
        let _ = socket.close(Some(frame)).await;
    }
}
