//! OpenSandbox: its Python SDK as people install it, and what a client could do wrong.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::stock_clients::StockClient;
use tests::{Caller, Hostd, Reply};

/// A hostd with one sandbox, made by OpenSandbox's API.
struct Fixture {
    hostd: Hostd,
    key: String,
    id: String,
    /// Where its execd is: a path, and the header that requests there need.
    execd: String,
    token: String,
}

type Headers<'a> = &'a [(&'a str, &'a str)];

impl Fixture {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let key = hostd.caller("acme", "ann", "run").await?.token().context("a token")?.to_owned();
        let mut fixture = Self { hostd, key, id: String::new(), execd: String::new(), token: String::new() };
        let created =
            fixture.with_key(Method::POST, "/v1/sandboxes", &json!({"image": {"uri": "host"}})).await?;
        let created: Value = created.expect(202)?;
        ensure!(created["status"]["state"] == "Running", "{created}");
        fixture.id = created["id"].as_str().context("an id")?.to_owned();
        let endpoint = fixture.endpoint("44772").await?;
        let address = endpoint["endpoint"].as_str().context("an endpoint")?;
        fixture.execd = address.find('/').map(|at| address[at..].to_owned()).context("a path")?;
        fixture.token = endpoint["headers"]["X-EXECD-ACCESS-TOKEN"].as_str().context("a token")?.to_owned();
        Ok(fixture)
    }

    async fn endpoint(&self, port: &str) -> Result<Value> {
        let path = format!("/v1/sandboxes/{}/endpoints/{port}", self.id);
        self.with_key(Method::GET, &path, &Value::Null).await?.expect(200)
    }

    async fn with_key(&self, method: Method, path: &str, body: &Value) -> Result<Reply> {
        self.send(method, path, &[("open-sandbox-api-key", &self.key)], json_body(body)).await
    }

    async fn execd(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Reply> {
        let path = format!("{}{path}", self.execd);
        self.send(method, &path, &[("x-execd-access-token", &self.token)], body).await
    }

    async fn send(&self, method: Method, path: &str, headers: Headers<'_>, body: Vec<u8>) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Caller::tcp(self.hostd.url(), None).call(request.body(Full::new(Bytes::from(body)))?).await
    }

    /// Runs a shell line, and returns its events.
    async fn run(&self, body: Value) -> Result<Vec<Value>> {
        let reply = self.execd(Method::POST, "/command", json_body(&body)).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
        let text = reply.text();
        text.split_terminator("\n\n").map(|event| Ok(serde_json::from_str(event)?)).collect()
    }
}

fn json_body(body: &Value) -> Vec<u8> {
    if body.is_null() { vec![] } else { body.to_string().into_bytes() }
}

fn text_of(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).filter_map(|event| event["text"].as_str()).collect()
}

#[tokio::test]
async fn the_opensandbox_sdk_works_unchanged() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let token = caller.token().context("a token")?;
    for script in ["scenario.py", "sync.py"] {
        let client = StockClient::python("opensandbox", &format!("opensandbox/{script}"))?;
        let client = client.env("OPEN_SANDBOX_DOMAIN", hostd.url()).env("OPEN_SANDBOX_API_KEY", token);
        let printed = client.run().await?;
        ensure!(printed.trim() == "done", "{script}: {printed}");
    }
    // Each script deletes what it made.
    let left: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
    ensure!(left["items"] == json!([]), "{left}");
    Ok(())
}

#[tokio::test]
async fn a_background_command_and_its_token_survive_a_kill_of_hostd() -> Result<()> {
    let mut place = Fixture::new().await?;
    let line = "echo before; until [ -e /tmp/go ]; do sleep 0.1; done; echo after";
    let events = place.run(json!({"command": line, "background": true})).await?;
    let id = text_of(&events, "init");
    ensure!(events.last().is_some_and(|event| event["type"] == "execution_complete"), "{events:?}");
    place.hostd.crash().await?;

    ensure!(
        text_of(&place.run(json!({"command": "touch /tmp/go; echo went on"})).await?, "stdout")
            == "went on\n"
    );
    let status = loop {
        let status = place.execd(Method::GET, &format!("/command/status/{id}"), vec![]).await?;
        let status: Value = status.expect(200)?;
        if status["running"] == false {
            break status;
        }
    };
    ensure!(status["exit_code"] == 0 && status["content"] == line, "{status}");
    let logs = place.execd(Method::GET, &format!("/command/{id}/logs"), vec![]).await?;
    ensure!(logs.text() == "before\nafter\n", "{}", logs.text());
    let cursor = logs.headers.get("execd-commands-tail-cursor").context("a cursor")?.to_str()?;
    let rest = place.execd(Method::GET, &format!("/command/{id}/logs?cursor={cursor}"), vec![]).await?;
    ensure!(rest.status == 200 && rest.text().is_empty(), "{}", rest.text());
    Ok(())
}

