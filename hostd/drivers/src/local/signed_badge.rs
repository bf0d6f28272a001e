//! The badge kept beside a sandbox, which identifies it and the blueprint it was created from after the
//! database was lost. Authenticated with a key that no sandbox can read.

use super::{super::SandboxBadge, files, layout::SandboxDir, limits::BADGE_MAX_BYTES};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use hostd_core::{Blueprint, PidNamespace};
use protocol::api::SandboxId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{fs::File, io};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BadgeRecord {
    pub instance: String,
    pub badge: SandboxBadge,
    pub blueprint: Blueprint,
    /// First id of the sandbox's range on the host.
    pub uid_base: u32,
    /// PID namespace of the last launch; absent in badges of an earlier hostd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<PidNamespace>,
}

/// Format on disk. The body is a JSON string inside JSON, so that the MAC covers bytes and not a number
/// format.
#[derive(Serialize, Deserialize)]
struct BadgeFile {
    mac: String,
    body: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BadgeError {
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
pub struct InstanceSigner {
    pub instance: String,
    pub key: [u8; 32],
}

impl InstanceSigner {
    pub fn sign(&self, record: &BadgeRecord) -> io::Result<Vec<u8>> {
        let body = serde_json::to_string(record)?;
        let mac = STANDARD.encode(self.mac(&body).finalize().into_bytes());
        Ok(serde_json::to_vec(&BadgeFile { mac, body })?)
    }

    pub fn verify(&self, bytes: &[u8], sandbox: &SandboxId) -> Result<BadgeRecord, BadgeError> {
        let unreadable = |error: serde_json::Error| BadgeError::Unreadable(error.to_string());
        let file: BadgeFile = serde_json::from_slice(bytes).map_err(unreadable)?;
        let mac = STANDARD.decode(&file.mac).map_err(|_| BadgeError::Forged)?;
        self.mac(&file.body).verify_slice(&mac).map_err(|_| BadgeError::Forged)?;
        let record: BadgeRecord = serde_json::from_str(&file.body).map_err(unreadable)?;
        if record.instance != self.instance {
            return Err(BadgeError::OtherInstance(record.instance));
        }
        if record.badge.sandbox != *sandbox {
            return Err(BadgeError::OfAnother(record.badge.sandbox.to_string()));
        }
        Ok(record)
    }

    pub fn read(&self, dir: &SandboxDir, sandbox: &SandboxId) -> Result<BadgeRecord, BadgeError> {
        match files::read(&dir.badge(), BADGE_MAX_BYTES) {
            Ok(bytes) => self.verify(&bytes, sandbox),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BadgeError::Missing),
            Err(error) => Err(BadgeError::Unreadable(error.to_string())),
        }
    }

    /// Writes the badge without syncing it; that is up to the caller.
    pub fn write(&self, dir: &SandboxDir, record: &BadgeRecord) -> io::Result<File> {
        files::replace(&dir.badge(), &self.sign(record)?, 0o600)
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
    use crate::{
        BadgeDetails,
        local::fixture::{badge, blueprint},
    };
    use serde_json::json;

    /// `badge.json` outlives hostd: a field of another name would lose the identity of the sandbox.
    #[test]
    fn the_stored_form_keeps_its_names() {
        let details = Some(BadgeDetails { expires_ms: Some(9), ..BadgeDetails::default() });
        let record = BadgeRecord {
            instance: "one".into(),
            badge: SandboxBadge { details, ..badge() },
            blueprint: blueprint(),
            uid_base: 5,
            pid_namespace: Some(PidNamespace(4)),
        };
        let mut stored = serde_json::to_value(&record).expect("JSON");
        stored["blueprint"].take();
        let expected = json!({
            "instance": "one",
            "badge": {
                "sandbox": "01jb9xyzabcdefghjkmnpqrstv", "name": "one", "scope": null, "created_ms": 7,
                "owner": {"tenant": "t", "principal": "p", "project": "d"},
                "particulars": {"expires_ms": 9},
            },
            "blueprint": null, "uid_base": 5, "pid_namespace": 4,
        });
        assert_eq!(stored, expected);
    }

    #[test]
    fn only_an_untouched_badge_of_this_sandbox_and_instance_is_accepted() {
        let signer = InstanceSigner { instance: "one".into(), key: [7; 32] };
        let badge = badge();
        let id = badge.sandbox;
        let pid_namespace = Some(PidNamespace(4));
        let record = BadgeRecord {
            instance: "one".into(),
            badge,
            blueprint: blueprint(),
            uid_base: 1 << 28,
            pid_namespace,
        };
        let bytes = signer.sign(&record).expect("JSON");
        assert_eq!(signer.verify(&bytes, &id).expect("just sealed"), record);

        let text = String::from_utf8(bytes.clone()).expect("JSON is text");
        let check = |signer: &InstanceSigner, bytes: &[u8], id: &SandboxId, expected: &str| {
            let refused = signer.verify(bytes, id).expect_err(expected);
            assert!(refused.to_string().contains(expected), "{refused}");
        };
        let other_id: SandboxId = "01jb9xyzabcdefghjkmnpqrstw".parse().expect("an id");
        check(&signer, text.replace("268435456", "268435457").as_bytes(), &id, "not authentic");
        check(&signer, &bytes[..bytes.len() / 2], &id, "cannot be read");
        check(&signer, &bytes, &other_id, "badge is that of");
        check(&InstanceSigner { key: [8; 32], ..signer.clone() }, &bytes, &id, "not authentic");
        check(&InstanceSigner { instance: "two".into(), ..signer.clone() }, &bytes, &id, "instance one");
    }
}
