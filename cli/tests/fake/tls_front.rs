//! A TCP port in front of the fake hostd, with or without TLS. Its certificate can be renewed.

use super::{Certificate, FakeHostd};
use std::{
    future::pending,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy, split},
    net::{TcpListener, TcpStream, UnixStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

/// What a port speaks.
#[derive(Clone)]
pub enum Speaks {
    Tls(Arc<ServerConfig>),
    PlainHttp,
    /// Closes every connection without a byte.
    Nothing,
}

impl Speaks {
    /// TLS with a certificate, for HTTP/1.1.
    pub fn tls(certificate: &Certificate) -> Self {
        Self::tls_with_alpn(certificate, b"http/1.1")
    }

    pub fn tls_with_alpn(certificate: &Certificate, protocol: &[u8]) -> Self {
        let chain = vec![CertificateDer::from_pem_file(&certificate.cert).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(&certificate.key).expect("a key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        config.alpn_protocols = vec![protocol.to_vec()];
        Self::Tls(Arc::new(config))
    }
}

pub struct TlsFront {
    address: SocketAddr,
    speaks: Arc<Mutex<Speaks>>,
    server: JoinHandle<()>,
}

impl TlsFront {
    pub async fn start(fake: &FakeHostd, speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let speaks = Arc::new(Mutex::new(speaks));
        let (shared, socket) = (Arc::clone(&speaks), fake.data_dir().join("hostd.sock"));
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let speaks = shared.lock().expect("not poisoned").clone();
                connections.spawn(serve(stream, speaks, socket.clone()));
            }
        });
        Self { address, speaks, server }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Speaks otherwise from the next connection on.
    pub fn change(&self, speaks: Speaks) {
        *self.speaks.lock().expect("not poisoned") = speaks;
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(stream: TcpStream, speaks: Speaks, socket: PathBuf) {
    match speaks {
        Speaks::Tls(config) => {
            // A client that does not like the certificate leaves here.
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                relay(stream, socket).await;
            }
        }
        Speaks::PlainHttp => relay(stream, socket).await,
        Speaks::Nothing => {}
    }
}

/// Copies until the fake hostd has ended, which cuts connections on purpose. What it sent is delivered, also where it
/// reads no more.
async fn relay(stream: impl AsyncRead + AsyncWrite + Unpin, socket: PathBuf) {
    let Ok(hostd) = UnixStream::connect(socket).await else { return };
    let (mut from_client, mut to_client) = split(stream);
    let (mut from_hostd, mut to_hostd) = hostd.into_split();
    let up = async {
        let _ = copy(&mut from_client, &mut to_hostd).await;
        let _ = to_hostd.shutdown().await;
        pending::<()>().await;
    };
    let down = async {
        let _ = copy(&mut from_hostd, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::select! {
        // Never first: it waits for the other.
        () = up => {}
        () = down => {}
    }
}