#[tokio::test]
async fn a_token_of_execd_is_for_one_sandbox_while_its_key_is_valid() -> Result<()> {
    let place = Fixture::new().await?;
    let ping = async |token: &str, path: &str| -> Result<u16> {
        Ok(place.send(Method::GET, path, &[("x-execd-access-token", token)], vec![]).await?.status)
    };
    let own = format!("{}/ping", place.execd);
    ensure!(ping(&place.token, &own).await? == 200);
    let other = Caller::tcp(place.hostd.url(), Some(&place.key)).create(&json!({})).await?;
    let foreign = format!("/sandboxes/{other}/proxy/44772/ping");
    ensure!(ping(&place.token, &foreign).await? == 401, "it opens another sandbox");
    for token in ["", "wrong", "slw_AAAA", &place.key, &place.token[..place.token.len() - 2]] {
        ensure!(ping(token, &own).await? == 401, "{token:?}");
    }
    // It opens execd, and nothing else.
    let api =
        place.send(Method::GET, "/v1/sandboxes", &[("x-execd-access-token", &place.token)], vec![]).await?;
    ensure!(api.status == 404, "{} {}", api.status, api.text());
    let bearer = Caller::tcp(place.hostd.url(), Some(&place.token)).get("/v1/sandboxes").await?;
    ensure!(bearer.status == 401, "{} {}", bearer.status, bearer.text());

    let operator = place.hostd.operator()?;
    let tokens: Value = operator.get("/v1/tokens").await?.expect(200)?;
    let ann = tokens["items"].as_array().context("items")?.iter().find(|token| token["principal"] == "ann");
    let id = ann.context("the key")?["id"].as_str().context("an id")?.to_owned();
    let revoked = operator.delete(&format!("/v1/tokens/{id}")).await?;
    ensure!(revoked.status == 204, "{}", revoked.text());
    ensure!(ping(&place.token, &own).await? == 401, "its key is revoked");

    // Of the operator it stands for the owner, and is none of the operator's rights.
    let path = format!("/v1/sandboxes/{}/endpoints/44772", place.id);
    let key = operator.token().context("a token")?;
    let reply = place.send(Method::GET, &path, &[("open-sandbox-api-key", key)], vec![]).await?;
    let headers: BTreeMap<String, String> =
        serde_json::from_value(reply.expect::<Value>(200)?["headers"].clone())?;
    ensure!(ping(&headers["X-EXECD-ACCESS-TOKEN"], &own).await? == 200);
    ensure!(ping(&headers["X-EXECD-ACCESS-TOKEN"], &foreign).await? == 401);
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_form_of_opensandbox() -> Result<()> {
    let place = Fixture::new().await?;
    lifecycle_refuses(&place).await?;
    execd_refuses(&place).await?;
    let both = [("open-sandbox-api-key", place.key.as_str()), ("x-execd-access-token", place.token.as_str())];
    let reply = place.send(Method::GET, "/v1/sandboxes", &both, vec![]).await?;
    ensure!(reply.status == 400, "two credentials: {} {}", reply.status, reply.text());
    let telemetry =
        place.with_key(Method::POST, "/v1/metrics/events", &json!({"event": "sandbox.create"})).await?;
    ensure!(telemetry.status == 204, "{} {}", telemetry.status, telemetry.text());
    Ok(())
}

async fn lifecycle_refuses(place: &Fixture) -> Result<()> {
    let stranger = place.hostd.caller("other", "bob", "run").await?;
    let stranger = stranger.token().context("a token")?;
    let sandbox = format!("/v1/sandboxes/{}", place.id);
    let create = |body: Value| (Method::POST, "/v1/sandboxes".to_owned(), json_body(&body));
    let get = |path: &str| (Method::GET, path.to_owned(), vec![]);
    let lifecycle = [
        ("wrong", create(json!({})), 401, "UNAUTHORIZED"),
        (stranger, get(&sandbox), 404, "NOT_FOUND"),
        (stranger, (Method::DELETE, sandbox.clone(), vec![]), 404, "NOT_FOUND"),
        (stranger, get(&format!("{sandbox}/endpoints/44772")), 404, "NOT_FOUND"),
        (stranger, get(&format!("/sandboxes/{}/proxy/44772/metrics", place.id)), 404, "NOT_FOUND"),
        (&place.key, get("/v1/sandboxes/nothing"), 404, "SANDBOX_NOT_FOUND"),
        (&place.key, get("/v1/nowhere"), 404, "NOT_FOUND"),
        (&place.key, get("/v1/sandboxes?page=0"), 400, "INVALID_REQUEST"),
        (&place.key, get(&format!("{sandbox}/endpoints/900")), 400, "INVALID_REQUEST"),
        (&place.key, create(json!({"volumes": [{"name": "v"}]})), 400, "UNSUPPORTED"),
        (&place.key, create(json!({"resourceLimits": {"cpu": "much"}})), 400, "INVALID_REQUEST"),
        (&place.key, create(json!({"metadata": {"k": "x".repeat(5 << 20)}})), 413, "TOO_LARGE"),
        (
            &place.key,
            (Method::POST, "/v1/sandboxes".to_owned(), b"{\"image\"".to_vec()),
            400,
            "INVALID_REQUEST",
        ),
        (
            &place.key,
            (
                Method::POST,
                format!("{sandbox}/renew-expiration"),
                br#"{"expiresAt": "2001-01-01T00:00:00Z"}"#.to_vec(),
            ),
            400,
            "INVALID_REQUEST",
        ),
    ];
    for (key, (method, path, body), status, code) in lifecycle {
        let reply = place.send(method.clone(), &path, &[("open-sandbox-api-key", key)], body).await?;
        is_error(&reply, status, code).context(format!("{method} {path}"))?;
    }
    Ok(())
}

async fn execd_refuses(place: &Fixture) -> Result<()> {
    let run = |body: Value| (Method::POST, "/command", json_body(&body));
    let upload = |metadata: &str| (Method::POST, "/files/upload", multipart(metadata));
    let execd = [
        ((Method::GET, "/nowhere", vec![]), 404, "NOT_FOUND"),
        ((Method::POST, "/code", vec![]), 400, "UNSUPPORTED"),
        ((Method::GET, "/v1/filesystem/0/0/files/info", vec![]), 403, "FORBIDDEN"),
        (run(json!({"command": "id", "uid": 0})), 403, "FORBIDDEN"),
        (run(json!({})), 400, "INVALID_REQUEST"),
        (run(json!({"command": "x".repeat(5 << 20)})), 413, "TOO_LARGE"),
        ((Method::DELETE, "/command?id=unknown", vec![]), 404, "NOT_FOUND"),
        ((Method::GET, "/command/unknown/logs", vec![]), 404, "NOT_FOUND"),
        (
            (Method::POST, "/session/..%2f..%2fx/run", b"{\"command\": \"id\"}".to_vec()),
            404,
            "SESSION_NOT_FOUND",
        ),
        ((Method::GET, "/files/download?path=/home/sandbox/gone", vec![]), 404, "FILE_NOT_FOUND"),
        ((Method::GET, "/files/download?path=/tmp/gone", vec![]), 404, "FILE_NOT_FOUND"),
        ((Method::GET, "/files/download?path=/etc/shadow", vec![]), 404, "FILE_NOT_FOUND"),
        ((Method::GET, "/files/download?path=/home/sandbox/out", vec![]), 422, "OUTSIDE_WORKSPACE"),
        ((Method::GET, "/files/download", vec![]), 400, "INVALID_REQUEST"),
        ((Method::GET, "/files/download?path=%ff", vec![]), 400, "INVALID_REQUEST"),
        ((Method::DELETE, "/files?path=/tmp", vec![]), 400, "INVALID_REQUEST"),
        (
            (Method::POST, "/files/permissions", br#"{"/tmp": {"mode": 4755}}"#.to_vec()),
            400,
            "INVALID_REQUEST",
        ),
        (upload(r#"{"path": "/etc/passwd"}"#), 500, "RUNTIME_ERROR"),
        (upload(r#"{"path": "/tmp/x", "owner": "root"}"#), 403, "FORBIDDEN"),
        (upload(r#"{"path": ""}"#), 400, "INVALID_REQUEST"),
        (upload("nonsense"), 400, "INVALID_REQUEST"),
        ((Method::POST, "/files/upload", b"--b\r\nhalf".to_vec()), 400, "INVALID_REQUEST"),
    ];
    place.run(json!({"command": "ln -s /etc/passwd ~/out"})).await?;
    uploads_replace_whole_files(place).await?;
    for ((method, path, body), status, code) in execd {
        let headers = [
            ("x-execd-access-token", place.token.as_str()),
            (
                "content-type",
                if path == "/files/upload" { "multipart/form-data; boundary=b" } else { "application/json" },
            ),
        ];
        let reply = place.send(method.clone(), &format!("{}{path}", place.execd), &headers, body).await?;
        is_error(&reply, status, code).context(format!("{method} {path}"))?;
    }
    Ok(())
}

/// Outside the workspace, too: a body that breaks leaves the old file, and nothing beside it.
async fn uploads_replace_whole_files(place: &Fixture) -> Result<()> {
    let made = "mkdir /tmp/d; echo old > /tmp/d/real; chmod 640 /tmp/d/real; ln -s real /tmp/d/link";
    place.run(json!({"command": made})).await?;
    let whole = multipart(r#"{"path": "/tmp/d/link"}"#);
    let cut = whole[..whole.len() - 12].to_vec();
    let headers =
        [("x-execd-access-token", place.token.as_str()), ("content-type", "multipart/form-data; boundary=b")];
    let shown = async || -> Result<String> {
        let line = "cat /tmp/d/link; stat -c %a /tmp/d/real; ls /tmp/d";
        Ok(text_of(&place.run(json!({"command": line})).await?, "stdout"))
    };
    let path = format!("{}/files/upload", place.execd);
    let reply = place.send(Method::POST, &path, &headers, cut).await?;
    is_error(&reply, 400, "INVALID_REQUEST")?;
    // The command is cancelled, and its file removed, after the response.
    tests::host::until("the file beside it is gone", async || {
        Ok((shown().await? == "old\n640\nlink\nreal\n").then_some(()))
    })
    .await?;
    let reply = place.send(Method::POST, &path, &headers, whole).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    ensure!(shown().await? == "content640\nlink\nreal\n", "{}", shown().await?);
    Ok(())
}

fn is_error(reply: &Reply, status: u16, code: &str) -> Result<()> {
    let case = format!("{} {}", reply.status, reply.text());
    let error: Value = reply.json().context(case.clone())?;
    ensure!(reply.status == status && error["code"] == code && error["message"].is_string(), "{case}");
    Ok(())
}

/// A form with one file.
fn multipart(metadata: &str) -> Vec<u8> {
    let part = |name: &str, content: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    format!("{}{}--b--\r\n", part("metadata", metadata), part("file", "content")).into_bytes()
}

/// Answers with the headers that it gets.
const ECHO: &str = "
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'seen: ' + bytes(self.headers))
http.server.HTTPServer(('127.0.0.1', 8000), Echo).serve_forever()
";

#[tokio::test]
async fn the_endpoint_of_a_private_app_has_its_pass_and_the_app_sees_no_credential() -> Result<()> {
    let mut place = Fixture::new().await?;
    let caller = Caller::tcp(place.hostd.url(), Some(&place.key));
    place.id = caller.create(&json!({"visibility": "private"})).await?;
    let path = format!("/v1/sandboxes/{}/files/content?path=workspace/app/echo.py", place.id);
    let written = caller.send(Method::PUT, &path, Bytes::from_static(ECHO.as_bytes())).await?;
    ensure!(written.status == 201, "{}", written.text());
    let serve = "(python3 echo.py >/dev/null 2>&1 &); \
        until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; do :; done";
    caller.prints(&place.id, serve).await?;
    let endpoint = place.endpoint("8000").await?;
    let host = endpoint["endpoint"].as_str().context("an endpoint")?;
    let pass = endpoint["headers"]["X-Slipway-Token"].as_str().context("a pass")?;
    let edge = Caller::tcp(&format!("127.0.0.1:{}", host.rsplit(':').next().context("a port")?), None);
    for (pass, allowed) in [(Some(pass), true), (None, false)] {
        let request = Request::get("/").header("host", host).header("x-mine", "kept");
        let request = request.header("open-sandbox-api-key", &place.key);
        let mut request = request.header("x-execd-access-token", &place.token);
        if let Some(pass) = pass {
            request = request.header("x-slipway-token", pass);
        }
        let seen = edge.call(request.body(Full::default())?).await?.text();
        ensure!((seen.contains("seen: ") && seen.contains("kept")) == allowed, "{seen}");
        for secret in [&place.key, &place.token] {
            ensure!(!seen.contains(secret.as_str()), "an app sees a credential: {seen}");
        }
    }
    Ok(())
}
