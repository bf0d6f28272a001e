//! Sandboxes shared within a tenant: what grantees see and may do, and that it ends at once.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
};
use protocol::api::{ApiErrorCode, EventView};
use serde_json::{Value, json};
use std::convert::Infallible;
use tests::host::{Feed, Ran, TerminalViewer, ViewerMessage, shell};
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};

/// The close code of a policy.
const POLICY: u16 = 1008;

struct Team {
    hostd: Hostd,
    ann: Caller,
    bob: Caller,
    /// A sandbox of ann.
    id: String,
}

impl Team {
    async fn new(spec: &Value) -> Result<Self> {
        let hostd = Hostd::start().await?;
        let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("a", "bob", "run").await?);
        let id = ann.create(spec).await?;
        Ok(Self { hostd, ann, bob, id })
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }

    /// Ann shares her sandbox with bob.
    async fn share(&self, access: &str) -> Result<Value> {
        let share = json!({ "access": access });
        self.ann.put(&self.path("/shares/principals/bob"), &share).await?.expect(200)
    }

    async fn unshare(&self) -> Result<()> {
        let reply = self.ann.delete(&self.path("/shares/principals/bob")).await?;
        ensure!(reply.status == 204, "{}", reply.text());
        Ok(())
    }

    async fn status_for(&self, caller: &Caller, rest: &str) -> Result<u16> {
        Ok(caller.get(&self.path(rest)).await?.status)
    }
}

async fn ids(caller: &Caller, query: &str) -> Result<Vec<String>> {
    let page: Value = caller.get(&format!("/v1/sandboxes{query}")).await?.expect(200)?;
    let items = page["items"].as_array().context("items")?;
    Ok(items.iter().filter_map(|item| item["id"].as_str().map(str::to_owned)).collect())
}

fn of(event: &EventView, id: &str) -> bool {
    event.sandbox.as_str() == id
}

#[tokio::test]
async fn two_people_of_one_team_work_in_one_sandbox() -> Result<()> {
    let team = Team::new(&json!({"name": "web"})).await?;
    let (ann, bob) = (&team.ann, &team.bob);
    let own = bob.create(&json!({})).await?;
    let mut events = Feed::open(bob, "/v1/events?kind=sandbox.", 0).await?;
    ensure!(team.status_for(bob, "").await? == 404, "not shared yet");
    let shared = team.share("run").await?;
    ensure!(shared["principal"] == "bob" && shared["created_by"] == "ann", "{shared}");
    ensure!(team.share("run").await? == shared, "repeating it changes nothing");
    // Also the stream that was open before.
    let seen = events.until(|event| event.kind == "sandbox.shared").await?;
    let told = &seen.last().context("the event")?;
    ensure!(of(told, &team.id) && told.data["access"] == "run", "{told:?}");

    ensure!(ids(bob, "").await? == [own.clone(), team.id.clone()], "beside his own");
    ensure!(ids(bob, "?shared=1").await? == std::slice::from_ref(&team.id));
    ensure!(ids(bob, "?shared=0").await? == std::slice::from_ref(&own));
    ensure!(ids(ann, "?shared=1").await?.is_empty());
    ensure!(bob.sandbox(&team.id).await?["shared"] == json!({"access": "run", "owner": "ann"}));
    ensure!(ann.sandbox(&team.id).await?.get("shared").is_none());

    ann.prints(&team.id, "echo from ann > note").await?;
    ensure!(bob.prints(&team.id, "cat note; echo from bob >> note").await? == "from ann\n");
    ensure!(ann.prints(&team.id, "cat note").await? == "from ann\nfrom bob\n");
    let job = bob.submit(&team.id, &shell("true")).await?;
    bob.result_of(&job).await?;
    let task: Value = ann.get(&job.path()).await?.expect(200)?;
    ensure!(task["created_by"] == "bob", "{task}");

    let refused = bob.delete(&team.path("")).await?;
    ensure!(refused.status == 403 && refused.code()? == ApiErrorCode::Forbidden, "{}", refused.text());
    ensure!(refused.text().contains("only its owner and admins of the tenant"), "{}", refused.text());
    let history: Value = ann.get(&team.path("/events?kind=sandbox.shared")).await?.expect(200)?;
    ensure!(history["items"].as_array().is_some_and(|items| items.len() == 1), "{history}");
    Ok(())
}

