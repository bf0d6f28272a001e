//! The socket of the fake hostd, and its routes.

use super::{
    API, BAD_TOKEN, MADE, WEB, capacity,
    execs::Execs,
    files::Files,
    tasks::{TaskHttpRequest, Tasks},
    tunnels::Tunnels,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex},
};
use tokio::{
    net::UnixListener,
    task::{JoinHandle, JoinSet},
};

pub type Pieces = Vec<Result<Frame<Bytes>, io::Error>>;
pub type FakeResponse = (u16, Pieces);

pub struct FakeHostd {
    pub execs: Arc<Execs>,
    pub tasks: Arc<Tasks>,
    pub tunnels: Arc<Tunnels>,
    pub files: Arc<Files>,
    tokens: Tokens,
    directory: tempfile::TempDir,
    server: Option<JoinHandle<()>>,
}

/// The `Authorization` of every request.
type Tokens = Arc<Mutex<Vec<Option<String>>>>;

impl FakeHostd {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (execs, tasks, tunnels) = (Arc::default(), Arc::default(), Arc::default());
        let mut fake = Self {
            execs,
            tasks,
            tunnels,
            files: Arc::default(),
            tokens: Arc::default(),
            directory,
            server: None,
        };
        fake.serve();
        fake
    }

    /// Returns the tokens of the requests since the last call.
    pub fn tokens(&self) -> Vec<Option<String>> {
        std::mem::take(&mut self.tokens.lock().expect("not poisoned"))
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub fn serve(&mut self) {
        let listener = UnixListener::bind(self.directory.path().join("hostd.sock")).expect("a socket");
        let (execs, tasks) = (Arc::clone(&self.execs), Arc::clone(&self.tasks));
        let (tunnels, files) = (Arc::clone(&self.tunnels), Arc::clone(&self.files));
        let tokens = Arc::clone(&self.tokens);
        self.server = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (execs, tasks) = (Arc::clone(&execs), Arc::clone(&tasks));
                let (tunnels, files) = (Arc::clone(&tunnels), Arc::clone(&files));
                let tokens = Arc::clone(&tokens);
                let service = service_fn(move |mut request| {
                    let refused = refuse_token(&tokens, &request);
                    let (execs, tasks, files) = (Arc::clone(&execs), Arc::clone(&tasks), Arc::clone(&files));
                    let tunnel = open_tunnel(&tunnels, &mut request);
                    async move {
                        match refused.or(tunnel) {
                            Some(response) => Ok(response),
                            None if Files::is_for(request.uri().path()) => files.answer(request).await,
                            None => answer(execs, tasks, request).await,
                        }
                    }
                });
                let http = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(http.with_upgrades());
            }
        }));
    }

    /// Stops as with kill -9: every connection is dropped.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
        std::fs::remove_file(self.directory.path().join("hostd.sock")).expect("it was there");
    }
}

pub type Body = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, io::Error>> + Send>>>;

/// Records the token of a request, and refuses a bad one.
fn refuse_token(tokens: &Tokens, request: &Request<Incoming>) -> Option<Response<Body>> {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    tokens.lock().expect("not poisoned").push(token.clone());
    (token.as_deref() == Some(BAD_TOKEN))
        .then(|| json_response(401, &error("unauthorized", "the token is not valid")))
}

/// Answers a request for a tunnel.
fn open_tunnel(tunnels: &Arc<Tunnels>, request: &mut Request<Incoming>) -> Option<Response<Body>> {
    let path = request.uri().path().to_owned();
    let port = path.strip_prefix(&format!("/v1/sandboxes/{WEB}/ports/"))?.strip_suffix("/tunnel")?;
    let (status, pieces, accept) = match tunnels.answer(port, request) {
        Ok(accept) => (101, Pieces::new(), Some(accept)),
        Err((status, pieces)) => (status, pieces, None),
    };
    let mut response = Response::builder().status(status);
    if let Some(accept) = accept {
        response = response.header("connection", "Upgrade").header("upgrade", "websocket");
        response = response.header("sec-websocket-accept", accept);
    }
    Some(response.body(StreamBody::new(Box::pin(stream::iter(pieces)) as _)).expect("a response"))
}

