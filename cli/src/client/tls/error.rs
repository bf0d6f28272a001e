//! Errors of TLS, and what the user can do about each.

use super::Fingerprint;
use crate::{
    client::server_url::{Scheme, ServerUrl},
    humanize,
};
use std::{fmt, io, path::PathBuf};
use tokio_rustls::rustls;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate of {url} {refused}")]
    Certificate { url: ServerUrl, refused: CertificateRefused },
    #[error("{url} does not speak TLS")]
    NotTls { url: ServerUrl },
    #[error("{url} does not speak plain HTTP, but perhaps TLS")]
    NotPlain { url: ServerUrl },
    #[error("{url} refused the TLS handshake: {why}")]
    Refused { url: ServerUrl, why: String },
    #[error("{url} closed the connection during the TLS handshake")]
    Closed {
        url: ServerUrl,
        #[source]
        source: io::Error,
    },
    #[error("the CA file {} cannot be used: {why}", .path.display())]
    CaFile { path: PathBuf, why: String },
}

/// The certificate that a server presented, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRefused {
    pub presented: Fingerprint,
    pub problem: CertificateProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateProblem {
    UnknownIssuer,
    /// This machine has no root certificates at all.
    NoRoots,
    OtherName {
        names: Vec<String>,
    },
    Expired {
        not_after_s: u64,
    },
    NotYetValid {
        not_before_s: u64,
    },
    NotPinned {
        pinned: Fingerprint,
    },
    Invalid(String),
}

impl TlsError {
    /// Classifies a failed handshake.
    pub fn of_handshake(url: &ServerUrl, error: io::Error) -> Self {
        let url = url.clone();
        let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return Self::Closed { url, source: error };
        };
        if let rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) = tls
            && let Some(refused) = other.0.downcast_ref::<CertificateRefused>()
        {
            return Self::Certificate { url, refused: refused.clone() };
        }
        // Only bytes that are no record of TLS at all are an invalid message.
        if matches!(tls, rustls::Error::InvalidMessage(_)) {
            return Self::NotTls { url };
        }
        Self::Refused { url, why: tls.to_string() }
    }

    /// Returns the certificate that was refused.
    pub fn refused(&self) -> Option<&CertificateRefused> {
        match self {
            Self::Certificate { refused, .. } => Some(refused),
            Self::NotTls { .. }
            | Self::NotPlain { .. }
            | Self::Refused { .. }
            | Self::Closed { .. }
            | Self::CaFile { .. } => None,
        }
    }

    /// Returns whether a retry may succeed: hostd may be restarting.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Closed { .. } => true,
            Self::Certificate { .. }
            | Self::NotTls { .. }
            | Self::NotPlain { .. }
            | Self::Refused { .. }
            | Self::CaFile { .. } => false,
        }
    }

    /// Returns what the user can do about the error.
    pub fn next_step(&self) -> String {
        match self {
            Self::Certificate { url, refused } => refused.next_step(url),
            Self::NotTls { url } => {
                let plain = url.with_scheme(Scheme::Http);
                format!("check host and port; a hostd without a certificate is {plain}, unencrypted")
            }
            Self::NotPlain { url } => format!("use {}", url.with_scheme(Scheme::Https)),
            Self::Refused { .. } => {
                "check host and port, and read the log of hostd or of the proxy there".to_owned()
            }
            Self::Closed { .. } => "hostd may be restarting: try again; else check host and port".to_owned(),
            Self::CaFile { .. } => {
                "give the certificate of the issuer in PEM, with --ca-file or SLIPWAY_CA_FILE".to_owned()
            }
        }
    }
}

impl fmt::Display for CertificateRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = |seconds: &u64| humanize::utc(*seconds);
        match &self.problem {
            CertificateProblem::UnknownIssuer => f.write_str("has an unknown issuer"),
            CertificateProblem::NoRoots => {
                f.write_str("cannot be verified: this machine has no root certificates")
            }
            CertificateProblem::OtherName { names } if names.is_empty() => {
                f.write_str("is for no name at all")
            }
            CertificateProblem::OtherName { names } => write!(f, "is for other names: {}", names.join(", ")),
            CertificateProblem::Expired { not_after_s } => write!(f, "expired on {}", date(not_after_s)),
            CertificateProblem::NotYetValid { not_before_s } => {
                write!(f, "is not valid before {}", date(not_before_s))
            }
            CertificateProblem::NotPinned { pinned } => {
                write!(f, "is not the pinned one: pinned {pinned}, presented {}", self.presented)
            }
            CertificateProblem::Invalid(why) => write!(f, "is not valid: {why}"),
        }
    }
}

impl std::error::Error for CertificateRefused {}

/// The command that shows the fingerprint on the host.
const SHOW_FINGERPRINT: &str = "openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE";

impl CertificateRefused {
    /// Returns whether nothing vouches for the certificate, so that only its fingerprint tells whose it is.
    pub fn needs_a_pin(&self) -> bool {
        match &self.problem {
            CertificateProblem::UnknownIssuer | CertificateProblem::NoRoots => true,
            CertificateProblem::OtherName { .. }
            | CertificateProblem::Expired { .. }
            | CertificateProblem::NotYetValid { .. }
            | CertificateProblem::NotPinned { .. }
            | CertificateProblem::Invalid(_) => false,
        }
    }

    fn next_step(&self, url: &ServerUrl) -> String {
        let presented = self.presented;
        let pin = format!("`slipway context add NAME --url {url} --fingerprint {presented}`");
        match &self.problem {
            CertificateProblem::UnknownIssuer => {
                format!(
                    "give its issuer with --ca-file FILE; or, if the host shows the same fingerprint ({SHOW_FINGERPRINT}), pin it: {pin}"
                )
            }
            CertificateProblem::NoRoots => format!(
                "install them (ca-certificates), or correct SSL_CERT_FILE and SSL_CERT_DIR; or, if the host shows the same fingerprint ({SHOW_FINGERPRINT}), pin it: {pin}"
            ),
            CertificateProblem::OtherName { names } => {
                match names.first().filter(|name| !name.starts_with('*')) {
                    Some(name) => format!(
                        "use a URL with one of these names, such as {name}; or pin the certificate: {pin}"
                    ),
                    None => format!("use a URL with a name of the certificate; or pin it: {pin}"),
                }
            }
            CertificateProblem::Expired { .. } => {
                "renew it on the host; hostd reads a changed file without a restart".to_owned()
            }
            CertificateProblem::NotYetValid { .. } => "check the clocks of both machines".to_owned(),
            CertificateProblem::NotPinned { .. } => format!(
                "if the host was given a new certificate and shows the same fingerprint as presented ({SHOW_FINGERPRINT}), \
                 pin that one: `slipway context add NAME --replace --keep-token --url {url} --fingerprint {presented}`; \
                 if not, another server answers: do not continue"
            ),
            CertificateProblem::Invalid(_) => format!("replace it on the host, or pin it: {pin}"),
        }
    }
}
