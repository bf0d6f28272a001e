//! WebSockets that say nothing: what each costs hostd, and what it costs nginx.

use super::ours::Ours;
use super::proxies::{Nginx, Proxy};
use super::target::Target;
use super::upstream::Upstream;
use crate::row::{Goal, Row};
use anyhow::{Context, Result, ensure};
use hostd_edge::limits;
use nix::sys::resource::{Resource, getrlimit};
use tests::sandbox::PATIENCE;
use tests::scaled;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const KB: f64 = 1024.0;
/// As many sandboxes: one of them may have only a part of all connections.
const SANDBOXES: usize = 2;
/// Sockets opened before the measurement, so that one-time allocations are not counted.
const FIRST: usize = 50;
/// Sockets reserved for the check that the app answers.
const SPARE: usize = 32;

pub async fn rows() -> Result<Vec<Row>> {
    let count = scaled(2_000, most()?);
    let ours = Ours::start().await?;
    let targets = [&ours.target, &ours.another().await?];
    let ours_kb = each_kb(&targets, count).await?;
    ours.hostd.stop().await?;
    let upstream = Upstream::start().await?;
    let nginx = Proxy::nginx(Nginx::KeepAlive, &upstream.address).await?;
    let nginx_kb = each_kb(&[&nginx.target; SANDBOXES], count).await?;
    Ok(vec![Row {
        what: format!("memory of one of {count} silent sockets").into(),
        ours: format!("{ours_kb:.1} KB"),
        other: format!("nginx {nginx_kb:.1} KB"),
        ratio: ours_kb / nginx_kb,
        goal: Goal::Shown,
    }])
}

/// As many as hostd takes with the descriptors there are.
fn most() -> Result<usize> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let free = hard.saturating_sub(limits::DESCRIPTORS_KEPT).max(hard / 2);
    Ok(usize::try_from(free / limits::DESCRIPTORS_PER_VISIT)?.saturating_sub(SPARE))
}

/// Memory of the proxy for each of so many, all of which work.
async fn each_kb(targets: &[&Target; SANDBOXES], count: usize) -> Result<f64> {
    let proxy = targets[0];
    let mut sockets = open(targets, FIRST).await?;
    let before = proxy.memory_bytes()?;
    sockets.extend(open(targets, count - FIRST).await?);
    let after = proxy.memory_bytes()?;
    for socket in [0, count / 2, count - 1] {
        echoes(&mut sockets[socket]).await.with_context(|| format!("socket {socket} of {}", proxy.name))?;
    }
    Ok((after - before) / (count - FIRST) as f64 / KB)
}

async fn open(targets: &[&Target; SANDBOXES], count: usize) -> Result<Vec<TcpStream>> {
    let mut sockets = Vec::with_capacity(count);
    for (number, target) in targets.iter().cycle().take(count).enumerate() {
        let opened = timeout(PATIENCE, upgrade(target)).await.context("it is never answered");
        let socket = opened.and_then(|opened| opened);
        sockets.push(socket.with_context(|| format!("socket {number} of {}", target.name))?);
    }
    Ok(sockets)
}

async fn upgrade(target: &Target) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(&target.address).await?;
    let request = format!(
        "GET /socket HTTP/1.1\r\nhost: {}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        target.host
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut head).await? > 0, "{}", String::from_utf8_lossy(&head));
    }
    ensure!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    Ok(stream)
}

async fn echoes(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"still there?").await?;
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.context("nothing comes back")??;
    ensure!(&answer == b"still there?", "{answer:?}");
    Ok(())
}
