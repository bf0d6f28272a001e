//! What is kept beside a sandbox so that it can be recognised: who it is and what it was made from,
//! authenticated with a key that is not in the data of any sandbox.

use super::{super::SandboxLabel, files, layout::SandboxDir, limits::BADGE_MAX_BYTES};
use crate::core::{Blueprint, PidNamespace};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use protocol::api::SandboxId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{fs::File, io};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub instance: String,
    pub badge: SandboxLabel,
    pub blueprint: Blueprint,
    /// The first of the host's ids that the sandbox uses.
    pub uid_base: u32,
    /// Where it was launched last; badges of an earlier hostd do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<PidNamespace>,
}

/// On the disk. The body is text in text, so that what is authenticated is bytes and not a way to write
/// numbers.
#[derive(Serialize, Deserialize)]
struct Sealed {
    mac: String,
    body: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BadBadge {
    #[error("it has no badge")]
    Missing,
    #[error("its badge cannot be read: {0}")]
    Unreadable(String),
    #[error("its badge is not authentic")]
    Forged,
    #[error("its badge is that of {0}")]
    OfAnother(String),
    #[error("it belongs to the hostd instance {0}")]
    OtherInstance(String),
}

#[derive(Clone)]
pub struct Sealer {
    pub instance: String,
    pub key: [u8; 32],
}

impl Sealer {
    pub fn seal(&self, kept: &Kept) -> io::Result<Vec<u8>> {
        let body = serde_json::to_string(kept)?;
        let mac = STANDARD.encode(self.mac(&body).finalize().into_bytes());
        Ok(serde_json::to_vec(&Sealed { mac, body })?)
    }

    pub fn unseal(&self, bytes: &[u8], sandbox: &SandboxId) -> Result<Kept, BadBadge> {
        let unreadable = |error: serde_json::Error| BadBadge::Unreadable(error.to_string());
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(unreadable)?;
        let mac = STANDARD.decode(&sealed.mac).map_err(|_| BadBadge::Forged)?;
        self.mac(&sealed.body).verify_slice(&mac).map_err(|_| BadBadge::Forged)?;
        let kept: Kept = serde_json::from_str(&sealed.body).map_err(unreadable)?;
        if kept.instance != self.instance {
            return Err(BadBadge::OtherInstance(kept.instance));
        }
        if kept.badge.sandbox != *sandbox {
            return Err(BadBadge::OfAnother(kept.badge.sandbox.to_string()));
        }
        Ok(kept)
    }

    pub fn read(&self, dir: &SandboxDir, sandbox: &SandboxId) -> Result<Kept, BadBadge> {
        match files::read(&dir.badge(), BADGE_MAX_BYTES) {
            Ok(bytes) => self.unseal(&bytes, sandbox),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BadBadge::Missing),
            Err(error) => Err(BadBadge::Unreadable(error.to_string())),
        }
    }

    /// Written, but perhaps not on the disk yet: that is for the caller to wait for.
    pub fn write(&self, dir: &SandboxDir, kept: &Kept) -> io::Result<File> {
        files::replace(&dir.badge(), &self.seal(kept)?, 0o600)
    }

    fn mac(&self, body: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length will do");
        mac.update(b"slipway badge 1\0");
        mac.update(body.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::local::fixture::{badge, blueprint};

    #[test]
    fn only_an_untouched_badge_of_this_sandbox_and_instance_is_accepted() {
        let sealer = Sealer { instance: "one".into(), key: [7; 32] };
        let badge = badge();
        let id = badge.sandbox;
        let pid_namespace = Some(PidNamespace(4));
        let kept =
            Kept { instance: "one".into(), badge, blueprint: blueprint(), uid_base: 1 << 28, pid_namespace };
        let bytes = sealer.seal(&kept).expect("JSON");
        assert_eq!(sealer.unseal(&bytes, &id).expect("just sealed"), kept);

        let text = String::from_utf8(bytes.clone()).expect("JSON is text");
        let check = |sealer: &Sealer, bytes: &[u8], id: &SandboxId, expected: &str| {
            let refused = sealer.unseal(bytes, id).expect_err(expected);
            assert!(refused.to_string().contains(expected), "{refused}");
        };
        let other_id: SandboxId = "01jb9xyzabcdefghjkmnpqrstw".parse().expect("an id");
        check(&sealer, text.replace("268435456", "268435457").as_bytes(), &id, "not authentic");
        check(&sealer, &bytes[..bytes.len() / 2], &id, "cannot be read");
        check(&sealer, &bytes, &other_id, "badge is that of");
        check(&Sealer { key: [8; 32], ..sealer.clone() }, &bytes, &id, "not authentic");
        check(&Sealer { instance: "two".into(), ..sealer.clone() }, &bytes, &id, "instance one");
    }
}
