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
#[derive(Debug, Clone)]
pub struct Certificate {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Names of a hostd on loopback.
pub const LOOPBACK: &str = "DNS:localhost,IP:127.0.0.1";

impl Certificate {
    /// Made by `openssl`, as files `<label>.crt` and `<label>.key` in a directory.
    pub fn make(dir: &Path, label: &str, host: &str) -> Result<Self> {
        Self::make_for(dir, label, &format!("DNS:{host}"), 2)
    }

    /// For names as openssl writes them, and for so many days from now; none is left of a negative number.
    pub fn make_for(dir: &Path, label: &str, names: &str, days: i32) -> Result<Self> {
        let at = |end: &str| dir.join(format!("{label}.{end}"));
        let (cert, key, request, config) = (at("crt"), at("key"), at("csr"), at("cnf"));
        let text = format!(
            "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN={label}\n\
             [v3]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName={names}\n"
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new("openssl");
        command.args(["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.arg("-config").arg(&config).arg("-keyout").arg(&key).arg("-out").arg(&request);
        run(command)?;
        let mut command = Command::new("openssl");
        command.args(["x509", "-req", "-sha256", "-extensions", "v3", "-extfile"]).arg(&config);
        command.args(["-days", &days.to_string(), "-in"]).arg(&request).arg("-signkey").arg(&key);
        command.arg("-out").arg(&cert);
        run(command)?;
        Ok(Self { cert, key })
    }

    /// The variables with which hostd serves its API with it.
    pub fn variables(&self) -> Result<[(&'static str, &str); 2]> {
        let path = |path| -> Result<&str> { Path::to_str(path).context("a path") };
        Ok([("SLIPWAY_API_TLS_CERT", path(&self.cert)?), ("SLIPWAY_API_TLS_KEY", path(&self.key)?)])
    }

    /// SHA-256 of its public key in base64, as Chromium pins it.
    pub fn pin(&self) -> Result<String> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            "openssl x509 -in \"$1\" -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
        );
        let pin = run({
            command.arg("sh").arg(&self.cert);
            command
        })?;
        Ok(pin.trim().to_owned())
    }

    /// Its SHA-256 fingerprint, as `openssl` prints it.
    pub fn fingerprint(&self) -> Result<String> {
        let mut command = Command::new("openssl");
        let output =
            command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(&self.cert).output()?;
        let printed = String::from_utf8(output.stdout)?;
        Ok(printed.trim().split_once('=').context("NAME=FINGERPRINT")?.1.to_owned())
    }

    /// A connection to `address` as `name`, for HTTP/1.1; an error unless this is the certificate shown.
    pub async fn connect(&self, address: &str, name: &str) -> Result<TlsStream<TcpStream>> {
        self.connect_for(b"http/1.1", address, name).await
    }

    /// The same for a protocol, as ALPN calls it.
    pub async fn connect_for(
        &self,
        protocol: &[u8],
        address: &str,
        name: &str,
    ) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.cert)?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(name.to_owned())?;
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            anyhow::Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
        };
        timeout(PATIENCE, connecting).await.context("no handshake")?
    }
}

/// Runs a command that must succeed, and returns its output.
fn run(mut command: Command) -> Result<String> {
    let ran = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
