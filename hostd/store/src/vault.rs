//! Encryption of credentials at rest. The encryption key is in a file of its own, so that the database or a backup of it
//! reveals no credential.

use crate::{
    SecretValue,
    identity_files::{hex, random, read_or_create, unhex},
};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

const FILE_MAX_BYTES: u64 = 4096;
const NONCE_BYTES: usize = 24;

/// The file with the encryption key of one kind of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFile {
    /// Keys of model providers.
    Models,
    /// Secrets of tenants.
    Secrets,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum VaultError {
    #[error("{0} is gone from the data directory; put it back, or {again}", again = .0.again())]
    Lost(KeyFile),
    #[error(
        "{0} of the data directory is not a key; put the right one back, or remove it and {again}",
        again = .0.all_again()
    )]
    Unfit(KeyFile),
    #[error(
        "it was sealed with another {0} than the one in the data directory; put that back, or {again}",
        again = .0.again()
    )]
    Wrong(KeyFile),
    #[error("{0} of the data directory could not be read or written")]
    Io(KeyFile, #[source] Arc<io::Error>),
}

impl KeyFile {
    fn name(self) -> &'static str {
        match self {
            Self::Models => "models.key",
            Self::Secrets => "secrets.key",
        }
    }

    /// What helps where one credential cannot be opened.
    fn again(self) -> &'static str {
        match self {
            Self::Models => "give the key again",
            Self::Secrets => "set the secret again",
        }
    }

    fn all_again(self) -> &'static str {
        match self {
            Self::Models => "give all keys again",
            Self::Secrets => "set all secrets again",
        }
    }
}

impl fmt::Display for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Encrypts and decrypts with the key file, which is read each time: when hostd starts, and when a credential is changed
/// or resolved.
#[derive(Debug, Clone)]
pub struct KeyVault {
    file: KeyFile,
    path: PathBuf,
}

impl KeyVault {
    pub fn new(data_dir: &Path, file: KeyFile) -> Self {
        Self { file, path: data_dir.join(file.name()) }
    }

    /// Encrypts a secret. It decrypts only with the same `key_context`. Creates the key file where there is
    /// none.
    pub fn seal(&self, key_context: &str, secret: &str) -> Result<Vec<u8>, VaultError> {
        let key = || read_or_create(&self.path, || Ok(hex(&random::<32>()?)));
        let (text, nonce) =
            key().and_then(|text| Ok((text, random::<NONCE_BYTES>()?))).map_err(|error| self.io(error))?;
        let payload = Payload { msg: secret.as_bytes(), aad: key_context.as_bytes() };
        let sealed = self.cipher(&text)?.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| VaultError::Unfit(self.file))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub fn open(&self, key_context: &str, sealed: &[u8]) -> Result<SecretValue, VaultError> {
        let mut text = String::new();
        let read =
            File::open(&self.path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(VaultError::Lost(self.file)),
            Err(error) => return Err(self.io(error)),
        }
        let wrong = || VaultError::Wrong(self.file);
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(wrong)?;
        let payload = Payload { msg: sealed, aad: key_context.as_bytes() };
        let opened = self.cipher(text.trim())?.decrypt(&XNonce::from(*nonce), payload);
        let opened = opened.map_err(|_| wrong())?;
        String::from_utf8(opened).map(SecretValue::from).map_err(|_| wrong())
    }

    fn cipher(&self, text: &str) -> Result<XChaCha20Poly1305, VaultError> {
        let key: [u8; 32] = unhex(text).ok_or(VaultError::Unfit(self.file))?;
        Ok(XChaCha20Poly1305::new(&key.into()))
    }

    fn io(&self, error: io::Error) -> VaultError {
        VaultError::Io(self.file, Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn what_is_sealed_opens_here_and_for_its_owner_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let vault = KeyVault::new(dir.path(), KeyFile::Models);
        let sealed = vault.seal("acme", "sk-secret").expect("sealed");
        assert!(!sealed.windows(9).any(|window| window == b"sk-secret"));
        assert_ne!(sealed, vault.seal("acme", "sk-secret").expect("sealed"), "no two are the same");
        assert_eq!(vault.open("acme", &sealed).expect("opened").as_str(), "sk-secret");
        assert!(matches!(vault.open("other", &sealed), Err(VaultError::Wrong(_))));
        assert!(matches!(vault.open("acme", &sealed[..20]), Err(VaultError::Wrong(_))));
        let file = dir.path().join("models.key");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        let right = fs::read(&file).expect("read");
        fs::write(&file, "ab".repeat(32)).expect("written");
        assert!(matches!(vault.open("acme", &sealed), Err(VaultError::Wrong(_))));
        fs::write(&file, "short").expect("written");
        assert!(matches!(vault.open("acme", &sealed), Err(VaultError::Unfit(_))));
        assert!(matches!(vault.seal("acme", "x"), Err(VaultError::Unfit(_))), "never overwritten");
        fs::remove_file(&file).expect("removed");
        assert!(matches!(vault.open("acme", &sealed), Err(VaultError::Lost(_))));
        fs::write(&file, right).expect("written");
        assert_eq!(vault.open("acme", &sealed).expect("as before").as_str(), "sk-secret");
    }
}
