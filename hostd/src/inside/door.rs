//! The listeners inside one sandbox and the connections they accepted, all owned by one task.
//!
//! ```text
//!  open ──▶ listen ──▶ accept ──▶ talk (each within its place and its time) ──▶ a tunnel, if it becomes one
//!             ▲  │ taken, or not there yet
//!             └──┘ again, later each time
//! ```
//!
//! Every socket here keeps the network namespace of the sandbox alive, so all of them end with the `Door`.

use super::{
    answer::{After, Here, answer},
    limits,
    places::{Places, Shared},
    status::Guest,
};
use crate::{
    backpressure::{Source, Transfer, WindowBody, WindowIo, WriteWindow},
    core::Previews,
    crew::Crew,
    egress::Egress,
    gateway::{Gateway, Leash},
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

/// What is offered to all sandboxes.
#[derive(Clone)]
pub struct Inside {
    previews: Arc<Previews>,
    gateway: Gateway,
    egress: Egress,
    shared: Shared,
    crew: Option<Crew>,
}

/// Open while this lives.
pub struct Door {
    _until: DropGuard,
    opened: watch::Receiver<bool>,
}

impl Inside {
    pub fn new(previews: Previews, gateway: Gateway, egress: Egress) -> Self {
        Self { previews: Arc::new(previews), gateway, egress, shared: Shared::of_this_host(), crew: None }
    }

    /// Connections are served by these threads instead of by whoever accepts them.
    pub fn served_by(self, crew: Crew) -> Self {
        Self { crew: Some(crew), ..self }
    }

    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// The door of one sandbox, and what must run to serve it: until the door is dropped, or all end.
    pub fn open(
        &self,
        guest: Guest,
        stop: &CancellationToken,
    ) -> (Door, impl Future<Output = ()> + Send + use<>) {
        let until = stop.child_token();
        let (open, opened) = watch::channel(false);
        let here = Here {
            passage: self.egress.passage(guest.watch()),
            guest: Arc::new(guest),
            previews: self.previews.clone(),
            pace: Arc::default(),
            gateway: self.gateway.clone(),
            egress: self.egress.clone(),
        };
        let (places, crew) = (Places::new(self.shared.clone()), self.crew.clone());
        let doorman = Doorman { here, places, open, crew };
        let door = Door { _until: until.clone().drop_guard(), opened };
        let serve = async move {
            // Safe to cut off: connections end with it, which is what is wanted.
            tokio::select! {
                () = until.cancelled() => {}
                () = doorman.serve() => {}
            }
        };
        (door, serve)
    }
}

impl Door {
    /// Waits, not for ever, until somebody inside would be answered.
    pub fn opened(&self) -> impl Future<Output = ()> + use<> {
        let mut opened = self.opened.clone();
        async move {
            let wait = opened.wait_for(|open| *open);
            // Neither is worth more than the sandbox: it comes up all the same.
            let _ = timeout(Duration::from_millis(limits::OPEN_WAIT_MAX_MS), wait).await;
        }
    }
}

struct Doorman {
    here: Here,
    places: Places,
    open: watch::Sender<bool>,
    crew: Option<Crew>,
}

struct Listeners {
    four: TcpListener,
    six: Option<TcpListener>,
}

impl Doorman {
    async fn serve(self) {
        let sandbox = self.here.guest.id();
        let mut pause_ms = limits::AGAIN_MIN_MS;
        let listeners = loop {
            match self.listen(&sandbox).await {
                Ok(listeners) => break listeners,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return debug!(%sandbox, "its driver cannot listen inside");
                }
                Err(error) => warn!(%sandbox, %error, pause_ms, "could not listen inside; trying again"),
            }
            sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(limits::AGAIN_MAX_MS);
        };
        if pause_ms > limits::AGAIN_MIN_MS {
            info!(%sandbox, "listens inside now");
        }
        self.open.send_replace(true);
        self.accept(&sandbox, &listeners).await;
    }

    async fn listen(&self, sandbox: &SandboxId) -> io::Result<Listeners> {
        let at = |ip: IpAddr| self.here.guest.driver.listen(sandbox, (ip, HOSTD_PORT_IN_SANDBOX).into());
        let four = at(Ipv4Addr::LOCALHOST.into()).await?;
        let six = match at(Ipv6Addr::LOCALHOST.into()).await {
            Ok(six) => Some(six),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // Without IPv6, of the kernel or of the namespace.
            Err(error) => {
                debug!(%sandbox, %error, "does not listen on IPv6 inside");
                None
            }
        };
        Ok(Listeners { four, six })
    }

    async fn accept(&self, sandbox: &SandboxId, listeners: &Listeners) {
        let mut connections = JoinSet::new();
        loop {
            let arrived = async { (self.places.take().await, listeners.next().await) };
            let (place, accepted) = tokio::select! {
                // Nothing is lost when the other is first: a place is given back, and a connection that is
                // not accepted waits in the kernel.
                arrived = arrived => arrived,
                Some(ended) = connections.join_next() => {
                    report(sandbox, ended);
                    continue;
                }
            };
            match accepted {
                Ok(stream) => {
                    let here = self.here.clone();
                    let served = async move {
                        match TcpStream::from_std(stream) {
                            Ok(stream) => talk(stream, here).await,
                            Err(error) => debug!(%error, "could not take up a connection from inside"),
                        }
                        drop(place);
                    };
                    match &self.crew {
                        Some(crew) => crew.spawn(&mut connections, served),
                        None => drop(connections.spawn(served)),
                    }
                }
                Err(error) => {
                    debug!(%sandbox, %error, "could not accept a connection from inside");
                    sleep(Duration::from_millis(limits::ACCEPT_PAUSE_MS)).await;
                }
            }
        }
    }
}

impl Listeners {
    /// Lets go of this thread, and is taken up by the one that serves it.
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

async fn talk(stream: TcpStream, here: Here) {
    let after = After::default();
    let then = after.clone();
    let leash = Leash::default();
    let ties = leash.clone();
    let window = Arc::<WriteWindow>::default();
    let of_bodies = window.clone();
    let service = service_fn(move |request| {
        let answered = answer(here.clone(), (after.clone(), ties.clone()), request);
        let window = of_bodies.clone();
        async move {
            let mut response = answered.await?;
            let source = response.extensions_mut().remove::<Source>().map(|source| source.0);
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
                let last = Duration::from_millis(limits::LAST_ANSWER_MAX_MS);
                timeout(last, connection).await.unwrap_or(Ok(()))
            }
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        // What is on it is of a task that is over: it ends wherever it is, and its call is told so.
        () = leash.pulled() => return,
    };
    match (ended, then.take()) {
        // A tunnel: it keeps the place of its connection.
        (Ok(()), Some(then)) => then.await,
        (Ok(()), None) => {}
        (Err(error), _) => debug!(%error, "a connection from inside ended badly"),
    }
}

fn report(sandbox: &SandboxId, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%sandbox, %error, "an answer inside panicked; its connection is gone");
    }
}
