//! E2B's data plane, by its SDKs as published and by raw HTTP.

use anyhow::{Context, Result, ensure};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::stock_clients::StockClient;
use tests::{Caller, Hostd, Reply};
use tokio::io::{AsyncBufReadExt, BufReader};

/// The packages of each script.
const PYTHON: [&str; 3] = ["e2b-2.8.1", "e2b-2.24.0", "e2b-2.63.0"];
const NODE: &str = "e2b-node";

/// A hostd with one sandbox.
struct Fixture {
    hostd: Hostd,
    caller: Caller,
    id: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let caller = hostd.operator()?;
        let id = caller.create(&json!({"idle_policy": "always_on"})).await?;
        Ok(Self { hostd, caller, id })
    }

    /// A request without a token of the API.
    async fn sends(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Caller::tcp(self.hostd.url(), None).call(request.body(Full::new(Bytes::from(body)))?).await
    }

    fn token(&self) -> Result<String> {
        envd_token(&self.hostd, &self.id)
    }

    fn python(&self, packages: &str) -> Result<StockClient> {
        self.named(StockClient::python(packages, "e2b/envd.py")?)
    }

    fn named(&self, client: StockClient) -> Result<StockClient> {
        let client = client.env("ENVD_URL", self.hostd.url()).env("ENVD_SANDBOX", &self.id);
        Ok(client.env("ENVD_TOKEN", self.token()?))
    }
}

/// The token of a sandbox that no client resumed yet and whose owner holds it, as hostd signs it with the key of the
/// instance.
fn envd_token(hostd: &Hostd, sandbox: &str) -> Result<String> {
    let text = std::fs::read_to_string(hostd.data().join("key"))?;
    let instance = hex(text.trim())?;
    let clients = hmac(&instance, b"slipway clients 1\0");
    let parts = [b"e2b envd".as_slice(), sandbox.as_bytes(), &0_u64.to_be_bytes(), b"owner"];
    let signed: Vec<u8> =
        parts.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes()[..], part].concat()).collect();
    let token = [&hmac(&clients, &signed)[..], b"owner"].concat();
    Ok(format!("slc_{}", BASE64_URL_SAFE_NO_PAD.encode(token)))
}

fn hex(text: &str) -> Result<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

#[tokio::test]
async fn every_published_sdk_does_what_its_documentation_shows() -> Result<()> {
    let place = Fixture::new().await?;
    let node = place.named(StockClient::node(NODE, "e2b/envd.js")?)?.run();
    // Each in a sandbox of its own, all at once.
    let mut python = Vec::new();
    for packages in PYTHON {
        let id = place.caller.create(&json!({})).await?;
        let token = envd_token(&place.hostd, &id)?;
        let client = place.python(packages)?.env("ENVD_SANDBOX", &id).env("ENVD_TOKEN", token);
        python.push(async move { client.run().await.context(packages) });
    }
    let (node, python) = tokio::join!(node, futures_util::future::join_all(python));
    for printed in python.into_iter().chain([node.context(NODE)]) {
        ensure!(printed? == "done\n");
    }
    Ok(())
}

#[tokio::test]
async fn every_byte_arrives_when_hostd_is_killed_in_the_middle_of_a_command() -> Result<()> {
    let mut place = Fixture::new().await?;
    for packages in PYTHON {
        let mut command = place.python(packages)?.arg("follow_until_cut").into_command();
        let mut child = command.spawn().context("start the script")?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let first = lines.next_line().await?.context("a pid")?;
        let pid = first.strip_prefix("pid ").with_context(|| first.clone())?.to_owned();
        // In the middle: some lines were read, and most were not.
        let line = lines.next_line().await?.context("output")?;
        ensure!(line.starts_with("out "), "{line}");
        place.hostd.crash().await?;
        let mut was_cut = false;
        while let Some(line) = lines.next_line().await? {
            was_cut |= line.starts_with("cut ");
        }
        ensure!(was_cut && child.wait().await?.success(), "{packages}: the connection was not cut");
        let again = place.python(packages)?.arg("reconnect").env("ENVD_PID", pid);
        ensure!(again.run().await.context(packages)? == "done\n");
    }
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_sleeps_by_command_is_gone_for_its_sdk() -> Result<()> {
    let place = Fixture::new().await?;
    for verb in ["pause", "stop"] {
        let path = format!("/v1/sandboxes/{}/{verb}", place.id);
        let _: Value = place.caller.post(&path, &json!({})).await?.expect(200)?;
        let mut scripts = Vec::new();
        for packages in PYTHON {
            scripts.push(place.python(packages)?.arg("gone").run());
        }
        for printed in futures_util::future::join_all(scripts).await {
            ensure!(printed? == "done\n", "after {verb}");
        }
    }
    Ok(())
}

/// A request to the sandbox, and what it must be answered.
struct BadRequest<'a> {
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Vec<u8>,
    status: u16,
    /// In the body.
    says: &'a str,
}

