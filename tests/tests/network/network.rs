//! Connections into sandboxes and listeners inside them, made by hostd without the sandbox's help.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use hostd_core::AppPort;
use hostd_drivers::{Driver, Stream, Target, Transport};
use protocol::api::SandboxId;
use serde_json::json;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tests::host::DriverFixture;
use tests::sandbox::PATIENCE;
use tests::shell;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::timeout;

/// Where the kernel picks the port.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Says its first word to everybody who connects, on the address and port of the others.
const GREETER: &str = r#"
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
server = socket.socket(family, socket.SOCK_STREAM)
if family == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
server.bind((sys.argv[2], int(sys.argv[3])))
server.listen(512)
print("listens", flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(sys.argv[1].encode())
    peer.close()
"#;

async fn greeter(
    driven: &DriverFixture,
    sandbox: &SandboxId,
    word: &str,
    address: &str,
    port: u16,
) -> Result<()> {
    let argv = json!(["python3", "-c", GREETER, word, address, port.to_string()]);
    let id = format!("{word}-{port}");
    shell::started(&driven.client(sandbox), &id, json!({ "argv": argv }), "listens").await.map(drop)
}

async fn rest(mut stream: impl Stream) -> Result<String> {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.context("says nothing")??;
    Ok(text)
}

fn port_of(port: u16) -> Target {
    Target::Port(AppPort::new(port).expect("not hostd's own"))
}

async fn hears(driven: &DriverFixture, sandbox: &SandboxId, port: u16) -> Result<String> {
    rest(driven.driver.dial(sandbox, port_of(port)).await?).await
}

async fn refusal(driven: &DriverFixture, sandbox: &SandboxId, target: Target) -> Result<ErrorKind> {
    let dialled = driven.driver.dial(sandbox, target).await;
    Ok(dialled.err().context("the dial succeeded")?.kind())
}

#[tokio::test]
async fn a_port_is_dialled_on_ipv4_first_and_then_on_ipv6() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let one = driven.launch(1).await?;
    greeter(&driven, &one, "four", "127.0.0.1", 4001).await?;
    greeter(&driven, &one, "six", "::1", 6001).await?;
    greeter(&driven, &one, "four", "127.0.0.1", 4601).await?;
    greeter(&driven, &one, "six", "::1", 4601).await?;
    greeter(&driven, &one, "any", "0.0.0.0", 4002).await?;
    for (port, expected) in [(4001, "four"), (6001, "six"), (4601, "four"), (4002, "any")] {
        let heard = hears(&driven, &one, port).await?;
        ensure!(heard == expected, "port {port} says {heard}");
    }
    Ok(())
}

#[tokio::test]
async fn a_port_belongs_to_its_sandbox_and_nobody_else() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let (one, two) = (driven.launch(1).await?, driven.launch(2).await?);
    greeter(&driven, &one, "one", "127.0.0.1", 4001).await?;
    ensure!(refusal(&driven, &two, port_of(4001)).await? == ErrorKind::ConnectionRefused);
    ensure!(refusal(&driven, &one, port_of(4002)).await? == ErrorKind::ConnectionRefused);
    greeter(&driven, &two, "two", "127.0.0.1", 4001).await?;
    ensure!(hears(&driven, &one, 4001).await? == "one" && hears(&driven, &two, 4001).await? == "two");
    Ok(())
}

#[tokio::test]
async fn many_connections_at_once_all_arrive() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let (one, two) = (driven.launch(1).await?, driven.launch(2).await?);
    greeter(&driven, &one, "one", "127.0.0.1", 4001).await?;
    greeter(&driven, &two, "two", "::1", 4001).await?;
    let all = (0..200).map(|n| hears(&driven, if n % 2 == 0 { &one } else { &two }, 4001));
    let heard = timeout(PATIENCE, try_join_all(all)).await??;
    for (n, word) in heard.iter().enumerate() {
        ensure!(word == if n % 2 == 0 { "one" } else { "two" }, "connection {n} hears {word}");
    }
    Ok(())
}

