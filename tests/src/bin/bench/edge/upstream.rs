//! The app behind every proxy: the same program, in a sandbox, in a container or on the host. It does as
//! little as an app can, on one thread, so that what is measured is the proxy.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use hyper::{Request, Response, StatusCode, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The word that makes this program the app; an address follows.
pub const WORD: &str = "serve-upstream";
/// Where it listens in sandboxes and containers.
pub const PORT: u16 = 3000;

static SMALL: [u8; 200] = [b's'; 200];
static LARGE: [u8; 1 << 20] = [b'l'; 1 << 20];

/// Until it is killed.
pub async fn serve(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = |request| std::future::ready(Ok::<_, Infallible>(answer(request)));
        let connection = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .with_upgrades();
        tokio::spawn(connection);
    }
}

fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) {
        let accept = derive_accept_key(key.as_bytes());
        tokio::spawn(echo(hyper::upgrade::on(&mut request)));
        return switching(&accept);
    }
    let body = if request.uri().path() == "/1m" { &LARGE[..] } else { &SMALL[..] };
    let mut response = Response::new(Full::new(Bytes::from_static(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn switching(accept: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Echoes bytes without parsing frames.
async fn echo(upgrade: hyper::upgrade::OnUpgrade) {
    let Ok(upgraded) = upgrade.await else { return };
    let mut stream = TokioIo::new(upgraded);
    let mut bytes = [0; 64];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        if stream.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// On the host itself, for proxies that cannot look into a sandbox.
pub struct Upstream {
    child: Child,
    pub address: String,
}

impl Upstream {
    pub async fn start() -> Result<Self> {
        let address = free_address()?;
        let child = Command::new(program()?).arg(WORD).arg(&address).stdin(Stdio::null()).spawn()?;
        let upstream = Self { child, address };
        super::probe::until_it_answers(&upstream.address, "localhost").await?;
        Ok(upstream)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A copy of this program where a sandbox or a container can have it.
pub fn copy_to(dir: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("upstream");
    std::fs::copy(program()?, &path).with_context(|| format!("copy to {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn program() -> Result<PathBuf> {
    std::env::current_exe().context("its own program")
}

/// Returns an address with a free port.
pub fn free_address() -> Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
