//! Verifies the certificate of a server, and says in our words what is wrong with it. Every policy checks that the
//! server has the key of its certificate.

use super::{CertificateProblem, CertificateRefused, Fingerprint};
use std::sync::Arc;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

#[derive(Debug)]
pub enum Policy {
    /// A chain to a trusted root, valid now, for the name.
    Chain(Arc<WebPkiServerVerifier>),
    /// No certificate can be verified: there are no roots.
    NoRoots,
    Pinned(Fingerprint),
    Any,
}

#[derive(Debug)]
pub struct CertificateVerifier {
    policy: Policy,
    algorithms: WebPkiSupportedAlgorithms,
}

impl CertificateVerifier {
    pub fn new(policy: Policy, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { policy, algorithms }
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = Fingerprint::of(end_entity);
        let problem = match &self.policy {
            Policy::Chain(chain) => {
                let verified =
                    chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
                match verified {
                    Ok(verified) => return Ok(verified),
                    Err(error) => problem(&error),
                }
            }
            Policy::NoRoots => CertificateProblem::NoRoots,
            Policy::Pinned(pinned) if *pinned != presented => {
                CertificateProblem::NotPinned { pinned: *pinned }
            }
            Policy::Pinned(_) | Policy::Any => return Ok(ServerCertVerified::assertion()),
        };
        let refused = CertificateRefused { presented, problem };
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refused)))))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn problem(error: &Error) -> CertificateProblem {
    let Error::InvalidCertificate(why) = error else { return CertificateProblem::Invalid(error.to_string()) };
    if let CertificateError::ExpiredContext { not_after, .. } = why {
        return CertificateProblem::Expired { not_after_s: not_after.as_secs() };
    }
    if let CertificateError::NotValidYetContext { not_before, .. } = why {
        return CertificateProblem::NotYetValid { not_before_s: not_before.as_secs() };
    }
    if let CertificateError::NotValidForNameContext { presented, .. } = why {
        return CertificateProblem::OtherName {
            names: presented.iter().map(|name| bare_name(name)).collect(),
        };
    }
    // A bad signature is one by another key, of an issuer with the same name as a trusted one.
    let unknown = matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature);
    if unknown || is_own_issuer(why) {
        return CertificateProblem::UnknownIssuer;
    }
    CertificateProblem::Invalid(why.to_string())
}

/// Returns whether the certificate is one of an authority that the server uses as its own: what most tools make when
/// asked for a self-signed certificate.
fn is_own_issuer(why: &CertificateError) -> bool {
    matches!(why, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

/// Returns `box` for `DnsName("box")`, as the library prints a name.
fn bare_name(name: &str) -> String {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    crate::text::plain(inside.unwrap_or(name).trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_without_their_kind() {
        let table = [
            (r#"DnsName("*.example.com")"#, "*.example.com"),
            ("IpAddress(127.0.0.1)", "127.0.0.1"),
            ("DirectoryName", "DirectoryName"),
            ("DnsName(\"a\u{1b}[2Jb\")", "ab"),
        ];
        for (name, expected) in table {
            assert_eq!(bare_name(name), expected);
        }
    }
}
