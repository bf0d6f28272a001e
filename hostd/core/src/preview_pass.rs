//! Preview passes: signed texts that let their bearer see one preview for a limited time. Verifying one needs
//! only the key; whether its link was revoked since is known to the store.
//!
//! ```text
//!  slp1.<base64url: purpose 1 · link 16 · sandbox 16 · port 2 · expiry 6 · HMAC-SHA256 32>
//! ```
//!
//! The hostname of the preview is signed, too, and each link has a key of its own.

use super::preview::{Preview, Previews};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use protocol::api::SandboxId;
use sha2::Sha256;
use std::{fmt, str::FromStr};
use ulid::Ulid;

/// The prefix of every pass; the number is that of the format.
pub const PASS_PREFIX: &str = "slp1.";
const BODY_BYTES: usize = 1 + ID_BYTES + ID_BYTES + PORT_BYTES + EXPIRY_BYTES;
const ID_BYTES: usize = 16;
const PORT_BYTES: usize = 2;
const EXPIRY_BYTES: usize = 6;
const EXPIRY_MAX_MS: u64 = (1 << (8 * EXPIRY_BYTES)) - 1;
const MAC_BYTES: usize = 32;
/// Length in base64 without padding.
const TEXT_BYTES: usize = (4 * (BODY_BYTES + MAC_BYTES)).div_ceil(3);
/// Separates passes from badges, which are signed with the same key.
const LABEL: &[u8] = b"slipway pass 1\0";

/// The id of a link, which is the id of its key: a ULID in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(Ulid);

impl LinkId {
    pub fn generate() -> Self {
        Self(Ulid::generate())
    }
}

impl FromStr for LinkId {
    type Err = protocol::api::BadId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Both are ULIDs.
        text.parse().map(|id: SandboxId| Self(ulid_of(&id)))
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().to_ascii_lowercase())
    }
}

/// Where a pass is presented. A pass for one purpose is invalid for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassPurpose {
    /// In an address or a header: users share it.
    Link,
    /// In the cookie of one hostname.
    Cookie,
}

impl PassPurpose {
    fn byte(self) -> u8 {
        match self {
            Self::Link => 1,
            Self::Cookie => 2,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewPass {
    pub link: LinkId,
    pub preview: Preview,
    pub expires_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    #[error("it is no pass of this host")]
    Forged,
    #[error("it is a pass for another preview")]
    OtherPreview,
    #[error("it is a pass for another use")]
    OtherUse,
    #[error("it has expired")]
    Expired,
}

/// Signs and verifies passes. Its `Debug` shows no key.
#[derive(Clone)]
pub struct PassSigner {
    key: [u8; MAC_BYTES],
    previews: Previews,
}

impl fmt::Debug for PassSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassSigner").finish_non_exhaustive()
    }
}

impl PassSigner {
    pub fn new(instance_key: &[u8; 32], previews: Previews) -> Self {
        Self { key: hmac(instance_key, &[LABEL]), previews }
    }

    pub fn sign(&self, pass: &PreviewPass, purpose: PassPurpose) -> String {
        let mut bytes = [0; BODY_BYTES + MAC_BYTES];
        bytes[0] = purpose.byte();
        bytes[1..17].copy_from_slice(&pass.link.0.to_bytes());
        bytes[17..33].copy_from_slice(&ulid_of(&pass.preview.sandbox).to_bytes());
        bytes[33..35].copy_from_slice(&pass.preview.port.to_be_bytes());
        let expiry = pass.expires_ms.min(EXPIRY_MAX_MS).to_be_bytes();
        bytes[35..41].copy_from_slice(&expiry[8 - EXPIRY_BYTES..]);
        let (body, end) = bytes.split_at_mut(BODY_BYTES);
        end.copy_from_slice(&self.mac(pass, body).finalize().into_bytes());
        format!("{PASS_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Verifies a pass. Every error but `Forged` is about an authentic one.
    pub fn verify(
        &self,
        text: &[u8],
        at: &Preview,
        purpose: PassPurpose,
        now_ms: u64,
    ) -> Result<PreviewPass, PassError> {
        let (written_for, pass) = self.authenticate(text).ok_or(PassError::Forged)?;
        if pass.preview != *at {
            return Err(PassError::OtherPreview);
        }
        if written_for != purpose.byte() {
            return Err(PassError::OtherUse);
        }
        if pass.expires_ms <= now_ms { Err(PassError::Expired) } else { Ok(pass) }
    }

    fn authenticate(&self, text: &[u8]) -> Option<(u8, PreviewPass)> {
        let text = text.strip_prefix(PASS_PREFIX.as_bytes()).filter(|text| text.len() == TEXT_BYTES)?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (body, end) = bytes.split_at_checked(BODY_BYTES)?;
        let pass = PreviewPass {
            link: LinkId(Ulid::from_bytes(body[1..17].try_into().ok()?)),
            preview: Preview {
                sandbox: sandbox_of(Ulid::from_bytes(body[17..33].try_into().ok()?))?,
                port: u16::from_be_bytes(body[33..35].try_into().ok()?),
            },
            expires_ms: body[35..41].iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte)),
        };
        // Compares in constant time.
        self.mac(&pass, body).verify_slice(end).ok()?;
        Some((body[0], pass))
    }

    fn mac(&self, pass: &PreviewPass, body: &[u8]) -> Hmac<Sha256> {
        let key = hmac(&self.key, &[&pass.link.0.to_bytes()]);
        let mut mac = hmac_state(&key);
        mac.update(body);
        mac.update(self.previews.name(&pass.preview).as_bytes());
        mac
    }
}

fn hmac_state(key: &[u8; MAC_BYTES]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do")
}

fn hmac(key: &[u8; MAC_BYTES], parts: &[&[u8]]) -> [u8; MAC_BYTES] {
    let mut mac = hmac_state(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn ulid_of(id: &SandboxId) -> Ulid {
    Ulid::from_string(id.as_str()).expect("an id is a ULID")
}

fn sandbox_of(ulid: Ulid) -> Option<SandboxId> {
    ulid.to_string().parse().ok()
}

#[cfg(test)]
mod tests;