#[tokio::test]
async fn a_share_to_read_shows_and_changes_nothing() -> Result<()> {
    let team = Team::new(&json!({})).await?;
    team.share("read").await?;
    let refused = team.bob.post(&team.path("/execs"), &json!({"shell": "true"})).await?;
    ensure!(
        refused.status == 403 && refused.text().contains("shared with you to read"),
        "{}",
        refused.text()
    );
    ensure!(team.status_for(&team.bob, "/files").await? == 200);
    // Reading does not wake it.
    team.ann.post(&team.path("/stop"), &json!({})).await?.expect::<Value>(200)?;
    let asleep = team.bob.get(&team.path("/services")).await?;
    ensure!(asleep.status == 409, "{}", asleep.text());
    ensure!(team.ann.sandbox(&team.id).await?["status"] == "stopped");
    Ok(())
}

#[tokio::test]
async fn the_whole_tenant_and_nobody_else() -> Result<()> {
    let team = Team::new(&json!({})).await?;
    let namesake = team.hostd.caller("b", "bob", "admin").await?;
    let tenant = team.path("/shares/tenant");
    let missing = team.ann.delete(&tenant).await?;
    ensure!(missing.status == 404 && missing.text().contains("no share with `tenant`"), "{}", missing.text());
    let shared: Value = team.ann.put(&tenant, &json!({"access": "read"})).await?.expect(200)?;
    ensure!(shared.get("principal").is_none(), "{shared}");
    // The larger one counts.
    team.share("run").await?;
    team.bob.prints(&team.id, "true").await?;
    team.unshare().await?;
    ensure!(team.status_for(&team.bob, "").await? == 200);
    ensure!(team.status_for(&namesake, "").await? == 404);
    ensure!(ids(&namesake, "").await?.is_empty() && ids(&namesake, "?shared=1").await?.is_empty());
    ensure!(team.ann.delete(&team.path("/shares")).await?.status == 204);
    ensure!(team.status_for(&team.bob, "").await? == 404);
    ensure!(ids(&team.bob, "").await?.is_empty());
    let own: Value = team.ann.get(&team.path("/shares")).await?.expect(200)?;
    ensure!(own["items"] == json!([]), "{own}");
    let self_share = team.ann.put(&team.path("/shares/principals/ann"), &json!({"access": "run"})).await?;
    ensure!(self_share.error()?.detail.field.as_deref() == Some("principal"), "{}", self_share.text());
    Ok(())
}

/// A service on port 3000, for tunnels.
fn serving() -> Value {
    let command = "exec python3 -u -m http.server 3000 --bind 127.0.0.1";
    json!({"ports": [3000], "services": [{"name": "web", "command": command, "port": 3000}]})
}

/// Everything of bob that is open on the sandbox of ann, and under way.
struct Open {
    /// Responses that need the right to read, by their path.
    reading: Vec<(&'static str, Incoming)>,
    terminal: TerminalViewer,
    tunnel: TerminalViewer,
    stdin: JoinHandle<Result<Response<Incoming>>>,
}

impl Open {
    async fn of(team: &Team, caller: &Caller) -> Result<Self> {
        let execs = team.path("/execs");
        let echo = json!({"id": "echo", "argv": ["cat"], "stdin_open": true, "wait": false});
        caller.post(&execs, &echo).await?.expect::<Value>(202)?;
        let terminal = json!({"id": "tty", "argv": ["cat"], "tty": true});
        caller.post(&execs, &terminal).await?.expect::<Value>(202)?;
        let job = caller.submit(&team.id, &shell("echo begun; sleep 1000")).await?;

        let sender = caller.clone();
        let path = format!("{execs}/echo/stdin");
        let stdin = tokio::spawn(async move {
            let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"typed\n")))]);
            let endless = StreamBody::new(first.chain(stream::pending()));
            sender.open(Request::post(path).body(endless)?).await
        });
        // The upload is under way.
        caller.follow_until(&format!("{execs}/echo/output?follow=1"), "typed").await?;

        let task_events = format!("/tasks/{}/events", job.id);
        let mut reading = Vec::new();
        for (name, path) in [
            ("events", "/events?follow=1"),
            ("task events", task_events.as_str()),
            ("output", "/execs/echo/output?follow=1"),
            ("log", "/services/web/logs?follow=1"),
            ("watch", "/files/watch?path=/home/sandbox"),
        ] {
            reading.push((name, first_bytes(caller, &team.path(path)).await.context(name)?));
        }
        let attached = TerminalViewer::open(caller, &team.path("/terminals/tty"), &[]).await?;
        let tunnel = TerminalViewer::open(caller, &team.path("/ports/3000/tunnel"), &[]).await?;
        let (terminal, tunnel) = (TerminalViewer::of(attached).await?, TerminalViewer::of(tunnel).await?);
        Ok(Self { reading, terminal, tunnel, stdin })
    }

    /// What needs the right to run has ended.
    async fn running_ended(terminal: TerminalViewer, tunnel: TerminalViewer) -> Result<()> {
        for (name, viewer) in [("terminal", terminal), ("tunnel", tunnel)] {
            let (_, _, end) = viewer.rest().await?;
            ensure!(matches!(end, ViewerMessage::Closed { code: POLICY, .. }), "{name}: {end:?}");
        }
        Ok(())
    }
}

