//! The alternative most people run: a dockerd of its own, on a socket of its own, with a small image.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::sandbox::PATIENCE;

pub const IMAGE: &str = "slipway-bench";
/// The same hardening and limits that our sandboxes have.
pub const HARDENED: [&str; 13] = [
    "--network",
    "none",
    "--read-only",
    "--tmpfs",
    "/tmp",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--memory",
    "512m",
    "--pids-limit",
    "512",
];

pub struct Docker {
    dir: TempDir,
    daemon: Child,
}

impl Docker {
    pub fn start() -> Result<Self> {
        let mut command = Command::new("dockerd");
        command.arg("--bridge=none");
        Self::start_by(command)
    }

    /// `command` is a dockerd that takes further options.
    pub fn start_by(mut command: Command) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bench-docker-").tempdir_in("/var/tmp")?;
        let log = std::fs::File::create(dir.path().join("log"))?;
        command.args(["--iptables=false", "--ip6tables=false"]);
        for (option, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
            command.arg(option).arg(dir.path().join(name));
        }
        command.arg("--host").arg(format!("unix://{}", dir.path().join("sock").display()));
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let daemon = command.spawn().context("start dockerd (scripts/bench installs docker.io)")?;
        let docker = Self { dir, daemon };
        let started = Instant::now();
        while !docker.command(&["version"]).output()?.status.success() {
            ensure!(
                started.elapsed() < PATIENCE,
                "dockerd does not answer; see {}",
                docker.dir.path().display()
            );
        }
        docker.import()?;
        Ok(docker)
    }

    /// An image with a static busybox and nothing else.
    fn import(&self) -> Result<()> {
        let root = self.dir.path().join("root");
        std::fs::create_dir_all(root.join("bin"))?;
        for name in ["tmp", "usr"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        // For programs of the host, where its /usr is shown.
        for name in ["lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name))?;
        }
        std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
        std::os::unix::fs::symlink("busybox", root.join("bin/true"))?;
        let tar = Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).output()?.stdout;
        let mut import =
            self.command(&["import", "-", IMAGE]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        import.stdin.take().context("its input")?.write_all(&tar)?;
        ensure!(import.wait()?.success(), "docker import failed");
        Ok(())
    }

    /// `docker run … true`: made, started, ended.
    pub fn run_true(&self) -> Result<Duration> {
        self.timed(&[&["run"], &HARDENED[..], &[IMAGE, "/bin/true"]].concat())
    }

    /// One that stays; its id.
    pub fn run_sleep(&self) -> Result<String> {
        self.detached(
            &[&["run", "--detach"], &HARDENED[..], &[IMAGE, "/bin/busybox", "sleep", "100000"]].concat(),
        )
    }

    /// The id that a `docker run --detach` prints.
    pub fn detached(&self, run: &[&str]) -> Result<String> {
        let output = self.command(run).output()?;
        ensure!(output.status.success(), "docker run: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub fn exec_true(&self, id: &str) -> Result<Duration> {
        self.timed(&["exec", id, "/bin/true"])
    }

    pub fn remove(&self, id: &str) -> Result<Duration> {
        self.timed(&["rm", "--force", id])
    }

    /// A verb for one container.
    pub fn told(&self, verb: &str, id: &str) -> Result<Duration> {
        self.timed(&[verb, id])
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.daemon.id())?)
    }

    fn timed(&self, arguments: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        let output = self.command(arguments).output()?;
        let time = started.elapsed();
        ensure!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(time)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let socket: PathBuf = self.dir.path().join("sock");
        let mut command = Command::new("docker");
        command
            .env("DOCKER_HOST", format!("unix://{}", socket.display()))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let ids = self
            .command(&["ps", "--all", "--quiet"])
            .output()
            .map(|output| output.stdout)
            .unwrap_or_default();
        for id in String::from_utf8_lossy(&ids).lines() {
            let _ = self.command(&["rm", "--force", id]).output();
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.daemon.id()).unwrap_or(0));
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.daemon.wait();
    }
}
