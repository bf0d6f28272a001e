//! hostd's listener inside every sandbox: reachable from there only, each sandbox its own, through restarts
//! and crashes of both, and without leaks.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;
use tests::host::until;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

/// Asks hostd from inside: method, path, headers, body length, address.
const ASK: &str = r#"
import http.client, json, sys
method, path, headers, length, address = sys.argv[1:6]
headers = json.loads(headers)
link = http.client.HTTPConnection(address, 900, timeout=50)
link.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
for name, value in headers.items(): link.putheader(name, value)
if int(length): link.putheader("Content-Length", length)
try:
    link.endheaders()
    link.send(b"x" * int(length))
except OSError: pass
answer = link.getresponse()
print(json.dumps({"status": answer.status, "headers": {n.lower(): v for n, v in answer.getheaders()},
                  "body": answer.read().decode()}))
"#;

/// Connections that say half a request and wait, and threads that never stop asking.
const FLOOD: &str = r#"
import http.client, socket, threading
def ask():
    while True:
        try:
            link = http.client.HTTPConnection("127.0.0.1", 900)
            while True:
                link.request("GET", "/")
                link.getresponse().read()
        except Exception: pass
for _ in range(8): threading.Thread(target=ask, daemon=True).start()
held = []
while len(held) < 400:
    try:
        link = socket.socket()
        link.setblocking(False)
        link.connect_ex(("127.0.0.1", 900))
        held.append(link)
    except OSError: break
for link in held:
    try: link.send(b"GET / HTTP/1.1\r\nHost: local")
    except OSError: pass
print("flooded", flush=True)
threading.Event().wait()
"#;

/// The network namespaces that sockets and descriptors of a process keep alive.
const HELD: &str = r#"
import ctypes, fcntl, os, sys
pid, held = int(sys.argv[1]), set()
call, pidfd = ctypes.CDLL(None).syscall, os.pidfd_open(pid)
for number in os.listdir(f"/proc/{pid}/fd"):
    try: target = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError: continue
    if target.startswith("net:"): held.add(int(target[5:-1]))
    if not target.startswith("socket:"): continue
    copy = call(438, pidfd, int(number), 0)
    if copy < 0: continue
    try:
        space = fcntl.ioctl(copy, 0x894C)
        held.add(os.fstat(space).st_ino)
        os.close(space)
    except OSError: pass
    os.close(copy)
print(*held)
"#;

async fn ask_with(caller: &Caller, id: &str, asked: [&str; 5]) -> Result<Value> {
    let argv: Vec<&str> = ["python3", "-c", ASK].into_iter().chain(asked).collect();
    let exec = caller.post(&format!("/v1/sandboxes/{id}/execs"), &json!({ "argv": argv })).await?;
    let exec: Value = exec.expect(200)?;
    ensure!(exec["exit"]["code"] == 0, "{exec}");
    Ok(serde_json::from_str(exec["stdout"].as_str().context("its output")?)?)
}

/// The page of a sandbox as JSON, asked for by itself.
async fn page(caller: &Caller, id: &str) -> Result<Value> {
    let answer = ask_with(caller, id, ["GET", "/", "{}", "0", "127.0.0.1"]).await?;
    ensure!(answer["status"] == 200, "{answer}");
    Ok(serde_json::from_str(answer["body"].as_str().context("a body")?)?)
}

/// That a sandbox is told about itself.
async fn sees_itself(caller: &Caller, id: &str, when: &str) -> Result<()> {
    let page = page(caller, id).await.with_context(|| when.to_owned())?;
    ensure!(page["id"] == id && page["status"] == "running", "{when}: {page}");
    Ok(())
}

async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<()> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200).map(drop)
}

