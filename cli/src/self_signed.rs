//! Makes a certificate that signs itself. Knows nothing of files.

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use sha2::{Digest as _, Sha256};
use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

/// The longest lifetime that all browsers accept of a certificate that was imported by hand.
pub const DAYS_DEFAULT: u32 = 825;
pub const DAYS_MAX: i64 = 3650;
/// Clocks of clients may be behind by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The limit of a DNS name.
const NAME_MAX_BYTES: usize = 253;

pub struct SelfSigned {
    pub cert_pem: String,
    pub key_pem: String,
    /// SHA-256 of the certificate in DER.
    pub fingerprint: [u8; 32],
}

/// Parses a DNS name, also a wildcard, or an address.
pub fn name(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(safe)
    };
    let is_dns =
        text.len() <= NAME_MAX_BYTES && text.strip_prefix("*.").unwrap_or(text).split('.').all(label);
    if is_dns || text.parse::<IpAddr>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(format!("must be a host name or an address without a port, not {text:?}"))
    }
}

/// Makes a certificate for these names, and its key.
pub fn make(names: &[String], days: u32, now: SystemTime) -> Result<SelfSigned, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Slipway API");
    // A certificate of a server, not an authority: a client that trusts it trusts nothing that it signs.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + DAY * days).into();
    let certificate = params.self_signed(&key)?;
    Ok(SelfSigned {
        cert_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        fingerprint: Sha256::digest(certificate.der()).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn openssl_reads_the_names_the_use_and_the_same_fingerprint() {
        let names = ["box.example.com", "::1", "10.0.0.7"].map(str::to_owned);
        let made = make(&names, 30, SystemTime::now()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.crt");
        std::fs::write(&path, &made.cert_pem).unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-text", "-fingerprint", "-sha256", "-in"]).arg(&path);
        let printed = String::from_utf8(openssl.output().unwrap().stdout).unwrap();
        let fingerprint = protocol::api::CertificateFingerprint(made.fingerprint).to_string();
        for part in [
            "DNS:box.example.com, IP Address:0:0:0:0:0:0:0:1, IP Address:10.0.0.7",
            "TLS Web Server Authentication",
            "CA:FALSE",
            fingerprint.as_str(),
        ] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
    }

    #[test]
    fn names_are_host_names_and_addresses() {
        for good in ["box", "box.example.com", "*.example.com", "10.0.0.7", "::1", "my_box"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "box:9090", "https://box", "a b", "*", "bücher.example", ".box", &"x".repeat(300)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
