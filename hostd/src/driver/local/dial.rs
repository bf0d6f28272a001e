//! Connections to a sandbox, and listeners inside it.

use super::{
    super::{Stream, Target},
    init::Init,
    kernel::has_ended,
    limits::{DIAL_MAX_MS, LISTEN_BACKLOG, POLL_MS},
    netns::Dialer,
};
use nix::{libc, sys::socket::AddressFamily};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    fs::File,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, UnixStream},
    time::{sleep, timeout},
};

/// A sandbox that was alive when last looked at, and its network.
pub struct Live {
    pub init: Init,
    pub netns: File,
}

/// The ways into the sandboxes of one driver.
pub struct Reach {
    dialer: Dialer,
    /// Sandboxes that were dialled; checked against the kernel each time.
    live: Mutex<HashMap<SandboxId, Arc<Live>>>,
}

impl Reach {
    pub fn start() -> io::Result<Self> {
        Ok(Self { dialer: Dialer::start()?, live: Mutex::default() })
    }

    /// `control` is the directory with runtimed's socket.
    pub async fn dial(
        &self,
        live: &Arc<Live>,
        control: &Path,
        target: Target,
    ) -> io::Result<Box<dyn Stream>> {
        let dialled = async {
            Ok(match target {
                Target::Control => Box::new(connect_control(control, live).await?) as Box<dyn Stream>,
                Target::Port(port) => Box::new(self.connect(live, port).await?) as Box<dyn Stream>,
            })
        };
        let limit = Duration::from_millis(DIAL_MAX_MS);
        timeout(limit, dialled).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// IPv4 first, as most servers listen there; the first error is the one that is told.
    async fn connect(&self, live: &Arc<Live>, port: u16) -> io::Result<TcpStream> {
        let first = self.connect_to(live, (Ipv4Addr::LOCALHOST, port).into()).await;
        let Err(error) = first else { return first };
        self.connect_to(live, (Ipv6Addr::LOCALHOST, port).into()).await.map_err(|_| error)
    }

    async fn connect_to(&self, live: &Arc<Live>, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.socket(live, to).await?.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn socket(&self, live: &Arc<Live>, of: SocketAddr) -> io::Result<TcpSocket> {
        let family = if of.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let fd = self.dialer.socket(live, family).await?;
        Ok(TcpSocket::from_std_stream(fd.into()))
    }

    pub async fn listen(&self, live: &Arc<Live>, at: SocketAddr) -> io::Result<TcpListener> {
        if !at.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only loopback is offered inside"));
        }
        let socket = self.socket(live, at).await?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(LISTEN_BACKLOG as u32)
    }

    /// The running sandbox; an error where it does not run. `find` looks for its PID 1.
    pub fn live(
        &self,
        sandbox: &SandboxId,
        find: impl FnOnce() -> io::Result<Option<Init>>,
    ) -> io::Result<Arc<Live>> {
        if let Some(live) = self.lives().get(sandbox).filter(|live| !has_ended(&live.init.pidfd)) {
            return Ok(Arc::clone(live));
        }
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the sandbox does not run");
        let init = find()?.ok_or_else(gone)?;
        let netns = File::open(init.proc().join("ns/net"))?;
        // Alive after it was opened: so it was this process's, and not that of one with the same number.
        if has_ended(&init.pidfd) {
            return Err(gone());
        }
        let live = Arc::new(Live { init, netns });
        let mut lives = self.lives();
        lives.retain(|_, live| !has_ended(&live.init.pidfd));
        lives.insert(*sandbox, Arc::clone(&live));
        Ok(live)
    }

    /// Lets go of the namespace of one that ended.
    pub fn forget(&self, sandbox: &SandboxId) {
        self.lives().remove(sandbox);
    }

    fn lives(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket in `control/` may have been put there by anybody inside: it must be a socket, not a link to
/// one, and PID 1 must be the one who listens.
async fn connect_control(control: &Path, live: &Live) -> io::Result<UnixStream> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
    let socket = options.open(control.join("sock"))?;
    if !socket.metadata()?.file_type().is_socket() {
        return Err(io::Error::other("the control socket is no socket"));
    }
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    let stream = loop {
        match UnixStream::connect(&path).await {
            // Its queue is full; the caller's deadline ends this.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(Duration::from_millis(POLL_MS)).await;
            }
            done => break done?,
        }
    };
    match stream.peer_cred()?.pid() {
        Some(pid) if pid == live.init.pid => Ok(stream),
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not PID 1 answers on the control socket")),
    }
}
