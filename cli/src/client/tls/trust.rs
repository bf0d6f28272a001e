//! How the certificate of a server is verified, and the TLS client that does it.

use super::{
    Fingerprint, TlsError,
    verifier::{CertificateVerifier, Policy},
};
use crate::limits;
use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        client::WebPkiServerVerifier,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The root certificates of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    System,
    /// The certificates in a PEM file, and no others.
    CaFile(PathBuf),
    /// One certificate, whatever its names, issuer and dates.
    Pinned(Fingerprint),
    /// Any certificate.
    Insecure,
}

impl Trust {
    /// Builds the TLS client. Reads the files that it trusts.
    pub fn connector(&self) -> Result<TlsConnector, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let policy = match self {
            Self::System => {
                let mut roots = RootCertStore::empty();
                // Files that cannot be read are no roots; without any, the error names the cause.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                chain(roots, &provider)
            }
            Self::CaFile(path) => chain(read_ca_file(path)?, &provider),
            Self::Pinned(fingerprint) => Policy::Pinned(*fingerprint),
            Self::Insecure => Policy::Any,
        };
        let verifier = CertificateVerifier::new(policy, provider.signature_verification_algorithms);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites of every version that is compiled in")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system roots"),
            Self::CaFile(path) => write!(f, "CA file {}", path.display()),
            Self::Pinned(fingerprint) => write!(f, "fingerprint {fingerprint}"),
            Self::Insecure => f.write_str("not verified"),
        }
    }
}

fn chain(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Policy {
    match WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build() {
        Ok(verifier) => Policy::Chain(verifier),
        // The builder refuses an empty store, and there are no revocation lists that could be wrong.
        Err(_) => Policy::NoRoots,
    }
}

/// Reads every certificate of a PEM file; an error where there is none, or one cannot be used.
fn read_ca_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let failed = |why: String| TlsError::CaFile { path: path.to_owned(), why };
    let bytes = read_bounded(path).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| failed(format!("is not PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| failed(format!("has a certificate that cannot be used: {error}")))?;
    }
    if roots.is_empty() {
        return Err(failed("has no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(roots)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limits::CA_FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::CA_FILE_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} bytes", limits::CA_FILE_MAX_BYTES)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, content, why) in [
            ("missing", None, "No such file"),
            ("empty", Some(""), "no certificate in PEM"),
            (
                "key",
                Some("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
                "no certificate in PEM",
            ),
            ("broken", Some(broken), "cannot be used"),
        ] {
            let path = directory.path().join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).expect("written");
            }
            let error = Trust::CaFile(path).connector().err().expect(name).to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
