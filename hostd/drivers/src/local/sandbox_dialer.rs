//! Connections into a sandbox, and listeners inside it.

use super::{
    super::{Stream, Target},
    init::Init,
    limits::{DIAL_MAX_MS, LISTEN_BACKLOG, POLL_MS},
    netns_sockets::NetnsSockets,
    pidfd::has_exited,
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

/// A sandbox that was running when last checked, with its network namespace.
pub struct RunningSandbox {
    pub init: Init,
    pub netns: File,
}

/// Dials and listens in the sandboxes of one driver.
pub struct SandboxDialer {
    sockets: NetnsSockets,
    /// Sandboxes that were dialled; checked against the kernel on every use.
    running: Mutex<HashMap<SandboxId, Arc<RunningSandbox>>>,
}

impl SandboxDialer {
    pub fn start() -> io::Result<Self> {
        Ok(Self { sockets: NetnsSockets::start()?, running: Mutex::default() })
    }

    /// Connects to a target. `control` is the directory of runtimed's socket.
    pub async fn dial(
        &self,
        running: &Arc<RunningSandbox>,
        control: &Path,
        target: Target,
    ) -> io::Result<Box<dyn Stream>> {
        let dialled = async {
            Ok(match target {
                Target::Control => Box::new(connect_control(control, running).await?) as Box<dyn Stream>,
                Target::Port(port) => Box::new(self.connect(running, port.get()).await?) as Box<dyn Stream>,
            })
        };
        let limit = Duration::from_millis(DIAL_MAX_MS);
        timeout(limit, dialled).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Tries IPv4 first, where most servers listen; returns the first error.
    async fn connect(&self, running: &Arc<RunningSandbox>, port: u16) -> io::Result<TcpStream> {
        let first = self.connect_to(running, (Ipv4Addr::LOCALHOST, port).into()).await;
        let Err(error) = first else { return first };
        self.connect_to(running, (Ipv6Addr::LOCALHOST, port).into()).await.map_err(|_| error)
    }

    async fn connect_to(&self, running: &Arc<RunningSandbox>, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.socket(running, to).await?.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn socket(&self, running: &Arc<RunningSandbox>, of: SocketAddr) -> io::Result<TcpSocket> {
        let family = if of.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let fd = self.sockets.socket(running, family).await?;
        Ok(TcpSocket::from_std_stream(fd.into()))
    }

    pub async fn listen(&self, running: &Arc<RunningSandbox>, at: SocketAddr) -> io::Result<TcpListener> {
        if !at.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "listening inside a sandbox is only possible on loopback",
            ));
        }
        let socket = self.socket(running, at).await?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(LISTEN_BACKLOG as u32)
    }

    /// The running sandbox; an error where it does not run. `find` finds its PID 1.
    pub fn running_sandbox(
        &self,
        sandbox: &SandboxId,
        find: impl FnOnce() -> io::Result<Option<Init>>,
    ) -> io::Result<Arc<RunningSandbox>> {
        if let Some(running) = self.lock().get(sandbox).filter(|running| !has_exited(&running.init.pidfd)) {
            return Ok(Arc::clone(running));
        }
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the sandbox does not run");
        let init = find()?.ok_or_else(gone)?;
        let netns = File::open(init.proc().join("ns/net"))?;
        // Alive after the open: so the namespace is that of this process, and not of another one with the
        // same pid.
        if has_exited(&init.pidfd) {
            return Err(gone());
        }
        let running = Arc::new(RunningSandbox { init, netns });
        let mut all = self.lock();
        all.retain(|_, known| !has_exited(&known.init.pidfd));
        all.insert(*sandbox, Arc::clone(&running));
        Ok(running)
    }

    /// Releases the namespace of a sandbox that ended.
    pub fn forget(&self, sandbox: &SandboxId) {
        self.lock().remove(sandbox);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<RunningSandbox>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the control socket. The sandbox can write to `control/`: the file must be a socket and no
/// symlink, and its listener must be PID 1.
async fn connect_control(control: &Path, running: &RunningSandbox) -> io::Result<UnixStream> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
    let socket = options.open(control.join("sock"))?;
    if !socket.metadata()?.file_type().is_socket() {
        return Err(io::Error::other("the control socket is not a socket"));
    }
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    let stream = loop {
        match UnixStream::connect(&path).await {
            // The backlog is full; the caller's deadline ends the loop.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(Duration::from_millis(POLL_MS)).await;
            }
            done => break done?,
        }
    };
    match stream.peer_cred()?.pid() {
        Some(pid) if pid == running.init.pid => Ok(stream),
        _ => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the process that listens on the control socket is not PID 1",
        )),
    }
}
