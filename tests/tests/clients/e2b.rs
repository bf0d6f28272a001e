//! E2B: its control plane, by the published SDKs and by requests as they send them.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::stock_clients::StockClient;
use tests::{Caller, Hostd, Reply, scaled};

const PYTHON: [&str; 3] = ["2.8.1", "2.24.0", "2.63.0"];
/// A sandbox that does not exist.
const UNKNOWN: &str = "01jb9xyzabcdefghjkmnpqrstv";

/// A key in the form of E2B, and requests made with it.
struct E2b {
    caller: Caller,
    key: String,
}

impl E2b {
    async fn new(hostd: &Hostd, principal: &str, scope: &str) -> Result<Self> {
        let body = json!({"tenant": "acme", "principal": principal, "scope": scope, "e2b": true});
        let created: Value = hostd.operator()?.post("/v1/tokens", &body).await?.expect(201)?;
        let key = created["token"].as_str().context("a token")?.to_owned();
        Ok(Self { caller: Caller::tcp(hostd.url(), None), key })
    }

    /// The same key at Slipway's own API.
    fn own(&self) -> Caller {
        self.caller.with_token(Some(&self.key))
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Reply> {
        self.send_with(method, path, (body.to_string(), &[])).await
    }

    async fn send_with(
        &self,
        method: &str,
        path: &str,
        (body, headers): (String, &[(&str, &str)]),
    ) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri(path).header("x-api-key", &self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.caller.call(request.body(Full::new(Bytes::from(body)))?).await
    }

    async fn create(&self, body: &Value) -> Result<Value> {
        self.send("POST", "/v2/sandboxes", body).await?.expect(201)
    }

    async fn connect(&self, id: &str, status: u16) -> Result<Value> {
        let path = format!("/v2/sandboxes/{id}/connect");
        self.send("POST", &path, &json!({"timeout": 600})).await?.expect(status)
    }

    async fn done(&self, method: &str, path: &str, body: &Value) -> Result<()> {
        let reply = self.send(method, path, body).await?;
        ensure!(reply.status == 204, "{method} {path}: {} {}", reply.status, reply.text());
        Ok(())
    }

    fn client(&self, hostd: &Hostd, client: StockClient) -> StockClient {
        client
            .env("E2B_API_URL", hostd.url())
            .env("E2B_SANDBOX_URL", hostd.url())
            .env("E2B_API_KEY", &self.key)
    }
}

fn id_of(sandbox: &Value) -> Result<&str> {
    sandbox["sandboxID"].as_str().with_context(|| format!("no id: {sandbox}"))
}

/// Runs a script, which leaves one sandbox paused and one running.
async fn drives(hostd: &Hostd, principal: &str, client: StockClient) -> Result<()> {
    let e2b = E2b::new(hostd, principal, "run").await?;
    let printed = e2b.client(hostd, client).run().await?;
    let mut left = printed.lines();
    for status in ["paused", "running"] {
        let id = left.next().with_context(|| format!("an id: {printed}"))?;
        let view = e2b.own().sandbox(id).await?;
        ensure!(view["status"] == status && view["phase"].is_null(), "{status}: {view}");
        // What E2B needs to know is not in the user's way.
        ensure!(view["idle_policy"] == "always_on", "{view}");
        ensure!(!view["metadata"].to_string().contains("template"), "{view}");
    }
    let page: Value = e2b.own().get("/v1/sandboxes").await?.expect(200)?;
    ensure!(page["items"].as_array().is_some_and(|items| items.len() == 2), "more are left: {page}");
    Ok(())
}

#[tokio::test]
async fn the_control_plane_drives_the_sdks_of_python() -> Result<()> {
    let hostd = Hostd::start().await?;
    let of = |version: &str| StockClient::python(&format!("e2b-{version}"), "e2b/control_plane.py");
    let [first, second, newest] = PYTHON;
    let clients = [of(first)?.arg(first), of(second)?.arg(second), of(newest)?.arg(newest)];
    let [one, two, three] = clients;
    tokio::try_join!(
        drives(&hostd, "first", one),
        drives(&hostd, "second", two),
        drives(&hostd, "newest", three)
    )?;
    hostd.stop().await
}

#[tokio::test]
async fn the_control_plane_drives_the_sdk_of_node_and_computesdk() -> Result<()> {
    let hostd = Hostd::start().await?;
    let compute = async {
        let e2b = E2b::new(&hostd, "compute", "run").await?;
        let client = StockClient::node("e2b-node", "e2b/compute.js")?.arg(scaled(8, 100).to_string());
        e2b.client(&hostd, client).run().await
    };
    let node = StockClient::node("e2b-node", "e2b/control_plane.js")?;
    tokio::try_join!(drives(&hostd, "node", node), compute)?;
    hostd.stop().await
}

#[tokio::test]
async fn an_agent_of_the_openai_agents_sdk_works_in_a_sandbox_of_e2b() -> Result<()> {
    let hostd = Hostd::start().await?;
    let e2b = E2b::new(&hostd, "agents", "run").await?;
    let agent = StockClient::python("openai-agents", "openai-agents/agent.py")?.arg("e2b");
    let printed = e2b.client(&hostd, agent).run().await?;
    ensure!(printed.trim() == "done", "{printed}");
    let left: Value = e2b.own().get("/v1/sandboxes").await?.expect(200)?;
    ensure!(left["items"] == json!([]), "{left}");
    hostd.stop().await
}

#[tokio::test]
async fn a_key_is_an_ordinary_token_in_the_form_of_e2b() -> Result<()> {
    let hostd = Hostd::start().await?;
    let made = hostd.ran(&["token", "create", "--principal", "ann", "--tenant", "acme", "--e2b"]).await?;
    let key = made.out.trim().to_owned();
    let hex = key.strip_prefix("e2b_").with_context(|| format!("{made:?}"))?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    ensure!(hex.len() == 64 && hex.bytes().all(is_hex), "{key}");
    let e2b = E2b { caller: Caller::tcp(hostd.url(), None), key };
    let sandbox = e2b.create(&json!({"templateID": "base"})).await?;
    let view = e2b.own().sandbox(id_of(&sandbox)?).await?;
    ensure!(view["tenant"] == "acme" && view["principal"] == "ann", "{view}");
    // By hostname, on the listener of previews, and without a header on the API's.
    let port = view["previews"].as_object().is_some_and(|previews| previews.is_empty());
    ensure!(port, "{view}");
    let own = e2b.own().create(&json!({"ports": [3000]})).await?;
    let previews = e2b.own().sandbox(&own).await?["previews"]["3000"].clone();
    let edge = previews.as_str().and_then(|url| url.rsplit_once(':')).context("a preview")?.1.to_owned();
    let at_edge = Caller::tcp(&format!("http://127.0.0.1:{edge}"), None);
    let request = |key: Option<&str>| {
        let mut request = Request::get("/v2/sandboxes").header("host", format!("api.localhost:{edge}"));
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        Ok::<_, anyhow::Error>(request.body(Full::new(Bytes::new()))?)
    };
    let listed: Value = at_edge.call(request(Some(&e2b.key))?).await?.expect(200)?;
    ensure!(listed.as_array().is_some_and(|items| items.len() == 2), "{listed}");
    let mut two = request(Some(&e2b.key))?;
    two.headers_mut().insert("authorization", format!("Bearer {}", e2b.key).parse()?);
    let two = at_edge.call(two).await?;
    ensure!(two.status == 400, "two credentials: {} {}", two.status, two.text());
    for key in [None, Some("e2b_00"), Some("nonsense"), Some("")] {
        let refused: Value = at_edge.call(request(key)?).await?.expect(401)?;
        ensure!(refused["code"] == 401 && refused["message"].is_string(), "{key:?}: {refused}");
    }
    hostd.stop().await
}

/// Neither tokens for one sandbox nor what E2B knows of it are lost in a crash.
#[tokio::test]
async fn what_e2b_knows_of_a_sandbox_outlives_hostd() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let e2b = E2b::new(&hostd, "ann", "run").await?;
    let body = json!({"templateID": "base", "timeout": 600, "autoPause": true, "autoResume": {"enabled": true},
        "allow_internet_access": false, "metadata": {"a": "b"}});
    let created = e2b.create(&body).await?;
    let id = id_of(&created)?.to_owned();
    let path = format!("/sandboxes/{id}");
    let first = created["envdAccessToken"].clone();
    ensure!(first.as_str().is_some_and(|token| token.starts_with("slc_")), "{created}");
    ensure!(e2b.connect(&id, 200).await?["envdAccessToken"] == first, "it runs: the token stays");
    let before: Value = e2b.send("GET", &path, &Value::Null).await?.expect(200)?;
    ensure!(before.get("envdAccessToken").is_none(), "who may only read gets no token: {before}");
    e2b.done("POST", &format!("{path}/pause"), &json!({})).await?;