/// A stream that has begun.
async fn first_bytes(caller: &Caller, path: &str) -> Result<Incoming> {
    let request = Request::get(path).header("accept", "text/event-stream");
    let response = caller.open(request.body(Empty::<Bytes>::new())?).await?;
    ensure!(response.status() == 200, "{}", response.status());
    let mut body = response.into_body();
    timeout(PATIENCE, body.frame()).await.context("nothing comes")?.context("ended")??;
    Ok(body)
}

/// Reads to the end, which is an abort.
async fn ended(mut body: Incoming) -> Result<()> {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    timeout(PATIENCE, rest).await.context("it goes on")
}

#[tokio::test]
async fn unsharing_ends_streams_terminals_tunnels_and_uploads() -> Result<()> {
    let team = Team::new(&serving()).await?;
    team.share("run").await?;
    let mut all = Feed::open(&team.bob, "/v1/events", 0).await?;
    let open = Open::of(&team, &team.bob).await?;
    let waiting = tokio::spawn({
        let (bob, path) = (team.bob.clone(), team.path("/execs/tty?wait=600s"));
        async move { bob.get(&path).await }
    });
    let mut hers = Feed::open(&team.ann, &team.path("/events?follow=1"), 0).await?;
    team.unshare().await?;
    for (name, body) in open.reading {
        ended(body).await.context(name)?;
    }
    Open::running_ended(open.terminal, open.tunnel).await?;
    let cut = timeout(PATIENCE, open.stdin).await.context("the upload goes on")??;
    ensure!(cut.is_err() || cut.is_ok_and(|response| response.status() == 403), "the upload was accepted");
    let waited = timeout(PATIENCE, waiting).await.context("the wait goes on")???;
    ensure!(matches!(waited.status, 403 | 404), "{}", waited.text());
    ensure!(team.status_for(&team.bob, "").await? == 404);
    // The stream of all events goes on, without hers.
    team.ann.patch(&team.path(""), &json!({"name": "hidden"})).await?.expect::<Value>(200)?;
    hers.until(|event| event.kind == "sandbox.changed").await?;
    let own = team.bob.create(&json!({})).await?;
    let seen = all.until(|event| of(event, &own)).await?;
    ensure!(!seen.iter().any(|event| event.kind == "sandbox.changed"), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_smaller_share_does_not_include_ends_and_the_rest_goes_on() -> Result<()> {
    let team = Team::new(&serving()).await?;
    team.share("run").await?;
    let mut open = Open::of(&team, &team.bob).await?;
    team.share("read").await?;
    Open::running_ended(open.terminal, open.tunnel).await?;
    let cut = timeout(PATIENCE, open.stdin).await.context("the upload goes on")??;
    ensure!(cut.is_err() || cut.is_ok_and(|response| response.status() == 403), "the upload was accepted");
    let (_, events) = &mut open.reading[0];
    team.ann.patch(&team.path(""), &json!({"name": "seen"})).await?.expect::<Value>(200)?;
    let told = async {
        let mut text = String::new();
        while !text.contains("sandbox.changed") {
            let frame = events.frame().await.context("the stream ended")??;
            text += &String::from_utf8_lossy(frame.data_ref().context("data")?);
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, told).await.context("no event comes")??;
    Ok(())
}

#[tokio::test]
async fn a_revoked_token_ends_the_streams_of_its_holder() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let created: Value =
        operator.post("/v1/tokens", &json!({"tenant": "a", "principal": "ann"})).await?.expect(201)?;
    let ann = Caller::tcp(hostd.url(), created["token"].as_str());
    let (other, id) = (hostd.caller("a", "ann", "run").await?, ann.create(&serving()).await?);
    let team = Team { hostd, ann: other.clone(), bob: ann.clone(), id };
    let all = first_bytes(&ann, "/v1/events").await?;
    let open = Open::of(&team, &ann).await?;
    let kept = first_bytes(&other, &team.path("/events?follow=1")).await?;
    let token = created["id"].as_str().context("an id")?;
    let revoked = operator.delete(&format!("/v1/tokens/{token}")).await?;
    ensure!(revoked.status == 204, "{}", revoked.text());
    ended(all).await.context("all events")?;
    for (name, body) in open.reading {
        ended(body).await.context(name)?;
    }
    Open::running_ended(open.terminal, open.tunnel).await?;
    drop(kept);
    other.prints(&team.id, "true").await?;
    // A token may revoke itself, and is told so.
    let admin: Value = operator
        .post("/v1/tokens", &json!({"tenant": "a", "principal": "carl", "scope": "admin"}))
        .await?
        .expect(201)?;
    let carl = Caller::tcp(team.hostd.url(), admin["token"].as_str());
    let own = carl.delete(&format!("/v1/tokens/{}", admin["id"].as_str().context("an id")?)).await?;
    ensure!(own.status == 204, "{}", own.text());
    Ok(())
}

#[tokio::test]
async fn shares_outlive_a_crash_and_end_with_the_sandbox_or_the_database() -> Result<()> {
    let mut team = Team::new(&json!({})).await?;
    team.share("run").await?;
    team.hostd.crash().await?;
    team.ann = Caller::tcp(team.hostd.url(), team.ann.token());
    team.bob = Caller::tcp(team.hostd.url(), team.bob.token());
    team.bob.prints(&team.id, "true").await?;
    team.ann.delete(&team.path("")).await?.expect::<Value>(200)?;
    ensure!(team.status_for(&team.ann, "").await? == 200);
    ensure!(team.status_for(&team.bob, "").await? == 404);
    Ok(())
}

#[tokio::test]
async fn a_private_preview_opens_for_a_token_of_a_grantee() -> Result<()> {
    let spec = {
        let mut spec = serving();
        spec["visibility"] = json!("private");
        spec
    };
    let team = Team::new(&spec).await?;
    let view = team.ann.sandbox(&team.id).await?;
    let url = view["previews"]["3000"].as_str().context("a preview")?;
    let host = url.strip_prefix("http://").context("http")?.trim_end_matches('/');
    let port = host.rsplit_once(':').context("a port")?.1;
    let preview = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
    let open = async |caller: &Caller| {
        let token = caller.token().context("a token")?;
        let request = Request::get("/").header("host", host).header("x-slipway-token", token);
        anyhow::Ok(preview.call(request.body(Default::default())?).await?.status)
    };
    ensure!(open(&team.ann).await? == 200);
    ensure!(open(&team.bob).await? == 403);
    team.share("read").await?;
    ensure!(open(&team.bob).await? == 200);
    team.unshare().await?;
    ensure!(open(&team.bob).await? == 403);
    Ok(())
}

/// An app whose responses and upgraded connections never end by themselves.
const ENDLESS_APP: &str = r#"
import http.server, time
class Endless(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        upgrade = self.headers.get("Upgrade")
        self.send_response(101 if upgrade else 200)
        if upgrade:
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", upgrade)
        self.end_headers()
        while True:
            self.wfile.write(b"tick\n")
            time.sleep(0.05)
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Endless).serve_forever()
"#;

/// The streams of a caller through a private preview: a response, and an upgraded connection.
struct PreviewStreams {
    response: Incoming,
    upgraded: TcpStream,
}

impl PreviewStreams {
    async fn open(view: &Value, caller: &Caller) -> Result<Self> {
        let url = view["previews"]["3000"].as_str().context("a preview")?;
        let host = url.strip_prefix("http://").context("http")?.trim_end_matches('/');
        let address = format!("127.0.0.1:{}", host.rsplit_once(':').context("a port")?.1);
        let token = caller.token().context("a token")?;
        let request = Request::get("/").header("host", host).header("x-slipway-token", token);
        let preview = Caller::tcp(&format!("http://{address}"), None);
        let response = preview.open(request.body(Empty::<Bytes>::new())?).await?;
        ensure!(response.status() == 200, "{}", response.status());
        let mut response = response.into_body();
        timeout(PATIENCE, response.frame()).await.context("nothing comes")?.context("ended")??;
        let mut upgraded = TcpStream::connect(address).await?;
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nX-Slipway-Token: {token}\r\nConnection: Upgrade\r\nUpgrade: ticks\r\n\r\n"
        );
        upgraded.write_all(head.as_bytes()).await?;
        let (mut seen, mut piece) = (Vec::new(), [0; 1024]);
        while !seen.ends_with(b"tick\n") {
            let read = timeout(PATIENCE, upgraded.read(&mut piece)).await.context("nothing comes")??;
            ensure!(read > 0, "closed: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..read]);
        }
        // The app speaks HTTP/1.0.
        ensure!(seen[8..].starts_with(b" 101 "), "{}", String::from_utf8_lossy(&seen));
        Ok(Self { response, upgraded })
    }

    async fn ended(mut self) -> Result<()> {
        ended(self.response).await.context("the response")?;
        let mut rest = Vec::new();
        // Reset, or closed.
        let closed = timeout(PATIENCE, self.upgraded.read_to_end(&mut rest)).await;
        closed.map(drop).context("the upgraded connection goes on")
    }

    async fn goes_on(&mut self) -> Result<()> {
        timeout(PATIENCE, self.response.frame()).await?.context("the response ended")??;
        let read = timeout(PATIENCE, self.upgraded.read(&mut [0; 1024])).await??;
        ensure!(read > 0, "the upgraded connection was closed");
        Ok(())
    }
}

#[tokio::test]
async fn streams_of_a_private_preview_end_with_the_share_and_the_token() -> Result<()> {
    let command = format!("exec python3 -u -c '{ENDLESS_APP}'");
    let services = json!([{"name": "web", "command": command, "port": 3000}]);
    let team = Team::new(&json!({"ports": [3000], "services": services, "visibility": "private"})).await?;
    let (view, operator) = (team.ann.sandbox(&team.id).await?, team.hostd.operator()?);
    team.share("run").await?;
    let mut hers = PreviewStreams::open(&view, &team.ann).await?;
    let his = PreviewStreams::open(&view, &team.bob).await?;
    team.unshare().await?;
    his.ended().await.context("unshared")?;
    hers.goes_on().await?;
    for ttl in [None, Some("8s")] {
        let spec = json!({"tenant": "a", "principal": "ann", "ttl": ttl});
        let created: Value = operator.post("/v1/tokens", &spec).await?.expect(201)?;
        let brief =
            PreviewStreams::open(&view, &Caller::tcp(team.hostd.url(), created["token"].as_str())).await?;
        if ttl.is_none() {
            let token = created["id"].as_str().context("an id")?;
            ensure!(operator.delete(&format!("/v1/tokens/{token}")).await?.status == 204);
        }
        brief.ended().await.with_context(|| format!("ttl {ttl:?}"))?;
    }
    hers.goes_on().await
}

#[tokio::test]
async fn the_command_shares_lists_and_unshares() -> Result<()> {
    let team = Team::new(&json!({"name": "web"})).await?;
    let slipway = async |caller: &Caller, arguments: &[&str]| {
        let mut command = team.hostd.slipway(arguments)?;
        command.env("SLIPWAY_URL", team.hostd.url());
        command.env("SLIPWAY_TOKEN", caller.token().context("a token")?);
        Ran::of(command.spawn()?).await
    };
    let (ann, bob) = (&team.ann, &team.bob);
    let unknown = slipway(bob, &["exec", "web", "--", "true"]).await?;
    ensure!(unknown.code != Some(0), "{unknown:?}");
    let shared = slipway(ann, &["share", "web", "--with", "bob", "--run"]).await?;
    ensure!(shared.code == Some(0) && shared.out.contains("shared with bob, to run"), "{shared:?}");
    let ran = slipway(bob, &["exec", "web", "--", "echo", "hello"]).await?;
    ensure!(ran.code == Some(0) && ran.out == "hello\n", "{ran:?}");
    let listed = slipway(bob, &["ls", "--shared"]).await?;
    ensure!(listed.out.contains("web (of ann, run)"), "{listed:?}");
    // Of two sandboxes of one name his own is meant.
    let own = bob.create(&json!({"name": "web"})).await?;
    let shown = slipway(bob, &["get", "web", "--json"]).await?;
    ensure!(serde_json::from_str::<Value>(&shown.out)?["id"] == *own, "{shown:?}");
    let tenant = slipway(ann, &["share", "web", "--with-tenant"]).await?;
    ensure!(tenant.out.contains("the whole tenant, to read"), "{tenant:?}");
    let shares = slipway(ann, &["shares", "web"]).await?;
    ensure!(shares.out.contains("(whole tenant)") && shares.out.contains("bob"), "{shares:?}");
    let wrong = slipway(ann, &["unshare", "web", "--with", "bo"]).await?;
    ensure!(wrong.code == Some(1) && wrong.err.contains("no share with `bo`"), "{wrong:?}");
    let usage = slipway(ann, &["unshare", "web"]).await?;
    ensure!(usage.code == Some(2), "{usage:?}");
    let ended = slipway(ann, &["unshare", "web", "--all"]).await?;
    ensure!(ended.code == Some(0), "{ended:?}");
    ensure!(team.status_for(bob, "").await? == 404);
    Ok(())
}
