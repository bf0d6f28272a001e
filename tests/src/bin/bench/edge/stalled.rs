//! Readers of an endless answer that read nothing: what each costs hostd, and what is left of that when they have gone.

use super::endless;
use super::ours::Ours;
use super::target::Target;
use crate::row::{Goal, Row};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tests::host::PAUSE;
use tests::sandbox::PATIENCE;
use tests::scaled;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const KB: f64 = 1024.0;
const EACH_MAX_KB: f64 = 64.0;
/// hostd's memory when they have gone, by what it was before they came.
const LEFT_MAX: f64 = 1.5;
/// Readers started before the measurement, so that one-time allocations are not counted.
const FIRST: usize = 50;
/// Takes less of the kernel's memory, and the app is stopped sooner.
const RECEIVE_BUFFER_BYTES: u32 = 8 << 10;
/// How long the memory must be the same to be taken for what it comes to.
const STILL: Duration = Duration::from_secs(2);
/// How long hostd may take to give it back.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(30);

pub async fn rows() -> Result<Vec<Row>> {
    let count = scaled(1_000, 3_000);
    let ours = Ours::start_app(endless::WORD).await?;
    let target = &ours.target;
    let first = stalled(target, FIRST).await?;
    let before = settled(target).await?;
    let readers = stalled(target, count).await?;
    let during = settled(target).await?;
    drop((first, readers));
    let after = given_back(target, before * LEFT_MAX).await?;
    ours.hostd.stop().await?;
    let each_kb = (during - before) / count as f64 / KB;
    let megabytes = |bytes: f64| format!("{:.1} MB", bytes / KB / KB);
    Ok(vec![
        Row {
            what: format!("memory of one of {count} stalled readers").into(),
            ours: format!("{each_kb:.1} KB"),
            other: format!("{EACH_MAX_KB:.0} KB"),
            ratio: each_kb / EACH_MAX_KB,
            goal: Goal::AtMost(1.0),
        },
        Row {
            what: "  hostd's memory when they have gone".into(),
            ours: megabytes(after),
            other: format!("before they came {}", megabytes(before)),
            ratio: after / before,
            goal: Goal::AtMost(LEFT_MAX),
        },
    ])
}

/// So many, each of which has the head of its answer.
async fn stalled(target: &Target, count: usize) -> Result<Vec<TcpStream>> {
    let mut readers = Vec::with_capacity(count);
    for number in 0..count {
        let begun = timeout(PATIENCE, stall(target)).await.context("it is never answered");
        readers.push(begun.and_then(|begun| begun).with_context(|| format!("reader {number}"))?);
    }
    Ok(readers)
}

async fn stall(target: &Target) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    let mut stream = socket.connect(target.address.parse()?).await?;
    let request = format!("GET {} HTTP/1.1\r\nhost: {}\r\n\r\n", endless::PATH, target.host);
    stream.write_all(request.as_bytes()).await?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await?;
    ensure!(&begin == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&begin));
    Ok(stream)
}

/// Its memory, once it changes no more.
async fn settled(target: &Target) -> Result<f64> {
    let (mut largest, mut since) = (target.memory_bytes()?, Instant::now());
    while since.elapsed() < STILL {
        sleep(PAUSE).await;
        let now = target.memory_bytes()?;
        if now > largest {
            (largest, since) = (now, Instant::now());
        }
    }
    Ok(largest)
}

/// Its memory when it is as small as wanted, or does not become so.
async fn given_back(target: &Target, wanted: f64) -> Result<f64> {
    let deadline = Instant::now() + GIVEN_BACK_MAX;
    loop {
        let now = target.memory_bytes()?;
        if now <= wanted || Instant::now() > deadline {
            return Ok(now);
        }
        sleep(PAUSE).await;
    }
}
