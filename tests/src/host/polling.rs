//! Looking from outside at what a hostd has, and waiting for it to be as wanted.

use super::{Caller, Hostd};
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Between two looks at something that says nothing by itself.
pub const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until there is something to see.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let looking = async {
        loop {
            if let Some(seen) = look().await? {
                return Ok(seen);
            }
            sleep(PAUSE).await;
        }
    };
    timeout(PATIENCE, looking).await.with_context(|| format!("never: {what}"))?
}

impl Caller {
    /// Asks again and again until the answer is as wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Value::Null;
        let found = until(path, async || {
            last = self.get(path).await?.expect(200)?;
            Ok(wanted(&last).then(|| last.clone()))
        });
        found.await.with_context(|| format!("it stays {last}"))
    }

    /// Waits until a sandbox has this status and nothing is being done to it.
    pub async fn becomes(&self, id: &str, status: &str) -> Result<Value> {
        let settled = |view: &Value| view["status"] == status && view["phase"].is_null();
        self.until(&format!("/v1/sandboxes/{id}"), settled).await
    }
}

impl Hostd {
    /// PID 1 of a sandbox, seen from outside.
    pub fn init(&self, id: &str) -> Result<Pid> {
        let text = std::fs::read_to_string(self.directory(id).join("pid"))?;
        Ok(Pid::from_raw(text.trim().parse()?))
    }

    /// kill -9 of PID 1, and with it of everything in the sandbox.
    pub fn kill_init(&self, id: &str) -> Result<()> {
        kill(self.init(id)?, Signal::SIGKILL).context("kill PID 1")
    }

    /// The directory of a sandbox's driver files.
    pub fn directory(&self, id: &str) -> PathBuf {
        let docker = self.data().join("docker").join(id);
        if docker.exists() { docker } else { self.data().join("oci").join(id) }
    }

    /// The files of a sandbox.
    pub fn workspace(&self, id: &str) -> PathBuf {
        let docker = self.data().join("docker-workspaces").join(id);
        if docker.exists() { docker } else { self.data().join("workspaces").join(id) }
    }
}
