//! Signatures of deliveries, as the Standard Webhooks specification has them.

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

const PREFIX: &str = "whsec_";
/// Bytes of a key; the specification allows 24 to 64.
pub const KEY_BYTES: usize = 32;

/// The key of the signatures of one webhook. `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl SigningKey {
    pub fn new(random: [u8; KEY_BYTES]) -> Self {
        Self(random.to_vec())
    }

    /// Reads a secret as [`Self::secret`] writes it.
    pub fn parse(secret: &str) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
        (bytes.len() == KEY_BYTES).then_some(Self(bytes))
    }

    /// Returns the text that its owner verifies with.
    pub fn secret(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp_s}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Returns the header `webhook-signature`: one signature for each key, separated by spaces.
pub fn signatures(keys: &[SigningKey], id: &str, timestamp_s: u64, body: &[u8]) -> String {
    let each: Vec<String> = keys.iter().map(|key| key.sign(id, timestamp_s, body)).collect();
    each.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference implementations, whose key has 24 bytes.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let key = SigningKey(BASE64_STANDARD.decode(secret).expect("base64"));
        let signed =
            signatures(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_read_back_and_two_keys_make_two_signatures() {
        let (new, old) = (SigningKey::new([1; 32]), SigningKey::new([2; 32]));
        assert!(new.secret().starts_with("whsec_"));
        assert_eq!(SigningKey::parse(&new.secret()), Some(new.clone()));
        assert_eq!(SigningKey::parse("whsec_AAAA"), None);
        assert_eq!(format!("{new:?}"), "…");
        let both = signatures(&[new.clone(), old.clone()], "m", 7, b"{}");
        let (first, second) = both.split_once(' ').expect("two");
        assert_eq!((first.to_owned(), second.to_owned()), (new.sign("m", 7, b"{}"), old.sign("m", 7, b"{}")));
        assert_ne!(first, second);
    }
}
