//! The address of hostd, and connections to it.

use super::{
    ClientError, RequestBody,
    server_url::{Scheme, ServerUrl},
    tls::{TlsError, Trust},
};
use crate::limits;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use std::{io, path::PathBuf};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::OnceCell,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

/// Default data directory.
const DATA_DIR: &str = "/var/lib/slipway";
/// Seconds of silence before the kernel probes the peer.
const KEEPALIVE_IDLE_S: u32 = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Socket(PathBuf),
    /// TCP, with TLS where the scheme is `https`; `trust` counts only then.
    Url {
        url: ServerUrl,
        trust: Trust,
    },
}

impl Target {
    /// Returns the socket in a data directory.
    pub fn local(data_dir: Option<PathBuf>) -> Self {
        Self::Socket(data_dir_or_default(data_dir).join("hostd.sock"))
    }

    /// Returns the URL of a hostd that is not reached by its socket.
    pub fn url(&self) -> Option<&ServerUrl> {
        match self {
            Self::Socket(_) => None,
            Self::Url { url, .. } => Some(url),
        }
    }

    /// Returns the URL where nothing is encrypted.
    pub fn plain_url(&self) -> Option<&ServerUrl> {
        self.url().filter(|url| url.scheme == Scheme::Http)
    }

    /// Returns the value of the `Host` header.
    pub fn host(&self) -> String {
        self.url().map_or_else(|| "localhost".to_owned(), ServerUrl::authority)
    }

    fn failed(&self, source: io::Error) -> ClientError {
        match (self, source.kind()) {
            (Self::Socket(path), io::ErrorKind::PermissionDenied) => {
                ClientError::PermissionDenied(path.clone())
            }
            (Self::Socket(path), _) => {
                ClientError::NotServing { address: path.display().to_string(), source }
            }
            (Self::Url { url, .. }, _) => ClientError::NotServing { address: url.to_string(), source },
        }
    }
}

/// Opens connections to one target.
pub struct Connector {
    pub target: Target,
    /// Made at the first connection: it reads the certificates that are trusted.
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    pub fn new(target: Target) -> Self {
        Self { target, tls: OnceCell::new() }
    }

    pub async fn connect(&self) -> Result<SendRequest<RequestBody>, ClientError> {
        // On the heap: the state of a handshake is large, and part of the future of every request.
        match timeout(limits::CONNECT_TIMEOUT, Box::pin(self.open())).await {
            Ok(response) => response,
            Err(_) => Err(self.target.failed(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn open(&self) -> Result<SendRequest<RequestBody>, ClientError> {
        let failed = |error| self.target.failed(error);
        match &self.target {
            Target::Socket(path) => start_http(UnixStream::connect(path).await.map_err(failed)?).await,
            Target::Url { url, trust } => {
                let stream = TcpStream::connect(url.address()).await.map_err(failed)?;
                // Errors are ignored: without these options only latency and dead-peer detection suffer.
                let _ = stream.set_nodelay(true);
                let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
                let _ = setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_S);
                match url.scheme {
                    Scheme::Http => start_http(stream).await,
                    Scheme::Https => self.start_tls(url, trust, stream).await,
                }
            }
        }
    }

    async fn start_tls(
        &self,
        url: &ServerUrl,
        trust: &Trust,
        stream: TcpStream,
    ) -> Result<SendRequest<RequestBody>, ClientError> {
        let wrong = |_| ClientError::BadUrl(format!("{url} has no name that a certificate can have"));
        let name = ServerName::try_from(url.name().to_owned()).map_err(wrong)?;
        let tls = self.tls.get_or_try_init(|| async { trust.connector() }).await?;
        let stream = tls.connect(name, stream).await.map_err(|error| TlsError::of_handshake(url, error))?;
        start_http(stream).await
    }
}

pub fn data_dir_or_default(data_dir: Option<PathBuf>) -> PathBuf {
    data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR))
}

async fn start_http<S>(stream: S) -> Result<SendRequest<RequestBody>, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(ClientError::ConnectionLost)?;
    // The task ends with the connection, at the latest with the process. Its error is ignored because the sender of
    // the request gets one too.
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
}