const JSON: (&str, &str) = ("content-type", "application/json");
const STREAM: (&str, &str) = ("content-type", "application/connect+json");

fn frame(flags: u8, text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("short").to_be_bytes();
    [&[flags][..], &length, text].concat()
}

impl<'a> BadRequest<'a> {
    fn new(
        path: &'a str,
        headers: &'a [(&'a str, &'a str)],
        body: &[u8],
        status: u16,
        says: &'a str,
    ) -> Self {
        Self { path, headers, body: body.to_vec(), status, says }
    }
}

/// Calls with one message.
fn bad_messages() -> Vec<BadRequest<'static>> {
    let request = BadRequest::new;
    let list = "/process.Process/List";
    vec![
        request(list, &[JSON], b"{}", 200, "processes"),
        request(list, &[JSON], b"", 200, "processes"),
        request(list, &[JSON], b"{\"unknown\":1}", 200, "processes"),
        request(list, &[JSON], b"{", 400, "invalid_argument"),
        request(list, &[STREAM], b"{}", 415, ""),
        request(list, &[("content-type", "application/proto")], b"{}", 415, ""),
        request(list, &[JSON, ("content-encoding", "gzip")], b"{}", 501, "unimplemented"),
        request(list, &[JSON, ("connect-protocol-version", "2")], b"{}", 400, "invalid_argument"),
        request(list, &[JSON, ("connect-timeout-ms", "soon")], b"{}", 400, "invalid_argument"),
        request("/process.Process/Restart", &[JSON], b"{}", 404, "unimplemented"),
        request("/process.Other/List", &[JSON], b"{}", 404, "unimplemented"),
        request("/nothing", &[JSON], b"{}", 404, "unimplemented"),
        request("/process.Process/SendInput", &[JSON], &vec![b' '; (8 << 20) + 1], 429, "resource_exhausted"),
        request("/process.Process/SendInput", &[JSON], b"{}", 400, "names no process"),
        request("/process.Process/SendInput", &[JSON], br#"{"process":{"pid":4000000}}"#, 404, "not_found"),
        request(
            "/process.Process/SendSignal",
            &[JSON],
            br#"{"process":{"pid":-1}}"#,
            400,
            "invalid_argument",
        ),
        request("/process.Process/CloseStdin", &[JSON], br#"{"process":{"tag":"none"}}"#, 404, "not_found"),
        request("/filesystem.Filesystem/Stat", &[JSON], br#"{"path":"a\u0000"}"#, 400, "NUL"),
        request("/filesystem.Filesystem/Stat", &[JSON], br#"{"path":7}"#, 400, "invalid_argument"),
        request("/filesystem.Filesystem/Stat", &[JSON], br#"{"path":"none"}"#, 404, "not_found"),
        request(
            "/filesystem.Filesystem/GetWatcherEvents",
            &[JSON],
            br#"{"watcherId":"x"}"#,
            404,
            "not_found",
        ),
        request("/filesystem.Filesystem/RemoveWatcher", &[JSON], b"{}", 404, "not_found"),
    ]
}

/// Streams, which say it in their last frame.
fn bad_streams() -> Vec<BadRequest<'static>> {
    let request = BadRequest::new;
    let (start, input) = ("/process.Process/Start", "/process.Process/StreamInput");
    let run = br#"{"process":{"cmd":"true"}}"#;
    vec![
        request(start, &[STREAM], &frame(0, run), 200, r#""exited":true"#),
        request(start, &[JSON], &frame(0, run), 415, ""),
        request(start, &[STREAM], &frame(1, run), 200, "unimplemented"),
        request(start, &[STREAM], &frame(2, run), 200, "invalid_argument"),
        request(start, &[STREAM], &frame(0, run)[..9], 200, "ended within a frame"),
        request(start, &[STREAM], &frame(0, run)[..3], 200, "ended within a frame"),
        request(start, &[STREAM], b"", 200, "no message"),
        request(start, &[STREAM], &[frame(0, run), frame(0, run)].concat(), 200, "more than one"),
        request(start, &[STREAM], &[0, 255, 255, 255, 255], 200, "resource_exhausted"),
        request(start, &[STREAM], &frame(0, b"[]"), 200, "invalid_argument"),
        request(start, &[STREAM], &frame(0, b"{}"), 200, "invalid_argument"),
        request(start, &[STREAM], &frame(0, br#"{"process":{"cmd":"/none"}}"#), 200, "invalid_argument"),
        request(start, &[STREAM, ("connect-content-encoding", "gzip")], &frame(0, run), 200, "unimplemented"),
        request(input, &[STREAM], b"", 200, "names no process"),
        request(
            input,
            &[STREAM],
            &frame(0, br#"{"data":{"input":{"stdin":"eA=="}}}"#),
            200,
            "invalid_argument",
        ),
        request(input, &[STREAM], &frame(0, br#"{"start":{"process":{"pid":4000000}}}"#), 200, "not_found"),
    ]
}

fn bad_uploads() -> Vec<BadRequest<'static>> {
    let request = BadRequest::new;
    vec![
        request("/files?path=x", &[("content-type", "text/plain")], b"x", 415, "multipart"),
        request("/files?path=x", &[("content-type", "multipart/form-data")], b"x", 400, "boundary"),
        request(
            "/files?path=x",
            &[("content-type", "multipart/form-data; boundary=b")],
            b"--b\r\n\r\nx",
            400,
            "early",
        ),
        request(
            "/files?path=x",
            &[("content-type", "multipart/form-data; boundary=b")],
            b"--b--",
            400,
            "no part",
        ),
        request("/files", &[("content-type", "application/octet-stream")], b"x", 400, "path"),
        request(
            "/files?path=x&username=root",
            &[("content-type", "application/octet-stream")],
            b"x",
            401,
            "root",
        ),
        request(
            "/files?path=x",
            &[("content-type", "application/octet-stream"), ("content-encoding", "gzip")],
            b"no gzip",
            400,
            "",
        ),
        request(
            "/files?path=x",
            &[("content-type", "application/octet-stream"), ("content-encoding", "br")],
            b"x",
            415,
            "gzip",
        ),
        request(
            "/files?path=x",
            &[("content-type", "application/octet-stream"), ("x-metadata-a", "b")],
            b"x",
            400,
            "etadata",
        ),
        request("/files/compose", &[JSON], br#"{"source_paths":[],"destination":"x"}"#, 400, "source_paths"),
        request("/files/compose", &[JSON], br#"{"source_paths":["none"],"destination":"x"}"#, 404, "none"),
        request("/health", &[JSON], b"{}", 405, "GET"),
    ]
}

#[tokio::test]
async fn bad_input_is_refused_in_the_form_of_the_protocol() -> Result<()> {
    let place = Fixture::new().await?;
    let token = place.token()?;
    let identity = [("e2b-sandbox-id", place.id.as_str()), ("x-access-token", &token)];
    for bad in [bad_messages(), bad_streams(), bad_uploads()].into_iter().flatten() {
        let headers: Vec<(&str, &str)> = identity.iter().chain(bad.headers).copied().collect();
        let reply = place.sends(Method::POST, bad.path, &headers, bad.body).await?;
        let (status, text) = (reply.status, reply.text());
        ensure!(
            status == bad.status && text.contains(bad.says),
            "{} {:?}: expected {} {:?}, got {status} {text}",
            bad.path,
            bad.headers,
            bad.status,
            bad.says
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_for_its_sandbox_and_nothing_else() -> Result<()> {
    let place = Fixture::new().await?;
    let other = place.caller.create(&json!({})).await?;
    let token = place.token()?;
    let (id, absent) = (place.id.as_str(), "01k7k0000000000000000000aa");
    let basic = |user: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:")));
    let (user, root) = (basic("user"), basic("root"));
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let table: &[Row<'_>] = &[
        ("/health", &[("e2b-sandbox-id", id)], 204),
        ("/health", &[("e2b-sandbox-id", absent)], 502),
        ("/health", &[("e2b-sandbox-id", "x")], 502),
        ("/envs", &[("e2b-sandbox-id", id), ("x-access-token", &token)], 200),
        ("/metrics", &[("e2b-sandbox-id", id), ("x-access-token", &token)], 200),
        ("/envs", &[("e2b-sandbox-id", id)], 401),
        ("/envs", &[("e2b-sandbox-id", id), ("x-access-token", "x")], 401),
        ("/envs", &[("e2b-sandbox-id", &other), ("x-access-token", &token)], 401),
        ("/envs", &[("e2b-sandbox-id", id), ("x-access-token", &token), ("authorization", &user)], 200),
        ("/envs", &[("e2b-sandbox-id", id), ("x-access-token", &token), ("authorization", &root)], 401),
        ("/envs", &[("e2b-sandbox-id", id), ("x-access-token", &token), ("e2b-sandbox-port", "3000")], 502),
        ("/files?path=/etc/hosts", &[("e2b-sandbox-id", id), ("x-access-token", &token)], 200),
        ("/files?path=/etc/hosts", &[("e2b-sandbox-id", id)], 401),
        // It is no token of the API.
        ("/v1/sandboxes", &[("authorization", &token)], 401),
    ];
    for (path, headers, expected) in table {
        let reply = place.sends(Method::GET, path, headers, Vec::new()).await?;
        ensure!(reply.status == *expected, "{path} {headers:?}: {} {}", reply.status, reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn a_sandbox_is_reached_by_its_hostname_beside_its_previews() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let view: Value = caller.post("/v1/sandboxes", &json!({"ports": [3000]})).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    let preview = view["previews"]["3000"].as_str().context("a preview")?;
    let port = preview.trim_end_matches('/').rsplit(':').next().context("a port")?;
    let previews = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
    let token = envd_token(&hostd, id)?;
    let key = caller.token().context("a token of the API")?;
    let stranger = hostd.caller("other", "other", "run").await?;
    let stranger = stranger.token().context("a token of the API")?;
    for (name, path, header, credential, expected) in [
        ("49983", "/health", "x-access-token", "", 204),
        ("49983", "/envs", "x-access-token", token.as_str(), 200),
        ("49983", "/envs", "x-access-token", "wrong", 401),
        ("49983", "/envs", "x-access-token", "", 401),
        ("49983", "/envs", "x-api-key", key, 200),
        ("49983", "/envs", "x-api-key", "wrong", 401),
        ("49983", "/envs", "x-api-key", stranger, 404),
        ("49999", "/health", "x-access-token", token.as_str(), 204),
        ("49999", "/contexts", "x-access-token", "", 401),
    ] {
        let host = format!("{name}-{}.localhost:{port}", id.to_ascii_uppercase());
        let mut request = Request::get(path).header("host", host);
        if !credential.is_empty() {
            request = request.header(header, credential);
        }
        let reply = previews.call(request.body(Full::new(Bytes::new()))?).await?;
        ensure!(reply.status == expected, "{name} {path} {header}: {} {}", reply.status, reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn files_are_composed_read_in_ranges_and_by_signed_urls() -> Result<()> {
    let place = Fixture::new().await?;
    let token = place.token()?;
    let identity = [("e2b-sandbox-id", place.id.as_str()), ("x-access-token", &token)];
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
        identity.iter().copied().chain(more.iter().copied()).collect()
    };
    let octets = with(&[("content-type", "application/octet-stream")]);
    for (path, content) in [("/files?path=p1", "one "), ("/files?path=/tmp/p2", "two")] {
        let reply = place.sends(Method::POST, path, &octets, content.into()).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    }
    let request = br#"{"source_paths":["p1","/tmp/p2","p1"],"destination":"whole"}"#.to_vec();
    let reply = place.sends(Method::POST, "/files/compose", &with(&[JSON]), request).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    for (path, headers, status, text) in [
        ("/files?path=whole", with(&[]), 200, "one twoone "),
        ("/files?path=whole", with(&[("range", "bytes=4-6")]), 206, "two"),
        ("/files?path=p1", with(&[]), 404, "does not exist"),
        ("/files?path=/tmp/p2", with(&[]), 404, "does not exist"),
    ] {
        let reply = place.sends(Method::GET, path, &headers, Vec::new()).await?;
        ensure!(
            reply.status == status && reply.text().contains(text),
            "{path}: {} {}",
            reply.status,
            reply.text()
        );
    }
    // The new file is one of its sources, by its other name or through a link.
    place.caller.prints(&place.id, "mkdir ~/real && ln -s real ~/link && echo x > ~/real/y").await?;
    for (source, destination) in [("/home/user/whole", "/home/sandbox/whole"), ("link/y", "real/y")] {
        let request = json!({"source_paths": [source], "destination": destination}).to_string();
        let reply = place.sends(Method::POST, "/files/compose", &with(&[JSON]), request.into()).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
        let path = format!("/files?path={destination}");
        let reply = place.sends(Method::GET, &path, &with(&[]), Vec::new()).await?;
        ensure!(reply.status == 200, "{destination}: {} {}", reply.status, reply.text());
    }
    let sign = |text: &str| BASE64_STANDARD_NO_PAD.encode(Sha256::digest(text)).replace('+', "%2B");
    let read = format!("/files?path=whole&signature=v1_{}", sign(&format!("whole:read::{token}")));
    let until = |second: u64| {
        let signature = sign(&format!("whole:read:user:{token}:{second}"));
        format!("/files?path=whole&username=user&signature_expiration={second}&signature=v1_{signature}")
    };
    let by_id = [("e2b-sandbox-id", place.id.as_str())];
    for (method, path, status) in [
        (Method::GET, read.clone(), 200),
        (Method::POST, read.clone(), 401),
        (Method::GET, read.replace("path=whole", "path=other"), 401),
        (Method::GET, until(4_000_000_000), 200),
        (Method::GET, until(1_000_000_000), 401),
        (Method::GET, until(4_000_000_000).replace("4000000000", "4000000001"), 401),
    ] {
        let reply = place.sends(method, &path, &by_id, Vec::new()).await?;
        ensure!(reply.status == status, "{path}: {} {}", reply.status, reply.text());
    }
    Ok(())
}
