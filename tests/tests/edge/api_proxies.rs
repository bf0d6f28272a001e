//! The snippets of docs/proxies.md for the API, taken out of the document and run.

use super::proxies::{Proxy, filled, free_port, snippet};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use tests::https::Certificate;
use tests::launch::directory;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::net::TcpStream;
use tokio::time::timeout;

const NAME: &str = "slipway.example.com";
/// More than any proxy takes unless it is told to, and more than it keeps in memory.
const LARGE_BYTES: usize = 12 << 20;

/// hostd configured as in the document, and the placeholders of the snippets with what is ours.
struct Fixture {
    dir: TempDir,
    hostd: Hostd,
    certificate: Certificate,
    own: Vec<(&'static str, String)>,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let dir = directory()?;
        let certificate = Certificate::make(dir.path(), "api", NAME)?;
        let hostd = Hostd::start_with(&[("SLIPWAY_API_HOSTS", NAME)]).await?;
        let path = |path: &Path| path.to_str().map(str::to_owned).context("a path");
        let own = vec![
            ("/etc/slipway/api.crt", path(&certificate.cert)?),
            ("/etc/slipway/api.key", path(&certificate.key)?),
            ("127.0.0.1:9090", hostd.url().trim_start_matches("http://").to_owned()),
        ];
        Ok(Self { dir, hostd, certificate, own })
    }

    fn filled(&self, language: &str, more: &[(&str, &str)]) -> Result<String> {
        let own: Vec<(&str, &str)> = self.own.iter().map(|(theirs, ours)| (*theirs, ours.as_str())).collect();
        filled(snippet("The API behind a proxy", language)?, &[own, more.to_vec()].concat())
    }

    /// Everything that clients do, by whatever listens on this port.
    async fn let_through(self, port: u16) -> Result<()> {
        let address = format!("127.0.0.1:{port}");
        let listens = async || Ok(TcpStream::connect(&address).await.ok().map(drop));
        tests::host::until("the proxy listens", listens).await?;
        let token = std::fs::read_to_string(self.hostd.data().join("token"))?;
        let caller =
            Caller::tls(&format!("https://{address}"), &self.certificate, Some(token.trim())).named(NAME);
        ensure!(caller.with_token(None).get("/v1/host").await?.status == 401);
        let id = caller.create(&json!({})).await?;

        let content = Bytes::from(vec![b'x'; LARGE_BYTES]);
        let path = format!("/v1/sandboxes/{id}/files/content?path=large");
        caller.send(Method::PUT, &path, content.clone()).await?.expect::<Value>(201)?;
        ensure!(caller.get(&path).await?.body == content, "another file came back");

        let link = json!({"method": "GET", "path": "large"});
        let link: Value = caller.post(&format!("/v1/sandboxes/{id}/file-links"), &link).await?.expect(201)?;
        ensure!(
            link["url"].as_str().is_some_and(|url| url.starts_with("https://slipway.example.com/")),
            "{link}"
        );

        let body = json!({"id": "t", "shell": "stty raw -echo; printf up; exec cat", "tty": true});
        caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
        let mut screen = caller.attach(&id, "t", "").await?;
        screen.sees("up").await?;
        screen.types("key").await?;
        screen.sees("key").await?;

        // An event arrives as it happens: the next one happens only then.
        let request = Request::get("/v1/events").header("accept", "text/event-stream");
        let mut events = caller.open(request.body(Empty::<Bytes>::new())?).await?.into_body();
        for _ in 0..2 {
            let id = self.hostd.local().create(&json!({"network": "none"})).await?;
            let mut seen = String::new();
            while !seen.contains(&id) {
                let frame = timeout(PATIENCE, events.frame()).await.context("the event never comes")?;
                let frame = frame.context("the stream ended")??;
                seen.push_str(&String::from_utf8_lossy(frame.data_ref().context("data")?));
            }
        }
        drop((events, screen));
        self.hostd.stop().await
    }
}

#[tokio::test]
async fn the_nginx_of_the_document_lets_the_api_through() -> Result<()> {
    let stage = Fixture::start().await?;
    let port = free_port()?;
    let listen = format!("listen 127.0.0.1:{port} ssl");
    let http = stage.filled("nginx", &[("listen 443 ssl", &listen)])?;
    let _nginx = Proxy::nginx(stage.dir.path(), &http)?;
    stage.let_through(port).await
}

#[tokio::test]
async fn the_caddy_of_the_document_lets_the_api_through() -> Result<()> {
    let stage = Fixture::start().await?;
    let port = free_port()?;
    let _caddy = Proxy::caddy(stage.dir.path(), port, &stage.filled("caddyfile", &[])?)?;
    stage.let_through(port).await
}
