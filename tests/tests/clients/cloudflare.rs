//! The bridge of Cloudflare's sandboxes: the OpenAI Agents SDK as people install it, and what a client could do wrong.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tests::host::TerminalViewer;
use tests::sandbox::PATIENCE;
use tests::stock_clients::StockClient;
use tests::{Caller, Hostd, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// A hostd with one sandbox, made by the bridge.
struct Bridge {
    hostd: Hostd,
    caller: Caller,
    id: String,
}

impl Bridge {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let caller = hostd.caller("acme", "ann", "run").await?;
        let created: Value = caller.send(Method::POST, "/v1/sandbox", Bytes::new()).await?.expect(200)?;
        let id = created["id"].as_str().context("an id")?.to_owned();
        Ok(Self { hostd, caller, id })
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandbox/{}{rest}", self.id)
    }

    /// Runs a shell line in a session, or in none; its output and exit code.
    async fn run(&self, line: &str, session: Option<&str>) -> Result<(String, i64)> {
        self.run_as_is(json!({"argv": ["sh", "-c", line]}), session).await
    }

    async fn run_as_is(&self, body: Value, session: Option<&str>) -> Result<(String, i64)> {
        let mut request = Request::post(self.path("/exec"));
        if let Some(session) = session {
            request = request.header("session-id", session);
        }
        let body = Full::new(Bytes::from(serde_json::to_vec(&body)?));
        events(&self.caller.call(request.body(body)?).await?)
    }

    async fn after_a_crash(&mut self) -> Result<()> {
        self.hostd.crash().await?;
        self.caller = Caller::tcp(self.hostd.url(), self.caller.token());
        Ok(())
    }
}

/// The standard output and the exit code of a stream of events, which must have ended.
fn events(reply: &Reply) -> Result<(String, i64)> {
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let text = reply.text();
    let mut output = Vec::new();
    for event in text.split_terminator("\n\n") {
        let (name, data) = event.split_once("\ndata: ").with_context(|| format!("{event:?}"))?;
        match name {
            "event: stdout" => output.extend(BASE64_STANDARD.decode(data)?),
            "event: stderr" => {}
            "event: exit" => {
                let code = serde_json::from_str::<Value>(data)?["exit_code"].as_i64().context("a code")?;
                ensure!(text.ends_with(&format!("{event}\n\n")), "more after the end: {text}");
                return Ok((String::from_utf8(output)?, code));
            }
            _ => anyhow::bail!("{event}"),
        }
    }
    anyhow::bail!("no end: {text}")
}

#[tokio::test]
async fn the_openai_agents_sdk_works_unchanged() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let token = caller.token().context("a token")?;
    for script in ["session.py", "agent.py"] {
        let client = StockClient::python("openai-agents", &format!("openai-agents/{script}"))?;
        let client = client.env("BRIDGE_URL", hostd.url()).env("CLOUDFLARE_SANDBOX_API_KEY", token);
        let client = client.arg("cloudflare");
        let printed = client.run().await?;
        ensure!(printed.trim() == "done", "{script}: {printed}");
    }
    // Each script deletes what it made.
    let left: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
    ensure!(left["items"] == json!([]), "{left}");
    Ok(())
}

#[tokio::test]
async fn a_tunnel_is_a_url_of_a_port_until_it_is_closed() -> Result<()> {
    let mut bridge = Bridge::new().await?;
    for visibility in ["public", "private"] {
        bridge.id = bridge.caller.create(&json!({"visibility": visibility})).await?;
        let serve = "echo from the sandbox > page.txt; (python3 -m http.server 4000 >/dev/null 2>&1 &); \
            until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 4000))' 2>/dev/null; do :; done";
        ensure!(bridge.run(serve, None).await?.1 == 0, "the app does not start");
        let path = bridge.path("/tunnel/4000");
        let tunnel: Value = bridge.caller.post(&path, &json!({"name": "app"})).await?.expect(200)?;
        ensure!(
            tunnel["port"] == 4000 && tunnel["name"] == "app" && tunnel["createdAt"].is_string(),
            "{tunnel}"
        );
        let url: hyper::Uri = tunnel["url"].as_str().context("a url")?.parse()?;
        ensure!(url.host() == tunnel["hostname"].as_str(), "{tunnel}");
        ensure!(url.query().is_some() == (visibility == "private"), "{tunnel}");

        let page = fetched(&url, &url_query(&url), "").await?;
        // The first request to a private preview moves the pass into a cookie.
        let cookie = page.headers.get("set-cookie").and_then(|cookie| cookie.to_str().ok());
        let cookie = cookie.and_then(|cookie| cookie.split(';').next()).unwrap_or_default().to_owned();
        let page = fetched(&url, "", &cookie).await?;
        ensure!(page.status == 200 && page.text() == "from the sandbox\n", "{} {}", page.status, page.text());

        let closed = bridge.caller.delete(&path).await?;
        ensure!(closed.status == 204, "{} {}", closed.status, closed.text());
        let page = fetched(&url, "", &cookie).await?;
        ensure!((page.status == 200) == (visibility == "public"), "{visibility}: {}", page.text());
    }
    Ok(())
}

