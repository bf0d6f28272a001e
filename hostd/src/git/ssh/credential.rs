//! A secret with a private key and known hosts: `cat key; ssh-keyscan host`. Nothing here prints the key.

use super::{
    super::{failure::GitFailure, limits::KNOWN_HOSTS_MAX_BYTES},
    host_key::{HostKeys, HostKeysFrom},
};
use hostd_core::split_key_secret;
use protocol::api::SecretName;
use russh::keys::{self, PrivateKey, decode_secret_key};
use std::{io, path::Path, sync::Arc};
use tokio::{fs::File, io::AsyncReadExt};

pub struct SshCredential {
    pub secret: SecretName,
    pub key: Arc<PrivateKey>,
    pub host_keys: HostKeys,
}

impl SshCredential {
    /// Parses the value of a secret. The known hosts of the host count where it has none.
    pub async fn parse(secret: &SecretName, value: &str, known_hosts: &Path) -> Result<Self, GitFailure> {
        let (key, lines) = split_key_secret(value);
        let key = decode_secret_key(key, None).map_err(|error| unusable(secret, &error))?;
        let host_keys = if lines.trim().is_empty() {
            let read = read_known_hosts(known_hosts).await;
            let unread = |error: io::Error| {
                GitFailure::HostKey(format!("hostd could not read {}: {error}", known_hosts.display()))
            };
            HostKeys { lines: read.map_err(unread)?, from: HostKeysFrom::File(known_hosts.to_owned()) }
        } else {
            HostKeys { lines: lines.to_owned(), from: HostKeysFrom::Secret(secret.clone()) }
        };
        Ok(Self { secret: secret.clone(), key: Arc::new(key), host_keys })
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library has many errors, and they may quote what they read"
)]
fn unusable(secret: &SecretName, error: &keys::Error) -> GitFailure {
    let why = match error {
        keys::Error::KeyIsEncrypted => "is encrypted: remove its passphrase with `ssh-keygen -p`",
        _ => "is no private key in the format of OpenSSH or PKCS#8",
    };
    GitFailure::Secret(format!("the value of the secret {secret} {why}"))
}

/// A file that is not there is empty.
async fn read_known_hosts(path: &Path) -> io::Result<String> {
    let file = match File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(KNOWN_HOSTS_MAX_BYTES + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > KNOWN_HOSTS_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {KNOWN_HOSTS_MAX_BYTES} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBFvU4nhLyx9V6b2sJmwgN52xScajIbOzAgyVP4hFl0jwAAAIhz9IKWc/SC
lgAAAAtzc2gtZWQyNTUxOQAAACBFvU4nhLyx9V6b2sJmwgN52xScajIbOzAgyVP4hFl0jw
AAAEANFLx6wQKkRzX+uk4ZGS1Z0bSXFGr3JBRbNrNoH4BuwkW9TieEvLH1XpvawmbCA3nb
FJxqMhs7MCDJU/iEWXSPAAAABHRlc3QB
-----END OPENSSH PRIVATE KEY-----
";
    const ENCRYPTED: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABDWLri8qC
9arOR3op9OpaZJAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIG+EvxBX1cEYd6CK
Mal5fpyuTfI9bnrhLaF4kglHSJxjAAAAkO6854dAcZyhhd1FyH/Rbv7aW05RUyMPMvSSaB
m8fkshe5tD4vM0MFkSESmGw8wFa3xJ4awuB0svx70JpCWuLBxFMY7YL3lijCVl2UgW5Lvu
ifkDJuNTG0uyukLahDhRxBe/X0DhM5Rwa3nglnhv8VJZF3M7BY3Cl09YzVXzKnu2Mhy8RV
Dr5lARXYf3Bk5h2A==
-----END OPENSSH PRIVATE KEY-----
";

    fn name() -> SecretName {
        SecretName::parse("ssh.host").expect("a name")
    }

    #[tokio::test]
    async fn known_hosts_are_those_of_the_secret_else_of_the_host() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("known_hosts");
        let parse = async |value: &str| SshCredential::parse(&name(), value, &path).await;
        let none = parse(KEY).await.expect("a key");
        assert_eq!(none.host_keys.lines, "", "there is no file");
        fs::write(&path, "of the host").expect("written");
        let of_host = parse(KEY).await.expect("a key").host_keys;
        assert_eq!((of_host.lines.as_str(), of_host.from), ("of the host", HostKeysFrom::File(path.clone())));
        let own = parse(&format!("{KEY}host ssh-ed25519 x\n")).await.expect("a key").host_keys;
        assert_eq!((own.lines.as_str(), own.from), ("host ssh-ed25519 x\n", HostKeysFrom::Secret(name())));
        fs::write(&path, "x".repeat(2 << 20)).expect("written");
        let error = parse(KEY).await.err().expect("too large").to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }

    #[tokio::test]
    async fn a_value_that_is_no_key_is_refused_and_not_quoted() {
        for value in
            ["geheim", "", &KEY.replace("b3Bl", "geheim-"), &KEY.replace("BEGIN OPENSSH", "BEGIN RSA")]
        {
            let error = SshCredential::parse(&name(), value, Path::new("/nowhere")).await.err();
            let error = error.expect("refused").to_string();
            let expected =
                "the value of the secret ssh.host is no private key in the format of OpenSSH or PKCS#8";
            assert_eq!(error, expected);
        }
        let error = SshCredential::parse(&name(), ENCRYPTED, Path::new("/nowhere")).await.err();
        assert!(error.expect("refused").to_string().contains("is encrypted"));
    }
}
