//! The listeners inside one sandbox and the connections they accepted, all owned by one task.
//!
//! ```text
//!  open ──▶ listen ──▶ accept ──▶ serve_connection (within its permit and time) ──▶ a tunnel, if it becomes one
//!             ▲  │ port in use, or namespace not there yet
//!             └──┘ retried with backoff
//! ```
//!
//! Every socket here keeps the network namespace of the sandbox alive, so all of them end with the
//! `InsideListener`.

use super::{
    connection_limits::{ConnectionLimits, SharedPermits},
    limits,
    respond::{AfterHttp, RequestContext, respond},
    status::ServedSandbox,
};
use crate::git::{GitGateway, is_plain_git};
use hostd_core::Previews;
use hostd_edge::egress::Egress;
use hostd_models::gateway::{CancelWithTask, Gateway};
use hostd_net::{
    backpressure::{SourceWindow, Transfer, WindowBody, WindowIo, WriteWindow},
    connection_threads::ConnectionThreads,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{HOSTD_PORT_IN_SANDBOX, api::SandboxId};
use std::{
    convert::Infallible,
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, error, info, warn};

/// The services that are served inside all sandboxes.
#[derive(Clone)]
pub struct InsideServer {
    previews: Arc<Previews>,
    gateway: Gateway,
    git: GitGateway,
    egress: Egress,
    shared: SharedPermits,
    threads: Option<ConnectionThreads>,
}

/// Keeps the listeners of one sandbox open; they close when this is dropped.
pub struct InsideListener {
    _until: DropGuard,
    opened: watch::Receiver<bool>,
}

impl InsideServer {
    pub fn new(previews: Previews, gateway: Gateway, git: GitGateway, egress: Egress) -> Self {
        Self {
            previews: Arc::new(previews),
            gateway,
            git,
            egress,
            shared: SharedPermits::of_this_host(),
            threads: None,
        }
    }

    /// The way of sandboxes to repositories.
    pub fn git(&self) -> &GitGateway {
        &self.git
    }

    /// Serves connections on these threads instead of on the runtime that accepts them.
    pub fn served_by(self, threads: ConnectionThreads) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Opens the listeners of one sandbox. Returns their handle and the future that serves them, which runs
    /// until the handle is dropped or `stop` is cancelled.
    pub fn open(
        &self,
        sandbox: ServedSandbox,
        stop: &CancellationToken,
    ) -> (InsideListener, impl Future<Output = ()> + Send + use<>) {
        let until = stop.child_token();
        let (open, opened) = watch::channel(false);
        let context = RequestContext {
            passage: self.egress.sandbox_egress(sandbox.watch()),
            sandbox: Arc::new(sandbox),
            previews: self.previews.clone(),
            rate: Arc::default(),
            gateway: self.gateway.clone(),
            git: self.git.clone(),
            egress: self.egress.clone(),
        };
        let (permits, threads) = (ConnectionLimits::new(self.shared.clone()), self.threads.clone());
        let task = ListenerTask { context, permits, open, threads };
        let listener = InsideListener { _until: until.clone().drop_guard(), opened };
        let serve = async move {
            // Safe to cancel: connections end with it, which is intended.
            tokio::select! {
                () = until.cancelled() => {}
                () = task.serve() => {}
            }
        };
        (listener, serve)
    }
}

impl InsideListener {
    /// Waits, for a limited time, until connections from inside are accepted.
    pub fn opened(&self) -> impl Future<Output = ()> + use<> {
        let mut opened = self.opened.clone();
        async move {
            let wait = opened.wait_for(|open| *open);
            // Neither a timeout nor a closed channel keeps the sandbox from coming up.
            let _ = timeout(Duration::from_millis(limits::OPEN_WAIT_MAX_MS), wait).await;
        }
    }
}

struct ListenerTask {
    context: RequestContext,
    permits: ConnectionLimits,
    open: watch::Sender<bool>,
    threads: Option<ConnectionThreads>,
}

struct Listeners {
    four: TcpListener,
    six: Option<TcpListener>,
}

impl ListenerTask {
    async fn serve(self) {
        let sandbox = self.context.sandbox.id();
        let mut pause_ms = limits::AGAIN_MIN_MS;
        let listeners = loop {
            match self.listen(&sandbox).await {
                Ok(listeners) => break listeners,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return debug!(%sandbox, "driver cannot listen inside sandboxes");
                }
                Err(error) => {
                    warn!(%sandbox, %error, pause_ms, "failed to listen inside the sandbox; retrying");
                }
            }
            sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(limits::AGAIN_MAX_MS);
        };
        if pause_ms > limits::AGAIN_MIN_MS {
            info!(%sandbox, "listening inside the sandbox after retries");
        }
        self.open.send_replace(true);
        self.accept(&sandbox, &listeners).await;
    }

    async fn listen(&self, sandbox: &SandboxId) -> io::Result<Listeners> {
        let at = |ip: IpAddr| self.context.sandbox.driver.listen(sandbox, (ip, HOSTD_PORT_IN_SANDBOX).into());
        let four = at(Ipv4Addr::LOCALHOST.into()).await?;
        let six = match at(Ipv6Addr::LOCALHOST.into()).await {
            Ok(six) => Some(six),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // The kernel or the namespace is without IPv6.
            Err(error) => {
                debug!(%sandbox, %error, "not listening on IPv6 inside the sandbox");
                None
            }
        };
        Ok(Listeners { four, six })
    }

    async fn accept(&self, sandbox: &SandboxId, listeners: &Listeners) {
        let mut connections = JoinSet::new();
        loop {
            let arrived = async { (self.permits.take().await, listeners.next().await) };
            let (permit, accepted) = tokio::select! {
                // Nothing is lost when the other branch is first: a permit is returned, and a connection that
                // is not accepted waits in the kernel.
                arrived = arrived => arrived,
                Some(ended) = connections.join_next() => {
                    report(sandbox, ended);
                    continue;
                }
            };
            match accepted {
                Ok(stream) => {
                    let context = self.context.clone();
                    let served = async move {
                        match TcpStream::from_std(stream) {
                            Ok(stream) => serve_connection(stream, context).await,
                            Err(error) => debug!(%error, "failed to register a connection from inside"),
                        }
                        drop(permit);
                    };
                    match &self.threads {
                        Some(threads) => threads.spawn(&mut connections, served),
                        None => drop(connections.spawn(served)),
                    }
                }
                Err(error) => {
                    debug!(%sandbox, %error, "failed to accept a connection from inside");
                    sleep(Duration::from_millis(limits::ACCEPT_PAUSE_MS)).await;
                }
            }
        }
    }
}

