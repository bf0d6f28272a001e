//! An engine for tests that sends scripted responses.

use super::Engine;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

const VERSION: &str = r#"{"Version":"1","ApiVersion":"1.41","MinAPIVersion":"1.12"}"#;

/// Scripted reaction to a request.
pub enum FakeReply {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes and keeps the connection open, silent.
    Hang(Vec<u8>),
}

/// A Unix socket server with scripted responses; it answers `/version` by itself.
pub struct FakeEngine {
    pub dir: TempDir,
    pub engine: Engine,
    /// The first line of every request, in order.
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeEngine {
    pub fn new(reply: impl Fn(&str) -> FakeReply + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let requests = Arc::new(Mutex::new(vec![]));
        let (received, reply) = (requests.clone(), Arc::new(reply));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, received.clone(), reply.clone()));
            }
        });
        Self { dir, engine: Engine::at(&socket), requests }
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: UnixStream,
    requests: Arc<Mutex<Vec<String>>>,
    reply: Arc<impl Fn(&str) -> FakeReply + Send + Sync + 'static>,
) {
    let mut head = vec![];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    requests.lock().unwrap().push(line.clone());
    let reply = if line == "GET /version" { ok(VERSION) } else { reply(&line) };
    // The client may have disconnected already.
    match reply {
        FakeReply::Bytes(bytes) => drop(stream.write_all(&bytes).await),
        FakeReply::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }
    }
}

pub fn response(status: &str, body: &str) -> FakeReply {
    let length = body.len();
    FakeReply::Bytes(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes())
}

pub fn ok(body: &str) -> FakeReply {
    response("200 OK", body)
}

/// The beginning of a response in chunked transfer encoding.
pub fn chunked(lines: &[&str]) -> Vec<u8> {
    let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for line in lines {
        out.extend(format!("{:x}\r\n{line}\r\n", line.len()).bytes());
    }
    out
}

pub fn end_chunked(mut chunked: Vec<u8>) -> FakeReply {
    chunked.extend(b"0\r\n\r\n");
    FakeReply::Bytes(chunked)
}
