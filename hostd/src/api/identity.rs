//! Who calls: by a bearer token, or by being root on the Unix socket.

use super::{
    Api, Auth,
    failure::Failure,
    hosts::Peer,
    limits, terminals,
    tokens::{alive, hash_of},
};
use crate::core::Identity;
use hyper::{HeaderMap, header::AUTHORIZATION};
use protocol::api::{ApiErrorCode, Label, TOKEN_SUBPROTOCOL, TokenScope};
use subtle::ConstantTimeEq;

/// Whoever calls as the administrator of the host owns what he makes under these names.
const OPERATOR_TENANT: &str = "default";
const OPERATOR_PRINCIPAL: &str = "admin";

pub async fn identify(api: &Api, peer: Peer, headers: &HeaderMap) -> Result<Identity, Failure> {
    if api.settings.auth == Auth::Off && peer.is_loopback() {
        return Ok(operator("auth-off".to_owned()));
    }
    let token = bearer(headers)?;
    match (peer, token) {
        (Peer::Unix { uid }, _) if !trusted(uid) => {
            Err(Failure::new(ApiErrorCode::Forbidden, "only root and hostd's own user may use this socket"))
        }
        (Peer::Unix { uid }, None) => Ok(operator(format!("socket:{uid}"))),
        (_, Some(token)) => by_token(api, token).await,
        (Peer::Tcp { .. }, None) => Err(unauthorized("send Authorization: Bearer with a token")),
    }
}

/// For routes that ask nobody who he is.
pub fn nobody() -> Identity {
    Identity { scope: TokenScope::Read, operator: false, ..operator(String::new()) }
}

fn operator(via: String) -> Identity {
    let label = |text| Label::parse(text).expect("a constant that is a good label");
    Identity {
        tenant: label(OPERATOR_TENANT),
        principal: label(OPERATOR_PRINCIPAL),
        scope: TokenScope::Admin,
        operator: true,
        via,
    }
}

fn trusted(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

/// The store is asked every time: a revoked token must not work once more.
async fn by_token(api: &Api, token: &str) -> Result<Identity, Failure> {
    let hash = hash_of(token);
    if bool::from(hash.ct_eq(&api.settings.admin_hash)) {
        return Ok(operator("admin-token".to_owned()));
    }
    let found = api.fleet.store().token_by_hash(&hash).await?;
    let record = found.filter(|record| alive(record, api.now_ms()));
    let record = record.ok_or_else(|| unauthorized("this token is unknown, revoked or expired"))?;
    Ok(Identity {
        tenant: record.tenant,
        principal: record.principal,
        scope: record.scope,
        operator: false,
        via: record.id,
    })
}

/// Browsers cannot set headers on WebSockets, but name subprotocols.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(terminals::subprotocols(headers).find_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL)));
    };
    let wrong = || unauthorized("Authorization must be: Bearer, one space, a token");
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(wrong)?;
    let sane =
        (1..=limits::TOKEN_MAX_BYTES).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if scheme.eq_ignore_ascii_case("bearer") && sane { Ok(Some(token)) } else { Err(wrong()) }
}

fn unauthorized(message: &str) -> Failure {
    Failure::new(ApiErrorCode::Unauthorized, message)
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
