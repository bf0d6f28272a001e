//! Digests of blobs: `sha256:` and 64 lower-case hexadecimal digits.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

const ALGORITHM: &str = "sha256";
const PREFIX: &str = "sha256:";
const HEX_CHARS: usize = 64;

/// The SHA-256 of a blob. Only this algorithm is in use: registries offer others, but do not use them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("its digest has no algorithm: sha256: and 64 digits are needed")]
    NoAlgorithm,
    #[error("its digest uses {0}, and only sha256 is supported")]
    Algorithm(String),
    #[error("its digest must be sha256: and 64 of 0-9 a-f")]
    Digits,
}

impl Digest {
    /// Parses `sha256:<64 lower-case hexadecimal digits>`.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let (algorithm, digits) = text.split_once(':').ok_or(DigestError::NoAlgorithm)?;
        if algorithm != ALGORITHM {
            return Err(DigestError::Algorithm(
                algorithm.chars().take(16).flat_map(char::escape_debug).collect(),
            ));
        }
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digits.len() != HEX_CHARS || !digits.bytes().all(is_hex) {
            return Err(DigestError::Digits);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the 64 digits without the algorithm.
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// Returns the digest as registries spell it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Computes a digest piece by piece.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let mut text = String::with_capacity(PREFIX.len() + HEX_CHARS);
        text.push_str(PREFIX);
        for byte in self.0.finalize() {
            for half in [byte >> 4, byte & 0xf] {
                text.push(char::from_digit(half.into(), 16).expect("half a byte is one digit"));
            }
        }
        Digest(text)
    }
}

/// Hashes what is read through it.
pub struct DigestReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> DigestReader<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::default() }
    }

    /// Returns the reader, and the digest of everything that was read from it.
    pub fn finish(self) -> (R, Digest) {
        (self.inner, self.hasher.finish())
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_computed_parsed_and_printed() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(format!("sha256:{}", digest.hex()), EMPTY);
        assert_eq!(Digest::parse(EMPTY), Ok(digest.clone()));
        let json = serde_json::to_string(&digest).expect("a string");
        assert_eq!(json, format!("\"{EMPTY}\""));
        assert_eq!(serde_json::from_str::<Digest>(&json).expect("valid"), digest);
    }

    #[test]
    fn an_invalid_digest_is_refused_with_the_reason() {
        let upper = EMPTY.to_uppercase().replace("SHA", "sha");
        let table = [
            ("", DigestError::NoAlgorithm),
            (&EMPTY[7..], DigestError::NoAlgorithm),
            ("sha512:00", DigestError::Algorithm("sha512".into())),
            ("SHA256:00", DigestError::Algorithm("SHA256".into())),
            ("\n:00", DigestError::Algorithm("\\n".into())),
            ("sha256:", DigestError::Digits),
            (&EMPTY[..70], DigestError::Digits),
            (&upper, DigestError::Digits),
            (
                "sha256:../../../../../../../../../../../../../../../../../../../etc/passw",
                DigestError::Digits,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(Digest::parse(text), Err(expected), "{text:?}");
        }
        assert!(serde_json::from_str::<Digest>("\"sha256:0\"").is_err());
    }

    #[test]
    fn a_reader_hashes_what_passes() {
        let mut reader = DigestReader::new(&b"hello"[..]);
        let mut half = [0; 2];
        reader.read_exact(&mut half).expect("in memory");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("in memory");
        assert_eq!(reader.finish().1, Digest::of(b"hello"));
    }
}