    hostd.crash().await?;
    let e2b = E2b { caller: Caller::tcp(hostd.url(), None), key: e2b.key };
    let after: Value = e2b.send("GET", &path, &Value::Null).await?.expect(200)?;
    ensure!(after["state"] == "paused" && after["pauseMode"] == "full", "{after}");
    for field in ["templateID", "lifecycle", "allowInternetAccess", "metadata", "endAt"] {
        ensure!(after[field] == before[field], "{field}: {before} and {after}");
    }
    ensure!(after["lifecycle"] == json!({"autoResume": true, "onTimeout": "pause"}), "{after}");
    let [first_path, second_path] = [format!("{path}/connect"), format!("/v2{path}/connect")];
    let asked = json!({"timeout": 600});
    let (one, two) =
        tokio::join!(e2b.send("POST", &first_path, &asked), e2b.send("POST", &second_path, &asked));
    let (one, two) = (one?, two?);
    ensure!(one.status == 201 || two.status == 201, "{} {}", one.status, two.status);
    let tokens = [one.json::<Value>()?, two.json()?].map(|sandbox| sandbox["envdAccessToken"].clone());
    ensure!(tokens[0] == tokens[1] && tokens[0] == first, "{first} {tokens:?}");

    hostd.crash().await?;
    let e2b = E2b { caller: Caller::tcp(hostd.url(), None), key: e2b.key };
    ensure!(e2b.connect(&id, 200).await?["envdAccessToken"] == tokens[0], "a crash changes no token");
    e2b.done("DELETE", &path, &Value::Null).await?;
    hostd.stop().await
}

