//! A real hostd with a data directory of its own, on ports of its own, and callers of its API.

mod caller;
mod cleanup;
mod driver_fixture;
mod event_history;
mod feed;
mod files;
mod flaky_viewer;
mod polling;
mod slipway;
mod tasks;
mod terminal_viewer;
mod traces;

pub use caller::{Caller, Reply, TcpViewer};
pub use driver_fixture::DriverFixture;
pub use event_history::{all_events, whole};
pub use feed::Feed;
pub use files::{Files, encoded};
pub use flaky_viewer::FlakyViewer;
pub use polling::{PAUSE, until};
pub use slipway::{Ran, without_settings};
pub use tasks::{Job, TaskFeed, complete, lines, messages, shell};
pub use terminal_viewer::{TerminalViewer, ViewerMessage};
pub use traces::Traces;

use crate::launch::{directory, program};
use crate::sandbox::PATIENCE;
use crate::stale_directories;
use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::Flock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Starts a program in a PID namespace of its own, as in a container.
pub const OWN_PID_NAMESPACE: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A variable of [`Hostd::start_with`] that is not for hostd: how many descriptors it may have. Its limits of
/// connections follow from that.
pub const DESCRIPTORS: &str = "DESCRIPTORS";

/// A variable of [`Hostd::start_with`] that is not for hostd: the directory of its programs.
pub const PROGRAMS: &str = "PROGRAMS";

pub struct Hostd {
    /// Everything it keeps. Removed at the end, with whatever still runs.
    dir: TempDir,
    data: PathBuf,
    variables: Vec<(String, String)>,
    child: Child,
    /// The program that hostd was started through, if any: then hostd is its child.
    through: &'static [&'static str],
    ready: Ready,
    /// While this lock is held, the directory does not count as abandoned.
    _claim: Flock<File>,
}

/// What it says when it serves.
struct Ready {
    api: String,
    /// The address of the listener of metrics, if it has one.
    metrics: Option<String>,
}

impl Hostd {
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With further environment variables.
    pub async fn start_with(variables: &[(&str, &str)]) -> Result<Self> {
        let dir = directory()?;
        let data = dir.path().join("data");
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::start_in(dir, data, variables).await
    }

    /// With its data in a directory of the caller's choice below `dir`.
    pub async fn start_in(dir: TempDir, data: PathBuf, variables: Vec<(String, String)>) -> Result<Self> {
        cleanup::sweep_once();
        let claim = stale_directories::claim(dir.path(), &data)?;
        let mut child = spawn(dir.path(), &data, &variables, &[])?;
        let ready = ready(&mut child).await;
        let ready = ready.with_context(|| format!("hostd said: {}", said(dir.path())))?;
        Ok(Self { dir, data, variables, child, through: &[], ready, _claim: claim })
    }

    pub fn url(&self) -> &str {
        &self.ready.api
    }

    /// The host and port of the listener of metrics.
    pub fn metrics_address(&self) -> Result<&str> {
        self.ready.metrics.as_deref().context("it has no listener of metrics")
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns the standard error of all its processes.
    pub fn said(&self) -> String {
        said(self.dir.path())
    }

    pub fn pid(&self) -> Result<Pid> {
        let pid = self.child.id().context("hostd has ended")?;
        if self.through.is_empty() {
            return Ok(Pid::from_raw(i32::try_from(pid)?));
        }
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        Ok(Pid::from_raw(children.trim().parse().with_context(|| format!("one child: {children:?}"))?))
    }

    /// The administrator, by the token file.
    pub fn operator(&self) -> Result<Caller> {
        let token = std::fs::read_to_string(self.data.join("token"))?;
        Ok(Caller::tcp(self.url(), Some(token.trim())))
    }

    /// The client with access to the Unix socket.
    pub fn local(&self) -> Caller {
        Caller::unix(self.data.join("hostd.sock"))
    }

    /// A caller with a new token.
    pub async fn caller(&self, tenant: &str, principal: &str, scope: &str) -> Result<Caller> {
        let body = json!({"tenant": tenant, "principal": principal, "scope": scope});
        let created: Value = self.operator()?.post("/v1/tokens", &body).await?.expect(201)?;
        let token = created["token"].as_str().context("a token")?;
        Ok(Caller::tcp(self.url(), Some(token)))
    }

    /// SIGKILL: no chance to write anything.
    pub async fn kill(&mut self) -> Result<()> {
        // hostd may have died by itself, which some tests intend.
        let _ = match self.pid() {
            Ok(pid) => kill(pid, Signal::SIGKILL),
            Err(_) => Ok(()),
        };
        timeout(PATIENCE, self.child.wait()).await.context("outlives SIGKILL")??;
        Ok(())
    }

    /// Waits for it to end by itself.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        Ok(timeout(PATIENCE, self.child.wait()).await.context("does not end")??)
    }

