//! The handshake of the WebSockets of the API.

use super::{
    call::Call,
    error::{CallError, CallResult},
};
use axum::{body::Body, response::Response};
use hostd_net::websocket::{self, HandshakeError};
use hyper::{HeaderMap, upgrade::OnUpgrade};
use protocol::api::ApiErrorCode;

/// The response that accepts the handshake, if the caller speaks our subprotocol or names none.
pub fn handshake(headers: &HeaderMap, subprotocol: &'static str) -> CallResult {
    let response = websocket::handshake(headers, subprotocol)?;
    Ok::<Response, CallError>(response.map(|()| Body::empty()))
}

impl Call {
    /// Takes the connection of this call, to become a WebSocket.
    pub fn take_upgrade(&mut self) -> Result<OnUpgrade, CallError> {
        let missing = || HandshakeError::NotAnUpgrade("the connection cannot be upgraded".to_owned());
        self.upgrade.take().ok_or_else(|| missing().into())
    }
}

impl From<HandshakeError> for CallError {
    fn from(error: HandshakeError) -> Self {
        Self::new(ApiErrorCode::InvalidRequest, error.to_string())
    }
}
