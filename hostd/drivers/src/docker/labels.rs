//! Identifies our containers by name and by labels that are authenticated for that name alone.
//!
//! Images made from a container inherit its labels, and anyone with access to the engine can copy them. So
//! they carry a MAC over the container name, which no two containers share, and a nonce that is also on our
//! disk.

use super::{super::local::signed_badge::InstanceSigner, limits::INSTANCE_SHORT_BYTES};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use protocol::api::SandboxId;
use sha2::Sha256;
use std::collections::BTreeMap;

pub const INSTANCE: &str = "dev.slipway.instance";
pub const SANDBOX: &str = "dev.slipway.sandbox";
/// Nonce of one container; on our disk before the container is created.
pub const LAUNCH: &str = "dev.slipway.launch";
pub const SEAL: &str = "dev.slipway.seal";
/// Hash of the configuration that the container was created from.
pub const CONFIG_HASH: &str = "dev.slipway.body";

pub type Labels = BTreeMap<String, String>;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLabels {
    #[error("its label {0} is missing")]
    Missing(&'static str),
    #[error("its label {SANDBOX} is not a sandbox id")]
    NoId,
    #[error("its labels are not authentic: they are forged, copied or inherited")]
    Forged,
}

/// The launch that authentic labels identify.
#[derive(Debug, PartialEq, Eq)]
pub struct LabelIdentity {
    pub sandbox: SandboxId,
    pub nonce: String,
}

/// The name of a sandbox's container.
pub fn name_of(instance: &str, sandbox: &SandboxId) -> String {
    let short: String = instance.chars().take(INSTANCE_SHORT_BYTES).collect();
    format!("slipway-{short}-{sandbox}")
}

/// Label filter that matches all containers of this instance.
pub fn filter(instance: &str) -> String {
    format!("{INSTANCE}={instance}")
}

pub fn make(signer: &InstanceSigner, sandbox: &SandboxId, nonce: &str) -> Labels {
    let name = name_of(&signer.instance, sandbox);
    let seal = URL_SAFE_NO_PAD.encode(mac(signer, sandbox.as_str(), nonce, &name).finalize().into_bytes());
    let pairs = [
        (INSTANCE, signer.instance.as_str()),
        (SANDBOX, sandbox.as_str()),
        (LAUNCH, nonce),
        (SEAL, seal.as_str()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Verifies the labels that the engine reports for a container.
pub fn read(signer: &InstanceSigner, name: &str, labels: &Labels) -> Result<LabelIdentity, BadLabels> {
    let get = |label: &'static str| labels.get(label).map(String::as_str).ok_or(BadLabels::Missing(label));
    let (sandbox, nonce, seal) = (get(SANDBOX)?, get(LAUNCH)?, get(SEAL)?);
    let id: SandboxId = sandbox.parse().map_err(|_| BadLabels::NoId)?;
    let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| BadLabels::Forged)?;
    let authentic = mac(signer, sandbox, nonce, name).verify_slice(&seal).is_ok();
    if !authentic || get(INSTANCE)? != signer.instance || name != name_of(&signer.instance, &id) {
        return Err(BadLabels::Forged);
    }
    Ok(LabelIdentity { sandbox: id, nonce: nonce.to_owned() })
}

fn mac(signer: &InstanceSigner, sandbox: &str, nonce: &str, name: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&signer.key).expect("a key of any length will do");
    mac.update(b"slipway container 1\0");
    for part in [signer.instance.as_str(), sandbox, nonce, name] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_good_for_one_name_one_instance_and_one_key() {
        let signer = InstanceSigner { instance: "0123456789abcdef".into(), key: [7; 32] };
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let name = name_of(&signer.instance, &sandbox);
        assert_eq!(name, "slipway-0123456789ab-01jb9xyzabcdefghjkmnpqrstv");
        let labels = make(&signer, &sandbox, "n1");
        let claim = read(&signer, &name, &labels).expect("just made");
        assert_eq!(claim, LabelIdentity { sandbox, nonce: "n1".into() });

        let with = |label: &str, value: &str| {
            let mut labels = labels.clone();
            labels.insert(label.to_owned(), value.to_owned());
            labels
        };
        let without = |label: &str| {
            let mut labels = labels.clone();
            labels.remove(label);
            labels
        };
        let check = |signer: &InstanceSigner, name: &str, labels: &Labels, expected: BadLabels| {
            assert_eq!(read(signer, name, labels), Err(expected));
        };
        check(&signer, "another", &labels, BadLabels::Forged);
        check(&signer, &name, &with(LAUNCH, "n2"), BadLabels::Forged);
        check(&signer, &name, &with(SANDBOX, "01jb9xyzabcdefghjkmnpqrstw"), BadLabels::Forged);
        check(&signer, &name, &with(SANDBOX, "x"), BadLabels::NoId);
        check(&signer, &name, &with(SEAL, "AAAA"), BadLabels::Forged);
        check(&signer, &name, &with(INSTANCE, "other"), BadLabels::Forged);
        for label in [INSTANCE, SANDBOX, LAUNCH, SEAL] {
            check(&signer, &name, &without(label), BadLabels::Missing(label));
        }
        check(&InstanceSigner { key: [8; 32], ..signer.clone() }, &name, &labels, BadLabels::Forged);
    }
}
