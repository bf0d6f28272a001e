//! The tunnel: one byte stream to a loopback port inside, and a refusal that helps where there is none.

use anyhow::{Context, Result, ensure};
use http_body_util::Empty;
use hyper::Request;
use protocol::{ErrorCode, ListeningPort};
use serde_json::json;
use tests::sandbox::PATIENCE;
use tests::shell::{cancel_now, started};
use tests::tunnel::{Tunnel, open, try_open};
use tests::{Random, Sandbox, scaled};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Answers in a way its first argument names: `echo` until the end and then "bye", `close` at once, `talk`
/// first and then close, `deaf` never reads.
const SERVER: &str = r#"
import socket, sys, threading
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
listener = socket.create_server((address, port), family=family, backlog=64)
def echo(stream):
    while data := stream.recv(65536): stream.sendall(data)
    stream.sendall(b"bye")
def talk(stream):
    stream.sendall(b"hello" * 100000)
def close(stream): pass
kept = []
def deaf(stream): kept.append(stream.dup())
def serve(stream):
    with stream: globals()[kind](stream)
print("here", flush=True)
while True:
    stream, _ = listener.accept()
    threading.Thread(target=serve, args=(stream,), daemon=True).start()
"#;

async fn serving(kind: &str, address: &str, port: u16) -> Result<Sandbox> {
    let sandbox = Sandbox::start().await?;
    serve(&sandbox, kind, address, port).await?;
    Ok(sandbox)
}

async fn serve(sandbox: &Sandbox, kind: &str, address: &str, port: u16) -> Result<()> {
    sandbox.write_app("server.py", SERVER)?;
    let argv = json!(["/usr/bin/python3", "server.py", kind, address, port.to_string()]);
    started(sandbox.client(), &format!("server-{port}"), json!({"argv": argv}), "here").await?;
    Ok(())
}

/// Everything up to the end of the stream.
async fn rest(tunnel: &mut Tunnel) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, tunnel.read_to_end(&mut bytes)).await.context("the tunnel never ends")??;
    Ok(bytes)
}

/// Sends all of it, ends its side, and must get it back with a farewell: the other side was still open.
async fn echoes(mut tunnel: Tunnel, bytes: Vec<u8>) -> Result<()> {
    let (mut from, mut to) = tokio::io::split(&mut tunnel);
    let mut back = Vec::new();
    let sending = async {
        to.write_all(&bytes).await?;
        to.shutdown().await
    };
    let both = async { tokio::try_join!(sending, from.read_to_end(&mut back)) };
    timeout(PATIENCE, both).await.context("the echo never ends")??;
    ensure!(back == [&bytes[..], b"bye"].concat(), "{} of {} bytes came back", back.len(), bytes.len());
    Ok(())
}