#[tokio::test]
async fn a_sandbox_reads_about_itself_and_about_nobody_else() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let name = "<b>one</b>";
    let services = json!([{"name": "web", "command": "sleep 1000"}]);
    let one = operator.create(&json!({"name": name, "ports": [3000], "services": services})).await?;
    let two = operator.create(&json!({"name": "two"})).await?;
    let seen = page(&operator, &one).await?;
    let view = operator.sandbox(&one).await?;
    for field in ["id", "name", "status", "previews"] {
        ensure!(seen[field] == view[field], "{field}: {seen}");
    }
    ensure!(seen["services"][0]["name"] == "web" && seen["services"][0]["state"].is_string(), "{seen}");
    ensure!(seen["busy"] == true && seen["reasons"][0]["kind"] == "exec", "it is what asks: {seen}");
    let other = page(&operator, &two).await?;
    ensure!(other["id"] == json!(two) && other["name"] == "two", "{other}");
    let html = json!({"Accept": "text/html"}).to_string();
    for address in ["127.0.0.1", "::1"] {
        let answer = ask_with(&operator, &one, ["GET", "/", &html, "0", address]).await?;
        let text = answer["body"].as_str().context("a body")?;
        ensure!(answer["headers"]["content-type"] == "text/html; charset=utf-8", "{answer}");
        ensure!(text.contains("&lt;b&gt;one") && !text.contains(name) && text.contains(&one), "{text}");
    }
    let url = operator.prints(&one, "printf %s \"$SLIPWAY_STATUS_URL\"").await?;
    ensure!(url == "http://127.0.0.1:900/", "{url}");
    let ports: Value = operator.get(&format!("/v1/sandboxes/{one}/ports")).await?.expect(200)?;
    ensure!(ports["items"] == json!([]), "what is hostd's own is not the sandbox's: {ports}");
    let outside = TcpStream::connect("127.0.0.1:900").await.err().context("the port answers on the host")?;
    ensure!(outside.kind() == ErrorKind::ConnectionRefused, "{outside}");
    Ok(())
}

#[tokio::test]
async fn what_is_not_offered_is_refused() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let long = json!({"X-Long": "x".repeat(128_000)}).to_string();
    let many: serde_json::Map<String, Value> = (0..200).map(|n| (format!("X-{n}"), json!("x"))).collect();
    let many = Value::Object(many).to_string();
    let table = [
        ("GET", "/healthz", "{}", "0", 200, ""),
        ("GET", "/healthz", r#"{"Host": "localhost"}"#, "0", 200, ""),
        ("GET", "/healthz", "{}", "60000", 200, ""),
        ("GET", "/", r#"{"Host": "evil.example"}"#, "0", 403, "forbidden"),
        ("GET", "/", r#"{"Host": "evil.example:900"}"#, "0", 403, "forbidden"),
        ("GET", "/nothing", "{}", "0", 404, "not_found"),
        ("GET", "/v1/sandboxes", "{}", "0", 404, "not_found"),
        ("POST", "/", "{}", "2", 405, "method_not_allowed"),
        ("GET", "/", "{}", "70000", 413, "too_large"),
        ("GET", "/", &long, "0", 431, "-"),
        ("GET", "/", &many, "0", 431, "-"),
    ];
    for (method, path, headers, length, status, code) in table {
        let answer = ask_with(&operator, &id, [method, path, headers, length, "127.0.0.1"]).await?;
        let told = || format!("{method} {path} {headers:.40} {length}: {answer}");
        ensure!(answer["status"] == status, told());
        if status < 400 || code == "-" {
            continue;
        }
        let error: Value = serde_json::from_str(answer["body"].as_str().context("a body")?)?;
        ensure!(error["error"]["code"] == code, told());
    }
    let silent =
        "import socket\nlink = socket.create_connection((\"127.0.0.1\", 900))\nprint(len(link.recv(1)))";
    let closed = operator.prints(&id, &format!("python3 -c '{silent}'")).await?;
    ensure!(closed == "0\n", "a connection that says nothing is closed: {closed}");
    Ok(())
}

#[tokio::test]
async fn the_port_is_hostds_before_anybody_inside_can_take_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let bind = r#"
import socket
for family, address in ((2, "127.0.0.1"), (2, "127.0.0.2"), (2, "0.0.0.0"), (10, "::1"), (10, "::")):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try: server.bind((address, 900)); print("bound", address)
    except PermissionError: print("refused")
"#;
    let argv = json!(["python3", "-c", bind]);
    let exec = operator.post(&format!("/v1/sandboxes/{id}/execs"), &json!({ "argv": argv })).await?;
    let exec: Value = exec.expect(200)?;
    ensure!(exec["stdout"] == "refused\n".repeat(5), "{exec}");
    sees_itself(&operator, &id, "afterwards").await
}

#[tokio::test]
async fn it_is_there_again_after_whatever_happened_to_the_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    sees_itself(&operator, &id, "created").await?;
    for verbs in [&["stop", "start"][..], &["stop"], &["pause", "resume"], &["pause"], &["recreate"]] {
        for each in verbs {
            verb(&operator, &id, each).await?;
        }
        // Where it sleeps now, the exec that asks wakes it.
        sees_itself(&operator, &id, &verbs.join(", ")).await?;
    }
    hostd.kill_init(&id)?;
    operator.becomes(&id, "error").await?;
    verb(&operator, &id, "start").await?;
    sees_itself(&operator, &id, "killed").await?;
    // A service asks when it starts: hostd is there first.
    let line = "python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:900/healthz\")' \
                && echo reached; exec sleep 1000";
    let services = json!({"services": [{"name": "early", "command": line, "restart": "never"}]});
    operator.put(&format!("/v1/sandboxes/{id}/services"), &services).await?.expect::<Value>(200)?;
    verb(&operator, &id, "recreate").await?;
    operator.follow_until(&format!("/v1/sandboxes/{id}/services/early/logs?follow=1"), "reached").await?;
    Ok(())
}

