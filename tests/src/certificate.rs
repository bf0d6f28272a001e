//! A self-signed certificate for all previews of `localhost`, trusted by tests only.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Makes certificate and key in a directory.
pub async fn make(dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=preview.localhost"]);
    openssl.args(["-addext", "subjectAltName=DNS:*.preview.localhost"]);
    openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    let made = openssl.output().await.context("run openssl")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok((certificate, key))
}
