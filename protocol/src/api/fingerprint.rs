//! The fingerprint of a TLS certificate, as people compare it.

use std::{fmt, str::FromStr};

/// May stand before the digits.
const PREFIX: &str = "sha256:";

/// SHA-256 of a whole certificate in DER, written as `AB:CD:…`: what `openssl x509 -fingerprint -sha256` prints behind
/// `Fingerprint=`. Read in any case, with or without the colons and a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateFingerprint(pub [u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadFingerprint;

impl fmt::Display for BadFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be the SHA-256 of a certificate: 32 pairs of hexadecimal digits, as in AB:CD:…")
    }
}

impl std::error::Error for BadFingerprint {}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.0.iter().enumerate() {
            let colon = if number == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl FromStr for CertificateFingerprint {
    type Err = BadFingerprint;

    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let text = text.trim();
        let digits = match text.split_at_checked(PREFIX.len()) {
            Some((prefix, digits)) if prefix.eq_ignore_ascii_case(PREFIX) => digits,
            Some(_) | None => text,
        };
        let has_colons = digits.contains(':');
        if has_colons && digits.split(':').any(|pair| pair.len() != 2) {
            return Err(BadFingerprint);
        }
        let nibble = |digit: char| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let nibbles: Option<Vec<u8>> = digits.chars().filter(|digit| *digit != ':').map(nibble).collect();
        let nibbles: [u8; 64] = nibbles.and_then(|nibbles| nibbles.try_into().ok()).ok_or(BadFingerprint)?;
        Ok(Self(std::array::from_fn(|at| nibbles[2 * at] << 4 | nibbles[2 * at + 1])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_written_in_one_way_and_read_in_several() {
        let mut bytes = [0xab; 32];
        bytes[0] = 0x01;
        let fingerprint = CertificateFingerprint(bytes);
        let written = fingerprint.to_string();
        assert_eq!(written, format!("01{}", ":AB".repeat(31)));
        let bare = format!("01{}", "ab".repeat(31));
        for text in [
            &written,
            &written.to_lowercase(),
            &format!("sha256:{written}"),
            &bare,
            &format!(" SHA256:{bare}\n"),
        ] {
            assert_eq!(text.parse(), Ok(fingerprint), "{text}");
        }
        for bad in [
            String::new(),
            "sha256:".to_owned(),
            format!("{written}:00"),
            bare.replace("ab", "zz"),
            format!("0:1{}", "ab".repeat(31)),
            format!("é{bare}"),
        ] {
            assert_eq!(bad.parse::<CertificateFingerprint>(), Err(BadFingerprint), "{bad}");
        }
    }
}
