//! A runtimed as PID 1, started by `scripts/pid1` as in README.

use crate::Client;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A bound on hanging, never a thing that is tested.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Sandbox {
    dir: Arc<TempDir>,
    child: Child,
    variables: Vec<String>,
    client: Client,
}

impl Sandbox {
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts with further variables, each `NAME=value`.
    pub async fn start_with(variables: &[&str]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("slipway-").tempdir()?;
        Self::start_in(Arc::new(dir), variables.iter().map(|v| (*v).to_owned()).collect()).await
    }

    async fn start_in(dir: Arc<TempDir>, variables: Vec<String>) -> Result<Self> {
        let child = spawn(dir.path(), &variables)?;
        let client = Client::new(dir.path().join("control/sock"));
        let mut sandbox = Self { dir, child, variables, client };
        sandbox.wait_until_it_answers().await?;
        Ok(sandbox)
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let answers = async {
            loop {
                let answers = self.client.get("/healthz").await.is_ok_and(|answer| answer.status == 200);
                // The script may write the pid after runtimed answers; without the pid it could not be
                // stopped.
                if answers && self.pid().is_ok() {
                    return Ok(());
                }
                if let Some(status) = self.child.try_wait()? {
                    bail!("runtimed ended before it answered: {status}\n{}", self.stderr());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, answers).await.context("runtimed does not answer")?
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client of the socket that sandboxed code may use.
    pub fn public(&self) -> Client {
        Client::new(self.dir.path().join("public/sock"))
    }

    pub fn control_dir(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn app(&self) -> PathBuf {
        self.home().join("workspace/app")
    }

    /// Writes a file of the app, owned by the sandbox's user, atomically.
    pub fn write_app(&self, name: &str, text: &str) -> Result<()> {
        let path = self.app().join(name);
        let file = path.file_name().context("a name")?.to_string_lossy();
        let part = path.with_file_name(format!(".{file}.part"));
        std::fs::write(&part, text)?;
        std::os::unix::fs::chown(&part, Some(1000), Some(1000))?;
        Ok(std::fs::rename(&part, &path)?)
    }

    /// Returns the standard error of runtimed.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// The process id of PID 1, seen from outside.
    pub fn pid(&self) -> Result<Pid> {
        let text = std::fs::read_to_string(self.dir.path().join("pid"))?;
        Ok(Pid::from_raw(text.trim().parse().context("no pid yet")?))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid()?, signal).context("signal PID 1")
    }

    /// Waits for the end of runtimed; its exit status as `unshare` passes it on.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait());
        Ok(ended.await.context("runtimed does not end")??)
    }

    /// SIGTERM, and the orderly end that must follow.
    pub async fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let status = self.wait().await?;
        ensure!(status.success(), "runtimed exited with {status}\n{}", self.stderr());
        Ok(())
    }

    /// Kills PID 1 without warning and boots again on what it left.
    pub async fn crash_and_boot(mut self) -> Result<Self> {
        self.crash().await?;
        self.boot_again().await
    }

    pub async fn crash(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait().await.map(drop)
    }

    /// The same directory, started again after it was stopped or crashed.
    pub async fn boot_again(self) -> Result<Self> {
        Self::start_in(Arc::clone(&self.dir), self.variables.clone()).await
    }
}

fn spawn(dir: &Path, variables: &[String]) -> Result<Child> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    ensure!(
        std::env::var_os("SLIPWAY_PROGRAMS").is_some(),
        "SLIPWAY_PROGRAMS must name the directory of the built programs; see scripts/test"
    );
    let _ = std::fs::remove_file(dir.join("pid"));
    let stderr = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("stderr"))?;
    let mut command = Command::new(root.join("scripts/pid1"));
    command.arg(dir).args(variables).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    command.kill_on_drop(true).spawn().context("start scripts/pid1")
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // A child that was waited for is gone, and the pid file may be that of the next boot.
        if let (Some(_), Ok(pid)) = (self.child.id(), self.pid()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}
