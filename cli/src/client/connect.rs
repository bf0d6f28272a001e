//! The address of hostd, and connections to it.

use super::{ClientError, RequestBody};
use crate::limits;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use std::{io, path::PathBuf};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// Default data directory.
const DATA_DIR: &str = "/var/lib/slipway";
/// Seconds of silence before the kernel probes the peer.
const KEEPALIVE_IDLE_S: u32 = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Socket(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl Target {
    /// Chooses the address: `url` (`SLIPWAY_URL`), or the socket in the data directory.
    pub fn choose(url: Option<&str>, data_dir: Option<PathBuf>) -> Result<Self, ClientError> {
        let Some(url) = url.filter(|url| !url.is_empty()) else {
            return Ok(Self::Socket(data_dir_or_default(data_dir).join("hostd.sock")));
        };
        let wrong = |why: &str| ClientError::BadUrl(format!("SLIPWAY_URL is {url:?}: {why}"));
        if url.starts_with("https://") {
            return Err(wrong("only http:// is spoken; put a tunnel (ssh -L) or a proxy in front"));
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("must be http://host:port"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let parsed: hyper::http::uri::Authority =
            authority.parse().map_err(|_| wrong("must be http://host:port, without a path"))?;
        Ok(Self::Tcp(format!("{}:{}", parsed.host(), parsed.port_u16().unwrap_or(80))))
    }

    /// Returns the value of the `Host` header.
    pub fn host(&self) -> &str {
        match self {
            Self::Socket(_) => "localhost",
            Self::Tcp(authority) => authority,
        }
    }

    fn address(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Tcp(authority) => format!("http://{authority}"),
        }
    }

    pub(super) async fn connect(&self) -> Result<SendRequest<RequestBody>, ClientError> {
        match timeout(limits::CONNECT_TIMEOUT, self.open()).await {
            Ok(response) => response,
            Err(_) => Err(self.failed(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn open(&self) -> Result<SendRequest<RequestBody>, ClientError> {
        match self {
            Self::Socket(path) => {
                start_http(UnixStream::connect(path).await.map_err(|error| self.failed(error))?).await
            }
            Self::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await.map_err(|error| self.failed(error))?;
                // Errors are ignored: without these options only latency and dead-peer detection suffer.
                let _ = stream.set_nodelay(true);
                let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
                let _ = setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_S);
                start_http(stream).await
            }
        }
    }

    fn failed(&self, source: io::Error) -> ClientError {
        match (self, source.kind()) {
            (Self::Socket(path), io::ErrorKind::PermissionDenied) => {
                ClientError::PermissionDenied(path.clone())
            }
            _ => ClientError::NotServing { address: self.address(), source },
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_wins_over_the_socket() {
        let choose = |url| Target::choose(url, Some("/data".into())).map_err(|error| error.to_string());
        assert_eq!(choose(None), Ok(Target::Socket("/data/hostd.sock".into())));
        assert_eq!(choose(Some("")), Ok(Target::Socket("/data/hostd.sock".into())));
        assert_eq!(choose(Some("http://box:9090/")), Ok(Target::Tcp("box:9090".into())));
        assert_eq!(choose(Some("http://[::1]:9090")), Ok(Target::Tcp("[::1]:9090".into())));
        assert_eq!(choose(Some("http://box")), Ok(Target::Tcp("box:80".into())));
        for bad in ["box:9090", "https://box", "http://", "http://box/api", "ftp://box"] {
            assert!(choose(Some(bad)).is_err(), "{bad}");
        }
    }
}
