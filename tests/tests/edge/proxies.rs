//! The snippets of docs/proxies.md, taken out of the document and run: nginx and Caddy in front of hostd,
//! browsers in front of them by TLS. And hostd with a certificate of its own.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tests::https::Certificate;
use tests::launch::directory;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const DOCUMENT: &str = include_str!("../../../docs/proxies.md");
const WILDCARD: &str = "*.preview.example.com";
/// More than any proxy takes unless it is told to, and more than it keeps in memory.
const LARGE_BYTES: usize = 12 << 20;

/// Tells the length of what it is sent; says one event, and the second when it is told to; echoes after an
/// upgrade.
const APP: &str = r#"
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
told = threading.Event()
class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, text):
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def do_POST(self):
        left = int(self.headers.get("content-length") or 0)
        length = 0
        while length < left:
            length += len(self.rfile.read(min(left - length, 1 << 16)))
        self.answer("took %d" % length)
    def do_GET(self):
        if self.headers.get("upgrade"):
            self.send_response(101)
            self.send_header("connection", "Upgrade")
            self.send_header("upgrade", self.headers["upgrade"])
            self.end_headers()
            self.wfile.write(self.rfile.readline())
            self.close_connection = True
        elif self.path == "/events":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(b"data: first\n\n")
            told.wait()
            self.wfile.write(b"data: second\n\n")
            self.close_connection = True
        elif self.path == "/go":
            told.set()
            self.answer("told")
        else:
            self.answer("for " + self.headers["host"])
ThreadingHTTPServer(("127.0.0.1", 3000), App).serve_forever()
"#;

/// The fenced block of that language below a heading; there must be one.
pub(super) fn snippet(heading: &str, language: &str) -> Result<&'static str> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).context("no such heading")?;
    let (_, rest) = section.split_once(&format!("```{language}\n")).context("no such block")?;
    Ok(rest.split_once("```").context("it never ends")?.0)
}

/// The snippet with what is the reader's own: each must be in it.
pub(super) fn filled(snippet: &str, own: &[(&str, &str)]) -> Result<String> {
    own.iter().try_fold(snippet.to_owned(), |text, (theirs, ours)| {
        ensure!(text.contains(theirs), "{theirs} is not in {text}");
        Ok(text.replace(theirs, ours))
    })
}

/// Returns a port on which a program may listen a moment later: below those that the kernel gives to others meanwhile,
/// and another one for each test, which is a process.
pub(super) fn free_port() -> Result<u16> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    for _ in 0..COUNT {
        let at = std::process::id().wrapping_mul(7).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + at % COUNT)?;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

/// hostd configured as in the document, with an app in a sandbox, and a certificate and key for TLS.
struct Fixture {
    dir: TempDir,
    hostd: Hostd,
    certificate: Certificate,
    preview_port: u16,
    /// Under which the app is asked for.
    name: String,
}

impl Fixture {
    async fn start(public: &str) -> Result<Self> {
        let dir = directory()?;
        let certificate = Certificate::make(dir.path(), "previews", WILDCARD)?;
        let preview_port = free_port()?;
        let bind = format!("127.0.0.1:{preview_port}");
        let hostd = Hostd::start_with(&[
            ("SLIPWAY_PREVIEW_BIND", &bind),
            ("SLIPWAY_PREVIEW_DOMAIN", "example.com"),
            ("SLIPWAY_PREVIEW_PUBLIC", public),
        ])
        .await?;
        let name = app(&hostd.operator()?).await?;
        Ok(Self { dir, hostd, certificate, preview_port, name })
    }

