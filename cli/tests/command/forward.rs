//! `slipway forward`, against tunnels of the fake hostd.

use super::{fake::FakeHostd, fake::WEB, run, signal, spawn};
use nix::sys::signal::Signal;
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Child,
};

/// Starts the command, and returns the local address of each forwarded port.
async fn forward(fake: &FakeHostd, ports: &str) -> (Child, Vec<SocketAddr>) {
    let mut child = spawn(&fake.data_dir(), &format!("forward web {ports}"));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut addresses = Vec::new();
    for port in ports.split_whitespace() {
        let line = lines.next_line().await.expect("text").expect("a line");
        let (local, to) =
            line.strip_prefix("forwarding ").and_then(|line| line.split_once(" -> ")).expect("words");
        assert_eq!(to, format!("{WEB}:{}", port.split(':').next().expect("a port")), "{line}");
        addresses.push(local.parse().expect("an address"));
    }
    (child, addresses)
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways_and_each_end_is_told() {
    let fake = FakeHostd::start();
    let (mut child, addresses) = forward(&fake, "7:0 13:0").await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut from, mut to) = TcpStream::connect(addresses[0]).await.expect("connected").into_split();
    let (mut echoed, mut again) = (Vec::new(), TcpStream::connect(addresses[0]).await.expect("connected"));
    let send = async {
        to.write_all(&sent).await.expect("sent");
        // The end of this direction alone.
        to.shutdown().await.expect("ended");
    };
    let (_, read) = tokio::join!(send, from.read_to_end(&mut echoed));
    read.expect("read");
    assert!(echoed == sent, "{} bytes came back", echoed.len());
    // Another connection is another tunnel.
    again.write_all(b"hi").await.expect("sent");
    let mut two = [0; 2];
    again.read_exact(&mut two).await.expect("read");
    assert_eq!(&two, b"hi");
    // The app ends first, and still hears the rest.
    let mut talk = TcpStream::connect(addresses[1]).await.expect("connected");
    let mut greeting = String::new();
    talk.read_to_string(&mut greeting).await.expect("read");
    assert_eq!(greeting, "hello\n");
    talk.write_all(b"the rest").await.expect("sent");
    talk.shutdown().await.expect("ended");
    fake.tunnels.wait_heard(b"the rest").await;
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_port_and_a_lost_app_are_resets_and_the_next_connection_tries_anew() {
    let mut fake = FakeHostd::start();
    let (mut child, addresses) = forward(&fake, "9:0 8:0 7:0").await;
    for (address, expected) in [(addresses[0], ""), (addresses[1], "hello\n")] {
        let mut heard = Vec::new();
        // The reset may come while it connects.
        let read = async { TcpStream::connect(address).await?.read_to_end(&mut heard).await }.await;
        assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
        assert!(expected.as_bytes().starts_with(&heard), "{heard:?}");
    }
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = stderr.next_line().await.expect("text").expect("a line");
    assert_eq!(line, "slipway: port 9: nothing listens on port 9");
    // A connection that comes while hostd restarts is served by the new one.
    fake.stop().await;
    let mut stream = TcpStream::connect(addresses[2]).await.expect("connected");
    stream.write_all(b"hi").await.expect("sent");
    fake.serve();
    let mut two = [0; 2];
    stream.read_exact(&mut two).await.expect("read");
    assert_eq!(&two, b"hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_listened_on_is_said_with_what_can() {
    let fake = FakeHostd::start();
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = taken.local_addr().expect("bound").port();
    let ended = run(&fake.data_dir(), &format!("forward web 7:{port}")).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let told = format!(
        "slipway: 127.0.0.1:{port} is in use by another program here\n  next: give another local port, as in `7:"
    );
    assert!(ended.stderr.starts_with(&told), "{}", ended.stderr);
    for (line, code, said) in [
        ("forward web", 2, "PORT[:LOCAL]"),
        ("forward web 900", 2, "hostd's own"),
        ("forward web 7:x", 2, "LOCAL 0 picks a free port"),
        ("forward nope 7", 1, "no sandbox with the id or name"),
        ("forward web 7:0 --bind 203.0.113.1", 1, "could not listen on 203.0.113.1:0"),
    ] {
        let ended = run(&fake.data_dir(), line).await;
        assert!(
            ended.code == Some(code) && ended.stderr.contains(said),
            "{line}: {:?} {}",
            ended.code,
            ended.stderr
        );
    }
}