fn url_query(url: &hyper::Uri) -> String {
    url.query().map(|query| format!("?{query}")).unwrap_or_default()
}

/// The page of the app, by the URL of its tunnel.
async fn fetched(url: &hyper::Uri, query: &str, cookie: &str) -> Result<Reply> {
    let host = url.authority().context("a host")?.as_str();
    let edge = Caller::tcp(&format!("127.0.0.1:{}", url.port_u16().context("a port")?), None);
    let request = Request::get(format!("/page.txt{query}")).header("host", host).header("cookie", cookie);
    edge.call(request.body(Full::default())?).await
}

#[tokio::test]
async fn sessions_and_their_terminals_survive_a_kill_of_hostd() -> Result<()> {
    let mut bridge = Bridge::new().await?;
    let start = json!({"id": "work.1", "cwd": "/workspace", "env": {"GREETING": "it's $HOME"}});
    let created: Value = bridge.caller.post(&bridge.path("/session"), &start).await?.expect(200)?;
    ensure!(created == json!({"id": "work.1"}), "{created}");
    let again = bridge.caller.post(&bridge.path("/session"), &start).await?;
    ensure!(again.status == 409 && again.text().contains("session_error"), "{}", again.text());

    let session = Some("work.1");
    let change =
        json!({"argv": ["eval", "mkdir -p sub && cd sub && export MORE=more && printf %s \"$GREETING\""]});
    ensure!(bridge.run_as_is(change, session).await? == ("it's $HOME".to_owned(), 0));
    let path = bridge.path("/pty?cols=100&rows=30&session=work.1&shell=%2Fbin%2Fsh");
    let mut socket =
        TerminalViewer::of(TerminalViewer::open(&bridge.caller, &path, &[]).await?).await?.socket;
    socket.send(Message::binary("stty size; trap 'echo still here' USR1; echo shell $((40 + 2))\n")).await?;
    wait_for(&mut socket, "shell 42").await?;
    bridge.after_a_crash().await?;

    let told = bridge.run("pwd; echo $MORE", session).await?;
    ensure!(told == ("/workspace/sub\nmore\n".to_owned(), 0), "{told:?}");
    ensure!(bridge.run("exit 7", session).await?.1 == 7);
    ensure!(bridge.run("pwd", None).await? == ("/workspace\n".to_owned(), 0), "apart from sessions");
    let mut socket =
        TerminalViewer::of(TerminalViewer::open(&bridge.caller, &path, &[]).await?).await?.socket;
    // All of its output again, and the same shell.
    let replayed = wait_for(&mut socket, "shell 42").await?;
    ensure!(replayed.contains("30 100"), "{replayed}");
    socket.send(Message::text(r#"{"type": "resize", "cols": 90, "rows": 20}"#)).await?;
    socket.send(Message::binary("stty size; kill -USR1 $$; exit 5\n")).await?;
    let rest = wait_for(&mut socket, r#"{"code":5,"type":"exit"}"#).await?;
    ensure!(rest.contains("20 90") && rest.contains("still here"), "{rest}");

    let deleted: Value = bridge.caller.delete(&bridge.path("/session/work.1")).await?.expect(200)?;
    ensure!(deleted == json!({"success": true, "sessionId": "work.1"}), "{deleted}");
    let gone = bridge.caller.delete(&bridge.path("/session/work.1")).await?;
    ensure!(gone.status == 404 && gone.text().contains("session_error"), "{}", gone.text());
    Ok(())
}

type Socket = tokio_tungstenite::WebSocketStream<hyper_util::rt::TokioIo<hyper::upgrade::Upgraded>>;

/// Reads messages until this is among them.
async fn wait_for(socket: &mut Socket, sign: &str) -> Result<String> {
    let mut said = String::new();
    while !said.contains(sign) {
        let message =
            timeout(PATIENCE, socket.next()).await.with_context(|| format!("no {sign:?}: {said}"))?;
        match message.with_context(|| format!("closed: {said}"))?? {
            Message::Binary(bytes) => said.push_str(&String::from_utf8_lossy(&bytes)),
            Message::Text(text) => said.push_str(&text),
            _ => {}
        }
    }
    Ok(said)
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_form_of_the_bridge() -> Result<()> {
    let bridge = Bridge::new().await?;
    let stranger = bridge.hostd.caller("other", "bob", "run").await?;
    let (none, wrong) = (bridge.caller.with_token(None), bridge.caller.with_token(Some("wrong")));
    let exec = |body: Value| (Method::POST, bridge.path("/exec"), body.to_string().into_bytes());
    let get = |rest: &str| (Method::GET, bridge.path(rest), vec![]);
    let put = |rest: &str| (Method::PUT, bridge.path(rest), b"x".to_vec());
    let post = |rest: &str, body: &[u8]| (Method::POST, bridge.path(rest), body.to_vec());
    let ls = json!({"argv": ["ls"]});
    let ours = &bridge.caller;
    let table = [
        (&none, exec(ls.clone()), 401, "unauthorized"),
        (&wrong, exec(ls.clone()), 401, "unauthorized"),
        (&wrong, (Method::POST, "/v1/sandbox".to_owned(), vec![]), 401, "unauthorized"),
        (&stranger, exec(ls.clone()), 404, "exec_transport_error"),
        (&stranger, get("/file/workspace/x"), 404, "workspace_archive_read_error"),
        (ours, (Method::POST, "/v1/sandbox/nothing/exec".to_owned(), vec![]), 404, "invalid_request"),
        (ours, (Method::GET, "/v1/sandbox/nothing/nowhere".to_owned(), vec![]), 404, "invalid_request"),
        (ours, (Method::PUT, bridge.path("/exec"), vec![]), 405, "invalid_request"),
        (ours, exec(json!({"argv": []})), 400, "invalid_request"),
        (ours, exec(json!({"argv": "ls"})), 400, "invalid_request"),
        (ours, exec(json!({"argv": ["ls"], "cwd": "/etc"})), 403, "invalid_request"),
        (ours, exec(json!({"argv": ["ls"], "timeout_ms": 0})), 400, "invalid_request"),
        (ours, exec(json!({"argv": ["sudo", "-u", "root", "--", "id"]})), 403, "invalid_request"),
        (ours, exec(json!({"argv": ["a".repeat(5 << 20)]})), 413, "invalid_request"),
        (ours, post("/exec", b"{\"argv\": [\"ls\""), 400, "invalid_request"),
        (ours, get("/file/etc/passwd"), 403, "invalid_request"),
        (ours, get("/file/workspace/%2e%2e/etc/passwd"), 403, "invalid_request"),
        (ours, get("/file/workspace/..%2f..%2fetc%2fpasswd"), 403, "invalid_request"),
        (ours, get("/file/workspace/out"), 403, "invalid_request"),
        (ours, put("/file/workspace/out"), 403, "invalid_request"),
        (ours, put("/file/home/sandbox/x"), 403, "invalid_request"),
        (ours, get("/file/workspace/%zz"), 400, "invalid_request"),
        (ours, get("/file/"), 400, "invalid_request"),
        (ours, get("/file/workspace/missing"), 404, "workspace_read_not_found"),
        (ours, get("/file/workspace/dir"), 409, "workspace_archive_read_error"),
        (ours, post("/persist?excludes=..%2fx", b""), 400, "invalid_request"),
        (ours, post("/hydrate", &[b'x'; 2000]), 400, "invalid_request"),
        (ours, post("/hydrate", &hostile_archive()?), 400, "workspace_archive_write_error"),
        (ours, post("/tunnel/0", b""), 400, "invalid_request"),
        (ours, post("/tunnel/900", b""), 400, "invalid_request"),
        (ours, post("/session", br#"{"id": "../x"}"#), 400, "invalid_request"),
        (ours, post("/session", br#"{"env": {"A;id": "b"}}"#), 400, "invalid_request"),
        (ours, post("/mount", b"{}"), 501, "mount_error"),
        (ours, post("/unmount", b"{}"), 501, "unmount_error"),
        (ours, get("/pty"), 400, "invalid_request"),
    ];
    ensure!(bridge.run("ln -s /etc/passwd out; mkdir dir", None).await?.1 == 0);
    for (caller, (method, path, body), status, code) in table {
        let reply = caller.send(method.clone(), &path, body.into()).await?;
        let case = format!("{method} {path}: {} {}", reply.status, reply.text());
        let error: Value = reply.json().context(case.clone())?;
        ensure!(reply.status == status && error["code"] == code && error["error"].is_string(), "{case}");
    }
    ensure!(
        bridge.run("cat out | head -1; ls -A /home/sandbox/..", None).await?.0.ends_with("sandbox\nuser\n")
    );
    Ok(())
}

/// An archive whose entries lead out.
fn hostile_archive() -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    let name = b"../../../escaped";
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_cksum();
    archive.append(&header, &b"x"[..])?;
    Ok(archive.into_inner()?)
}

#[tokio::test]
async fn an_id_that_is_not_there_is_as_the_client_expects_it() -> Result<()> {
    let bridge = Bridge::new().await?;
    let running = async |caller: &Caller, id: &str| -> Result<Value> {
        caller.get(&format!("/v1/sandbox/{id}/running")).await?.expect(200)
    };
    let stranger = bridge.hostd.caller("other", "bob", "run").await?;
    ensure!(running(&bridge.caller, &bridge.id).await? == json!({"running": true}));
    ensure!(running(&stranger, &bridge.id).await? == json!({"running": false}), "a stranger sees nothing");
    ensure!(running(&bridge.caller, "nothing").await? == json!({"running": false}));
    for id in [bridge.id.as_str(), "nothing"] {
        let deleted = stranger.delete(&format!("/v1/sandbox/{id}")).await?;
        ensure!(deleted.status == 204, "{} {}", deleted.status, deleted.text());
    }
    ensure!(
        running(&bridge.caller, &bridge.id).await? == json!({"running": true}),
        "a stranger deletes nothing"
    );

    // Asleep, it is woken by the next command, with its files.
    ensure!(bridge.run("echo kept > kept", None).await?.1 == 0);
    let stopped = bridge.caller.post(&format!("/v1/sandboxes/{}/stop", bridge.id), &json!({})).await?;
    ensure!(stopped.status == 200, "{}", stopped.text());
    ensure!(running(&bridge.caller, &bridge.id).await? == json!({"running": true}));
    ensure!(bridge.run("cat kept", None).await?.0 == "kept\n");

    let pool: Value = bridge.caller.get("/v1/pool/stats").await?.expect(200)?;
    ensure!(pool["assigned"] == 1 && pool["warm"] == 0, "{pool}");
    for path in ["/v1/pool/prime", "/v1/pool/shutdown-prewarmed"] {
        let accepted: Value = bridge.caller.post(path, &json!({})).await?.expect(200)?;
        ensure!(accepted == json!({"ok": true}), "{accepted}");
        ensure!(bridge.caller.with_token(None).post(path, &json!({})).await?.status == 401);
    }
    let document: Value = bridge.caller.get("/v1/openapi.json").await?.expect(200)?;
    ensure!(document["paths"]["/v1/sandbox/{id}/exec"]["post"].is_object(), "{document}");
    let health: Value = bridge.caller.with_token(None).get("/health").await?.expect(200)?;
    ensure!(health == json!({"ok": true}), "{health}");
    Ok(())
}

#[tokio::test]
async fn a_refused_upload_leaves_its_connection_to_the_next_request() -> Result<()> {
    let bridge = Bridge::new().await?;
    let address = bridge.hostd.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await?;
    let head =
        format!("host: {address}\r\nauthorization: Bearer {}\r\n", bridge.caller.token().context("a token")?);
    let path = bridge.path("/file/etc/passwd");
    let upload = format!("PUT {path} HTTP/1.1\r\n{head}transfer-encoding: chunked\r\n\r\n5\r\nbytes\r\n");
    stream.write_all(upload.as_bytes()).await?;
    stream.flush().await?;
    // The request is refused by now, or soon; its end comes later.
    let running = bridge.path("/running");
    stream
        .write_all(format!("0\r\n\r\nGET {running} HTTP/1.1\r\n{head}connection: close\r\n\r\n").as_bytes())
        .await?;
    let mut said = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut said)).await.context("no end")??;
    ensure!(said.starts_with("HTTP/1.1 403") && said.contains("HTTP/1.1 200"), "{said}");
    Ok(())
}
