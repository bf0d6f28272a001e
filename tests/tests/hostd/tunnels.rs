//! Tunnels to ports of a sandbox: by WebSocket, and by `slipway forward` as from another machine.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use protocol::api::{ApiErrorBody, ApiErrorCode};
use serde_json::json;
use std::net::SocketAddr;
use tests::host::TerminalViewer;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// Echoes on 3000, says goodbye when the other side has ended; on 3001 it ends first, and prints what it still hears.
const SERVER: &str = r"
import socket, threading
def echo(c):
    while (data := c.recv(65536)):
        c.sendall(data)
    c.sendall(b'goodbye')
    c.close()
def first(c):
    c.sendall(b'hello')
    c.shutdown(socket.SHUT_WR)
    heard = b''
    while (data := c.recv(65536)):
        heard += data
    open('heard', 'ab').write(heard)
def serve(port, talk):
    s = socket.create_server(('127.0.0.1', port))
    while True:
        threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, args=(3001, first), daemon=True).start()
serve(3000, echo)
";

async fn serving(caller: &Caller) -> Result<String> {
    let command = format!("exec python3 - <<'END'\n{SERVER}\nEND\n");
    let service = json!({"name": "echo", "command": command, "port": 3000});
    caller.create(&json!({"ports": [3000], "services": [service]})).await
}

async fn open(caller: &Caller, id: &str, rest: &str) -> Result<TerminalViewer> {
    let path = format!("/v1/sandboxes/{id}/ports/{rest}");
    TerminalViewer::of(TerminalViewer::open(caller, &path, &[]).await?).await
}

/// The bytes that come before the end of their direction.
async fn heard(tunnel: &mut TerminalViewer) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match timeout(PATIENCE, tunnel.socket.next()).await.context("nothing comes")?.context("cut")?? {
            Message::Binary(bytes) if bytes.is_empty() => return Ok(all),
            Message::Binary(bytes) => all.extend(bytes),
            Message::Ping(_) | Message::Pong(_) => {}
            other => anyhow::bail!("{other:?}"),
        }
    }
}

