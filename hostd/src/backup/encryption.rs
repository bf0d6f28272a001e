//! Encryption of backups by age: with a passphrase, or to public keys. The only code that uses it.

use super::{
    error::{BackupError, RestoreError},
    limits::{PASSPHRASE_WORK_LOG2, PASSPHRASE_WORK_MAX_LOG2},
};
use age::{
    DecryptError, Decryptor, Encryptor, Identity, Recipient, scrypt,
    secrecy::SecretString,
    stream::{StreamReader, StreamWriter},
    x25519,
};
use hostd_store::SecretValue;
use protocol::api::{PASSPHRASE_MAX_BYTES, PASSPHRASE_MIN_BYTES, RECIPIENTS_MAX};
use std::io::{Read, Write};

/// How a backup is encrypted.
pub enum SealWith {
    Passphrase(SecretValue),
    Recipients(Vec<x25519::Recipient>),
}

/// The field of a request that is wrong, and why. Repeats no passphrase.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongKey {
    pub field: &'static str,
    pub message: String,
}

impl SealWith {
    pub fn parse(passphrase: Option<String>, recipients: &[String]) -> Result<Self, WrongKey> {
        let wrong = |field, message: String| Err(WrongKey { field, message });
        match (passphrase.map(SecretValue::from), recipients) {
            (Some(passphrase), []) => match passphrase.as_str().len() {
                PASSPHRASE_MIN_BYTES..=PASSPHRASE_MAX_BYTES => Ok(Self::Passphrase(passphrase)),
                _ => {
                    let text = format!("must be {PASSPHRASE_MIN_BYTES} to {PASSPHRASE_MAX_BYTES} bytes");
                    wrong("passphrase", text)
                }
            },
            (Some(_), [_, ..]) => wrong("recipients", "give a passphrase or recipients, not both".to_owned()),
            (None, []) => {
                wrong("passphrase", "is needed, or recipients: a backup is always encrypted".to_owned())
            }
            (None, keys) if keys.len() > RECIPIENTS_MAX => {
                wrong("recipients", format!("are at most {RECIPIENTS_MAX}"))
            }
            (None, keys) => {
                let parsed: Result<Vec<_>, _> = keys.iter().map(|key| key.parse()).collect();
                match parsed {
                    Ok(recipients) => Ok(Self::Recipients(recipients)),
                    Err(_) => wrong("recipients", "must be public keys of age, as in age1…".to_owned()),
                }
            }
        }
    }

    /// Returns a writer that encrypts; [`StreamWriter::finish`] makes its output whole.
    pub fn wrap<W: Write>(&self, out: W) -> Result<StreamWriter<W>, BackupError> {
        let encryptor = match self {
            Self::Passphrase(passphrase) => {
                let mut recipient = scrypt::Recipient::new(SecretString::from(passphrase.as_str()));
                recipient.set_work_factor(PASSPHRASE_WORK_LOG2);
                Encryptor::with_recipients(std::iter::once(&recipient as &dyn Recipient))
            }
            Self::Recipients(recipients) => {
                Encryptor::with_recipients(recipients.iter().map(|recipient| recipient as &dyn Recipient))
            }
        };
        let encryptor = encryptor.map_err(BackupError::Encrypt)?;
        encryptor.wrap_output(out).map_err(BackupError::io("write the backup"))
    }
}

/// How a backup is decrypted.
pub enum OpenWith {
    Passphrase(SecretValue),
    Identities(Vec<x25519::Identity>),
}

impl OpenWith {
    /// Reads a file of identities, as `age-keygen` writes it.
    pub fn identities(text: &str) -> Result<Self, &'static str> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parsed: Result<Vec<x25519::Identity>, _> = lines.map(str::parse).collect();
        match parsed {
            Ok(identities) if !identities.is_empty() => Ok(Self::Identities(identities)),
            Ok(_) | Err(_) => Err("it has no identities of age (AGE-SECRET-KEY-1…)"),
        }
    }

    /// Returns what was encrypted. Every byte of it is authentic; its end is once it was read.
    pub fn open<R: Read>(&self, source: R) -> Result<StreamReader<R>, RestoreError> {
        let decryptor = Decryptor::new(source).map_err(refused)?;
        match (self, decryptor.is_scrypt()) {
            (Self::Passphrase(passphrase), true) => {
                let mut identity = scrypt::Identity::new(SecretString::from(passphrase.as_str()));
                identity.set_max_work_factor(PASSPHRASE_WORK_MAX_LOG2);
                decryptor.decrypt(std::iter::once(&identity as &dyn Identity)).map_err(refused)
            }
            (Self::Identities(identities), false) => {
                let identities = identities.iter().map(|identity| identity as &dyn Identity);
                decryptor.decrypt(identities).map_err(refused)
            }
            (Self::Passphrase(_), false) => {
                Err(RestoreError::OtherKey("to recipients: give the file of an identity with --identity"))
            }
            (Self::Identities(_), true) => Err(RestoreError::OtherKey("with a passphrase: give that")),
        }
    }
}

fn refused(error: DecryptError) -> RestoreError {
    match error {
        DecryptError::NoMatchingKeys | DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed => {
            RestoreError::WrongKey
        }
        DecryptError::InvalidHeader | DecryptError::UnknownFormat => RestoreError::NotEncrypted,
        DecryptError::InvalidMac => RestoreError::damaged("its header was changed"),
        DecryptError::ExcessiveWork { .. } => {
            RestoreError::damaged("its passphrase takes more work than any backup asks for")
        }
        DecryptError::Io(error) => error.into(),
    }
}