#[tokio::test]
async fn what_hostd_offers_inside_is_reached_from_that_sandbox_only() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let (one, two) = (driven.launch(1).await?, driven.launch(2).await?);
    // The host and another sandbox listen on the same port without a conflict.
    let own = TcpListener::bind("127.0.0.1:0").await?;
    let port = own.local_addr()?.port();
    let at = own.local_addr()?;
    let listener = driven.driver.listen(&one, at).await?;
    let neighbour = driven.driver.listen(&two, at).await?;
    ensure!(listener.local_addr()? == at, "{at}");
    let picked = driven.driver.listen(&one, LOOPBACK).await?.local_addr()?;
    ensure!(picked.port() != 0 && picked.port() != port, "{picked}");
    let serve = async {
        let (mut peer, _) = listener.accept().await?;
        peer.write_all(b"from hostd").await?;
        anyhow::Ok(())
    };
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3");
    let client = driven.client(&one);
    let (served, heard) =
        timeout(PATIENCE, async { tokio::join!(serve, shell::shell(&client, &line)) }).await?;
    served?;
    ensure!(heard? == "from hostd");
    let (_reached, accepted) = tokio::join!(TcpStream::connect(at), own.accept());
    accepted.context("from the host its own is reached")?;
    drop(neighbour);
    ensure!(shell::shell(&driven.client(&two), &line).await.is_err(), "reached from another sandbox");
    Ok(())
}

#[tokio::test]
async fn a_frozen_sandbox_is_connected_to_and_answers_when_it_thaws() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let one = driven.launch(1).await?;
    greeter(&driven, &one, "awake", "127.0.0.1", 4001).await?;
    driven.driver.freeze(&one).await?;
    let stream = driven.driver.dial(&one, port_of(4001)).await?;
    driven.driver.thaw(&one).await?;
    ensure!(rest(stream).await? == "awake");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_does_not_run_is_not_connected() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let one = driven.launch(1).await?;
    greeter(&driven, &one, "one", "127.0.0.1", 4001).await?;
    driven.driver.terminate(&one, 5000).await?;
    for target in [port_of(4001), Target::Control] {
        let kind = refusal(&driven, &one, target).await?;
        ensure!(kind == ErrorKind::NotConnected, "{target:?}: {kind}");
    }
    ensure!(driven.driver.listen(&one, LOOPBACK).await.is_err());
    Ok(())
}

#[tokio::test]
async fn only_pid_1_itself_is_taken_for_the_control_socket() -> Result<()> {
    let driven = DriverFixture::open().await?;
    let one = driven.launch(1).await?;
    let socket = driven.control(&one).join("sock");
    let (genuine, elsewhere) = (driven.control(&one).join("genuine"), driven.control(&one).join("elsewhere"));
    driven.driver.dial(&one, Target::Control).await?;
    std::fs::rename(&socket, &genuine)?;
    let _impostor = UnixListener::bind(&elsewhere)?;
    // A link to the real socket, a foreign socket, a file, nothing.
    std::os::unix::fs::symlink("genuine", &socket)?;
    refusal(&driven, &one, Target::Control).await.context("a link")?;
    std::fs::remove_file(&socket)?;
    std::fs::hard_link(&elsewhere, &socket)?;
    ensure!(
        refusal(&driven, &one, Target::Control).await.context("an impostor")? == ErrorKind::PermissionDenied
    );
    std::fs::remove_file(&socket)?;
    std::fs::write(&socket, "")?;
    refusal(&driven, &one, Target::Control).await.context("a file")?;
    std::fs::remove_file(&socket)?;
    ensure!(refusal(&driven, &one, Target::Control).await.context("nothing")? == ErrorKind::NotFound);
    std::fs::rename(&genuine, &socket)?;
    driven.driver.dial(&one, Target::Control).await?;
    Ok(())
}