impl Listeners {
    /// Accepts a connection and deregisters it from this thread; the thread that serves it registers it
    /// again.
    async fn next(&self) -> io::Result<std::net::TcpStream> {
        let six = async {
            match &self.six {
                Some(six) => six.accept().await,
                None => pending().await,
            }
        };
        let (stream, _) = tokio::select! {
            // A connection is accepted or still in the kernel's queue.
            accepted = self.four.accept() => accepted?,
            accepted = six => accepted?,
        };
        stream.set_nodelay(true)?;
        stream.into_std()
    }
}

async fn serve_connection(stream: TcpStream, context: RequestContext) {
    let head_max = Duration::from_millis(limits::HEAD_MAX_MS);
    let mut first = [0];
    match timeout(head_max, stream.peek(&mut first)).await {
        Ok(Ok(1..)) if is_plain_git(first[0]) => {
            return context.git.serve_plain(&context.passage, stream, head_max).await;
        }
        Ok(Ok(_)) => serve_http(stream, context).await,
        // No request came.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_http(stream: TcpStream, context: RequestContext) {
    let after = AfterHttp::default();
    let then = after.clone();
    let cancel_with_task = CancelWithTask::default();
    let ties = cancel_with_task.clone();
    let window = Arc::<WriteWindow>::default();
    let of_bodies = window.clone();
    let service = service_fn(move |request| {
        let answered = respond(context.clone(), (after.clone(), ties.clone()), request);
        let window = of_bodies.clone();
        async move {
            let mut response = answered.await?;
            let source = response.extensions_mut().remove::<SourceWindow>().map(|source| source.0);
            let transfer = Transfer::new(source, window);
            Ok::<_, Infallible>(response.map(|body| WindowBody::new(body, transfer)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_MAX_MS))
        .max_header_size(limits::HEAD_MAX_BYTES)
        .max_headers(limits::HEADERS_MAX)
        .serve_connection(TokioIo::new(WindowIo::new(stream, window)), service)
        .with_upgrades();
    let mut connection = Box::pin(connection);
    let over = Duration::from_millis(limits::CONNECTION_MAX_MS);
    let served = async move {
        match timeout(over, connection.as_mut()).await {
            Ok(ended) => ended,
            Err(_) => {
                connection.as_mut().graceful_shutdown();
                let last = Duration::from_millis(limits::LAST_RESPONSE_MAX_MS);
                timeout(last, connection).await.unwrap_or(Ok(()))
            }
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        // The call on it is of a task that is over: it ends wherever it is, and is reported so.
        () = cancel_with_task.cancelled() => return,
    };
    match (ended, then.take()) {
        // A tunnel keeps the permit of its connection.
        (Ok(()), Some(then)) => then.await,
        (Ok(()), None) => {}
        (Err(error), _) => debug!(%error, "connection from inside ended with an error"),
    }
}

fn report(sandbox: &SandboxId, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%sandbox, %error, "handler of a connection from inside panicked");
    }
}
