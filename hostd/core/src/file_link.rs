//! Signed URLs of files: each lets its bearer read or write one file for a limited time. The signature covers all that
//! the URL allows; whether it was revoked since is known to the store.

use super::LinkId;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use protocol::{
    api::{FileLinkMethod, SandboxId},
    files::FilePath,
};
use sha2::Sha256;
use std::fmt;

/// Separates these signatures from others that are made with the same key.
const LABEL: &[u8] = b"slipway file link 1\0";

/// What a URL allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLink {
    /// Also the id of its key.
    pub id: LinkId,
    pub sandbox: SandboxId,
    pub method: FileLinkMethod,
    pub path: FilePath,
    /// Bytes of the largest upload.
    pub max_bytes: u64,
    pub expires_ms: u64,
}

/// Signs and verifies. Its `Debug` shows no key.
#[derive(Clone)]
pub struct FileLinkSigner {
    key: [u8; 32],
}

impl fmt::Debug for FileLinkSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLinkSigner").finish_non_exhaustive()
    }
}

impl FileLinkSigner {
    pub fn new(instance_key: &[u8; 32]) -> Self {
        let mut mac = state(instance_key);
        mac.update(LABEL);
        Self { key: mac.finalize().into_bytes().into() }
    }

    pub fn sign(&self, link: &FileLink) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.mac(link).finalize().into_bytes())
    }

    /// Whether the text is the signature of this link, in constant time.
    pub fn verify(&self, link: &FileLink, signature: &str) -> bool {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature);
        bytes.is_ok_and(|bytes| self.mac(link).verify_slice(&bytes).is_ok())
    }

    fn mac(&self, link: &FileLink) -> Hmac<Sha256> {
        let FileLink { id, sandbox, method, path, max_bytes, expires_ms } = link;
        let mut mac = state(&self.key);
        // The texts before the path have one length each, so that no two links are signed alike.
        for part in [id.to_string().as_bytes(), sandbox.as_str().as_bytes(), method.as_str().as_bytes()] {
            mac.update(part);
        }
        mac.update(&max_bytes.to_be_bytes());
        mac.update(&expires_ms.to_be_bytes());
        mac.update(&path.0);
        mac
    }
}

fn state(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_for_one_link_only() {
        let link = FileLink {
            id: LinkId::generate(),
            sandbox: "01arz3ndektsv4rrffq69g5fav".parse().unwrap(),
            method: FileLinkMethod::Get,
            path: "a/b".into(),
            max_bytes: 10,
            expires_ms: 1000,
        };
        let signer = FileLinkSigner::new(&[7; 32]);
        let signature = signer.sign(&link);
        assert!(signer.verify(&link, &signature));
        let others = [
            FileLink { id: LinkId::generate(), ..link.clone() },
            FileLink { sandbox: "01arz3ndektsv4rrffq69g5faw".parse().unwrap(), ..link.clone() },
            FileLink { method: FileLinkMethod::Put, ..link.clone() },
            FileLink { path: "a/c".into(), ..link.clone() },
            FileLink { max_bytes: 11, ..link.clone() },
            FileLink { expires_ms: 1001, ..link.clone() },
        ];
        for other in others {
            assert!(!signer.verify(&other, &signature), "{other:?}");
        }
        assert!(!FileLinkSigner::new(&[8; 32]).verify(&link, &signature), "another key");
        for wrong in ["", "x", &signature[1..], &format!("{signature}=")] {
            assert!(!signer.verify(&link, wrong), "{wrong}");
        }
    }
}
