//! Real engines, as Debian packages them, for tests: each with a directory, a socket and a network of its own,
//! so that nothing of the machine's is touched, and gone with all that it ran when the test ends.

mod cleanup;
mod daemon_thread;
mod docker;
mod external_network;
mod images;
mod network_namespace;
mod podman;
mod probe;
mod registry;
mod shared;
mod stale_engines;

pub use external_network::ExternalNetwork;
pub use images::{BUSYBOX, Image, busybox};
pub use network_namespace::NetworkNamespace;
pub use registry::{ADDRESS, Registry};
pub use shared::SharedEngines;

use crate::sandbox::PATIENCE;
use crate::stale_directories;
use anyhow::{Context, Result, ensure};
use nix::fcntl::Flock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Of a daemon that ends instead of serving.
const STARTS_MAX: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

/// How dockerd is started, beside what it always gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    pub arguments: &'static [&'static str],
    /// The first of the ids that its containers have on the host.
    pub remapped: Option<u32>,
}

pub struct Engine {
    kind: Kind,
    path: PathBuf,
    space: NetworkNamespace,
    /// The daemon, unless others use it too: then it is neither stopped nor removed here.
    own: Option<OwnDaemon>,
}

struct OwnDaemon {
    setup: Mutex<Setup>,
    child: Mutex<Child>,
    _dir: TempDir,
    /// While this lock is held, the directory does not count as abandoned.
    _claim: Flock<File>,
}

impl Engine {
    pub fn docker() -> Result<Self> {
        Self::start(Kind::Docker)
    }

    pub fn podman() -> Result<Self> {
        Self::start(Kind::Podman)
    }

    pub fn start(kind: Kind) -> Result<Self> {
        Self::start_as(kind, Setup::default())
    }

