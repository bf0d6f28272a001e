//! A runtimed that is started in another way than by `scripts/pid1` alone: in no namespace, in a control
//! group, in an image.

use crate::{Client, processes, sandbox::PATIENCE};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub struct Launched {
    dir: TempDir,
    child: Child,
    client: Client,
}

pub const DIRECTORY_PREFIX: &str = "slipway-";

/// A directory for a test, reachable for everybody as the directories of a sandbox are.
pub fn directory() -> Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711))?;
    Ok(dir)
}

/// The runtimed under test.
pub fn binary() -> Result<PathBuf> {
    program("runtimed")
}

/// Returns the path of a built program.
pub fn program(name: &str) -> Result<PathBuf> {
    let programs = std::env::var_os("SLIPWAY_PROGRAMS");
    let programs = programs.context("SLIPWAY_PROGRAMS must name the directory of the built programs")?;
    Ok(PathBuf::from(programs).join(name))
}

pub fn script(name: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    Ok(root.join("scripts").join(name))
}

impl Launched {
    /// Runs the command and waits until runtimed answers on `socket`, a path in `dir`.
    pub async fn start(dir: TempDir, command: Command, socket: &str) -> Result<Self> {
        let socket = dir.path().join(socket);
        let mut launched = Self::spawn(dir, command, &socket)?;
        launched.wait_until_it_answers().await?;
        Ok(launched)
    }

    fn spawn(dir: TempDir, mut command: Command, socket: &Path) -> Result<Self> {
        let stderr = std::fs::File::create(dir.path().join("stderr"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).kill_on_drop(true);
        let child = command.spawn().context("start runtimed")?;
        Ok(Self { dir, child, client: Client::new(socket.to_owned()) })
    }

    /// The same where the socket is only to be seen from within the new mount namespace; `socket` is its path
    /// in the root that runtimed has there.
    pub async fn start_seen_from(dir: TempDir, command: Command, socket: &str) -> Result<Self> {
        let mut launched = Self::spawn(dir, command, Path::new("/nowhere"))?;
        let found = async {
            loop {
                let path = PathBuf::from(format!("/proc/{}/root/{socket}", launched.init()?));
                if path.exists() {
                    return anyhow::Ok(path);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let path = tokio::time::timeout(PATIENCE, found).await.context("no socket")??;
        launched.client = Client::new(path);
        launched.wait_until_it_answers().await?;
        Ok(launched)
    }

    /// Runs the command, which must become runtimed, in the namespaces of the test itself.
    pub async fn without_namespace(mut command: Command) -> Result<Self> {
        let dir = directory()?;
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join("workspace/app"))?;
        for path in [home.clone(), home.join("workspace"), home.join("workspace/app")] {
            std::os::unix::fs::chown(path, Some(1000), Some(1000))?;
        }
        command.env_clear().env("RUNTIMED_HOME", home).env("RUNTIMED_DIR", dir.path().join("control"));
        command.env("RUNTIMED_PUBLIC_SOCKET", dir.path().join("public/sock"));
        Self::start(dir, command, "control/sock").await
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let answers = async {
            while !self.client.get("/healthz").await.is_ok_and(|answer| answer.status == 200) {
                if let Some(status) = self.child.try_wait()? {
                    bail!("runtimed ended before it answered: {status}\n{}", self.stderr());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, answers).await.context("runtimed does not answer")?
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// The process that was started: runtimed itself, or what waits for it.
    pub fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(self.child.id().context("it has ended")? as i32))
    }

    /// runtimed itself, as its namespace's PID 1 or without one.
    pub fn init(&self) -> Result<Pid> {
        let own = self.pid()?;
        let inner = processes::below(own).into_iter().find(|seen| seen.inner_pid == 1);
        Ok(inner.map_or(own, |seen| seen.pid))
    }

    /// SIGTERM to runtimed, and the orderly end that must follow.
    pub async fn stop(mut self) -> Result<()> {
        kill(self.init()?, Signal::SIGTERM)?;
        let status = self.wait().await?;
        ensure!(status.success(), "runtimed exited with {status}\n{}", self.stderr());
        Ok(())
    }

    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait());
        Ok(ended.await.context("runtimed does not end")??)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The child itself is killed by its handle. A namespace goes with its PID 1.
        for seen in self.pid().map(processes::below).unwrap_or_default() {
            let _ = kill(seen.pid, Signal::SIGKILL);
        }
    }
}
