//! The login of a user at a registry.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use std::fmt;
use zeroize::Zeroizing;

/// A user name and password, or a token that is given as a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryLogin {
    pub username: String,
    pub password: Zeroizing<String>,
}

impl RegistryLogin {
    /// Returns the header `Authorization` of this login; none where the password cannot be in one.
    pub fn basic_header(&self) -> Option<HeaderValue> {
        let pair = Zeroizing::new(format!("{}:{}", self.username, self.password.as_str()));
        let encoded = Zeroizing::new(BASE64_STANDARD.encode(pair.as_bytes()));
        secret_header(&Zeroizing::new(format!("Basic {}", encoded.as_str())))
    }
}

/// Some users are named like their token, so nothing is printed.
impl fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegistryLogin")
    }
}

/// Returns a header whose value is not printed.
pub fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_sent_and_not_printed() {
        let login = RegistryLogin { username: "ann".into(), password: "hunter2".to_owned().into() };
        let header = login.basic_header().expect("a header");
        assert_eq!(header.to_str().expect("text"), "Basic YW5uOmh1bnRlcjI=");
        assert_eq!(format!("{login:?} {header:?}"), "RegistryLogin Sensitive");
    }
}
