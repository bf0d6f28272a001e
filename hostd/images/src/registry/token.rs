//! Responses of token services. Pure.

use crate::limits::{TOKEN_LIFE_DEFAULT_S, TOKEN_LIFE_MAX_S, TOKEN_MARGIN_S};
use serde::Deserialize;
use std::{fmt, time::Duration};
use zeroize::Zeroizing;

/// A token for one repository.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub text: Zeroizing<String>,
    /// How long the token is used.
    pub life: Duration,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    token: Option<String>,
    /// The name of the same in OAuth 2.
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Token {
    /// Parses a response; none where it holds no token.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let Wire { token, access_token, expires_in } = serde_json::from_slice(bytes).ok()?;
        let text = [token, access_token]
            .into_iter()
            .flatten()
            .map(Zeroizing::new)
            .find(|token| !token.is_empty())?;
        let life = expires_in.unwrap_or(TOKEN_LIFE_DEFAULT_S).min(TOKEN_LIFE_MAX_S);
        Some(Self { text, life: Duration::from_secs(life.saturating_sub(TOKEN_MARGIN_S)) })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token for {:?}", self.life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_parsed_and_not_printed() {
        for (response, expected) in [
            (r#"{"token":"a","expires_in":300}"#, Some(("a", 290))),
            (r#"{"access_token":"b"}"#, Some(("b", 50))),
            (r#"{"token":"","access_token":"b","expires_in":5}"#, Some(("b", 0))),
            (
                r#"{"token":"a","expires_in":999999999,"issued_at":"2020-01-01T00:00:00Z"}"#,
                Some(("a", 3_590)),
            ),
            ("{}", None),
            (r#"{"token":""}"#, None),
            (r#"{"token":1}"#, None),
            ("<html>", None),
        ] {
            let token = Token::parse(response.as_bytes());
            let found = token.as_ref().map(|token| (token.text.as_str(), token.life.as_secs()));
            assert_eq!(found, expected, "{response}");
        }
        let token = Token::parse(br#"{"token":"hunter2"}"#).expect("a token");
        assert_eq!(format!("{token:?}"), "Token for 50s");
    }
}