/// Requests to one sandbox with the tokens that a caller got.
struct Inside<'a> {
    hostd: &'a Hostd,
    id: &'a str,
    envd: String,
    traffic: String,
}

impl Inside<'_> {
    async fn connect<'a>(hostd: &'a Hostd, id: &'a str, e2b: &E2b, status: u16) -> Result<Inside<'a>> {
        let connected = e2b.connect(id, status).await?;
        let token = |name: &str| connected[name].as_str().context("a token").map(str::to_owned);
        Ok(Inside { hostd, id, envd: token("envdAccessToken")?, traffic: token("trafficAccessToken")? })
    }

    async fn sends(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<u16> {
        let mut request = Request::builder().method(method).uri(path).header("e2b-sandbox-id", self.id);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from_static(b"{}")))?;
        Ok(Caller::tcp(self.hostd.url(), None).call(request).await?.status)
    }

    async fn environment(&self) -> Result<u16> {
        self.sends("GET", "/envs", &[("x-access-token", &self.envd)]).await
    }

    /// Lists the contexts of code, of which there are none.
    async fn contexts(&self) -> Result<u16> {
        let headers = [("e2b-sandbox-port", "49999"), ("e2b-traffic-access-token", self.traffic.as_str())];
        self.sends("GET", "/contexts", &headers).await
    }

    fn signed_path(&self) -> String {
        let digest = Sha256::digest(format!("/etc/hosts:read::{}", self.envd));
        let signature = BASE64_STANDARD_NO_PAD.encode(digest).replace('+', "%2B");
        format!("/files?path=/etc/hosts&signature=v1_{signature}")
    }

    async fn signed(&self) -> Result<u16> {
        self.sends("GET", &self.signed_path(), &[]).await
    }

    /// The same at the hostname, with a key beside the signature.
    async fn signed_with_key(&self, edge: &str, key: &str) -> Result<u16> {
        let host = format!("49983-{}.localhost:{edge}", self.id);
        let request = Request::get(self.signed_path()).header("host", host).header("x-api-key", key);
        let edge = Caller::tcp(&format!("http://127.0.0.1:{edge}"), None);
        Ok(edge.call(request.body(Full::new(Bytes::new()))?).await?.status)
    }

    /// Opens the private preview of a port where nothing listens.
    async fn preview(&self, edge: &str) -> Result<u16> {
        let host = format!("3000-{}.localhost:{edge}", self.id);
        let request =
            Request::get("/").header("host", host).header("e2b-traffic-access-token", &self.traffic);
        let edge = Caller::tcp(&format!("http://127.0.0.1:{edge}"), None);
        Ok(edge.call(request.body(Full::new(Bytes::new()))?).await?.status)
    }
}

