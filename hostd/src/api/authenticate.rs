//! Authenticates the caller: by bearer token, or by uid on the Unix socket.

use super::{Api, Auth, error::CallError, peer::Peer};
use hostd_core::Identity;
use hostd_net::websocket;
use hostd_store::token_auth::{self, operator};
use hyper::{HeaderMap, header::AUTHORIZATION};
use protocol::api::{ApiErrorCode, TOKEN_SUBPROTOCOL, TokenScope};

const INVALID: &str = "this token is unknown, revoked or expired";

pub async fn authenticate(api: &Api, peer: Peer, headers: &HeaderMap) -> Result<Identity, CallError> {
    if api.settings.auth == Auth::Off && peer.is_loopback() {
        return Ok(operator("auth-off".to_owned()));
    }
    let token = bearer(headers)?;
    match (peer, token) {
        (Peer::Unix { uid }, _) if !is_trusted_uid(uid) => {
            Err(CallError::new(ApiErrorCode::Forbidden, "only root and hostd's own user may use this socket"))
        }
        (Peer::Unix { uid }, None) => Ok(operator(format!("socket:{uid}"))),
        (_, Some(token)) => authenticate_token(api, token).await,
        (Peer::Tcp { .. }, None) => Err(unauthorized("send Authorization: Bearer with a token")),
    }
}

/// Checks again that the API token is valid which a protocol authenticated, if there is one: a call may come long after
/// the first one of its request.
pub async fn delegated(api: &Api, caller: &Identity) -> Result<Identity, CallError> {
    match api.store.token(&caller.via).await? {
        Some(record) => token_auth::identity(record, api.now_ms()).ok_or_else(|| unauthorized(INVALID)),
        None => Ok(caller.clone()),
    }
}

/// The identity of callers of routes without authentication.
pub fn anonymous() -> Identity {
    Identity { scope: TokenScope::Read, operator: false, ..operator(String::new()) }
}

fn is_trusted_uid(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

async fn authenticate_token(api: &Api, token: &str) -> Result<Identity, CallError> {
    let found = token_auth::authenticate(&api.store, &api.settings.admin_hash, token, api.now_ms()).await?;
    found.ok_or_else(|| unauthorized(INVALID))
}

/// Returns the bearer token. WebSockets of browsers cannot set headers, so it may also be a subprotocol.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, CallError> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(websocket::subprotocols(headers).find_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL)));
    };
    let invalid = || unauthorized("Authorization must be: Bearer, one space, a token");
    hostd_core::bearer(value).map(Some).ok_or_else(invalid)
}

fn unauthorized(message: &str) -> CallError {
    CallError::new(ApiErrorCode::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_one_word() {
        let table = [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Bearer ", None),
            ("Bearer a b", None),
            ("Basic abc", None),
            ("Bearer", None),
        ];
        for (text, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, text.parse().unwrap());
            assert_eq!(bearer(&headers).ok().flatten(), expected, "{text:?}");
        }
        assert!(matches!(bearer(&HeaderMap::new()), Ok(None)));
    }

    #[test]
    fn a_subprotocol_may_be_the_token() {
        let mut headers = HeaderMap::new();
        headers.insert("sec-websocket-protocol", "slipway.terminal, slipway.token.abc".parse().unwrap());
        assert_eq!(bearer(&headers).ok().flatten(), Some("abc"));
        headers.insert(AUTHORIZATION, "Bearer xyz".parse().unwrap());
        assert_eq!(bearer(&headers).ok().flatten(), Some("xyz"));
    }
}