    /// The placeholders for files and addresses in the snippets.
    fn own(&self) -> Result<[(&'static str, String); 3]> {
        let path = |path: &Path| path.to_str().map(str::to_owned).context("a path");
        Ok([
            ("/etc/slipway/previews.crt", path(&self.certificate.cert)?),
            ("/etc/slipway/previews.key", path(&self.certificate.key)?),
            ("127.0.0.1:8080", format!("127.0.0.1:{}", self.preview_port)),
        ])
    }
}

/// Makes a sandbox with the app in it; the name of its preview.
async fn app(caller: &Caller) -> Result<String> {
    let service =
        json!({"name": "app", "port": 3000, "command": "exec python3 -c \"$APP\"", "env": {"APP": APP}});
    let spec = json!({"ports": [3000], "services": [service], "visibility": "public"});
    let id = caller.create(&spec).await?;
    let path = format!("/v1/sandboxes/{id}/services");
    caller.until(&path, |page| page["items"][0]["state"] == "ready").await?;
    Ok(format!("s-{id}-3000.preview.example.com"))
}

/// A proxy in the foreground, ended with the test.
pub(super) struct Proxy(Child);

impl Proxy {
    /// nginx in a directory, with this in its `http` block.
    pub(super) fn nginx(dir: &Path, http: &str) -> Result<Self> {
        let at = dir.display();
        let config = format!(
            "daemon off; pid {at}/pid; events {{}}\nhttp {{ access_log off; client_body_temp_path {at}/body;
             proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi;
             scgi_temp_path {at}/scgi;\n{http} }}"
        );
        std::fs::write(dir.join("nginx.conf"), config)?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf")).arg("-e").arg(dir.join("error.log"));
        Self::start(command)
    }

    /// Caddy in a directory with this file, on a port of loopback.
    pub(super) fn caddy(dir: &Path, port: u16, caddyfile: &str) -> Result<Self> {
        // Not to be the machine's own: another port, and nothing but loopback.
        let config = format!(
            "{{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n\tdefault_bind 127.0.0.1\n}}\n{caddyfile}"
        );
        std::fs::write(dir.join("Caddyfile"), config)?;
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(dir.join("Caddyfile"));
        command.env("HOME", dir).stderr(std::fs::File::create(dir.join("log"))?);
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("start {}", program.display()))?))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // SIGTERM: nginx must end its workers.
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.0.wait();
    }
}

/// A browser that asks for one name at one address.
struct Browser<'a> {
    certificate: &'a Certificate,
    address: String,
    name: &'a str,
}

impl Browser<'_> {
    /// A connection on which a request was sent.
    async fn sends(&self, head: &str, body: &[u8]) -> Result<TlsStream<TcpStream>> {
        let mut stream = self.certificate.connect(&self.address, self.name).await?;
        let request = format!("{head}\r\nhost: {}\r\n\r\n", self.name);
        let sending = async {
            stream.write_all(request.as_bytes()).await?;
            stream.write_all(body).await?;
            stream.flush().await
        };
        timeout(PATIENCE, sending).await.context("it does not take the request")??;
        Ok(stream)
    }

    /// All that is answered.
    async fn asks(&self, head: &str, body: &[u8]) -> Result<String> {
        let head = format!("{head}\r\nconnection: close");
        let mut stream = self.sends(&head, body).await?;
        let mut answer = Vec::new();
        // A stream that ends without close_notify still counts.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.context("it never ends")?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    async fn until_it_is_there(&self) -> Result<()> {
        let is_there = async || Ok(TcpStream::connect(&self.address).await.ok().map(drop));
        tests::host::until("the proxy listens", is_there).await
    }
}