#[tokio::test]
async fn it_is_there_again_after_hostd_was_ended_or_killed() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let (awake, frozen) = (hostd.local().create(&json!({})).await?, hostd.local().create(&json!({})).await?);
    verb(&hostd.local(), &frozen, "pause").await?;
    // Connections stay open all the time.
    let hold = "python3 -c 'import socket, time\nheld = [socket.create_connection((\"127.0.0.1\", 900)) for _ in range(9)]\nprint(1, flush=True)\ntime.sleep(1000)'";
    let exec = json!({"id": "hold", "shell": hold, "wait": false});
    hostd.local().post(&format!("/v1/sandboxes/{awake}/execs"), &exec).await?.expect::<Value>(202)?;
    let output = format!("/v1/sandboxes/{awake}/execs/hold/output?follow=1");
    hostd.local().follow_until(&output, "1").await?;
    for round in 0..3 {
        if round == 1 {
            ensure!(hostd.terminate().await?.success(), "{}", hostd.said());
        }
        hostd.crash().await?;
        // hostd serves its callers a moment before it has found those who run.
        let there = async || Ok(page(&hostd.local(), &awake).await.ok());
        let page = until(&format!("it is there in round {round}"), there).await?;
        ensure!(page["id"] == awake && page["status"] == "running", "round {round}: {page}");
    }
    verb(&hostd.local(), &frozen, "resume").await?;
    sees_itself(&hostd.local(), &frozen, "thawed by another hostd").await
}

#[tokio::test]
async fn a_port_that_is_taken_is_tried_again_and_keeps_nobody_from_coming_up() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.local().create(&json!({})).await?;
    let init = hostd.init(&id)?.to_string();
    hostd.kill().await?;
    // As root of the host, in the network of the sandbox: like a socket that an earlier hostd left.
    let squat =
        "import socket\ns = socket.create_server((\"127.0.0.1\", 900))\nprint(1, flush=True)\ninput()";
    let mut squatter = Command::new("nsenter");
    squatter.args(["--net", "--target", &init, "python3", "-c", squat]).kill_on_drop(true);
    let mut squatter = squatter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = [0; 2];
    timeout(PATIENCE, squatter.stdout.take().context("its output")?.read_exact(&mut line)).await??;
    hostd.crash().await?;
    hostd.local().prints(&id, "true").await.context("it is well without")?;
    let told = async || Ok(hostd.said().contains("failed to listen inside").then_some(()));
    until("hostd says so", told).await?;
    squatter.kill().await?;
    let reached = async || Ok(page(&hostd.local(), &id).await.is_ok().then_some(()));
    until("it is there after all", reached).await
}

/// The database is read through connections that stay open, as many as were needed at once so far.
fn descriptors(hostd: &Hostd) -> Result<usize> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", hostd.pid()?))?.flatten();
    let of_database = |path: std::path::PathBuf| path.to_string_lossy().contains("slipway.db");
    Ok(open.filter(|entry| !std::fs::read_link(entry.path()).is_ok_and(of_database)).count())
}

