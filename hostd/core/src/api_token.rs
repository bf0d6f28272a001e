//! API tokens as text: how a request carries one, and the hash that is stored.

use crate::limits;
use http::HeaderValue;
use sha2::{Digest, Sha256};

/// The stored hash of a token. A token has 256 random bits: neither salt nor a slow hash is needed.
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The token of `Authorization: Bearer`.
pub fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token).filter(|token| is_well_formed_token(token))
}

pub fn is_well_formed_token(token: &str) -> bool {
    (1..=limits::TOKEN_MAX_BYTES).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic())
}
