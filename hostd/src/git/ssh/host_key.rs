//! Decides whether the key of an SSH server is its own. A server of which nothing is known is refused: no key is
//! trusted because it was the first one.

use super::super::failure::GitFailure;
use hostd_core::{HostKeyVerdict, check_host_key, egress::Destination, known_host_name, known_key_types};
use protocol::api::SecretName;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey};
use std::path::PathBuf;

/// The type of all RSA keys, whatever hash a signature has.
const RSA: &str = "ssh-rsa";

/// Known hosts.
#[derive(Debug, Clone)]
pub struct HostKeys {
    pub lines: String,
    pub from: HostKeysFrom,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeysFrom {
    Secret(SecretName),
    /// The file of the host, since the secret `secret` has none.
    File(PathBuf),
}

impl HostKeys {
    /// Checks the key that a server proved to have.
    pub fn check(
        &self,
        server: &Destination,
        secret: &SecretName,
        key: &PublicKey,
    ) -> Result<(), GitFailure> {
        let print = key.fingerprint(HashAlg::Sha256);
        let malformed = |_| GitFailure::HostKey(format!("the host key of {server} is malformed"));
        let blob = key.to_bytes().map_err(malformed)?;
        let source = match &self.from {
            HostKeysFrom::Secret(name) => format!("the secret {name}"),
            HostKeysFrom::File(path) => path.display().to_string(),
        };
        Err(GitFailure::HostKey(match check_host_key(&self.lines, server, &blob) {
            HostKeyVerdict::Known => return Ok(()),
            HostKeyVerdict::Unknown => format!(
                "the host key of {server} is unknown ({print}): if the server has this fingerprint, append the lines of \
                 `{}` to the key in the secret {secret}, or have them added to the known hosts of this host",
                keyscan(server)
            ),
            HostKeyVerdict::Changed => format!(
                "{server} has another host key ({print}) than {source} says: either its administrator changed the key, or \
                 this is another server; nothing was sent to it"
            ),
            HostKeyVerdict::Revoked => {
                format!("the host key of {server} ({print}) is revoked in {source}; nothing was sent to it")
            }
        }))
    }

    /// Returns the types of host keys that are asked for: those that are known first. Signatures with SHA-1 are not
    /// accepted.
    pub fn preferred_types(&self, server: &Destination) -> Vec<Algorithm> {
        let known = known_key_types(&self.lines, server);
        let mut types = vec![
            Algorithm::Ed25519,
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
            Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
            Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
        ];
        types.sort_by_key(|algorithm| {
            let kind = if let Algorithm::Rsa { .. } = algorithm { RSA } else { algorithm.as_str() };
            !known.contains(&kind)
        });
        types
    }
}

fn keyscan(server: &Destination) -> String {
    match known_host_name(server).strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((host, port)) => format!("ssh-keyscan -p {port} {host}"),
        None => format!("ssh-keyscan {}", known_host_name(server)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const PRINT: &str = "SHA256:";

    fn keys(lines: &str) -> HostKeys {
        HostKeys { lines: lines.to_owned(), from: HostKeysFrom::File("/etc/known".into()) }
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_with_what_to_do() {
        let server = Destination::parse("host:2222", None).expect("a server");
        let secret = SecretName::parse("ssh.host_2222").expect("a name");
        let key = PublicKey::from_openssh(KEY).expect("a key");
        let check =
            |lines: &str| keys(lines).check(&server, &secret, &key).map_err(|error| error.to_string());
        assert_eq!(check(&format!("[host]:2222 {KEY}")), Ok(()));
        let unknown = check("").expect_err("unknown");
        assert!(unknown.contains(PRINT) && unknown.contains("`ssh-keyscan -p 2222 host`"), "{unknown}");
        let changed = check("[host]:2222 ssh-ed25519 AAAA").expect_err("changed");
        assert!(changed.contains("than /etc/known says") && changed.contains(PRINT), "{changed}");
        let revoked = check(&format!("@revoked * {KEY}")).expect_err("revoked");
        assert!(revoked.contains("is revoked"), "{revoked}");
    }

    #[test]
    fn a_server_is_asked_for_the_key_that_is_known() {
        let server = Destination::parse("host:22", None).expect("a server");
        for (lines, first) in [
            ("", "ssh-ed25519"),
            ("host ssh-rsa AAAA", "rsa-sha2-512"),
            ("host ecdsa-sha2-nistp384 AAAA", "ecdsa-sha2-nistp384"),
        ] {
            let types = keys(lines).preferred_types(&server);
            assert_eq!((types[0].as_str(), types.len()), (first, 6), "{lines}");
            assert!(!types.contains(&Algorithm::Rsa { hash: None }));
        }
    }
}
