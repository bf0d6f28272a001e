//! TLS in tests: a certificate for a name, and a client that trusts it and nothing else.

use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A certificate that signs itself, and its key.
pub struct Certificate {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Made by `openssl`, as files `<label>.crt` and `<label>.key` in a directory.
    pub fn make(dir: &Path, label: &str, host: &str) -> Result<Self> {
        let at = |end: &str| dir.join(format!("{label}.{end}"));
        let (cert, key, config) = (at("crt"), at("key"), at("cnf"));
        let text = format!(
            "[req]\ndistinguished_name=dn\nx509_extensions=v3\nprompt=no\n[dn]\nCN={label}\n\
             [v3]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:{host}\n"
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-days", "2", "-config"]).arg(&config).arg("-keyout").arg(&key).arg("-out").arg(&cert);
        let made = command.output().context("openssl")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(Self { cert, key })
    }

    /// A connection to `address` as `name`, for HTTP/1.1; an error unless this is the certificate shown.
    pub async fn connect(&self, address: &str, name: &str) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.cert)?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(name.to_owned())?;
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            anyhow::Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
        };
        timeout(PATIENCE, connecting).await.context("no handshake")?
    }
}