async fn closes(tunnel: &mut TerminalViewer) -> Result<u16> {
    loop {
        match timeout(PATIENCE, tunnel.socket.next()).await.context("stays open")?.context("cut")?? {
            Message::Close(Some(frame)) => return Ok(frame.code.into()),
            Message::Ping(_) | Message::Pong(_) => {}
            other => anyhow::bail!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_tunnel_carries_bytes_and_ends_both_ways_and_wakes_the_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = serving(&operator).await?;
    let large: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();

    let mut tunnel = open(&operator, &id, "3000/tunnel").await?;
    let (mut to, from) = tunnel.socket.split();
    let send = async {
        for chunk in large.chunks(65_536) {
            to.send(Message::binary(chunk.to_vec())).await?;
        }
        to.send(Message::Binary(Bytes::new())).await?;
        anyhow::Ok(to)
    };
    let mut from = from;
    let read = async {
        let mut all = Vec::new();
        while let Some(message) = timeout(PATIENCE, from.next()).await.context("nothing comes")? {
            match message? {
                Message::Binary(bytes) if bytes.is_empty() => break,
                Message::Binary(bytes) => all.extend(bytes),
                _ => {}
            }
        }
        anyhow::Ok((all, from))
    };
    let (to, (all, from)) = tokio::try_join!(send, read)?;
    ensure!(all == [large.as_slice(), b"goodbye"].concat(), "{} bytes came back", all.len());
    tunnel.socket = to.reunite(from)?;
    ensure!(closes(&mut tunnel).await? == 1000);

    // The app ends first, and still hears the rest.
    let mut tunnel = open(&operator, &id, "3001/tunnel").await?;
    ensure!(heard(&mut tunnel).await? == b"hello");
    tunnel.socket.send(Message::binary("the rest")).await?;
    tunnel.socket.send(Message::Binary(Bytes::new())).await?;
    ensure!(closes(&mut tunnel).await? == 1000);
    let seen = async || Ok(operator.prints(&id, "cat heard").await.ok().filter(|heard| heard == "the rest"));
    tests::host::until("it heard the rest", seen).await?;

    // A sandbox that sleeps is woken, and its service is waited for; a request may forbid it.
    operator.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?;
    operator.becomes(&id, "stopped").await?;
    let path = format!("/v1/sandboxes/{id}/ports/3000/tunnel?wake=0");
    let refused = TerminalViewer::open(&operator, &path, &[]).await?;
    ensure!(refused.status() == 409, "{}", refused.status());
    let mut tunnel = open(&operator, &id, "3000/tunnel").await?;
    tunnel.socket.send(Message::binary("again")).await?;
    tunnel.socket.send(Message::Binary(Bytes::new())).await?;
    ensure!(heard(&mut tunnel).await? == b"againgoodbye");
    // What is no byte ends it.
    let mut tunnel = open(&operator, &id, "3000/tunnel").await?;
    tunnel.socket.send(Message::text("hi")).await?;
    ensure!(closes(&mut tunnel).await? == 1003);
    // A sandbox that stops resets it.
    let mut tunnel = open(&operator, &id, "3000/tunnel").await?;
    operator.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?;
    let ended = timeout(PATIENCE, tunnel.socket.next()).await.context("outlives its sandbox")?;
    drop(ended);
    hostd.stop().await
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_is_refused_before_the_upgrade() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = serving(&operator).await?;
    drop(open(&operator, &id, "3000/tunnel").await?);
    for (port, status, code) in [
        ("4000", 502, ApiErrorCode::PortClosed),
        // hostd's own port inside, where it listens for the sandbox.
        ("900", 400, ApiErrorCode::InvalidRequest),
        ("0", 400, ApiErrorCode::InvalidRequest),
        ("65536", 400, ApiErrorCode::InvalidRequest),
        ("+3000", 400, ApiErrorCode::InvalidRequest),
        ("http", 400, ApiErrorCode::InvalidRequest),
    ] {
        let path = format!("/v1/sandboxes/{id}/ports/{port}/tunnel");
        let refused = TerminalViewer::open(&operator, &path, &[]).await?;
        ensure!(refused.status() == status, "{port}: {}", refused.status());
        let body: ApiErrorBody = serde_json::from_slice(&refused.into_body().collect().await?.to_bytes())?;
        ensure!(body.error.code == code, "{port}: {body:?}");
        let listening: Vec<u16> =
            body.error.detail.listening.iter().map(|listening| listening.port).collect();
        let expected: &[u16] = if code == ApiErrorCode::PortClosed { &[3000, 3001] } else { &[] };
        ensure!(listening == expected, "{port}: {body:?}");
    }
    let other = hostd.caller("other", "ann", "run").await?;
    let path = format!("/v1/sandboxes/{id}/ports/3000/tunnel");
    for (caller, headers, status) in [
        (&operator, &[("sec-websocket-protocol", "slipway.terminal")][..], 400),
        (&operator.with_token(None), &[], 401),
        (&other, &[], 404),
    ] {
        let refused = TerminalViewer::open(caller, &path, headers).await?;
        ensure!(refused.status() == status, "{headers:?}: {}", refused.status());
    }
    let plain = operator.get(&path).await?;
    ensure!(plain.status == 400, "{}", plain.text());
    hostd.stop().await
}

#[tokio::test]
async fn a_silent_tunnel_lets_the_sandbox_doze_and_a_byte_thaws_it() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_IDLE_SECONDS", "2")]).await?;
    let operator = hostd.operator()?;
    let id = serving(&operator).await?;
    let mut tunnel = open(&operator, &id, "3000/tunnel").await?;
    operator.becomes(&id, "paused").await?;
    tunnel.socket.send(Message::binary("are you there")).await?;
    tunnel.socket.send(Message::Binary(Bytes::new())).await?;
    ensure!(heard(&mut tunnel).await? == b"are you theregoodbye");
    ensure!(operator.sandbox(&id).await?["attempt"] == 1, "the same life");
    ensure!(closes(&mut tunnel).await? == 1000);
    // One that stays silent for ever does not keep it for ever.
    let tunnel = open(&operator, &id, "3000/tunnel").await?;
    operator.becomes(&id, "stopped").await?;
    drop(tunnel);
    hostd.stop().await
}

#[tokio::test]
async fn slipway_forwards_ports_with_a_token_from_anywhere() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = serving(&operator).await?;
    let mut command = hostd.slipway(&["forward", &id, "3000:0", "4000:0"])?;
    command.env("SLIPWAY_URL", hostd.url()).env("SLIPWAY_TOKEN", operator.token().context("a token")?);
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for port in [3000, 4000] {
        let line = timeout(PATIENCE, lines.next_line()).await??.context("a line")?;
        let local =
            line.strip_prefix("forwarding ").and_then(|line| line.strip_suffix(&format!(" -> {id}:{port}")));
        addresses.push(local.with_context(|| line.clone())?.parse()?);
    }
    let large: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (mut from, mut to) = TcpStream::connect(addresses[0]).await?.into_split();
    let send = async {
        to.write_all(&large).await?;
        to.shutdown().await
    };
    let mut back = Vec::new();
    let (sent, read) = tokio::join!(send, timeout(PATIENCE, from.read_to_end(&mut back)));
    sent?;
    read.context("does not end")??;
    ensure!(back == [large.as_slice(), b"goodbye"].concat(), "{} bytes came back", back.len());
    let closed = async { TcpStream::connect(addresses[1]).await?.read_to_end(&mut Vec::new()).await };
    ensure!(timeout(PATIENCE, closed).await?.is_err(), "a closed port is no regular end");
    let mut errors = BufReader::new(child.stderr.take().context("its errors")?).lines();
    let told = timeout(PATIENCE, errors.next_line()).await??.context("a line")?;
    ensure!(told.contains("nothing listens on port 4000") && told.contains("3000"), "{told}");
    child.kill().await?;
    hostd.stop().await
}
