//! The Model Context Protocol: its published Python client and the inspector's command line, by HTTP and by `slipway mcp`.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tests::{Caller, Hostd, Reply, launch::program, stock_clients::StockClient, tcp_switch::TcpSwitch};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    time::timeout,
};

const PACKAGES: &str = "mcp";
/// A bound on hanging.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

fn token(caller: &Caller) -> Result<&str> {
    caller.token().context("a token")
}

#[tokio::test]
async fn the_python_client_uses_every_tool_by_http_and_by_command() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "bob", "run").await?);
    let by_http =
        StockClient::python(PACKAGES, "mcp/tools.py")?.arg("http").arg(hostd.url()).arg(token(&ann)?);
    let by_command = StockClient::python(PACKAGES, "mcp/tools.py")?
        .env("SLIPWAY_URL", hostd.url())
        .env("SLIPWAY_TOKEN", token(&bob)?)
        .arg("stdio")
        .arg(program("slipway")?)
        .arg("mcp");
    tokio::try_join!(by_http.run(), by_command.run())?;
    hostd.stop().await
}

#[tokio::test]
async fn a_token_may_do_what_its_scope_and_tenant_allow() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, reader) = (hostd.caller("a", "ann", "run").await?, hostd.caller("a", "ann", "read").await?);
    let stranger = hostd.caller("b", "bob", "admin").await?;
    let sandbox = ann.create(&json!({})).await?;
    ann.prints(&sandbox, "echo secret > ~/secret").await?;
    let client = StockClient::python(PACKAGES, "mcp/access.py")?.arg(hostd.url());
    client.arg(token(&reader)?).arg(token(&stranger)?).arg(&sandbox).run().await?;
    hostd.stop().await
}