#[tokio::test]
async fn bytes_go_both_ways_and_either_side_may_end_first() -> Result<()> {
    let sandbox = serving("echo", "127.0.0.1", 8001).await?;
    let mut random = Random::seeded();
    for length in [0, 1, 4096, 1 << 20] {
        echoes(open(sandbox.client(), 8001).await?, random.bytes(length)).await?;
    }
    let mut tunnel = open(sandbox.client(), 8001).await?;
    for _ in 0..100 {
        let mut answer = [0; 4];
        tunnel.write_all(b"ping").await?;
        timeout(PATIENCE, tunnel.read_exact(&mut answer)).await.context("no answer")??;
        ensure!(&answer == b"ping");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn many_tunnels_at_once_do_not_mix_their_bytes() -> Result<()> {
    let sandbox = serving("echo", "127.0.0.1", 8001).await?;
    let mut random = Random::seeded();
    let mut tunnels = JoinSet::new();
    for _ in 0..scaled(20, 200) {
        let tunnel = open(sandbox.client(), 8001).await?;
        tunnels.spawn(echoes(tunnel, random.bytes(100_000)));
    }
    while let Some(done) = tunnels.join_next().await {
        done??;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_server_is_found_on_either_loopback() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for (address, port) in [("127.0.0.1", 8001), ("::1", 8002), ("0.0.0.0", 8003), ("::", 8004)] {
        serve(&sandbox, "echo", address, port).await?;
        echoes(open(sandbox.client(), port).await?, address.into()).await.context(address)?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_server_that_closes_ends_the_tunnel_after_its_last_byte() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    serve(&sandbox, "talk", "127.0.0.1", 8001).await?;
    serve(&sandbox, "close", "127.0.0.1", 8002).await?;
    let said = rest(&mut open(sandbox.client(), 8001).await?).await?;
    ensure!(said == b"hello".repeat(100_000), "{} bytes", said.len());
    let said = rest(&mut open(sandbox.client(), 8002).await?).await?;
    ensure!(said.is_empty(), "{said:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_server_that_is_killed_ends_its_tunnels() -> Result<()> {
    let sandbox = serving("echo", "127.0.0.1", 8001).await?;
    let mut tunnel = open(sandbox.client(), 8001).await?;
    tunnel.write_all(b"x").await?;
    timeout(PATIENCE, tunnel.read_u8()).await??;
    cancel_now(sandbox.client(), "server-8001").await?;
    // Whether it ends or breaks depends on what the kernel says of the dead.
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, tunnel.read_to_end(&mut bytes)).await.context("the tunnel never ends")?;
    ensure!(bytes.is_empty(), "{bytes:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_up_its_own_tunnel_only() -> Result<()> {
    let sandbox = serving("deaf", "127.0.0.1", 8001).await?;
    serve(&sandbox, "echo", "127.0.0.1", 8002).await?;
    let mut deaf = open(sandbox.client(), 8001).await?;
    // Writes until no side accepts more.
    let stuffing = async {
        loop {
            deaf.write_all(&[0; 65_536]).await?;
        }
    };
    let stuffed: Result<std::io::Result<()>, _> =
        timeout(std::time::Duration::from_millis(300), stuffing).await;
    ensure!(stuffed.is_err(), "{stuffed:?}");
    echoes(open(sandbox.client(), 8002).await?, vec![7; 100_000]).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_closed_port_is_refused_with_what_listens_instead() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let Err(answer) = try_open(sandbox.client(), 3000).await? else { anyhow::bail!("a tunnel to nowhere") };
    let error = answer.error()?.error;
    ensure!(answer.status == 502 && error.code == ErrorCode::PortClosed && error.retryable, "{error:?}");
    let refusal = error.detail.refusal.context("a refusal")?;
    ensure!(refusal.port == 3000 && refusal.listening.is_empty(), "{refusal:?}");

    serve(&sandbox, "echo", "127.0.0.1", 5173).await?;
    serve(&sandbox, "echo", "::1", 5174).await?;
    let Err(answer) = try_open(sandbox.client(), 3000).await? else { anyhow::bail!("a tunnel to nowhere") };
    let error = answer.error()?.error;
    let mut listening = error.detail.refusal.context("a refusal")?.listening;
    listening.sort_by_key(|port| port.port);
    let ports: Vec<ListeningPort> = sandbox.client().get("/v1/ports").await?.json()?;
    ensure!(listening.len() == 2 && ports.iter().all(|port| listening.contains(port)), "{listening:?}");
    for word in ["3000", "5173", "5174", "server.py"] {
        ensure!(error.message.contains(word), "{word}: {}", error.message);
    }
    sandbox.stop().await
}

/// With one port left to connect from, a connection to that very port would meet itself: TCP allows it.
#[tokio::test]
async fn a_closed_port_is_refused_even_where_the_connection_could_meet_itself() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let pid = sandbox.pid()?.to_string();
    let narrow = "echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range";
    let narrowed = Command::new("nsenter").args(["-t", &pid, "-n", "sh", "-c", narrow]).status().await?;
    ensure!(narrowed.success(), "{narrowed}");
    for port in [40_000, 40_001] {
        for _ in 0..20 {
            let Err(answer) = try_open(sandbox.client(), port).await? else {
                anyhow::bail!("a tunnel from port {port} to itself")
            };
            ensure!(answer.code()? == ErrorCode::PortClosed, "{}", answer.text());
        }
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_request_that_is_no_upgrade_is_refused() -> Result<()> {
    let sandbox = serving("echo", "127.0.0.1", 8001).await?;
    let client = sandbox.client();
    for headers in [
        vec![],
        vec![("connection", "Upgrade"), ("upgrade", "websocket")],
        vec![("connection", "Upgrade"), ("upgrade", "slipway-terminal")],
        vec![("connection", "Upgrade")],
    ] {
        let mut request = Request::get("/v1/tunnel/8001");
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let response = client.open(request.body(Empty::<bytes::Bytes>::new())?).await?;
        ensure!(response.status() == 400, "{headers:?}: {}", response.status());
    }
    for (port, status) in [("0", 400), ("65536", 400), ("x", 400), ("", 400), ("8001/x", 404)] {
        let answer = client.get(&format!("/v1/tunnel/{port}")).await?;
        ensure!(answer.status == status, "{port:?}: {} {}", answer.status, answer.text());
    }
    sandbox.stop().await
}
