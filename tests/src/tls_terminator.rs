//! TLS in front of an API, as a proxy does it, with a certificate that can be renewed.

use crate::https::Certificate;
use anyhow::{Context, Result};
use std::future::pending;
use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

pub struct TlsTerminator {
    port: u16,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    server: JoinHandle<()>,
}

impl TlsTerminator {
    /// Hands what arrives at the listener to `api`, as in `http://127.0.0.1:9090`.
    pub fn start(listener: StdListener, certificate: &Certificate, api: &str) -> Result<Self> {
        let api = api.strip_prefix("http://").context("a URL of plain HTTP")?.to_owned();
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let port = listener.local_addr()?.port();
        let config = Arc::new(Mutex::new(configure(certificate)?));
        let shared = Arc::clone(&config);
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let config = Arc::clone(&shared.lock().unwrap_or_else(PoisonError::into_inner));
                connections.spawn(serve(stream, config, api.clone()));
            }
        });
        Ok(Self { port, config, server })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Uses another certificate from the next connection on.
    pub fn renew(&self, certificate: &Certificate) -> Result<()> {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = configure(certificate)?;
        Ok(())
    }
}

impl Drop for TlsTerminator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn configure(certificate: &Certificate) -> Result<Arc<ServerConfig>> {
    let chain = vec![CertificateDer::from_pem_file(&certificate.cert)?];
    let key = PrivateKeyDer::from_pem_file(&certificate.key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Relays until the server has ended. What it sent is delivered, also where it reads no more; how it went is the
/// client's to tell.
async fn serve(stream: TcpStream, config: Arc<ServerConfig>, api: String) {
    let Ok(client) = TlsAcceptor::from(config).accept(stream).await else { return };
    let Ok(server) = TcpStream::connect(api).await else { return };
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let _ = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        pending::<()>().await;
    };
    let down = async {
        let _ = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::select! {
        // Never first: it waits for the other.
        () = up => {}
        () = down => {}
    }
}