#[tokio::test]
async fn tokens_of_a_sandbox_end_with_the_key_and_with_the_share_behind_them() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (E2b::new(&hostd, "ann", "run").await?, E2b::new(&hostd, "bob", "run").await?);
    let created = ann
        .create(&json!({"templateID": "base", "network": {"allowPublicTraffic": false}, "timeout": 3600}))
        .await?;
    let id = id_of(&created)?.to_owned();
    let own = ann.own().create(&json!({"ports": [3000]})).await?;
    let preview = ann.own().sandbox(&own).await?["previews"]["3000"].clone();
    let edge = preview.as_str().and_then(|url| url.rsplit_once(':')).context("a preview")?.1.to_owned();
    let share = format!("/v1/sandboxes/{id}/shares/principals/bob");
    let _: Value = ann.own().put(&share, &json!({"access": "run"})).await?.expect(200)?;
    let of_ann = Inside::connect(&hostd, &id, &ann, 200).await?;
    let of_bob = Inside::connect(&hostd, &id, &bob, 200).await?;
    let opened = of_ann.preview(&edge).await?;
    for inside in [&of_ann, &of_bob] {
        ensure!(inside.environment().await? == 200 && inside.signed().await? == 200);
        ensure!(inside.contexts().await? == 501, "another image");
        ensure!(inside.preview(&edge).await? == opened && opened >= 500);
        ensure!(inside.signed_with_key(&edge, &ann.key).await? == 400, "two credentials");
        // The token of previews runs no code.
        let previews = [("e2b-sandbox-port", "49999"), ("e2b-traffic-access-token", inside.traffic.as_str())];
        ensure!(inside.sends("POST", "/execute", &previews).await? == 401);
    }

    let unshared = ann.own().delete(&share).await?;
    ensure!(unshared.status == 204, "{} {}", unshared.status, unshared.text());
    for status in [of_bob.environment().await?, of_bob.signed().await?, of_bob.contexts().await?] {
        ensure!(status == 404, "it is not shared any more: {status}");
    }
    ensure!((401..500).contains(&of_bob.preview(&edge).await?) && of_ann.preview(&edge).await? == opened);
    ensure!(of_ann.environment().await? == 200 && of_ann.signed().await? == 200);

    let operator = hostd.operator()?;
    let tokens: Value = operator.get("/v1/tokens").await?.expect(200)?;
    let of = |token: &&Value| token["principal"] == "ann";
    let token = tokens["items"].as_array().context("items")?.iter().find(of).context("the key")?;
    let path = format!("/v1/tokens/{}", token["id"].as_str().context("an id")?);
    let revoked = operator.delete(&path).await?;
    ensure!(revoked.status == 204, "{} {}", revoked.status, revoked.text());
    for status in [of_ann.environment().await?, of_ann.signed().await?, of_ann.contexts().await?] {
        ensure!(status == 401, "its key is revoked: {status}");
    }
    ensure!((401..500).contains(&of_ann.preview(&edge).await?));
    hostd.stop().await
}

