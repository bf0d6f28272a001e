//! The key that signs what protocols hand out: tokens for one sandbox, ids of sessions. Derived from the key of the
//! instance, so that a restart changes nothing and the database does not hold it.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use hostd_core::CLIENT_TOKEN_PREFIX;
use sha2::Sha256;
use std::fmt;

/// Separates these signatures from others that are made with the key of the instance.
const LABEL: &[u8] = b"slipway clients 1\0";
const SIGNATURE_BYTES: usize = 32;

/// Its `Debug` shows no key.
#[derive(Clone)]
pub struct ClientKey {
    key: [u8; 32],
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl ClientKey {
    pub fn new(instance_key: &[u8; 32]) -> Self {
        let mut mac = state(instance_key);
        mac.update(LABEL);
        Self { key: mac.finalize().into_bytes().into() }
    }

    /// Returns the signature of these parts for one purpose. Parts are told apart by their length, so that no two lists
    /// are signed alike.
    pub fn sign(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(purpose, parts).finalize().into_bytes().into()
    }

    /// Whether the bytes are the signature of these parts, in constant time.
    pub fn verify(&self, purpose: &str, parts: &[&[u8]], signature: &[u8]) -> bool {
        self.mac(purpose, parts).verify_slice(signature).is_ok()
    }

    /// Returns the token of these parts for one purpose and holder: a signature and the holder, so that no token is stored.
    /// Its prefix lets previews take it out of a request.
    pub fn mint(&self, purpose: &str, parts: &[&[u8]], holder: &[u8]) -> String {
        let signature = self.sign(purpose, &[parts, &[holder]].concat());
        format!("{CLIENT_TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode([&signature, holder].concat()))
    }

    /// Returns the holder of a token of these parts, compared in constant time; `None` for any other text.
    pub fn holder(&self, purpose: &str, parts: &[&[u8]], token: &str) -> Option<Vec<u8>> {
        let (signature, holder) = signature_and_holder(token)?;
        self.verify(purpose, &[parts, &[&holder]].concat(), &signature).then_some(holder)
    }

    /// Returns the holder that a text names which looks like a token: nothing is verified.
    pub fn claimed_holder(token: &str) -> Option<Vec<u8>> {
        Some(signature_and_holder(token)?.1)
    }

    fn mac(&self, purpose: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = state(&self.key);
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

fn signature_and_holder(token: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let encoded = token.strip_prefix(CLIENT_TOKEN_PREFIX)?;
    let mut signature = BASE64_URL_SAFE_NO_PAD.decode(encoded).ok()?;
    (signature.len() >= SIGNATURE_BYTES).then(|| {
        let holder = signature.split_off(SIGNATURE_BYTES);
        (signature, holder)
    })
}

fn state(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_for_one_purpose_and_one_list_of_parts() {
        let key = ClientKey::new(&[7; 32]);
        let signature = key.sign("envd", &[b"ab", b"c"]);
        assert!(key.verify("envd", &[b"ab", b"c"], &signature));
        let others: [(&str, &[&[u8]]); 4] = [
            ("mcp", &[b"ab", b"c"]),
            ("envd", &[b"a", b"bc"]),
            ("envd", &[b"ab"]),
            ("envd", &[b"ab", b"c", b""]),
        ];
        for (purpose, parts) in others {
            assert!(!key.verify(purpose, parts, &signature), "{purpose} {parts:?}");
        }
        assert!(!ClientKey::new(&[8; 32]).verify("envd", &[b"ab", b"c"], &signature), "another key");
        assert!(!key.verify("envd", &[b"ab", b"c"], &signature[1..]));
    }

    #[test]
    fn a_token_is_accepted_as_it_was_minted_only_and_names_its_holder() {
        let key = ClientKey::new(&[7; 32]);
        let token = key.mint("envd", &[b"ab"], b"token-1");
        let holder = |purpose: &str, part: &[u8], token: &str| key.holder(purpose, &[part], token);
        assert_eq!(holder("envd", b"ab", &token).as_deref(), Some(&b"token-1"[..]));
        assert_eq!(holder("mcp", b"ab", &token), None, "another purpose");
        assert_eq!(holder("envd", b"ac", &token), None, "another part");
        assert_eq!(ClientKey::new(&[8; 32]).holder("envd", &[b"ab"], &token), None, "another instance");
        let without_prefix = &token[CLIENT_TOKEN_PREFIX.len()..];
        for wrong in ["", "slc_", "slc_AAAA", "slc_!", without_prefix, &format!("{token}A")] {
            assert_eq!(holder("envd", b"ab", wrong), None, "{wrong:?}");
        }
        for at in CLIENT_TOKEN_PREFIX.len()..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).expect("ASCII");
            let found = holder("envd", b"ab", &forged);
            assert_eq!(found.filter(|holder| holder != b"token-1"), None, "{forged}");
        }
    }
}