async fn reads_until(stream: &mut TlsStream<TcpStream>, seen: &mut String, sign: &str) -> Result<()> {
    let reading = async {
        let mut piece = [0; 4096];
        while !seen.contains(sign) {
            let read = stream.read(&mut piece).await?;
            ensure!(read > 0, "it ended");
            seen.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        Ok(())
    };
    let read: Result<Result<()>, _> = timeout(PATIENCE, reading).await;
    read.context("it never comes").and_then(|read| read).with_context(|| format!("{sign} after {seen:?}"))
}

/// The checks of every proxy.
async fn passes(browser: &Browser<'_>) -> Result<()> {
    let answer = browser.asks("GET / HTTP/1.1", b"").await?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("for localhost:3000"), "{answer}");

    let body = vec![b'x'; LARGE_BYTES];
    let answer = browser.asks(&format!("POST / HTTP/1.1\r\ncontent-length: {LARGE_BYTES}"), &body).await?;
    ensure!(answer.ends_with(&format!("took {LARGE_BYTES}")), "{answer}");

    let mut socket = browser.sends("GET / HTTP/1.1\r\nconnection: Upgrade\r\nupgrade: echo", b"").await?;
    let mut seen = String::new();
    reads_until(&mut socket, &mut seen, "\r\n\r\n").await?;
    ensure!(seen.starts_with("HTTP/1.1 101"), "{seen}");
    socket.write_all(b"hello\n").await?;
    socket.flush().await?;
    reads_until(&mut socket, &mut seen, "hello\n").await?;

    let mut events = browser.sends("GET /events HTTP/1.1", b"").await?;
    let mut seen = String::new();
    reads_until(&mut events, &mut seen, "data: first").await?;
    let answer = browser.asks("GET /go HTTP/1.1", b"").await?;
    ensure!(answer.ends_with("told"), "{answer}");
    reads_until(&mut events, &mut seen, "data: second").await
}

#[tokio::test]
async fn the_nginx_of_the_document_lets_everything_through() -> Result<()> {
    let stage = Fixture::start("https").await?;
    let port = free_port()?;
    let listen = format!("listen 127.0.0.1:{port} ssl");
    let own = stage.own()?;
    let mut own: Vec<(&str, &str)> = own.iter().map(|(theirs, ours)| (*theirs, ours.as_str())).collect();
    own.push(("listen 443 ssl", &listen));
    let _nginx = Proxy::nginx(stage.dir.path(), &filled(snippet("nginx", "nginx")?, &own)?)?;
    let_through(stage, port).await
}

/// Everything, by whatever listens on this port.
async fn let_through(stage: Fixture, port: u16) -> Result<()> {
    let address = format!("127.0.0.1:{port}");
    let browser = Browser { certificate: &stage.certificate, address, name: &stage.name };
    browser.until_it_is_there().await?;
    passes(&browser).await?;
    stage.hostd.stop().await
}

#[tokio::test]
async fn the_caddy_of_the_document_lets_everything_through() -> Result<()> {
    let stage = Fixture::start("https").await?;
    let port = free_port()?;
    let own = stage.own()?;
    let own: Vec<(&str, &str)> = own.iter().map(|(theirs, ours)| (*theirs, ours.as_str())).collect();
    let _caddy = Proxy::caddy(stage.dir.path(), port, &filled(snippet("Caddy", "caddyfile")?, &own)?)?;
    let_through(stage, port).await
}

#[tokio::test]
async fn hostd_serves_by_tls_itself_and_takes_up_a_renewed_certificate() -> Result<()> {
    let dir = directory()?;
    let certificate = Certificate::make(dir.path(), "previews", WILDCARD)?;
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path");
    let (cert, key) = (path(&certificate.cert)?, path(&certificate.key)?);
    let hostd = Hostd::start_with(&[
        ("SLIPWAY_PREVIEW_BIND", &address),
        ("SLIPWAY_PREVIEW_DOMAIN", "example.com"),
        ("SLIPWAY_PREVIEW_TLS_CERT", &cert),
        ("SLIPWAY_PREVIEW_TLS_KEY", &key),
    ])
    .await?;
    let name = app(&hostd.operator()?).await?;
    passes(&Browser { certificate: &certificate, address: address.clone(), name: &name }).await?;

    let renewed = Certificate::make(dir.path(), "renewed", WILDCARD)?;
    std::fs::rename(&renewed.cert, &certificate.cert)?;
    std::fs::rename(&renewed.key, &certificate.key)?;
    // The client trusts what is in the file: now only the new one.
    let taken_up = async || Ok(certificate.connect(&address, &name).await.ok().map(drop));
    tests::host::until("the new certificate is shown", taken_up).await?;
    hostd.stop().await
}