/// An SDK goes on with the sandbox object that it had before it connected, and so with its token.
#[tokio::test]
async fn a_connect_that_resumes_keeps_its_own_token_and_ends_those_of_others() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (E2b::new(&hostd, "ann", "run").await?, E2b::new(&hostd, "bob", "run").await?);
    let reader = E2b::new(&hostd, "ann", "read").await?;
    let id = ann.own().create(&json!({"idle_policy": "always_on"})).await?;
    let share = format!("/v1/sandboxes/{id}/shares/principals/bob");
    let _: Value = ann.own().put(&share, &json!({"access": "run"})).await?.expect(200)?;
    let of_ann = Inside::connect(&hostd, &id, &ann, 200).await?;
    for sleep in ["pause", "stop"] {
        let of_bob = Inside::connect(&hostd, &id, &bob, 200).await?;
        let verb = async |verb: &str| {
            ann.own().post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)
        };
        verb(sleep).await?;
        // A caller that may not start it changes nothing, and neither does a start by other means.
        let refused = reader.send("POST", &format!("/sandboxes/{id}/connect"), &json!({})).await?;
        ensure!(refused.status == 403, "{} {}", refused.status, refused.text());
        verb("start").await?;
        for inside in [&of_ann, &of_bob] {
            ensure!(inside.environment().await? == 200 && inside.signed().await? == 200, "after {sleep}");
        }
        verb(sleep).await?;
        ann.connect(&id, 201).await?;
        ensure!(of_ann.environment().await? == 200 && of_ann.signed().await? == 200, "after {sleep}");
        ensure!(of_bob.environment().await? == 401 && of_bob.signed().await? == 401, "after {sleep}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn sandboxes_made_otherwise_are_listed_and_get_no_end() -> Result<()> {
    let hostd = Hostd::start().await?;
    let e2b = E2b::new(&hostd, "ann", "run").await?;
    let id = e2b.own().create(&json!({"metadata": {"a": "b"}})).await?;
    let reply = e2b.send("GET", "/v2/sandboxes?metadata=a%3Db&state=running", &Value::Null).await?;
    ensure!(reply.headers["x-total-running"] == "1" && !reply.headers.contains_key("x-next-token"));
    let listed: Value = reply.expect(200)?;
    ensure!(listed[0]["sandboxID"] == id && listed[0]["templateID"] == "host", "{listed}");
    for (sleep, status) in [("keepalive", 200), ("pause", 201), ("stop", 201)] {
        let _: Value =
            e2b.own().post(&format!("/v1/sandboxes/{id}/{sleep}"), &json!({})).await?.expect(200)?;
        let connected = e2b.connect(&id, status).await?;
        ensure!(connected["templateID"] == "host", "{connected}");
        let view = e2b.own().sandbox(&id).await?;
        ensure!(view["status"] == "running" && view.get("expires_at").is_none(), "{view}");
    }
    // Asked for, it has an end.
    e2b.done("POST", &format!("/sandboxes/{id}/timeout"), &json!({"timeout": 600})).await?;
    let view = e2b.own().sandbox(&id).await?;
    ensure!(view["expires_at"].is_string(), "{view}");
    // Another principal sees nothing of it.
    let other = E2b::new(&hostd, "bob", "run").await?;
    let listed: Value = other.send("GET", "/sandboxes", &Value::Null).await?.expect(200)?;
    ensure!(listed == json!([]), "{listed}");
    for (method, rest) in
        [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/connect"), ("POST", "/fork")]
    {
        let reply = other.send(method, &format!("/sandboxes/{id}{rest}"), &json!({})).await?;
        ensure!(reply.status == 404, "{method} {rest}: {} {}", reply.status, reply.text());
    }
    hostd.stop().await
}

#[tokio::test]
async fn a_create_is_done_once_for_a_key_and_bad_requests_are_refused_in_the_form_of_e2b() -> Result<()> {
    let hostd = Hostd::start().await?;
    let e2b = E2b::new(&hostd, "ann", "run").await?;
    let keyed = |body: Value| {
        let e2b = &e2b;
        async move {
            e2b.send_with("POST", "/v2/sandboxes", (body.to_string(), &[("idempotency-key", "k-1")])).await
        }
    };
    let body = json!({"templateID": "base", "metadata": {"a": "b"}});
    let (one, two) = tokio::join!(keyed(body.clone()), keyed(body.clone()));
    let (one, two): (Value, Value) = (one?.expect(201)?, two?.expect(201)?);
    ensure!(one == two && keyed(body).await?.expect::<Value>(201)? == one, "{one} {two}");
    let mismatch: Value = keyed(json!({"templateID": "base"})).await?.expect(422)?;
    ensure!(mismatch["error_code"] == "idempotency_request_mismatch", "{mismatch}");

    let reader = E2b::new(&hostd, "ann", "read").await?;
    let unknown = E2b { caller: e2b.caller.clone(), key: "e2b_00".to_owned() };
    let id = id_of(&one)?;
    let (sandbox, big) = (format!("/sandboxes/{id}"), format!("\"{}\"", "x".repeat(2 << 20)));
    let table = [
        (&reader, "POST", "/v2/sandboxes", "{}", 403),
        (&reader, "POST", &format!("{sandbox}/connect"), "{}", 403),
        (&reader, "GET", sandbox.as_str(), "", 200),
        (&e2b, "POST", "/v2/sandboxes", "{", 400),
        (&e2b, "POST", "/v2/sandboxes", "[]", 400),
        (&e2b, "POST", "/v2/sandboxes", r#"{"timeout": -1}"#, 400),
        (&e2b, "POST", "/v2/sandboxes", r#"{"timeout": 18446744073709551615}"#, 400),
        (&e2b, "POST", "/v2/sandboxes", r#"{"templateID": "a b\n"}"#, 400),
        (&e2b, "POST", "/v2/sandboxes", r#"{"network": {"rules": {"a.com": []}}}"#, 400),
        (&e2b, "POST", "/v2/sandboxes", r#"{"mcp": {"x": {}}}"#, 400),
        (&e2b, "POST", "/v2/sandboxes", &big, 413),
        // Nothing is read for a caller without a valid key.
        (&unknown, "POST", "/v2/sandboxes", &big, 401),
        (&e2b, "POST", &format!("{sandbox}/timeout"), "{}", 400),
        (&e2b, "POST", &format!("{sandbox}/fork"), r#"{"count": 0}"#, 400),
        (&e2b, "POST", &format!("{sandbox}/resume"), "{}", 409),
        (&e2b, "GET", "/v2/sandboxes?limit=0", "", 400),
        (&e2b, "GET", "/v2/sandboxes?state=asleep", "", 400),
        (&e2b, "GET", "/v2/sandboxes?metadata=x", "", 400),
        (&e2b, "GET", "/v2/sandboxes?startedAfter=now", "", 400),
        (&e2b, "GET", &format!("/sandboxes/{UNKNOWN}"), "", 404),
        (&e2b, "GET", "/teams", "", 404),
        (&e2b, "PATCH", sandbox.as_str(), "", 405),
        (&e2b, "GET", &format!("/v2{sandbox}/logs"), "", 200),
        (&e2b, "GET", &format!("{sandbox}/logs"), "", 200),
        (&e2b, "POST", &format!("{sandbox}/refreshes"), r#"{"duration": 900}"#, 204),
    ];
    for (who, method, path, body, status) in table {
        let reply = who.send_with(method, path, (body.to_owned(), &[])).await?;
        ensure!(reply.status == status, "{method} {path}: {} {}", reply.status, reply.text());
        if status >= 400 {
            let error: Value = reply.json()?;
            ensure!(error["code"] == status && error["message"].is_string(), "{method} {path}: {error}");
            ensure!(reply.headers["should-retry"] == "false", "{method} {path}");
        }
    }
    let _: Value = hostd.operator()?.put("/v1/quotas/acme", &json!({"sandboxes": 1})).await?.expect(200)?;
    let full = e2b.send("POST", "/v2/sandboxes", &json!({"templateID": "base"})).await?;
    ensure!(full.status == 429 && full.headers["should-retry"] == "false", "{} {}", full.status, full.text());
    let two =
        e2b.send_with("GET", "/v2/sandboxes", (String::new(), &[("authorization", "Bearer x")])).await?;
    ensure!(two.status == 400, "two credentials: {} {}", two.status, two.text());
    hostd.stop().await
}