    /// A new hostd on the same data, with other variables beside those it was started with.
    pub async fn again_with(&mut self, variables: &[(&str, &str)]) -> Result<()> {
        self.again(variables, &[]).await
    }

    /// A new hostd on the same data, started through a program that becomes its parent.
    pub async fn again_through(&mut self, program: &'static [&'static str]) -> Result<()> {
        self.again(&[], program).await
    }

    async fn again(&mut self, variables: &[(&str, &str)], through: &'static [&'static str]) -> Result<()> {
        self.kill().await?;
        let mut all = self.variables.clone();
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.child = spawn(self.dir.path(), &self.data, &all, through)?;
        self.through = through;
        self.ready = ready(&mut self.child).await.with_context(|| format!("hostd said: {}", self.said()))?;
        Ok(())
    }

    /// kill -9 and a new hostd on the same data.
    pub async fn crash(&mut self) -> Result<()> {
        self.again_with(&[]).await
    }

    /// SIGTERM; it must drain and exit 0.
    pub async fn stop(mut self) -> Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        let status = self.ended().await?;
        ensure!(status.success(), "hostd ended with {status}: {}", self.said());
        Ok(())
    }

    /// SIGTERM, and how it ended. What it started lives on.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        kill(self.pid()?, Signal::SIGTERM)?;
        self.ended().await.with_context(|| format!("hostd said: {}", self.said()))
    }

    /// Process ids of whatever runs in control groups of this hostd.
    pub fn processes(&self) -> Result<Vec<i32>> {
        cleanup::processes(&self.data)
    }
}

impl Drop for Hostd {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        cleanup::clear(&self.data);
    }
}

fn spawn(dir: &Path, data: &Path, variables: &[(String, String)], through: &[&str]) -> Result<Child> {
    let stderr = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("stderr"))?;
    let programs = variables.iter().rev().find(|(name, _)| name == PROGRAMS);
    let hostd = match programs {
        Some((_, dir)) => PathBuf::from(dir).join("hostd"),
        None => program("hostd")?,
    };
    let descriptors = variables.iter().find(|(name, _)| name == DESCRIPTORS);
    let limit = descriptors.map(|(_, most)| ["prlimit".to_owned(), format!("--nofile={most}:{most}")]);
    let words = through.iter().map(|word| (*word).to_owned()).chain(limit.into_iter().flatten());
    let words: Vec<String> = words.collect();
    let mut command = match words.as_slice() {
        [] => Command::new(hostd),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(hostd);
            command
        }
    };
    command.env("SLIPWAY_CONFIG", "/dev/null").env("SLIPWAY_DATA_DIR", data);
    command.env("SLIPWAY_API_BIND", "127.0.0.1:0").env("SLIPWAY_PREVIEW_BIND", "127.0.0.1:0");
    // A test must not use the engine of this machine.
    command.env("SLIPWAY_DRIVER", "oci");
    // Many tests run at once, on machines of any size: what other tests use must not refuse a sandbox.
    command.env("SLIPWAY_MEMORY_RESERVE_MB", "32");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    command.kill_on_drop(true).spawn().context("start hostd")
}

/// The addresses in the line it prints when it serves.
async fn ready(child: &mut Child) -> Result<Ready> {
    let stdout = child.stdout.take().context("its output")?;
    let mut lines = BufReader::new(stdout).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.context("hostd is never ready")??;
    let Some(line) = line else { bail!("hostd ended before it was ready") };
    let word = |prefix| line.split_whitespace().find_map(|word| word.strip_prefix(prefix));
    let api = word("api=").with_context(|| format!("no address in {line:?}"))?.to_owned();
    let metrics = word("metrics=http://").and_then(|url| url.strip_suffix("/metrics")).map(str::to_owned);
    Ok(Ready { api, metrics })
}

fn said(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("stderr")).unwrap_or_default()
}