/// The network namespace of a sandbox that runs.
fn namespace(hostd: &Hostd, id: &str) -> Result<String> {
    let link = std::fs::read_link(format!("/proc/{}/ns/net", hostd.init(id)?))?;
    let text = link.to_string_lossy();
    Ok(text.trim_start_matches("net:[").trim_end_matches(']').to_owned())
}

/// Network namespaces that hostd keeps alive, by its descriptors or by a thread that is in one.
async fn kept(hostd: &Hostd) -> Result<BTreeSet<String>> {
    let pid = hostd.pid()?.to_string();
    let output = Command::new("python3").args(["-c", HELD, &pid]).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut kept: BTreeSet<String> = text.split_whitespace().map(str::to_owned).collect();
    for task in std::fs::read_dir(Path::new("/proc").join(&pid).join("task"))? {
        if let Ok(link) = std::fs::read_link(task?.path().join("ns/net")) {
            kept.insert(link.to_string_lossy().trim_start_matches("net:[").trim_end_matches(']').to_owned());
        }
    }
    Ok(kept)
}

async fn lets_go(hostd: &Hostd, namespace: &str, when: &str) -> Result<()> {
    until(when, async || Ok((!kept(hostd).await?.contains(namespace)).then_some(()))).await
}

#[tokio::test]
async fn a_sandbox_that_is_gone_leaves_no_namespace_and_no_descriptor() -> Result<()> {
    let hostd = Hostd::start().await?;
    let local = hostd.local();
    let hold = "import socket, time; a = [socket.create_connection(('127.0.0.1', 900)) for _ in range(9)]; print('held', flush=True); time.sleep(1000)";
    let id = local.create(&json!({})).await?;
    sees_itself(&local, &id, "created").await?;
    verb(&local, &id, "stop").await?;
    let mut asleep = None;
    for round in 0..8 {
        verb(&local, &id, "start").await?;
        let (exec, space) = (format!("hold{round}"), namespace(&hostd, &id)?);
        let request = json!({"id": exec, "argv": ["python3", "-c", hold], "wait": false});
        local.post(&format!("/v1/sandboxes/{id}/execs"), &request).await?.expect::<Value>(202)?;
        local.follow_until(&format!("/v1/sandboxes/{id}/execs/{exec}/output?follow=1"), "held").await?;
        ensure!(kept(&hostd).await?.contains(&space), "the look can see what it looks for");
        if round % 2 == 0 {
            verb(&local, &id, "stop").await?;
        } else {
            hostd.kill_init(&id)?;
            local.becomes(&id, "error").await?;
        }
        lets_go(&hostd, &space, "hostd lets go of the namespace").await?;
        let most = *asleep.get_or_insert(descriptors(&hostd)?);
        until("descriptors are given back", async || Ok((descriptors(&hostd)? <= most).then_some(())))
            .await?;
    }
    verb(&local, &id, "start").await?;
    let space = namespace(&hostd, &id)?;
    local.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    lets_go(&hostd, &space, "destroyed").await
}

#[tokio::test]
async fn a_flood_from_one_sandbox_leaves_the_others_and_the_api_alone() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let (loud, calm) = (operator.create(&json!({})).await?, operator.create(&json!({})).await?);
    sees_itself(&operator, &calm, "before").await?;
    let before = descriptors(&hostd)?;
    let flood = json!({"id": "flood", "argv": ["python3", "-c", FLOOD], "wait": false});
    operator.post(&format!("/v1/sandboxes/{loud}/execs"), &flood).await?.expect::<Value>(202)?;
    operator.follow_until(&format!("/v1/sandboxes/{loud}/execs/flood/output?follow=1"), "flooded").await?;
    for _ in 0..10 {
        sees_itself(&operator, &calm, "beside a flood").await?;
        operator.sandbox(&loud).await?;
        let now = descriptors(&hostd)?;
        // Its 256 places, and some for what else goes on.
        ensure!(now <= before + 256 + 48, "{before} descriptors became {now}");
    }
    let cancel = format!("/v1/sandboxes/{loud}/execs/flood/cancel");
    ensure!(operator.post(&cancel, &json!({"grace_ms": 0})).await?.status == 204);
    let ended = |exec: &Value| !exec["exit"].is_null();
    operator.until(&format!("/v1/sandboxes/{loud}/execs/flood"), ended).await?;
    sees_itself(&operator, &loud, "after its own flood").await
}
