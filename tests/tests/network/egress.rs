//! The guarded way out of sandboxes: unmodified tools reach what is allowed, nothing reaches what is not, rules
//! are in force at once, and everything is told with the job that did it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tests::host::{shell, until};
use tests::packages::Npm;
use tests::{Caller, Hostd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A loopback address that no tool takes for its own machine, and that the administrator excepts.
const SERVER: &str = "127.0.0.77:0";

/// For packages, half a minute each.
const WAITS_MAX: usize = 8;

/// Answers every request with `served`, until the set is dropped.
struct Server {
    at: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(SERVER).await?;
        let at = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut visitors = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                visitors.spawn(async move {
                    let mut heard = Vec::new();
                    let mut piece = [0; 4096];
                    while !heard.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut piece).await {
                            Ok(read) if read > 0 => heard.extend_from_slice(&piece[..read]),
                            _ => return,
                        }
                    }
                    // An upload has no end that can be seen in it.
                    while heard.starts_with(b"PUT")
                        && stream.read(&mut piece).await.is_ok_and(|read| read > 0)
                    {}
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nserved";
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Ok(Self { at, _tasks: tasks })
    }
}

/// A hostd whose sandboxes reach the server.
async fn stage() -> Result<(Hostd, Caller, Server)> {
    let server = Server::start().await?;
    let hostd = Hostd::start_with(&[("SLIPWAY_EGRESS_PRIVATE", &server.at.to_string())]).await?;
    let operator = hostd.operator()?;
    Ok((hostd, operator, server))
}

async fn denials(caller: &Caller, id: &str) -> Result<Vec<Value>> {
    let page: Value =
        caller.get(&format!("/v1/sandboxes/{id}/events?kind=egress&limit=1000")).await?.expect(200)?;
    Ok(page["items"].as_array().context("a list")?.clone())
}

#[tokio::test]
async fn unmodified_tools_reach_what_is_allowed() -> Result<()> {
    let (hostd, operator, server) = stage().await?;
    let id = operator.create(&json!({})).await?;
    ensure!(operator.sandbox(&id).await?["network"] == "proxy", "the default");
    let url = format!("http://{}/", server.at);
    let tools = [
        format!("curl -sS {url}"),
        // A tunnel even for http.
        format!("curl -sSp {url}"),
        format!("wget -qO- {url}"),
        format!("python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode())'"),
    ];
    for tool in tools {
        let said = operator.prints(&id, &tool).await.with_context(|| tool.clone())?;
        ensure!(said.trim() == "served", "{tool}: {said}");
    }
    // Its own loopback is reached without asking.
    let own = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & \
               curl -sS --retry 60 --retry-connrefused --retry-delay 1 -o /dev/null -w '%{http_code}' http://localhost:8123/";
    ensure!(operator.prints(&id, own).await?.trim() == "200");
    hostd.stop().await
}

#[tokio::test]
async fn nothing_private_is_reached_in_any_spelling() -> Result<()> {
    let (hostd, operator, server) = stage().await?;
    let id = operator.create(&json!({"network": "proxy"})).await?;
    let api = hostd.url().trim_start_matches("http://").to_owned();
    let hosts = [
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "0251.0376.0251.0376",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "127.0.0.1",
        "localhost",
        api.as_str(),
    ];
    for host in hosts {
        for flag in ["", "-p"] {
            // Spelled into the request by hand: some tools read numbers themselves.
            let line = format!(
                "curl -sS {flag} --noproxy '' -x http://127.0.0.1:900 --path-as-is -m 20 -o /dev/null -w \
                 '%{{http_code}}%{{http_connect}}' --connect-to :: 'http://{host}/latest/meta-data/' || true"
            );
            let said = operator.prints(&id, &line).await?;
            ensure!(said.contains("403"), "{host} {flag}: {said}");
        }
    }
    let raw = |host: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/900; printf 'CONNECT {host}:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; head -1 <&3"
        )
    };
    for host in &hosts[..9] {
        let said = operator.prints(&id, &raw(host)).await?;
        ensure!(said.starts_with("HTTP/1.1 403"), "{host}: {said}");
    }
    let told = operator.prints(&id, "curl -sS http://169.254.169.254/").await?;
    ensure!(told.contains("link-local address") && told.contains("SLIPWAY_EGRESS_PRIVATE"), "{told}");
    // Simultaneous decisions are published in any order, and a moment after the response.
    let told_of = |event: &Value| {
        event["data"]["by"]["exec"].is_string() && event["data"]["rule"] == "link-local address"
    };
    let events = until("the exec's denial", async || {
        let events = denials(&operator, &id).await?;
        Ok(events.iter().any(told_of).then_some(events))
    })
    .await?;
    ensure!(events.iter().all(|event| event["data"]["verdict"] == "denied"), "{events:?}");
    // Without egress there is no access, though the proxy answers.
    let none = operator.create(&json!({"network": "none"})).await?;
    ensure!(operator.prints(&none, "env | grep -ic proxy || true").await?.trim() == "0");
    let said =
        operator.prints(&none, &format!("curl -sS -x http://127.0.0.1:900 http://{}/", server.at)).await?;
    ensure!(said.contains("no network"), "{said}");
    let open = operator.post("/v1/sandboxes", &json!({"network": "open"})).await?;
    ensure!(open.status == 422 || open.status == 400, "{}", open.text());
    hostd.stop().await
}

