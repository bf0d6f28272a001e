//! Stands between hostd and an engine, passes everything on, and remembers what was asked.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tests::Client;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// hostd looks at what happened some hundredths of a second after it was told.
const QUIET: Duration = Duration::from_millis(500);

pub struct Relay {
    socket: PathBuf,
    heard: Arc<Mutex<RequestCount>>,
    accepting: JoinHandle<()>,
    _dir: TempDir,
}

#[derive(Default)]
struct RequestCount {
    /// The first lines of all requests.
    asked: Vec<String>,
    made: Option<Creation>,
}

/// How a container was asked for.
#[derive(Clone)]
pub struct Creation {
    pub path: String,
    pub body: Bytes,
}

impl Relay {
    pub fn start(engine: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bench-relay-").tempdir_in("/var/tmp")?;
        let socket = dir.path().join("sock");
        let listener = UnixListener::bind(&socket)?;
        let heard = Arc::new(Mutex::new(RequestCount::default()));
        let accepting = tokio::spawn(accept(listener, Client::new(engine.to_owned()), Arc::clone(&heard)));
        Ok(Self { socket, heard, accepting, _dir: dir })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        lock(&self.heard).asked.len()
    }

    /// Until nothing was asked for a while.
    pub async fn quiet(&self) {
        let mut before = None;
        while before != Some(self.count()) {
            before = Some(self.count());
            tokio::time::sleep(QUIET).await;
        }
    }

    /// The first lines of those after so many.
    pub fn since(&self, count: usize) -> Vec<String> {
        lock(&self.heard).asked.iter().skip(count).cloned().collect()
    }

    /// The container that was asked for last.
    pub fn made_last(&self) -> Result<Creation> {
        lock(&self.heard).made.clone().context("no container was asked for")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: UnixListener, engine: Client, heard: Arc<Mutex<RequestCount>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (engine, heard) = (engine.clone(), Arc::clone(&heard));
        let service = service_fn(move |request| pass(engine.clone(), Arc::clone(&heard), request));
        // Ends when either side hangs up.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn pass(
    engine: Client,
    heard: Arc<Mutex<RequestCount>>,
    request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    let (head, body) = request.into_parts();
    let path = head.uri.to_string();
    lock(&heard).asked.push(format!("{} {path}", head.method));
    let body = if path.contains("/containers/create?") {
        let body = body.collect().await?.to_bytes();
        lock(&heard).made = Some(Creation { path, body: body.clone() });
        Full::new(body).map_err(|never| match never {}).boxed()
    } else {
        body.boxed()
    };
    engine.open(Request::from_parts(head, body)).await
}

fn lock(heard: &Mutex<RequestCount>) -> MutexGuard<'_, RequestCount> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