    pub fn start_as(kind: Kind, setup: Setup) -> Result<Self> {
        // Not in /tmp: where that is a tmpfs, there are no overlays on it.
        stale_engines::sweep_once();
        let dir = tempfile::Builder::new().prefix(stale_engines::PREFIX).tempdir_in(stale_engines::PLACE)?;
        let claim = stale_directories::claim(dir.path(), dir.path())?;
        let space = NetworkNamespace::new()?;
        if kind == Kind::Podman {
            podman::configure(dir.path())?;
        }
        let (path, child) = (dir.path().to_owned(), Mutex::new(spawn(kind, setup, dir.path(), &space)?));
        let own = OwnDaemon { setup: Mutex::new(setup), child, _dir: dir, _claim: claim };
        let engine = Self { kind, path, space, own: Some(own) };
        engine.until_it_answers()?;
        Ok(engine)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether other tests use it too.
    pub fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn socket(&self) -> PathBuf {
        self.path.join("sock")
    }

    /// The program that people use it with, run beside it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.kind {
            Kind::Docker => docker::client(&self.socket()),
            Kind::Podman => podman::program(&self.path, Some(&self.space)),
        };
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed and returns its output.
    pub fn prints(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().context("start its program")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {error}{}", self.said_last());
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// The daemon itself.
    pub fn pid(&self) -> Result<Pid> {
        match &self.own {
            Some(own) => Ok(Pid::from_raw(i32::try_from(own.child().id())?)),
            None => shared::pid(&self.path),
        }
    }

    /// Lists the engine's private temporary directory, if it has one.
    pub fn temporary(&self) -> Vec<PathBuf> {
        cleanup::entries(&podman::temporary(&self.path))
    }

    /// kill -9 of the daemon. What it runs may live on.
    pub fn kill(&self) -> Result<()> {
        let mut daemon = self.own()?.child();
        daemon.kill()?;
        daemon.wait()?;
        // Dies with it, a moment later; the next one would take it for its own.
        cleanup::kill_named(&self.path, "containerd");
        Ok(())
    }

    /// Stops the daemon, so that it accepts connections but does not answer. Returns when none of its threads
    /// runs.
    pub fn freeze(&self) -> Result<()> {
        self.own()?;
        let pid = self.pid()?;
        kill(pid, Signal::SIGSTOP)?;
        let started = Instant::now();
        while !cleanup::is_stopped(pid)? {
            ensure!(started.elapsed() < PATIENCE, "it does not stop");
            cleanup::pause();
        }
        Ok(())
    }

    pub fn thaw(&self) -> Result<()> {
        self.own()?;
        Ok(kill(self.pid()?, Signal::SIGCONT)?)
    }

    /// Starts a new daemon after the old one was killed. Retries, as a service manager would.
    pub fn again(&self) -> Result<()> {
        let mut tries = (0..STARTS_MAX).map(|_| self.start_again());
        let first = tries.next().context("at least one")?;
        if first.is_ok() { first } else { tries.find(Result::is_ok).unwrap_or(first) }
    }

    /// Brings a daemon back that an earlier row left dead or frozen.
    pub fn revive(&self) -> Result<()> {
        let _ = self.thaw();
        if answers(&self.socket()).unwrap_or(false) {
            return Ok(());
        }
        let _ = self.kill();
        self.again()
    }

    fn start_again(&self) -> Result<()> {
        // A killed daemon leaves these files, which claim that it, or its containerd, still runs: dockerd would wait for
        // that one until it gives up.
        for name in ["pid", "sock", "exec/containerd/containerd.pid"] {
            let _ = std::fs::remove_file(self.path.join(name));
        }
        let own = self.own()?;
        let setup = *own.setup.lock().unwrap_or_else(PoisonError::into_inner);
        *own.child() = spawn(self.kind, setup, &self.path, &self.space)?;
        self.until_it_answers()
    }

    /// Ended in order, and started in another way.
    pub fn again_as(&self, setup: Setup) -> Result<()> {
        let own = self.own()?;
        kill(self.pid()?, Signal::SIGTERM)?;
        own.child().wait()?;
        *own.setup.lock().unwrap_or_else(PoisonError::into_inner) = setup;
        self.again()
    }

    /// Names of containers with a label, running or not.
    pub fn containers(&self, label: &str) -> Result<Vec<String>> {
        let filter = format!("label={label}");
        let names = self.prints(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The container of a sandbox.
    pub fn container(&self, sandbox: &str) -> Result<String> {
        let mut names = self.containers(&format!("dev.slipway.sandbox={sandbox}"))?;
        ensure!(names.len() == 1, "containers of {sandbox}: {names:?}");
        names.pop().context("just counted")
    }

    /// Takes away all containers with a label, as far as that is possible.
    pub fn clear(&self, label: &str) {
        for name in self.containers(label).unwrap_or_default() {
            let _ = self.command(&["rm", "--force", &name]).output();
        }
    }

    fn until_it_answers(&self) -> Result<()> {
        let started = Instant::now();
        while !answers(&self.socket()).unwrap_or(false) {
            let ended = self.own()?.child().try_wait()?;
            ensure!(ended.is_none(), "it ended with {ended:?}{}", self.said_last());
            ensure!(started.elapsed() < PATIENCE, "it does not answer{}", self.said_last());
            cleanup::pause();
        }
        Ok(())
    }

    /// The daemon, to be stopped or started again.
    fn own(&self) -> Result<&OwnDaemon> {
        self.own.as_ref().context("other tests use this engine")
    }

    /// The end of its log, for messages.
    pub fn said_last(&self) -> String {
        let log = std::fs::read(self.path.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().rev().take(10).collect();
        lines.iter().rev().fold(String::new(), |all, line| all + "\n  " + line)
    }
}

impl OwnDaemon {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(own) = &self.own else { return };
        let _ = self.thaw();
        if answers(&self.socket()).unwrap_or(false) {
            let ids = self.prints(&["ps", "--all", "--quiet"]).unwrap_or_default();
            let ids: Vec<&str> = ids.lines().collect();
            if !ids.is_empty() {
                let _ = self.command(&[&["rm", "--force"], &ids[..]].concat()).output();
            }
        }
        cleanup::end(&mut own.child(), &self.path);
        cleanup::clear(&self.path);
    }
}

fn spawn(kind: Kind, setup: Setup, dir: &Path, space: &NetworkNamespace) -> Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log"))?;
    let mut command = match kind {
        Kind::Docker => docker::daemon(dir, space, setup)?,
        Kind::Podman => podman::service(dir, space),
    };
    // Podman's container monitor writes into the directory that it was started in.
    command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    daemon_thread::spawn(command).context("start the engine (scripts/setup installs docker.io and podman)")
}

/// Whether a server answers a ping on the socket.
fn answers(socket: &Path) -> Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /_ping HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head.ends_with(b" 200"))
}
