//! A provider that does as it is told: each request gets the next of its replies, byte for byte.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

#[derive(Debug, Clone)]
pub enum Act {
    Say(Vec<u8>),
    /// Until the test says so.
    Wait,
    Close,
    /// Neither says nor closes anything; until the other side does.
    Hang,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub line: String,
    /// As they came, in lower case names.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub struct Provider {
    pub url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    replies: Mutex<VecDeque<Vec<Act>>>,
    asked: Mutex<Vec<Asked>>,
    go: Notify,
    connections: AtomicUsize,
    /// Connections that the other side has closed while something was to come.
    left: Notify,
}

impl Provider {
    pub async fn start(replies: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v9", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into()),
            asked: Mutex::default(),
            go: Notify::new(),
            connections: AtomicUsize::new(0),
            left: Notify::new(),
        });
        let mut serving = JoinSet::new();
        let here = shared.clone();
        serving.spawn(async move {
            let mut talks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                here.connections.fetch_add(1, Ordering::SeqCst);
                talks.spawn(talk(stream, here.clone()));
            }
        });
        Self { url, shared, _serving: serving }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().expect("mine").clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The one who waits goes on.
    pub fn go(&self) {
        self.shared.go.notify_one();
    }

    /// Waits until it has a request.
    pub fn was_asked(&self) -> impl Future<Output = ()> + use<> {
        let shared = self.shared.clone();
        async move {
            while shared.asked.lock().expect("mine").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    pub async fn left(&self) {
        self.shared.left.notified().await;
    }
}

async fn talk(mut stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("an option");
    while let Some(asked) = read(&mut stream).await {
        shared.asked.lock().expect("mine").push(asked);
        let reply = shared.replies.lock().expect("mine").pop_front();
        for act in reply.expect("a reply for each request") {
            match act {
                Act::Say(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        shared.left.notify_one();
                        return;
                    }
                }
                Act::Wait => shared.go.notified().await,
                Act::Close => return,
                Act::Hang => {
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest).await;
                    shared.left.notify_one();
                    return;
                }
            }
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let mut lines = head.split("\r\n");
    let line = lines.next().expect("a line").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let length: usize = length.parse().expect("a number");
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Asked { line, headers, body: String::from_utf8(body).expect("text") })
}

/// An answer with its length.
pub fn whole(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![Act::Say(head.into_bytes())]
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub fn say(text: &str) -> Act {
    Act::Say(text.as_bytes().to_vec())
}

pub fn chunk(text: &str) -> Act {
    Act::Say(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub fn last_chunk() -> Act {
    say("0\r\n\r\n")
}

/// A stream of events, each a chunk of its own.
pub fn stream(events: &[&str]) -> Vec<Act> {
    let mut acts = vec![say(STREAM_HEAD)];
    acts.extend(events.iter().map(|event| chunk(event)));
    acts.push(last_chunk());
    acts
}
