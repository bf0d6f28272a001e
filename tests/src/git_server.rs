//! A git server on loopback: `git http-backend` behind HTTP, with a credential, redirects and a gate at which a request
//! can be held.

use crate::git_repository::BareRepository;
use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub const REPOSITORY: &str = "team/app.git";

/// A server with one repository, which everyone with the credential may read and write.
pub struct GitServer {
    _dir: tempfile::TempDir,
    repository: BareRepository,
    authority: String,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    root: PathBuf,
    controls: Mutex<Controls>,
    /// Whether calls wait.
    held: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

#[derive(Default)]
struct Controls {
    /// `user:password`; without it nobody needs one.
    credential: Option<String>,
    redirect: Option<String>,
    heard: Vec<HeardRequest>,
}

/// A request as the server got it.
#[derive(Debug, Clone)]
pub struct HeardRequest {
    pub target: String,
    /// `user:password`.
    pub credential: Option<String>,
}

impl GitServer {
    pub async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let repository = BareRepository::create(dir.path().join(REPOSITORY))?;
        repository.configure("http.receivepack", "true")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = listener.local_addr()?.to_string();
        let state = Arc::new(State { root: dir.path().to_owned(), ..State::default() });
        let serving = tokio::spawn(serve(listener, state.clone()));
        Ok(Self { _dir: dir, repository, authority, state, serving })
    }

    pub fn url(&self) -> String {
        format!("http://{}/{REPOSITORY}", self.authority)
    }

    /// The name of the secret with its credential.
    pub fn secret(&self) -> String {
        format!("git.{}", self.authority.replace(':', "_"))
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The repository on disk.
    pub fn repository(&self) -> PathBuf {
        self.repository.path().to_owned()
    }

    pub fn set_credential(&self, credential: Option<&str>) {
        self.controls().credential = credential.map(str::to_owned);
    }

    /// Redirects every request for refs to this address.
    pub fn set_redirect(&self, to: Option<&str>) {
        self.controls().redirect = to.map(str::to_owned);
    }

    pub fn heard(&self) -> Vec<HeardRequest> {
        self.controls().heard.clone()
    }

    /// Lets calls wait, until `release`.
    pub fn hold(&self) {
        self.state.held.send_replace(true);
    }

    pub fn release(&self) {
        self.state.held.send_replace(false);
    }

    /// Waits until a call is held.
    pub async fn until_held(&self) -> Result<()> {
        self.state.waiting.subscribe().wait_for(|waiting| *waiting > 0).await?;
        Ok(())
    }

    /// The commit of a branch.
    pub fn commit(&self, branch: &str) -> Result<Option<String>> {
        self.repository.commit(branch)
    }

    /// Adds a commit with one file to a branch.
    pub fn add_commit(&self, branch: &str, file: &str, content: &str) -> Result<String> {
        self.repository.add_commit(branch, file, content)
    }

    /// Runs git in the repository.
    pub fn run(&self, args: &[&str]) -> Result<()> {
        self.repository.run(args)
    }

    /// Puts a branch on a commit whose header is written as it is, faults included.
    pub fn add_raw_commit(&self, branch: &str, header: &str) -> Result<()> {
        self.repository.add_raw_commit(branch, header)
    }

    fn controls(&self) -> std::sync::MutexGuard<'_, Controls> {
        self.state.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(state.clone(), request));
            // A client may go away at any time.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| BASE64_STANDARD.decode(value.strip_prefix("Basic ")?).ok());
    let given = given.and_then(|bytes| String::from_utf8(bytes).ok());
    let target = request.uri().to_string();
    let is_call = request.method() == hyper::Method::POST;
    if is_call {
        let mut held = state.held.subscribe();
        state.waiting.send_modify(|waiting| *waiting += 1);
        held.wait_for(|held| !*held).await?;
        state.waiting.send_modify(|waiting| *waiting -= 1);
    }
    let (wanted, redirect) = {
        let mut controls = state.controls.lock().unwrap_or_else(PoisonError::into_inner);
        controls.heard.push(HeardRequest { target: target.clone(), credential: given.clone() });
        (controls.credential.clone(), controls.redirect.clone())
    };
    if let (Some(to), false) = (redirect, is_call) {
        let query = request.uri().query().unwrap_or_default();
        let mut response = status(StatusCode::MOVED_PERMANENTLY);
        response.headers_mut().insert(LOCATION, HeaderValue::from_str(&format!("{to}/info/refs?{query}"))?);
        return Ok(response);
    }
    if wanted.is_some() && wanted != given {
        return Ok(status(StatusCode::UNAUTHORIZED));
    }
    backend(&state.root, request).await
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"from the server")));
    *response.status_mut() = status;
    response
}

/// Runs `git http-backend` as a CGI program.
async fn backend(root: &Path, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let header =
        |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "someone")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header(CONTENT_TYPE))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header(CONTENT_ENCODING))
        .env("HTTP_GIT_PROTOCOL", header(HeaderName::from_static("git-protocol")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("an input")?;
    let feed = async move {
        // It may answer before it has read everything.
        let _ = stdin.write_all(&body).await;
        drop(stdin);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output?.stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").context("a head")?;
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(&output[end + 4..])));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            *response.status_mut() = value.split(' ').next().unwrap_or_default().parse()?;
        } else {
            response
                .headers_mut()
                .insert(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
        }
    }
    Ok(response)
}
