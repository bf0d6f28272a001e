//! Private previews through the edge: who gets to the app, and what the app gets to see.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, LOCATION, SET_COOKIE};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tests::host::until;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Answers with the request head it got; upgrades on request, sends the head on the new stream and then
/// echoes.
const APP: &str = r#"
import socket, threading
def serve(conn):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = conn.recv(4096)
        if not got: return
        head += got
    if b"upgrade: websocket" in head.lower():
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nset-cookie: slipway-preview=x\r\n\r\n" + head)
        while got := conn.recv(4096): conn.sendall(got)
        return
    cookies = b"set-cookie: slipway-preview=evil; Path=/\r\nset-cookie: a=b; Domain=preview.localhost; Path=/\r\n"
    conn.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n" + cookies + b"content-length: %d\r\n\r\n" % len(head) + head)
    conn.close()
listener = socket.create_server(("127.0.0.1", 3000))
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

struct Fixture {
    hostd: Hostd,
    ann: Caller,
    id: String,
    /// Where previews are served.
    edge: Caller,
}

impl Fixture {
    async fn new(visibility: &str) -> Result<Self> {
        let hostd = Hostd::start().await?;
        let ann = hostd.caller("a", "ann", "run").await?;
        let service = json!({"name": "web", "command": format!("exec python3 -c '{APP}'"), "port": 3000});
        let spec = json!({"ports": [3000], "visibility": visibility, "services": [service]});
        let id = ann.create(&spec).await?;
        let view: Value = ann.get(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
        let url = view["previews"]["3000"].as_str().context("a preview")?;
        let port = url.rsplit(':').next().context("a port")?;
        let edge = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
        Ok(Self { hostd, ann, id, edge })
    }

    fn links(&self) -> String {
        format!("/v1/sandboxes/{}/preview-links", self.id)
    }

    async fn link(&self, body: Value) -> Result<Value> {
        self.ann.post(&self.links(), &body).await?.expect(201)
    }

    fn request(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<Request<Full<Bytes>>> {
        let host = format!("s-{}-3000.preview.localhost", self.id);
        let request = Request::builder().method(method).uri(path).header(HOST, host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Ok(request.body(Full::default())?)
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Reply> {
        self.edge.call(self.request(Method::GET, path, headers)?).await
    }

    /// Opens a link as a browser does; where it leads to, and the cookie it gives.
    async fn open(&self, link: &Value) -> Result<(String, String)> {
        let url = link["url"].as_str().context("an address")?;
        let path = url.splitn(4, '/').nth(3).context("a path")?;
        let reply = self.get(&format!("/{path}"), &[]).await?;
        ensure!(reply.status == 303, "{} {}", reply.status, reply.text());
        ensure!(reply.headers["cache-control"] == "no-store", "{:?}", reply.headers);
        let text = |name| anyhow::Ok(reply.headers.get(name).context("a header")?.to_str()?.to_owned());
        let cookie = text(SET_COOKIE)?;
        ensure!(cookie.contains("; HttpOnly") && !cookie.to_lowercase().contains("domain"), "{cookie}");
        let pair = cookie.split(';').next().context("a pair")?.to_owned();
        Ok((text(LOCATION)?, pair))
    }

    async fn upgrade(&self, headers: &[(&str, &str)]) -> Result<Response<Incoming>> {
        let mut all = vec![("connection", "Upgrade"), ("upgrade", "websocket")];
        all.extend_from_slice(headers);
        let request = self.request(Method::GET, "/hmr", &all)?;
        timeout(PATIENCE, self.edge.open(request)).await.context("it is never answered")?
    }
}

fn is(reply: &Reply, status: u16) -> Result<()> {
    ensure!(reply.status == status, "expected {status}, got {} {}", reply.status, reply.text());
    Ok(())
}

fn unseen(head: &str) -> Result<()> {
    let head = head.to_lowercase();
    for secret in ["slp1.", "slipway", "slw_", "x-sandbox"] {
        ensure!(!head.contains(secret), "the app sees {secret}: {head}");
    }
    Ok(())
}

#[tokio::test]
async fn a_link_opens_its_preview_and_the_app_sees_nothing_of_it() -> Result<()> {
    let stage = Fixture::new("private").await?;
    is(&stage.get("/", &[]).await?, 401)?;
    let link = stage.link(json!({"port": 3000, "path": "/a?x=1"})).await?;
    let (location, cookie) = stage.open(&link).await?;
    ensure!(location == "/a?x=1", "{location}");
    let shown = stage.get(&location, &[("cookie", "mine=1"), ("cookie", &cookie)]).await?;
    is(&shown, 200)?;
    let head = shown.text().to_lowercase();
    ensure!(head.starts_with("get /a?x=1 ") && head.contains("cookie: mine=1\r\n"), "{head}");
    unseen(&head)?;
    let set: Vec<_> = shown.headers.get_all(SET_COOKIE).iter().collect();
    ensure!(set == ["a=b; Path=/"], "{set:?}");
    Ok(())
}

#[tokio::test]
async fn only_a_pass_for_this_preview_is_good_and_only_until_it_is_revoked() -> Result<()> {
    let stage = Fixture::new("private").await?;
    let link = stage.link(json!({"port": 3000})).await?;
    let (_, cookie) = stage.open(&link).await?;
    let token = &*link["token"].as_str().context("a token")?.to_owned();
    let other = stage.link(json!({"port": 3001})).await?;
    let other = other["token"].as_str().context("a token")?;
    let short = stage.link(json!({"port": 3000, "ttl": "5s"})).await?;
    let (_, short) = stage.open(&short).await?;
    let bob = stage.hostd.caller("a", "bob", "run").await?;
    let tossed = format!("slipway-preview=x; {cookie}; slipway-preview=slp1.y");
    let table = [
        ("cookie", cookie.as_str(), 200),
        ("cookie", &tossed, 200),
        ("cookie", "slipway-preview=x", 401),
        ("cookie", &format!("slipway-preview={token}"), 401),
        ("x-slipway-token", token, 200),
        ("x-slipway-token", other, 403),
        ("x-slipway-token", stage.ann.token().context("hers")?, 200),
        ("x-slipway-token", bob.token().context("a token")?, 403),
        ("x-slipway-token", "slw_nope", 401),
    ];
    for (name, value, expected) in table {
        let reply = stage.get("/", &[(name, value)]).await?;
        is(&reply, expected).with_context(|| format!("{name}: {value}"))?;
        if expected == 200 {
            unseen(&reply.text())?;
        }
    }
    let in_body = stage.request(Method::POST, &format!("/?slipway_pass={token}"), &[])?;
    is(&stage.edge.call(in_body).await?, 400)?;
    let expired = async || Ok((stage.get("/", &[("cookie", &short)]).await?.status == 401).then_some(()));
    until("it expires", expired).await?;
    let link = format!("{}/{}", stage.links(), link["id"].as_str().context("an id")?);
    is(&stage.ann.delete(&link).await?, 204)?;
    for (name, value) in [("cookie", cookie.as_str()), ("x-slipway-token", token)] {
        is(&stage.get("/", &[(name, value)]).await?, 401)?;
    }
    is(&stage.get(&format!("/?slipway_pass={token}"), &[]).await?, 401)
}

#[tokio::test]
async fn an_upgrade_comes_with_the_cookie_and_from_its_own_pages() -> Result<()> {
    let stage = Fixture::new("private").await?;
    let (_, cookie) = stage.open(&stage.link(json!({"port": 3000})).await?).await?;
    let own = format!("http://s-{}-3000.preview.localhost", stage.id);
    for (headers, expected) in [
        (vec![], 401),
        (vec![("cookie", cookie.as_str()), ("origin", "http://evil.example")], 403),
        (vec![("cookie", cookie.as_str()), ("origin", own.as_str())], 101),
    ] {
        let response = stage.upgrade(&headers).await?;
        ensure!(response.status() == expected, "{headers:?}: {}", response.status());
        if expected != 101 {
            continue;
        }
        ensure!(!response.headers().contains_key(SET_COOKIE), "{:?}", response.headers());
        let mut stream = TokioIo::new(hyper::upgrade::on(response).await?);
        stream.write_all(b"<ping>").await?;
        let mut said = Vec::new();
        while !said.ends_with(b"<ping>") {
            let read = timeout(PATIENCE, stream.read_buf(&mut said)).await.context("it says nothing")??;
            ensure!(read > 0, "it ended: {}", String::from_utf8_lossy(&said));
        }
        unseen(&String::from_utf8_lossy(&said))?;
    }
    Ok(())
}

#[tokio::test]
async fn only_a_pass_wakes_a_private_preview() -> Result<()> {
    let stage = Fixture::new("private").await?;
    let (_, cookie) = stage.open(&stage.link(json!({"port": 3000})).await?).await?;
    let sandbox = format!("/v1/sandboxes/{}", stage.id);
    stage.ann.post(&format!("{sandbox}/stop"), &json!({})).await?.expect::<Value>(200)?;
    is(&stage.get("/", &[]).await?, 401)?;
    let view: Value = stage.ann.get(&sandbox).await?.expect(200)?;
    ensure!(view["status"] == "stopped", "a stranger woke it: {view}");
    is(&stage.get("/", &[("cookie", &cookie)]).await?, 200)?;
    let view: Value = stage.ann.get(&sandbox).await?.expect(200)?;
    ensure!(view["status"] == "running", "{view}");
    Ok(())
}

#[tokio::test]
async fn a_private_preview_that_is_gone_was_never_there() -> Result<()> {
    for (visibility, status) in [("private", 404), ("public", 410)] {
        let stage = Fixture::new(visibility).await?;
        is(&stage.ann.delete(&format!("/v1/sandboxes/{}", stage.id)).await?, 200)?;
        let reply = stage.get("/", &[]).await?;
        is(&reply, status)?;
        ensure!((status == 404) == reply.text().contains("no such sandbox"), "{}", reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn a_program_names_a_sandbox_by_headers_with_a_token() -> Result<()> {
    let stage = Fixture::new("public").await?;
    is(&stage.get("/", &[]).await?, 200)?;
    let bob = stage.hostd.caller("b", "bob", "run").await?;
    let token = |caller: &Caller| caller.token().map(str::to_owned).context("a token");
    let bearer = format!("Bearer {}", token(&stage.ann)?);
    let named = stage.get("/", &[("authorization", &bearer)]).await?;
    unseen(&named.text()).context("sent to the preview's own name")?;
    let by_headers = |path: &str| {
        let request = Request::get(path).header("x-sandbox-id", &stage.id).header("x-sandbox-port", "3000");
        Ok::<_, anyhow::Error>(request.header("x-slipway-token", token(&stage.ann)?))
    };
    let twice = by_headers("/")?.header("authorization", &bearer).body(Full::default())?;
    unseen(&stage.edge.call(twice).await?.text()).context("sent twice")?;
    let link = stage.link(json!({"port": 3000})).await?;
    let passed = format!("/?slipway_pass={}", link["token"].as_str().context("a pass")?);
    is(&stage.edge.call(by_headers(&passed)?.body(Full::default())?).await?, 400)?;
    for (name, value, expected) in [
        ("x-slipway-token", token(&stage.ann)?, 200),
        ("authorization", bearer, 200),
        ("x-slipway-token", token(&bob)?, 404),
        ("x-slipway-token", "slw_nope".to_owned(), 401),
        ("x-nothing", "x".to_owned(), 401),
    ] {
        let request = Request::get("/b").header("x-sandbox-id", &stage.id).header("x-sandbox-port", "3000");
        let reply = stage.edge.call(request.header(name, value).body(Full::default())?).await?;
        is(&reply, expected).context(name)?;
        if expected == 200 {
            ensure!(reply.text().starts_with("GET /b "), "{}", reply.text());
            unseen(&reply.text())?;
            ensure!(!reply.text().to_lowercase().contains("authorization"), "{}", reply.text());
        }
    }
    Ok(())
}
