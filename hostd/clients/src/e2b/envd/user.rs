//! The user of a request: `Authorization: Basic` with an empty password, or `username`.

use super::http_error::HttpError;
use crate::e2b::connect::{Code, ConnectError};
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{HeaderMap, header::AUTHORIZATION};

/// The user that programs of the sandbox run as, as clients of E2B call it.
pub const USER: &str = "user";
/// Its name in the sandbox.
const OWN_NAME: &str = "sandbox";

/// Why a request is not for that user. The text is that of the protocol, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    #[error("invalid Authorization header: expected Basic with a user")]
    Malformed,
    #[error("error looking up user '{0}': programs of this sandbox run as '{USER}' only")]
    NotServed(String),
}

impl From<UserError> for HttpError {
    fn from(error: UserError) -> Self {
        Self::unauthorized(error.to_string())
    }
}

impl From<UserError> for ConnectError {
    fn from(error: UserError) -> Self {
        Self::new(Code::Unauthenticated, error.to_string())
    }
}

/// Checks the user that the headers name; without one, it is the default.
pub fn check(headers: &HeaderMap) -> Result<(), UserError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(()) };
    check_name(Some(&basic_user(value.as_bytes()).ok_or(UserError::Malformed)?))
}

pub fn check_name(name: Option<&str>) -> Result<(), UserError> {
    match name {
        None | Some("" | USER | OWN_NAME) => Ok(()),
        Some(other) => Err(UserError::NotServed(other.chars().take(32).collect())),
    }
}

fn basic_user(value: &[u8]) -> Option<String> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, _)| user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sandbox_user_is_served() {
        let encoded = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let not_served = |name: &str| Err(UserError::NotServed(name.to_owned()));
        let table = [
            (encoded("user:"), Ok(())),
            (encoded("sandbox:"), Ok(())),
            (encoded(":"), Ok(())),
            (encoded("root:"), not_served("root")),
            (encoded("Root:x"), not_served("Root")),
            (encoded("user"), Err(UserError::Malformed)),
            ("Basic ???".to_owned(), Err(UserError::Malformed)),
            ("Bearer x".to_owned(), Err(UserError::Malformed)),
            ("Basic".to_owned(), Err(UserError::Malformed)),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            assert_eq!(check(&headers), expected, "{value}");
        }
        assert_eq!(check(&HeaderMap::new()), Ok(()));
    }
}
