//! 1 KB read and written on a kept connection, against the system calls that do it.

use super::Fixture;
use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, HOST},
};
use hyper_util::rt::TokioIo;
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::{Duration, Instant},
};
use tests::scaled;
use tokio::net::TcpStream;

const CONTENT: [u8; 1024] = [b'x'; 1024];
/// Each write is made durable on both sides, which is most of its time.
const WRITE_MAX: f64 = 3.0;

struct Client<'a> {
    fixture: &'a Fixture,
    sender: SendRequest<Full<Bytes>>,
}

impl<'a> Client<'a> {
    async fn connect(fixture: &'a Fixture) -> Result<Self> {
        let stream = TcpStream::connect(fixture.address()).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { fixture, sender })
    }

    async fn time(&mut self, method: &Method, body: &'static [u8]) -> Result<Duration> {
        let files = &self.fixture.files;
        let request = Request::builder()
            .method(method)
            .uri(files.path("content?path=small"))
            .header(HOST, self.fixture.address())
            .header(AUTHORIZATION, format!("Bearer {}", files.token().context("a token")?))
            .body(Full::new(Bytes::from_static(body)))?;
        self.sender.ready().await?;
        let started = Instant::now();
        let response = self.sender.send_request(request).await?;
        ensure!(response.status().is_success(), "{}", response.status());
        response.into_body().collect().await?;
        Ok(started.elapsed())
    }
}

pub async fn rows(fixture: &Fixture) -> Result<Vec<Row>> {
    let mut client = Client::connect(fixture).await?;
    let local = fixture.workspace().join("local");
    let (mut reads, mut writes) = ((vec![], vec![]), (vec![], vec![]));
    for _ in 0..scaled(300, 2_000) {
        writes.0.push(client.time(&Method::PUT, &CONTENT).await?);
        writes.1.push(write_locally(&local)?);
        reads.0.push(client.time(&Method::GET, b"").await?);
        reads.1.push(read_locally(&local)?);
    }
    let row = |what: &'static str, (ours, other), goal| {
        let (ours, other) = (median(ours), median(other));
        Row {
            what: what.into(),
            ours: ms(ours),
            other: format!("the system calls {}", ms(other)),
            ratio: ratio(ours, other),
            goal,
        }
    };
    Ok(vec![
        row("file of 1 KB, read", reads, Goal::Shown),
        row("file of 1 KB, written", writes, Goal::AtMost(WRITE_MAX)),
    ])
}

fn read_locally(path: &Path) -> Result<Duration> {
    let started = Instant::now();
    ensure!(fs::read(path)? == CONTENT);
    Ok(started.elapsed())
}

fn write_locally(path: &Path) -> Result<Duration> {
    let started = Instant::now();
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&CONTENT)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    Ok(started.elapsed())
}
