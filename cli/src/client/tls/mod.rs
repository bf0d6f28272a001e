//! TLS to hostd: how its certificate is verified, and errors that say what to do.

mod error;
mod fingerprint;
mod trust;
mod verifier;

pub use error::{CertificateProblem, CertificateRefused, TlsError};
pub use fingerprint::Fingerprint;
pub use trust::Trust;
