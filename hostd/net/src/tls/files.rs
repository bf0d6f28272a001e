//! The two TLS files, certificate chain and key: read as a whole, or refused with what is wrong. Knows
//! nothing of connections.

use super::validity::Validity;
use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::rustls::{
    self, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// More than any chain that a browser accepts.
pub(super) const PEM_MAX_BYTES: u64 = 256 << 10;

/// In order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A file that cannot be used: the key of the configuration, the file, what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{config_key}: {} {fault}", path.display())]
pub struct TlsError {
    config_key: &'static str,
    path: PathBuf,
    fault: FileFault,
}

#[derive(Debug, thiserror::Error)]
enum FileFault {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is no file")]
    NoFile,
    #[error("is larger than {PEM_MAX_BYTES} bytes")]
    TooLarge,
    #[error("is no PEM: {0}")]
    NoPem(pem::Error),
    #[error("has no certificate in it; it must be in PEM, the server's own first")]
    NoCertificate,
    #[error("has no private key in it; it must be in PEM, and not be encrypted")]
    NoKey,
    #[error("cannot be served: {0}")]
    Refused(rustls::Error),
    #[error("has a key that cannot be used: {0}")]
    KeyRefused(rustls::Error),
    #[error("is not the key of the certificate")]
    Mismatch,
}

/// How the files of one listener are called in errors and logs.
#[derive(Debug, Clone, Copy)]
pub struct PairNames {
    pub listener: &'static str,
    /// The configuration keys of the two files.
    pub cert_key: &'static str,
    pub key_key: &'static str,
}

/// The paths of the two files.
#[derive(Debug, Clone)]
pub(super) struct CertPair {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub names: PairNames,
}

/// A pair that was read, ready to be served.
#[derive(Debug, Clone)]
pub(super) struct LoadedPair {
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the server's own certificate.
    pub fingerprint: [u8; 32],
    /// Absent if the certificate does not say it in a known form.
    pub validity: Option<Validity>,
}

/// Identifies a version of a file. A file without metadata has no stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

pub(super) type Stamps = [Option<Stamp>; 2];

impl CertPair {
    /// Follows symbolic links: they are how certificates are renewed.
    pub(super) fn stamps(&self) -> Stamps {
        [&self.cert, &self.key].map(|path| fs::metadata(path).ok().map(|found| Stamp::new(&found)))
    }

    pub(super) fn read(&self) -> Result<LoadedPair, TlsError> {
        let names = self.names;
        let cert = |fault| TlsError { config_key: names.cert_key, path: self.cert.clone(), fault };
        let key = |fault| TlsError { config_key: names.key_key, path: self.key.clone(), fault };
        let chain = read(&self.cert).and_then(|text| chain(&text)).map_err(cert)?;
        let private = read(&self.key).and_then(|text| private(&text)).map_err(key)?;
        let (fingerprint, validity) = match chain.first() {
            Some(own) => (Sha256::digest(own).into(), Validity::of_certificate(own)),
            None => return Err(cert(FileFault::NoCertificate)),
        };
        let provider = Arc::new(ring::default_provider());
        // Checked apart, so that the error names the right file.
        ring::sign::any_supported_type(&private).map_err(|error| key(FileFault::KeyRefused(error)))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| cert(FileFault::Refused(error)))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| {
                let mismatch = matches!(error, rustls::Error::InconsistentKeys(_));
                if mismatch { key(FileFault::Mismatch) } else { cert(FileFault::Refused(error)) }
            })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(LoadedPair { config: Arc::new(config), fingerprint, validity })
    }
}

impl Stamp {
    fn new(found: &Metadata) -> Self {
        Self {
            dev: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FileFault> {
    // Without this flag, opening a named pipe would block.
    let mut open = File::options();
    let open = open.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = open.open(path).map_err(FileFault::Unreadable)?;
    if !file.metadata().map_err(FileFault::Unreadable)?.is_file() {
        return Err(FileFault::NoFile);
    }
    let mut text = Vec::new();
    file.take(PEM_MAX_BYTES + 1).read_to_end(&mut text).map_err(FileFault::Unreadable)?;
    if text.len() as u64 > PEM_MAX_BYTES { Err(FileFault::TooLarge) } else { Ok(text) }
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileFault> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(FileFault::NoPem)?;
    if chain.is_empty() { Err(FileFault::NoCertificate) } else { Ok(chain) }
}

fn private(text: &[u8]) -> Result<PrivateKeyDer<'static>, FileFault> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        let missing = matches!(error, pem::Error::NoItemsFound);
        if missing { FileFault::NoKey } else { FileFault::NoPem(error) }
    })
}
