//! Secrets of a tenant: written by name, never read back, and used by reference.

use super::Label;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Longest name of a secret, in bytes.
pub const SECRET_NAME_MAX_BYTES: usize = 64;
/// Largest value of a secret, in bytes.
pub const SECRET_VALUE_MAX_BYTES: usize = 64 << 10;
/// What a reference begins with.
const SCHEME: &str = "secret:";

/// The name of a secret: 1 to 64 of a to z, 0 to 9, `-`, `_` and `.`, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(String);

/// A reference to a secret, as in `secret:NAME`. It stands where a credential would; hostd resolves it when the
/// credential is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct SecretRef(SecretName);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSecretName;

/// The text is not `secret:` with the name of a secret. It may be a credential, and is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSecretRef;

impl fmt::Display for BadSecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be 1 to {SECRET_NAME_MAX_BYTES} of a to z, 0 to 9, '-', '_' and '.', beginning with a letter or a digit"
        )
    }
}

impl fmt::Display for BadSecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {SCHEME}NAME, where NAME is the name of a secret")
    }
}

impl std::error::Error for BadSecretName {}
impl std::error::Error for BadSecretRef {}

impl SecretName {
    pub fn parse(text: &str) -> Result<Self, BadSecretName> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let good = text.len() <= SECRET_NAME_MAX_BYTES
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || b"-_.".contains(&byte));
        if good { Ok(Self(text.to_owned())) } else { Err(BadSecretName) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SecretName {
    type Error = BadSecretName;
    fn try_from(text: String) -> Result<Self, BadSecretName> {
        Self::parse(&text)
    }
}

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        name.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SecretRef {
    pub fn new(name: SecretName) -> Self {
        Self(name)
    }

    pub fn name(&self) -> &SecretName {
        &self.0
    }
}

impl FromStr for SecretRef {
    type Err = BadSecretRef;
    fn from_str(text: &str) -> Result<Self, BadSecretRef> {
        let name = text.strip_prefix(SCHEME).and_then(|name| SecretName::parse(name).ok());
        name.map(Self).ok_or(BadSecretRef)
    }
}

impl TryFrom<String> for SecretRef {
    type Error = BadSecretRef;
    fn try_from(text: String) -> Result<Self, BadSecretRef> {
        text.parse()
    }
}

impl From<SecretRef> for String {
    fn from(reference: SecretRef) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

/// A secret to set: `PUT /v1/secrets/{name}`.
// Not `Debug`: it holds the value.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// The value, of 1 byte to 64 KiB; no response shows it.
    pub value: String,
    /// Tenant of the secret; by default that of the caller. Only the operator names another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretView {
    pub name: SecretName,
    pub tenant: Label,
    /// Counts how often the value was set.
    pub version: u64,
    /// Principal that set the value last.
    pub updated_by: String,
    pub created_at: String,
    pub updated_at: String,
    /// Last use, to the minute; absent: never used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// Why the value cannot be used, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_a_reference_names_one() {
        let longest = "a".repeat(SECRET_NAME_MAX_BYTES);
        let good = ["a", "0", "registry-token_2.old", &longest];
        for text in good {
            assert_eq!(SecretName::parse(text).map(String::from).as_deref(), Ok(text));
            let reference: SecretRef = format!("secret:{text}").parse().expect("a reference");
            assert_eq!(reference.to_string(), format!("secret:{text}"));
        }
        for text in ["", "-a", ".a", "A", "a b", "a/b", "ä", &format!("{longest}a")] {
            assert!(SecretName::parse(text).is_err(), "{text:?}");
            assert!(format!("secret:{text}").parse::<SecretRef>().is_err(), "{text:?}");
        }
        for text in ["", "a", "secret", "SECRET:a", "secret: a", "sk-live-key"] {
            assert!(text.parse::<SecretRef>().is_err(), "{text:?}");
        }
    }
}
