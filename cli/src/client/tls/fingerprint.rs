//! The fingerprint of a certificate: SHA-256 of all of it in DER, printed as `openssl x509 -fingerprint -sha256` does.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{fmt, str::FromStr};

const BYTES: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; BYTES]);

impl Fingerprint {
    pub fn of(certificate_der: &[u8]) -> Self {
        Self(Sha256::digest(certificate_der).into())
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Parses 64 hexadecimal digits in either case, with or without colons between bytes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || "must be a SHA-256 fingerprint: 32 bytes in hexadecimal, as in AB:CD:…".to_owned();
        let pairs: Vec<&str> = if text.contains(':') {
            text.split(':').collect()
        } else {
            text.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok()).collect()
        };
        let byte = |pair: &str| match pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            true => u8::from_str_radix(pair, 16).ok(),
            false => None,
        };
        let bytes: Option<Vec<u8>> = pairs.into_iter().map(byte).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str =
        "E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55";

    #[test]
    fn a_fingerprint_is_read_in_any_case_and_printed_in_one() {
        assert_eq!(Fingerprint::of(b"").to_string(), EMPTY);
        for text in [EMPTY.to_owned(), EMPTY.to_lowercase(), EMPTY.replace(':', "")] {
            assert_eq!(text.parse(), Ok(Fingerprint::of(b"")), "{text}");
        }
        let bad = [
            String::new(),
            "AB:CD".to_owned(),
            format!("{EMPTY}:00"),
            EMPTY.replacen("E3", "+3", 1),
            EMPTY.replacen("E3", "E", 1),
            EMPTY.replacen("E3", "é", 1),
            format!("SHA256:{EMPTY}"),
        ];
        for text in bad {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