#[tokio::test]
async fn rules_are_in_force_at_once_and_survive() -> Result<()> {
    let (mut hostd, operator, server) = stage().await?;
    let rules = json!({"mode": "proxy", "allow": [server.at.to_string()]});
    let id = operator.create(&json!({"network": rules})).await?;
    let url = format!("http://{}/", server.at);
    ensure!(operator.prints(&id, &format!("curl -sS {url}")).await? == "served");
    let said = operator.prints(&id, "curl -sS http://example.com/").await?;
    ensure!(said.contains("no allow rule of this sandbox fits"), "{said}");
    // A tunnel that stays open: the server waits for a request that never comes.
    let hold = format!(
        "exec 3<>/dev/tcp/127.0.0.1/900; printf 'CONNECT {} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; \
         read -r line <&3; echo \"$line\"; cat <&3; echo cut",
        server.at
    );
    let exec: Value = operator
        .post(
            &format!("/v1/sandboxes/{id}/execs"),
            &json!({"argv": ["bash", "-c", hold], "id": "held", "wait": false}),
        )
        .await?
        .expect(202)?;
    ensure!(exec["id"] == "held", "{exec}");
    until("the tunnel", async || {
        let events = denials(&operator, &id).await?;
        let port = server.at.port();
        let open = |event: &&Value| event["data"]["port"] == port && event["data"]["verdict"] == "allowed";
        let count =
            events.iter().filter(open).filter_map(|event| event["data"]["times"].as_u64()).sum::<u64>();
        let running: Value = operator.get(&format!("/v1/sandboxes/{id}/execs/held")).await?.expect(200)?;
        let output = operator.get(&format!("/v1/sandboxes/{id}/execs/held/output")).await?.text();
        Ok((count > 0 && running["state"] == "running" && !output.is_empty()).then_some(()))
    })
    .await?;
    let path = format!("/v1/sandboxes/{id}/egress");
    let changed: Value = operator.put(&path, &json!({"deny": ["127.0.0.0/8"]})).await?.expect(200)?;
    ensure!(changed["deny"] == json!(["127.0.0.0/8"]) && changed["allow"] == json!([]), "{changed}");
    let ended: Value = operator.get(&format!("/v1/sandboxes/{id}/execs/held?wait=60s")).await?.expect(200)?;
    ensure!(ended["stdout"].as_str().is_some_and(|said| said.trim().ends_with("cut")), "{ended}");
    let said = operator.prints(&id, &format!("curl -sS {url}")).await?;
    ensure!(said.contains("the rule 127.0.0.0/8 of this sandbox"), "{said}");
    hostd.crash().await?;
    let operator = hostd.operator()?;
    let kept: Value = operator.get(&path).await?.expect(200)?;
    ensure!(kept["deny"] == json!(["127.0.0.0/8"]), "{kept}");
    until("the proxy of the next hostd", async || {
        let said = operator.prints(&id, &format!("curl -sS {url}")).await;
        Ok(said.is_ok_and(|said| said.contains("127.0.0.0/8")).then_some(()))
    })
    .await?;
    for bad in
        [json!({"deny": ["a b"]}), json!({"max_mb": 0}), json!({"profile": "unknown"}), json!({"x": 1})]
    {
        ensure!(operator.put(&path, &bad).await?.status == 400, "{bad}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn profiles_are_for_everybody_and_bytes_are_counted() -> Result<()> {
    let (hostd, operator, server) = stage().await?;
    let url = format!("http://{}/", server.at);
    let id = operator.create(&json!({"network": {"max_mb": 1}})).await?;
    let default: Value = operator.get("/v1/egress-profiles/default").await?.expect(200)?;
    ensure!(default["deny"] == json!(["*:25,465,587"]), "{default}");
    operator
        .put("/v1/egress-profiles/default", &json!({"deny": ["127.0.0.77"]}))
        .await?
        .expect::<Value>(200)?;
    let said = operator.prints(&id, &format!("curl -sS {url}")).await?;
    ensure!(said.contains("of the profile default"), "{said}");
    ensure!(operator.delete("/v1/egress-profiles/default").await?.status == 204);
    ensure!(operator.prints(&id, &format!("curl -sS {url}")).await? == "served");
    ensure!(operator.delete("/v1/egress-profiles/unknown").await?.status == 404);
    // More than it may have.
    let upload = format!("head -c 3000000 /dev/zero | curl -sS -m 60 -T - -p {url} || true");
    operator.prints(&id, &upload).await?;
    let said = operator.prints(&id, &format!("curl -sS {url}")).await?;
    ensure!(said.contains("used up the 1 MB"), "{said}");
    let view: Value = operator
        .until(&format!("/v1/sandboxes/{id}/egress"), |view| view["used_bytes"].as_u64() >= Some(1 << 20))
        .await?;
    ensure!(view["max_mb"] == 1, "{view}");
    hostd.stop().await
}

#[tokio::test]
async fn what_an_open_connection_moved_is_not_forgotten_by_a_restart() -> Result<()> {
    const SENT_BYTES: u64 = 2_000_000;
    let (mut hostd, operator, server) = stage().await?;
    let id = operator.create(&json!({})).await?;
    // All that it sends, and then nothing, without an end.
    let hold =
        format!("(head -c {SENT_BYTES} /dev/zero; sleep 600) | curl -sS -T - -p http://{}/", server.at);
    let held = json!({"argv": ["bash", "-c", hold], "id": "held", "wait": false});
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &held).await?.expect::<Value>(202)?;
    let path = format!("/v1/sandboxes/{id}/egress");
    operator.until(&path, |view| view["used_bytes"].as_u64() >= Some(SENT_BYTES)).await?;
    let ended = hostd.terminate().await?;
    ensure!(ended.success(), "{ended}");
    hostd.crash().await?;
    let kept: Value = hostd.operator()?.get(&path).await?.expect(200)?;
    ensure!(kept["used_bytes"].as_u64() >= Some(SENT_BYTES), "{kept}");
    hostd.stop().await
}

#[tokio::test]
async fn what_a_task_does_is_told_with_the_task() -> Result<()> {
    let (hostd, operator, server) = stage().await?;
    let id = operator.create(&json!({})).await?;
    // The job ends after its request was recorded: later requests are not attributed to it.
    let line = format!(
        "curl -sS http://{}/; curl -sS http://10.0.0.1/; while [ ! -e go ]; do sleep 0.1; done",
        server.at
    );
    let job = operator.submit(&id, &shell(&line)).await?;
    let task = job.path().rsplit('/').next().context("an id")?.to_owned();
    let events = until("its events", async || {
        let path = format!("/v1/events?sandbox={id}&task={task}&kind=egress&follow=0");
        let page: Value = operator.get(&path).await?.expect(200)?;
        let items = page["items"].as_array().context("a list")?.clone();
        let verdicts: Vec<_> = items.iter().map(|event| event["data"]["verdict"].clone()).collect();
        Ok((verdicts.contains(&"allowed".into()) && verdicts.contains(&"denied".into())).then_some(items))
    })
    .await?;
    for event in &events {
        ensure!(event["task"] == task && event["data"]["by"] == json!({"task": task}), "{event}");
    }
    operator.prints(&id, "touch go").await?;
    // The stream of the task is what its agent does, and ends with its end.
    let own = operator.events_of(&job).await?;
    tests::host::complete(&own)?;
    ensure!(own.iter().all(|event| event.kind != "egress"), "{own:?}");
    hostd.stop().await
}

#[tokio::test]
async fn npm_installs_a_real_package() -> Result<()> {
    // Where packages come from is this machine's business.
    let npm = Npm::of_this_machine()?;
    let hostd = Hostd::start_with(&[("SLIPWAY_EGRESS_PRIVATE", &npm.exception()?)]).await?;
    let operator = hostd.operator()?;
    let mut env = serde_json::Map::new();
    for (name, value) in [("npm_config_registry", npm.registry), ("npm_config_cafile", npm.authorities)] {
        if !value.is_empty() && value != "null" {
            env.insert(name.to_owned(), value.into());
        }
    }
    let id = operator.create(&json!({"env": env, "limits": {"memory_mb": 1024}})).await?;
    let line = "npm install --no-audit --no-fund is-odd@3 && node -e 'console.log(require(\"is-odd\")(3))'";
    let path = format!("/v1/sandboxes/{id}/execs");
    let install = json!({"id": "install", "shell": line, "wait": false});
    let mut ran: Value = operator.post(&path, &install).await?.expect(202)?;
    // Package mirrors may be slow.
    for _ in 0..WAITS_MAX {
        if ran["state"] != "ended" {
            ran = operator.get(&format!("{path}/install?wait=30s")).await?.expect(200)?;
        }
    }
    ensure!(ran["exit"]["code"] == 0, "{ran}");
    ensure!(ran["stdout"].as_str().is_some_and(|said| said.ends_with("true\n")), "{ran}");
    let let_through = |event: &Value| event["data"]["verdict"] == "allowed" && event["data"]["port"] == 443;
    until("it is told", async || {
        let events = denials(&operator, &id).await?;
        Ok(events.iter().any(let_through).then_some(()))
    })
    .await?;
    hostd.stop().await
}
