//! A scripted provider: each request gets the next of its responses, byte for byte.

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
pub enum Action {
    Send(Vec<u8>),
    /// Waits until the test calls `resume`.
    Wait,
    Close,
    /// Sends nothing and closes nothing until the other side disconnects.
    Hang,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub line: String,
    /// In the order they came, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub struct FakeProvider {
    pub url: String,
    shared: Arc<ProviderInner>,
    _serving: JoinSet<()>,
}

struct ProviderInner {
    replies: Mutex<VecDeque<Vec<Action>>>,
    received: Mutex<Vec<ReceivedRequest>>,
    resume: Notify,
    connections: AtomicUsize,
    /// Notified when the other side has disconnected before the end of a response.
    disconnected: Notify,
}

impl FakeProvider {
    pub async fn start(replies: Vec<Vec<Action>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v9", listener.local_addr().expect("an address"));
        let shared = Arc::new(ProviderInner {
            replies: Mutex::new(replies.into()),
            received: Mutex::default(),
            resume: Notify::new(),
            connections: AtomicUsize::new(0),
            disconnected: Notify::new(),
        });
        let mut serving = JoinSet::new();
        let here = shared.clone();
        serving.spawn(async move {
            let mut talks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                here.connections.fetch_add(1, Ordering::SeqCst);
                talks.spawn(serve_connection(stream, here.clone()));
            }
        });
        Self { url, shared, _serving: serving }
    }

    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.received.lock().expect("mine").clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Continues a response that waits.
    pub fn resume(&self) {
        self.shared.resume.notify_one();
    }

    /// Waits until a request has come.
    pub fn request_received(&self) -> impl Future<Output = ()> + use<> {
        let shared = self.shared.clone();
        async move {
            while shared.received.lock().expect("mine").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    pub async fn disconnected(&self) {
        self.shared.disconnected.notified().await;
    }
}

async fn serve_connection(mut stream: TcpStream, shared: Arc<ProviderInner>) {
    stream.set_nodelay(true).expect("an option");
    while let Some(received) = read(&mut stream).await {
        shared.received.lock().expect("mine").push(received);
        let reply = shared.replies.lock().expect("mine").pop_front();
        for action in reply.expect("a reply for each request") {
            match action {
                Action::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        shared.disconnected.notify_one();
                        return;
                    }
                }
                Action::Wait => shared.resume.notified().await,
                Action::Close => return,
                Action::Hang => {
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest).await;
                    shared.disconnected.notify_one();
                    return;
                }
            }
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
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
    Some(ReceivedRequest { line, headers, body: String::from_utf8(body).expect("text") })
}

/// A response with a content length.
pub fn whole(status: &str, headers: &str, body: &str) -> Vec<Action> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![Action::Send(head.into_bytes())]
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub fn send(text: &str) -> Action {
    Action::Send(text.as_bytes().to_vec())
}

pub fn chunk(text: &str) -> Action {
    Action::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub fn last_chunk() -> Action {
    send("0\r\n\r\n")
}

/// A stream of events, each in its own chunk.
pub fn stream(events: &[&str]) -> Vec<Action> {
    let mut actions = vec![send(STREAM_HEAD)];
    actions.extend(events.iter().map(|event| chunk(event)));
    actions.push(last_chunk());
    actions
}