/// A script that runs a command and says when it saw half of its output.
async fn until_half(mut client: Child) -> Result<Child> {
    let stdout = client.stdout.take().context("its output")?;
    let mut lines = BufReader::new(stdout).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.context("no half")??;
    if line.as_deref() != Some("half") {
        let ended = client.wait_with_output().await?;
        anyhow::bail!("{line:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    Ok(client)
}

async fn ends_well(client: Child) -> Result<()> {
    let ended = timeout(PATIENCE, client.wait_with_output()).await.context("does not end")??;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

/// Lets the command of the script go on.
async fn go(caller: &Caller, sandbox: &str) -> Result<()> {
    let path = format!("/v1/sandboxes/{sandbox}/files/content?path=workspace/app/go");
    let reply = caller.send(Method::PUT, &path, Bytes::new()).await?;
    ensure!(reply.status == 201, "{} {}", reply.status, reply.text());
    Ok(())
}

#[tokio::test]
async fn every_byte_comes_once_when_the_stream_is_cut_and_when_hostd_is_killed() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let (ann_token, sandbox) = (token(&ann)?.to_owned(), ann.create(&json!({})).await?);
    let switch = TcpSwitch::start(hostd.url()).await?;
    let script = || Ok::<_, anyhow::Error>(StockClient::python(PACKAGES, "mcp/resume.py")?.arg(&sandbox));
    let by_http =
        || Ok::<_, anyhow::Error>(script()?.arg("http").arg(switch.url()).arg(&ann_token).into_command());

    let client = until_half(by_http()?.spawn()?).await?;
    switch.cut();
    go(&ann, &sandbox).await?;
    ends_well(client).await?;

    // A hostd that shuts down ends the stream, and the next one goes on.
    let client = until_half(by_http()?.spawn()?).await?;
    switch.hold();
    hostd.terminate().await?;
    hostd.crash().await?;
    switch.point_to(hostd.url())?;
    go(&Caller::tcp(hostd.url(), Some(&ann_token)), &sandbox).await?;
    ends_well(client).await?;

    let client = until_half(by_http()?.spawn()?).await?;
    switch.hold();
    hostd.crash().await?;
    switch.point_to(hostd.url())?;
    let ann = Caller::tcp(hostd.url(), Some(&ann_token));
    go(&ann, &sandbox).await?;
    ends_well(client).await?;

    let by_command = script()?.arg("stdio").arg(program("slipway")?).arg("mcp");
    let by_command = by_command.env("SLIPWAY_URL", switch.url()).env("SLIPWAY_TOKEN", &ann_token);
    let client = until_half(by_command.into_command().spawn()?).await?;
    hostd.crash().await?;
    switch.point_to(hostd.url())?;
    go(&Caller::tcp(hostd.url(), Some(&ann_token)), &sandbox).await?;
    ends_well(client).await?;
    hostd.stop().await
}

#[tokio::test]
async fn the_inspector_uses_tools_and_resources() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let sandbox = ann.create(&json!({"name": "web"})).await?;
    let home = tempfile::tempdir()?;
    let inspector = || {
        let client = StockClient::node("mcp-inspector", "mcp-inspector/run.cjs")?.env("HOME", home.path());
        Ok::<_, anyhow::Error>(client)
    };
    let authorization = format!("Authorization: Bearer {}", token(&ann)?);
    let by_http = async |arguments: &[&str]| -> Result<Value> {
        let mut client = inspector()?.arg(format!("{}/mcp", hostd.url())).arg("--transport").arg("http");
        client = client.arg("--header").arg(&authorization);
        let printed = arguments.iter().fold(client, |client, argument| client.arg(argument)).run().await?;
        serde_json::from_str(&printed).with_context(|| printed.clone())
    };
    // Fails where a schema is not portable between model providers.
    let list = by_http(&["--method", "tools/list", "--strict"]).await?;
    ensure!(list["tools"].as_array().is_some_and(|tools| tools.len() == 24), "{list}");
    let here = format!("sandbox={sandbox}");
    let call = ["--method", "tools/call", "--tool-name", "exec", "--tool-arg", &here, "command=echo hello"];
    let ran = by_http(&call).await?;
    ensure!(ran["structuredContent"]["stdout"] == "hello\n", "{ran}");
    let uri = format!("slipway://{sandbox}/files/");
    let read = by_http(&["--method", "resources/read", "--uri", &uri]).await?;
    ensure!(read["contents"][0]["text"].as_str().is_some_and(|text| text.contains("workspace/")), "{read}");

    let by_command = inspector()?.arg("-e").arg(format!("SLIPWAY_URL={}", hostd.url()));
    let by_command = by_command.arg("-e").arg(format!("SLIPWAY_TOKEN={}", token(&ann)?));
    let by_command = by_command.arg(program("slipway")?).arg("mcp").arg("--method").arg("resources/list");
    let printed = by_command.run().await?;
    ensure!(printed.contains(&uri), "{printed}");
    hostd.stop().await
}

#[tokio::test]
async fn the_root_socket_is_for_operators_who_say_so() -> Result<()> {
    let hostd = Hostd::start().await?;
    let refused = hostd.ran(&["mcp"]).await?;
    ensure!(
        refused.code == Some(1) && refused.err.contains("--operator") && refused.out.is_empty(),
        "{refused:?}"
    );
    let allowed = hostd.ran(&["mcp", "--operator"]).await?;
    ensure!(allowed.code == Some(0) && allowed.out.is_empty(), "{allowed:?}");
    hostd.stop().await
}

/// Headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// Speaks the protocol by hand.
struct Raw {
    caller: Caller,
    session: Option<String>,
}

impl Raw {
    async fn begin(caller: Caller) -> Result<Self> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"}});
        let mut raw = Self { caller, session: None };
        let reply = raw.post(&request("initialize", &params), &[]).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
        let session = reply.headers.get("mcp-session-id").context("a session")?.to_str()?;
        raw.session = Some(session.to_owned());
        Ok(raw)
    }

    async fn post(&self, body: &Value, headers: Headers<'_>) -> Result<Reply> {
        self.send(Method::POST, serde_json::to_vec(body)?.into(), headers).await
    }

    async fn send(&self, method: Method, body: Bytes, headers: Headers<'_>) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri("/mcp");
        let named = |name: &str| headers.iter().any(|(given, _)| *given == name);
        if let Some(session) = &self.session
            && !named("mcp-session-id")
        {
            request = request.header("mcp-session-id", session);
        }
        if !named("accept") {
            request = request.header("accept", "application/json, text/event-stream");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.caller.call(request.body(Full::new(body))?).await
    }
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_form_of_the_protocol() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("a", "bob", "run").await?);
    let (ann, bob) = (Raw::begin(ann).await?, Raw::begin(bob).await?);
    let ping = request("ping", &json!({}));
    let of_bob = bob.session.clone().context("a session")?;
    let table: &[(&str, Headers<'_>, u16)] = &[
        ("as agreed", &[], 200),
        ("the version that was agreed on", &[("mcp-protocol-version", "2025-11-25")], 200),
        ("another version", &[("mcp-protocol-version", "2025-06-18")], 400),
        ("a version without sessions", &[("mcp-protocol-version", "2026-07-28")], 400),
        ("an unknown version", &[("mcp-protocol-version", "x")], 400),
        ("no session", &[("mcp-session-id", "")], 404),
        ("a session of another token", &[("mcp-session-id", &of_bob)], 404),
        ("an unknown session", &[("mcp-session-id", "AAAA")], 404),
        ("another site", &[("origin", "https://evil.example")], 403),
        ("another name", &[("host", "evil.example")], 403),
        ("no events", &[("accept", "application/json")], 406),
        ("a form", &[("content-type", "text/plain")], 415),
        ("a wrong token", &[("authorization", "Bearer wrong")], 401),
        ("no bearer", &[("authorization", "Basic eDp5")], 401),
    ];
    for (what, headers, status) in table {
        let reply = ann.post(&ping, headers).await?;
        ensure!(reply.status == *status, "{what}: {} {}", reply.status, reply.text());
        if *status >= 400 {
            ensure!(reply.json::<Value>()?["error"]["message"].is_string(), "{what}: {}", reply.text());
        }
    }
    let without = Raw { caller: ann.caller.clone(), session: None };
    ensure!(without.post(&ping, &[]).await?.status == 400, "no session at all");
    let without_token = Raw { caller: ann.caller.with_token(None), session: ann.session.clone() };
    ensure!(without_token.post(&ping, &[]).await?.status == 401, "no token at all");

    let bodies: [(&str, Vec<u8>, u16); 5] = [
        ("half a message", br#"{"jsonrpc":"2.0","id":1,"#.to_vec(), 400),
        ("a batch", serde_json::to_vec(&json!([ping, ping]))?, 400),
        ("no message", b"1".to_vec(), 400),
        ("a body without end", vec![b' '; 9 << 20], 413),
        (
            "a long id",
            serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "x".repeat(200), "method": "ping"}))?,
            400,
        ),
    ];
    for (what, body, status) in bodies {
        let reply = ann.send(Method::POST, body.into(), &[]).await?;
        ensure!(reply.status == status, "{what}: {} {}", reply.status, reply.text());
    }
    let unknown = ann.post(&request("prompts/list", &json!({})), &[]).await?;
    ensure!(unknown.json::<Value>()?["error"]["code"] == -32601, "{}", unknown.text());
    for (method, headers, status) in [
        (Method::GET, &[][..], 405),
        (Method::DELETE, &[], 405),
        (Method::GET, &[("last-event-id", "AAAA")], 400),
    ] {
        let reply = ann.send(method.clone(), Bytes::new(), headers).await?;
        ensure!(reply.status == status, "{method}: {} {}", reply.status, reply.text());
    }
    // A session outlives hostd.
    hostd.crash().await?;
    let caller = Caller::tcp(hostd.url(), ann.caller.token());
    let again = Raw { caller, session: ann.session.clone() };
    ensure!(again.post(&ping, &[]).await?.status == 200, "the session is gone");
    hostd.stop().await
}

