//! Signed URLs of files: `signature=v1_…`, by the token of the sandbox, which is not in the URL.

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use subtle::ConstantTimeEq;

const VERSION: &str = "v1_";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The parameters of a URL with a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    path: String,
    user: String,
    signature: String,
    expires_s: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("invalid signature")]
    Invalid,
    #[error("signature is already expired")]
    Expired,
}

impl Signed {
    /// `None` where the URL has no signature.
    pub fn of(query: &HashMap<String, String>) -> Option<Self> {
        let text = |name: &str| query.get(name).cloned();
        Some(Self {
            signature: text("signature")?,
            path: text("path").unwrap_or_default(),
            user: text("username").unwrap_or_default(),
            expires_s: text("signature_expiration"),
        })
    }

    /// Checks it in constant time, then whether it has expired.
    pub fn check(&self, operation: Operation, token: &str, now_s: u64) -> Result<(), SignatureError> {
        let mut hash = Sha256::new();
        hash.update(format!("{}:{}:{}:{token}", self.path, operation.name(), self.user));
        if let Some(expires_s) = &self.expires_s {
            hash.update(format!(":{expires_s}"));
        }
        let expected = format!("{VERSION}{}", BASE64_STANDARD_NO_PAD.encode(hash.finalize()));
        if !bool::from(expected.as_bytes().ct_eq(self.signature.trim_end_matches('=').as_bytes())) {
            return Err(SignatureError::Invalid);
        }
        match self.expires_s.as_deref().map(str::parse::<u64>) {
            None => Ok(()),
            Some(Ok(expires_s)) if now_s <= expires_s => Ok(()),
            Some(Ok(_)) => Err(SignatureError::Expired),
            Some(Err(_)) => Err(SignatureError::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(pairs: &[(&str, &str)]) -> Signed {
        let query = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Signed::of(&query).expect("signed")
    }

    /// Made with the package `e2b` 2.63.0: `get_signature("a b.txt", "read", None, "token", …)`.
    const READ: &str = "v1_VtvWmRAG//CWNEQmqUFXjEg3/AjstLtRw1GeOQ95t44";
    const READ_UNTIL_2000: &str = "v1_7s134GI+iRSqo2yaXUnZdDqWtFdBgn3FDg4lBKzG3oE";

    #[test]
    fn a_signature_is_for_one_path_user_operation_token_and_time() {
        use Operation::{Read, Write};
        use SignatureError::{Expired, Invalid};
        let plain = [("path", "a b.txt"), ("signature", READ)];
        let until = [("path", "a b.txt"), ("signature", READ_UNTIL_2000), ("signature_expiration", "2000")];
        let table = [
            (signed(&plain), Read, "token", 1, Ok(())),
            (signed(&plain), Write, "token", 1, Err(Invalid)),
            (signed(&plain), Read, "other", 1, Err(Invalid)),
            (signed(&[("path", "a"), plain[1]]), Read, "token", 1, Err(Invalid)),
            (signed(&[plain[0], plain[1], ("username", "user")]), Read, "token", 1, Err(Invalid)),
            (signed(&[plain[0], plain[1], until[2]]), Read, "token", 1, Err(Invalid)),
            (signed(&until), Read, "token", 2000, Ok(())),
            (signed(&until), Read, "token", 2001, Err(Expired)),
            (signed(&until[..2]), Read, "token", 1, Err(Invalid)),
            (signed(&[until[0], until[1], ("signature_expiration", "9999")]), Read, "token", 1, Err(Invalid)),
            (signed(&[("path", "a b.txt"), ("signature", "v1_")]), Read, "token", 1, Err(Invalid)),
        ];
        for (signed, operation, token, now_s, expected) in table {
            assert_eq!(signed.check(operation, token, now_s), expected, "{signed:?} {operation:?}");
        }
        assert_eq!(Signed::of(&HashMap::new()), None);
    }
}