async fn answer(
    execs: Arc<Execs>,
    tasks: Arc<Tasks>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let after = head.headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let query = head.uri.query().unwrap_or_default();
    // The socket is the operator's; tokens are those of tenants.
    let is_operator = !head.headers.contains_key("authorization");
    if let Some((status, pieces)) =
        capacity::answer(head.method.as_str(), &path, query, &body).filter(|_| is_operator)
    {
        return Ok(response(status, pieces));
    }
    let (status, pieces) = match (head.method.as_str(), path.as_slice()) {
        ("GET", ["v1", "sandboxes"]) => document(200, &json!({ "items": sandboxes() })),
        ("POST", ["v1", "sandboxes"]) if body.windows(6).any(|text| text == b"\"nope\"") => {
            document(502, &failed_create())
        }
        ("POST", ["v1", "sandboxes"]) => {
            tasks.act("make");
            document(201, &sandbox(MADE, "made"))
        }
        ("DELETE", ["v1", "sandboxes", id]) => {
            tasks.act(format!("destroy {id}"));
            let mut view = sandbox(id, "made");
            view["status"] = json!("destroyed");
            document(200, &view)
        }
        ("GET", ["v1", "sandboxes", WEB, "services"]) => document(200, &json!({ "items": services() })),
        ("GET", ["v1", "sandboxes", WEB]) => document(200, &sandboxes()[0]),
        ("GET", ["v1", "sandboxes", MADE]) => document(200, &sandbox(MADE, "made")),
        (method, ["v1", "sandboxes", id @ (WEB | MADE), "tasks", rest @ ..]) => {
            tasks.answer(method, id, rest, &TaskHttpRequest { body: &body, after }).await
        }
        ("GET", ["healthz"]) => document(200, &json!({ "status": "ok" })),
        ("GET", ["v1", "host"]) => document(403, &error("forbidden", "for the operator")),
        ("GET", ["v1", "agents"]) => document(200, &json!({ "items": agents() })),
        ("GET", ["v1", "events"]) => (200, events(after)),
        (method, ["v1", "sandboxes", WEB, "execs", rest @ ..]) => {
            execs.answer(method, rest, query, &body).await
        }
        _ => document(404, &error("not_found", "no such thing")),
    };
    // hyper sends what it has when it has to wait, and throws it away at an error.
    let pieces = stream::iter(pieces).then(|piece| async {
        tokio::task::yield_now().await;
        piece
    });
    Ok(Response::builder().status(status).body(StreamBody::new(Box::pin(pieces) as _)).expect("a response"))
}

pub fn response(status: u16, pieces: Pieces) -> Response<Body> {
    let body = StreamBody::new(Box::pin(stream::iter(pieces)) as _);
    Response::builder().status(status).body(body).expect("a response")
}

pub fn json_response(status: u16, body: &Value) -> Response<Body> {
    let (status, pieces) = document(status, body);
    response(status, pieces)
}

pub fn document(status: u16, body: &Value) -> FakeResponse {
    (status, vec![Ok(Frame::data(Bytes::from(body.to_string())))])
}

pub fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "retryable": false } })
}

fn failed_create() -> Value {
    let mut body = error("sandbox_failed", "the sandbox did not come up");
    body["error"]["detail"] = json!({ "existing": API, "problem": { "code": "image_missing", "message": "there is no image nope" } });
    body
}

/// The default agent has no model; `unknown` is refused at submit.
fn agents() -> Vec<Value> {
    let agent = |name: &str, connected: bool| {
        json!({ "name": name, "title": name, "speaks": "acp", "default": !connected, "installed": true,
            "dialects": ["anthropic"], "connected": connected })
    };
    vec![agent("opencode", false), agent("ready", true), agent("unknown", true)]
}

fn services() -> Vec<Value> {
    let service = |name: &str| json!({ "name": name, "source": "api", "command": "npm run dev", "state": "starting", "restarts": 0 });
    vec![service("dev"), service("worker")]
}

fn sandboxes() -> Vec<Value> {
    vec![sandbox(WEB, "web"), sandbox(API, "api")]
}

pub fn sandbox(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "tenant": "t", "principal": "p", "project": "default", "status": "running",
        "driver": "oci", "image": "host", "ports": [3000], "previews": { "3000": "http://preview" }, "network": "none",
        "limits": { "memory_mb": 512, "cpus": 1.0, "pids": 256 }, "idle_policy": "sleep", "visibility": "private",
        "env": [], "services": [], "metadata": {}, "attempt": 1, "created_at": "", "updated_at": "" })
}

/// Six events; a connection gets two new ones after one that it already had.
fn events(after: Option<u64>) -> Pieces {
    let first = after.unwrap_or(0).max(1);
    let frame = |seq: u64| {
        let event = json!({ "seq": seq, "time": "2026-11-16T08:00:00.000Z", "sandbox": WEB, "kind": "boot",
            "data": { "number": seq } });
        format!("id: {seq}\nevent: boot\ndata: {event}\n\n")
    };
    let mut pieces: Pieces = (first..first + 3)
        .take_while(|seq| *seq <= 6)
        .map(|seq| Ok(Frame::data(frame(seq).into())))
        .collect();
    pieces.push(Ok(Frame::data(Bytes::from_static(b"id: 99\ndata: {\"seq\": 99, \"ti"))));
    pieces.push(Err(io::ErrorKind::ConnectionReset.into()));
    pieces
}