#[tokio::test]
async fn a_request_that_is_sent_again_runs_its_command_once_and_its_events_are_its_own() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("a", "bob", "run").await?);
    let sandbox = ann.create(&json!({})).await?;
    let (ann, bob) = (Raw::begin(ann).await?, Raw::begin(bob).await?);
    let params = json!({"name": "exec", "arguments": {"sandbox": sandbox, "command": "echo x >> ran; wc -l < ran"},
        "_meta": {"progressToken": "p"}});
    let call = request("tools/call", &params);
    let first = ann.post(&call, &[]).await?;
    ensure!(first.text().contains(r#""stdout":"1\n""#), "{}", first.text());
    let again = ann.post(&call, &[]).await?;
    ensure!(again.text().contains(r#""stdout":"1\n""#), "it ran twice: {}", again.text());

    let text = first.text();
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).context("an id")?;
    let resumed = ann.send(Method::GET, Bytes::new(), &[("last-event-id", id)]).await?;
    ensure!(resumed.status == 200 && resumed.text().contains(r#""message":"1\n""#), "{}", resumed.text());
    let foreign = bob.send(Method::GET, Bytes::new(), &[("last-event-id", id)]).await?;
    ensure!(foreign.status == 400, "{} {}", foreign.status, foreign.text());

    // Tools whose repetition would do harm, or fail: each request has an id of its own.
    let file = json!({"sandbox": sandbox, "path": "notes"});
    let with = |more: Value| {
        let mut arguments = file.clone();
        arguments.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        arguments
    };
    let write = with(json!({"content": "a\n", "create_only": true}));
    let edit = with(json!({"old_text": "a\n", "new_text": "a\na\n", "replace_all": true}));
    for (id, tool, arguments) in [(2, "write_file", write), (3, "edit_file", edit)] {
        let mut call = request("tools/call", &json!({"name": tool, "arguments": arguments}));
        call["id"] = json!(id);
        let [first, again] = [ann.post(&call, &[]).await?, ann.post(&call, &[]).await?];
        ensure!(first.json::<Value>()?["result"]["isError"] == false, "{}", first.text());
        ensure!(again.text() == first.text(), "{tool}: {}", again.text());
        call["params"]["arguments"]["path"] = json!("other");
        let other = ann.post(&call, &[]).await?;
        ensure!(other.text().contains("other arguments"), "{}", other.text());
    }
    ensure!(ann.caller.prints(&sandbox, "cat ~/notes").await? == "a\na\n", "the edit was made twice");
    hostd.stop().await
}
