//! A registry that answers as a test scripts it. Speaks HTTP/1.1 without TLS: a client that tries TLS is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Method and target.
    pub line: String,
    head: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let find =
            |line: &'_ str| line.split_once(": ").is_some_and(|(own, _)| own.eq_ignore_ascii_case(name));
        self.head
            .lines()
            .find(|line| find(line))
            .and_then(|line| line.split_once(": "))
            .map(|(_, value)| value)
    }
}

#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    end: End,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The connection is closed after so many bytes of the body, though more are announced.
    Dropped(usize),
    /// After so many bytes of the body nothing comes any more; without a number, not even the head.
    Silent(Option<usize>),
    /// The length is not announced.
    Chunked,
}

impl Reply {
    pub fn new(status: u16) -> Self {
        Self { status, headers: vec![], body: vec![], end: End::Whole }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new(200) }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub fn redirect(location: impl Into<String>) -> Self {
        Self::new(307).header("location", location)
    }

    pub fn dropped_after(self, bytes: usize) -> Self {
        Self { end: End::Dropped(bytes), ..self }
    }

    pub fn silent_after(self, bytes: usize) -> Self {
        Self { end: End::Silent(Some(bytes)), ..self }
    }

    pub fn silent() -> Self {
        Self { end: End::Silent(None), ..Self::new(200) }
    }

    pub fn chunked(self) -> Self {
        Self { end: End::Chunked, ..self }
    }

    /// A part of a blob, as the range of a request asks for it.
    pub fn range_of(blob: &[u8], seen: &Seen) -> Self {
        let from = seen.header("range").and_then(|range| range.strip_prefix("bytes="));
        let Some(from) = from.and_then(|range| range.strip_suffix('-')).and_then(|from| from.parse().ok())
        else {
            return Self::ok(blob);
        };
        match blob.get(from..) {
            Some(rest) if !rest.is_empty() => Self { body: rest.to_vec(), ..Self::new(206) }
                .header("content-range", format!("bytes {from}-{}/{}", blob.len() - 1, blob.len())),
            Some(_) | None => Self::new(416),
        }
    }
}

type Script = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

pub struct FakeRegistry {
    pub authority: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl FakeRegistry {
    /// Answers each request with what the script says of it and of the number of requests before it.
    pub async fn start(script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let authority = listener.local_addr().expect("an address").to_string();
        let (seen, script): (Arc<Mutex<Vec<Seen>>>, Arc<Script>) = (Arc::default(), Arc::new(script));
        let served = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served), Arc::clone(&script)));
            }
        });
        Self { authority, seen, serving }
    }

    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// The first lines of all requests.
    pub fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub fn port(&self) -> &str {
        self.authority.rsplit(':').next().expect("a port")
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    all: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Script>,
) -> std::io::Result<()> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await? == 0 || read.first() == Some(&TLS_HANDSHAKE) {
            return Ok(());
        }
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end + 4);
        let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
        let is_head = line.starts_with("HEAD ");
        let seen = Seen { line, head };
        let before = {
            let mut all = lock(&all);
            all.push(seen.clone());
            all.len() - 1
        };
        let reply = script(&seen, before);
        stream.write_all(&bytes(&reply, is_head)).await?;
        if matches!(reply.end, End::Dropped(_)) {
            return Ok(());
        }
    }
}

fn bytes(reply: &Reply, is_head: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Said\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = reply.body.len();
    let (length, body) = match reply.end {
        End::Whole => (format!("content-length: {length}"), reply.body.clone()),
        End::Dropped(after) => (format!("content-length: {length}"), reply.body[..after].to_vec()),
        End::Silent(Some(after)) => (format!("content-length: {length}"), reply.body[..after].to_vec()),
        End::Silent(None) => return vec![],
        End::Chunked => {
            let chunk = [format!("{length:x}\r\n").as_bytes(), &reply.body, b"\r\n0\r\n\r\n"].concat();
            ("transfer-encoding: chunked".to_owned(), chunk)
        }
    };
    head.push_str(&format!("{length}\r\n\r\n"));
    let mut all = head.into_bytes();
    if !is_head {
        all.extend_from_slice(&body);
    }
    all
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
