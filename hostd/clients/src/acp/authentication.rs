//! Authenticates an editor by its token, with every request. A connection by HTTP is bound to the token that opened it.

use super::{connection::Caller, params::QueryDefaults};
use crate::{ApiClient, ApiFailure, ClientKey, ClientParts, Credential};
use axum::body::Body;
use hostd_net::websocket;
use hyper::{HeaderMap, Request, header::AUTHORIZATION};
use protocol::api::{ApiErrorCode, IdentityView, Label, TOKEN_SUBPROTOCOL};
use sha2::{Digest, Sha256};

const PURPOSE: &str = "acp connection";

/// Hash of a token; of none for the Unix socket.
pub type TokenHash = [u8; 32];

/// Returns the caller that a request names; [`check`] says whether there is one.
pub fn caller(parts: &ClientParts, request: &Request<Body>) -> Result<(Caller, TokenHash), ApiFailure> {
    let invalid = |message: String| ApiFailure::new(ApiErrorCode::InvalidRequest, message);
    let defaults = QueryDefaults::parse(request.uri()).map_err(invalid)?;
    let token = token(request.headers())?;
    let hash = Sha256::digest(token.unwrap_or_default()).into();
    let credential = token.map_or(Credential::Connection, |token| Credential::Token(token.to_owned()));
    let api = ApiClient::of(parts.api.clone(), request, credential);
    Ok((Caller { api, defaults }, hash))
}

/// Checks that a caller may use the API, and returns its tenant.
pub async fn check(caller: &Caller) -> Result<Label, ApiFailure> {
    Ok(caller.api.get::<IdentityView>("/v1/identity").await?.tenant)
}

/// Returns the bearer token; a page in a browser sends it as a subprotocol of its WebSocket.
fn token(headers: &HeaderMap) -> Result<Option<&str>, ApiFailure> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(websocket::subprotocols(headers).find_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL)));
    };
    let message = "Authorization must be: Bearer, one space, a token";
    let invalid = || ApiFailure::new(ApiErrorCode::Unauthorized, message);
    hostd_core::bearer(value).map(Some).ok_or_else(invalid)
}

/// A new id of a connection by HTTP, for this token.
pub fn connection_id(key: &ClientKey, token: &TokenHash) -> String {
    let name = ulid::Ulid::generate().to_string().to_ascii_lowercase();
    let signature = key.sign(PURPOSE, &[name.as_bytes(), token]);
    format!("{name}.{}", hex(&signature))
}

/// Whether the id is one of ours, for this token.
pub fn verify_connection_id(key: &ClientKey, token: &TokenHash, id: &str) -> bool {
    let Some((name, signature)) = id.split_once('.') else { return false };
    unhex(signature).is_some_and(|signature| key.verify(PURPOSE, &[name.as_bytes(), token], &signature))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a signature.
fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_connection_is_for_one_token() {
        let key = ClientKey::new(&[7; 32]);
        let id = connection_id(&key, &[1; 32]);
        assert!(verify_connection_id(&key, &[1; 32], &id));
        assert!(!verify_connection_id(&key, &[2; 32], &id));
        assert!(!verify_connection_id(&ClientKey::new(&[8; 32]), &[1; 32], &id));
        let long = format!("{id}00");
        let other = format!("x{id}");
        for bad in ["", ".", "x.y", id.trim_end_matches(|c: char| c != '.'), &long, &other] {
            assert!(!verify_connection_id(&key, &[1; 32], bad), "{bad}");
        }
    }
}
