//! Encryption of provider keys at rest. The encryption key is in a file of its own, so that the database or a
//! backup of it reveals no provider key.

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hostd_store::identity_files::{hex, random, read_or_create, unhex};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

const FILE: &str = "models.key";
const FILE_MAX_BYTES: u64 = 4096;
const NONCE_BYTES: usize = 24;

#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyEncryptionError {
    #[error("models.key is gone from the data directory; put it back, or give the key again")]
    Lost,
    #[error(
        "models.key of the data directory is not a key; put the right one back, or remove it and give all keys again"
    )]
    Unfit,
    #[error(
        "it was sealed with another models.key than the one in the data directory; put that back, or give the key again"
    )]
    Wrong,
    #[error("models.key of the data directory could not be read or written")]
    Io(#[source] Arc<io::Error>),
}

impl From<io::Error> for KeyEncryptionError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// Encrypts and decrypts with the key file, which is read each time: when hostd starts and when an
/// administrator changes a provider.
#[derive(Debug, Clone)]
pub struct KeyVault {
    path: PathBuf,
}

impl KeyVault {
    pub fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// Encrypts a secret. It decrypts only with the same `key_context`. Creates the key file where there is
    /// none.
    pub fn seal(&self, key_context: &str, secret: &str) -> Result<Vec<u8>, KeyEncryptionError> {
        let text = read_or_create(&self.path, || Ok(hex(&random::<32>()?)))?;
        let nonce: [u8; NONCE_BYTES] = random()?;
        let payload = Payload { msg: secret.as_bytes(), aad: key_context.as_bytes() };
        let sealed =
            cipher(&text)?.encrypt(&XNonce::from(nonce), payload).map_err(|_| KeyEncryptionError::Unfit)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub fn open(&self, key_context: &str, sealed: &[u8]) -> Result<String, KeyEncryptionError> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => file.take(FILE_MAX_BYTES).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(KeyEncryptionError::Lost),
            Err(error) => return Err(error.into()),
        };
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(KeyEncryptionError::Wrong)?;
        let payload = Payload { msg: sealed, aad: key_context.as_bytes() };
        let opened = cipher(text.trim())?.decrypt(&XNonce::from(*nonce), payload);
        let opened = opened.map_err(|_| KeyEncryptionError::Wrong)?;
        String::from_utf8(opened).map_err(|_| KeyEncryptionError::Wrong)
    }
}

fn cipher(text: &str) -> Result<XChaCha20Poly1305, KeyEncryptionError> {
    let key: [u8; 32] = unhex(text).ok_or(KeyEncryptionError::Unfit)?;
    Ok(XChaCha20Poly1305::new(&key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn what_is_sealed_opens_here_and_for_its_owner_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let vault = KeyVault::new(dir.path());
        let sealed = vault.seal("acme", "sk-secret").expect("sealed");
        assert!(!sealed.windows(9).any(|window| window == b"sk-secret"));
        assert_ne!(sealed, vault.seal("acme", "sk-secret").expect("sealed"), "no two are the same");
        assert_eq!(vault.open("acme", &sealed).expect("opened"), "sk-secret");
        assert!(matches!(vault.open("other", &sealed), Err(KeyEncryptionError::Wrong)));
        assert!(matches!(vault.open("acme", &sealed[..20]), Err(KeyEncryptionError::Wrong)));
        let file = dir.path().join(FILE);
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        let right = fs::read(&file).expect("read");
        fs::write(&file, "ab".repeat(32)).expect("written");
        assert!(matches!(vault.open("acme", &sealed), Err(KeyEncryptionError::Wrong)));
        fs::write(&file, "short").expect("written");
        assert!(matches!(vault.open("acme", &sealed), Err(KeyEncryptionError::Unfit)));
        assert!(matches!(vault.seal("acme", "x"), Err(KeyEncryptionError::Unfit)), "never overwritten");
        fs::remove_file(&file).expect("removed");
        assert!(matches!(vault.open("acme", &sealed), Err(KeyEncryptionError::Lost)));
        fs::write(&file, right).expect("written");
        assert_eq!(vault.open("acme", &sealed).expect("as before"), "sk-secret");
    }
}
