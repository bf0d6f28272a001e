//! Browsers and sleep: what keeps a sandbox awake, what lets it doze, and what wakes it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};
use tests::apps::RAW;
use tests::host::PAUSE;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Eight windows are long enough to be seen dozing.
const SLEEPY: &[(&str, &str)] = &[("SLIPWAY_IDLE_SECONDS", "2")];

/// Traffic later than this does not count as the response to a heartbeat.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);
/// Two of them are to be in time.
const BEATS_MAX: u32 = 6;

/// Takes an upgrade, then gives back every byte.
const ECHO: &str = r"
import socket, threading
def talk(c):
    head = b''
    while b'\r\n\r\n' not in head:
        data = c.recv(4096)
        if not data: return
        head += data
    c.sendall(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
    c.sendall(head.split(b'\r\n\r\n', 1)[1])
    while (data := c.recv(65536)):
        c.sendall(data)
    c.close()
s = socket.create_server(('127.0.0.1', 3000))
while True:
    threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
";

/// A sandbox in which something echoes.
async fn echoing(caller: &Caller) -> Result<String> {
    let command = format!("exec python3 - <<'END'\n{ECHO}\nEND\n");
    let service = json!({"name": "echo", "command": command, "port": 3000});
    caller.create(&json!({"ports": [3000], "services": [service]})).await
}

/// A browser's upgraded connection.
struct Socket(TcpStream);

impl Socket {
    async fn open(caller: &Caller, id: &str) -> Result<Self> {
        let view = caller.sandbox(id).await?;
        let url = view["previews"]["3000"].as_str().context("a preview")?;
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let port: u16 = host.rsplit(':').next().context("a port")?.parse()?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(timeout(PATIENCE, stream.read_u8()).await.context("no answer")??);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        Ok(Self(stream))
    }

    /// Says something; it must come back as it is.
    async fn echo(&mut self, said: &[u8]) -> Result<()> {
        self.0.write_all(said).await?;
        let mut heard = vec![0; said.len()];
        timeout(PATIENCE, self.0.read_exact(&mut heard)).await.context("nothing comes back")??;
        ensure!(heard == said, "{:?} is not what was said", String::from_utf8_lossy(&heard));
        Ok(())
    }
}

async fn activity(caller: &Caller, id: &str) -> Result<Value> {
    caller.get(&format!("/v1/sandboxes/{id}/activity")).await?.expect(200)
}

/// The kinds of its events, with a marker for those caused by the idle policy.
async fn kinds(caller: &Caller, id: &str) -> Result<Vec<String>> {
    let page: Value = caller.get(&format!("/v1/sandboxes/{id}/events?limit=1000")).await?.expect(200)?;
    let events = page["items"].as_array().context("events")?;
    let kind = |event: &Value| {
        let dozing = if event["data"]["dozing"] == true { " dozing" } else { "" };
        Some(format!("{}{dozing}", event["kind"].as_str()?))
    };
    Ok(events.iter().filter_map(kind).collect())
}

#[tokio::test]
async fn a_busy_socket_keeps_it_awake_a_silent_one_lets_it_doze_and_a_byte_thaws_it() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let id = echoing(&operator).await?;
    let mut socket = Socket::open(&operator, &id).await?;
    // For as long as another one takes to fall asleep, twice; to make one may take longer than a window.
    let over = Cell::new(false);
    let others = async {
        for _ in 0..2 {
            let other = operator.create(&json!({})).await?;
            operator.becomes(&other, "stopped").await?;
        }
        over.set(true);
        anyhow::Ok(())
    };
    let talk = async {
        while !over.get() {
            socket.echo(&[b'x'; 300]).await?;
            sleep(PAUSE).await;
        }
        Ok(())
    };
    tokio::try_join!(others, talk)?;
    let seen = activity(&operator, &id).await?;
    ensure!(seen["busy"] == true && seen["sleeps_at"].is_null(), "{seen}");
    ensure!(seen["reasons"].to_string().contains(r#""kind":"preview","#), "{seen}");
    let before = kinds(&operator, &id).await?;
    ensure!(!before.iter().any(|kind| kind.contains("dozing")), "{before:?}");

    let frozen = operator.becomes(&id, "paused").await?;
    ensure!(frozen["attempt"] == 1, "{frozen}");
    let seen = activity(&operator, &id).await?;
    ensure!(seen["dozing"] == true && seen["busy"] == false && seen["sleeps_to"] == "stopped", "{seen}");
    ensure!(seen["reasons"][0]["streams"] == 1 && seen["sleeps_at"].is_string(), "{seen}");
    ensure!(kinds(&operator, &id).await?.contains(&"sandbox.paused dozing".to_owned()));
    ensure!(operator.sandbox(&id).await?["status"] == "paused", "to ask woke it");

    // The same connection, all of it, and the same process behind it.
    socket.echo(b"are you there").await?;
    let large: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (mut from, mut to) = socket.0.split();
    let mut heard = vec![0; large.len()];
    let (sent, read) = tokio::join!(to.write_all(&large), timeout(PATIENCE, from.read_exact(&mut heard)));
    sent?;
    read.context("not everything comes back")??;
    ensure!(heard == large, "bytes changed");
    ensure!(operator.sandbox(&id).await?["attempt"] == 1);

    operator.becomes(&id, "paused").await?;
    drop(socket);
    operator.becomes(&id, "stopped").await?;
    Ok(())
}

#[tokio::test]
async fn heartbeats_are_answered_and_keep_nothing_awake_for_ever() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let id = echoing(&operator).await?;
    let mut socket = Socket::open(&operator, &id).await?;
    let silence = async || -> Result<u64> {
        operator.becomes(&id, "paused").await?;
        let seen = activity(&operator, &id).await?;
        seen["reasons"][0]["silent_ms"].as_u64().with_context(|| format!("no silence in {seen}"))
    };
    let (mut before, mut beats) = (silence().await?, 0);
    for _ in 0..BEATS_MAX {
        let said = Instant::now();
        socket.echo(br#"{"type":"ping"}"#).await?;
        let quick = said.elapsed() < HEARTBEAT_MAX;
        let after = silence().await?;
        ensure!(after > before || !quick, "a heartbeat ended the silence: {after} after {before}");
        (before, beats) = (after, beats + u32::from(quick));
        if beats == 2 {
            break;
        }
    }
    ensure!(beats == 2, "heartbeats are answered late");
    // The sandbox stops by itself now.
    operator.becomes(&id, "stopped").await?;
    let mut rest = Vec::new();
    let ended = timeout(PATIENCE, socket.0.read_to_end(&mut rest)).await;
    ended.context("the connection outlives the app")?.ok();
    ensure!(rest.is_empty(), "{rest:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_person_paused_stays_paused_and_what_dozed_is_stopped_after_a_restart() -> Result<()> {
    let mut hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let (kept, left) = (echoing(&operator).await?, echoing(&operator).await?);
    let (socket, _other) = (Socket::open(&operator, &kept).await?, Socket::open(&operator, &left).await?);
    let pause = format!("/v1/sandboxes/{kept}/pause");
    ensure!(operator.post(&pause, &json!({})).await?.expect::<Value>(200)?["status"] == "paused");
    drop(socket);
    operator.becomes(&left, "paused").await?;
    ensure!(activity(&operator, &left).await?["dozing"] == true);
    hostd.crash().await?;
    let operator = hostd.operator()?;
    operator.becomes(&left, "stopped").await?;
    let seen = operator.sandbox(&kept).await?;
    ensure!(seen["status"] == "paused" && seen["phase"].is_null(), "{seen}");
    ensure!(activity(&operator, &kept).await?["dozing"].is_null());
    let resume = format!("/v1/sandboxes/{kept}/resume");
    ensure!(operator.post(&resume, &json!({})).await?.expect::<Value>(200)?["status"] == "running");
    Ok(())
}

#[tokio::test]
async fn who_reads_on_after_it_dozed_off_gets_the_rest() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let app = RAW.launch(&hostd).await?;
    let mut line = app.line().await?;
    line.say("GET /large HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").await?;
    let begun = line.hear("\r\n\r\n").await?;
    hostd.operator()?.becomes(&app.sandbox, "paused").await?;
    let rest = line.rest().await?;
    let body = begun.len() + rest.len() - begun.find("\r\n\r\n").context("a head")? - 4;
    ensure!(body == 40 << 20, "{body} bytes");
    ensure!(app.attempts().await? == 1, "only thawed");
    hostd.stop().await
}
