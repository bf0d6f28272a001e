//! A first request of a client: a new connection, and the time to the first byte of the response.

use anyhow::{Context, Result, bail, ensure};
use std::time::{Duration, Instant};
use tests::sandbox::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The pause between two polls.
const POLL: Duration = Duration::from_millis(1);
/// A try that is not answered: a proxy may accept for an app that is not there yet.
const TRY_MAX: Duration = Duration::from_secs(2);

/// The status of the answer to `GET /`.
pub async fn get(address: &str, host: &str) -> Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 256];
    let mut read = 0;
    while read < 12 {
        match stream.read(&mut head[read..]).await? {
            0 => bail!("the connection ended before an answer"),
            more => read += more,
        }
    }
    let status = std::str::from_utf8(&head[9..12])?;
    status.parse().with_context(|| format!("no status: {status:?}"))
}

/// Until the first byte of a good answer, asked once.
pub async fn first_byte(address: &str, host: &str) -> Result<Duration> {
    let started = Instant::now();
    let status = timeout(PATIENCE, get(address, host)).await.context("it is never answered")??;
    let time = started.elapsed();
    ensure!(status == 200, "answered {status}");
    Ok(time)
}

/// Asks until there is a good answer.
pub async fn until_it_answers(address: &str, host: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Ok(Ok(200)) = timeout(TRY_MAX, get(address, host)).await {
            return Ok(());
        }
        ensure!(started.elapsed() < PATIENCE, "{address} never answers for {host}");
        sleep(POLL).await;
    }
}
