//! Clients made by others, as people install them. Their packages are in the directory that `SLIPWAY_APPS` names, in the
//! directory named like the one of `tests/clients` that has the list; the scripts that use them are in `tests/clients`.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// A bound on hanging.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(240);

/// A script of `tests/clients` that uses one set of packages.
pub struct StockClient {
    command: Command,
    script: String,
}

impl StockClient {
    /// `packages` is a directory of `tests/clients`, `script` a path below it.
    pub fn python(packages: &str, script: &str) -> Result<Self> {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", installed(packages)?.join("site-packages"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(Self::of(command, script))
    }

    /// The same for Node.js; the script finds its packages by `require`.
    pub fn node(packages: &str, script: &str) -> Result<Self> {
        let mut command = Command::new("node");
        command.env("NODE_PATH", installed(packages)?.join("node_modules"));
        Ok(Self::of(command, script))
    }

    fn of(mut command: Command, script: &str) -> Self {
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(script))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self { command, script: script.to_owned() }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// For a test that does something while the script runs.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs the script to its end, which must be a success, and returns what it printed.
    pub async fn run(mut self) -> Result<String> {
        let ended = timeout(SCRIPT_TIMEOUT, self.command.output()).await;
        let ended = ended.with_context(|| format!("{} did not end", self.script))??;
        let (printed, errors) = (String::from_utf8(ended.stdout)?, String::from_utf8_lossy(&ended.stderr));
        ensure!(ended.status.success(), "{} ended with {}:\n{printed}\n{errors}", self.script, ended.status);
        Ok(printed)
    }
}

/// Where `scripts/apps` installed the packages of this list.
fn installed(packages: &str) -> Result<PathBuf> {
    let apps = std::env::var_os("SLIPWAY_APPS");
    let apps = apps.context("SLIPWAY_APPS must name the directory that scripts/apps printed")?;
    Ok(PathBuf::from(apps).join(packages))
}
