//! An app whose answers have no end: it writes as long as what it wrote is taken, and holds none of it.

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The word that makes this program the app; an address follows.
pub const WORD: &str = "serve-endless";
/// Where its answer has no end; all others are short.
pub const PATH: &str = "/endless";

static PIECE: [u8; 64 << 10] = [b'e'; 64 << 10];

/// Until it is killed.
pub async fn serve(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut head).await? > 0, "it left");
    }
    let begin = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ";
    if !head.starts_with(format!("GET {PATH} ").as_bytes()) {
        return Ok(stream.write_all(format!("{begin}2\r\n\r\nok").as_bytes()).await?);
    }
    stream.write_all(format!("{begin}{}\r\n\r\n", u64::MAX >> 2).as_bytes()).await?;
    loop {
        stream.write_all(&PIECE).await?;
    }
}
