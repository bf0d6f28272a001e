//! The `slipway` command as people and scripts start it.

use super::Hostd;
use crate::{launch::program, sandbox::PATIENCE};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Variables of the caller that would lead `slipway` elsewhere.
const CLIENT_VARIABLES: [&str; 6] = [
    "SLIPWAY_URL",
    "SLIPWAY_TOKEN",
    "SLIPWAY_CONTEXT",
    "SLIPWAY_CA_FILE",
    "SLIPWAY_FINGERPRINT",
    "SLIPWAY_INSECURE",
];

/// Keeps the caller's variables and contexts from a command that runs `slipway`; its contexts are in `config`.
pub fn without_settings<'a>(command: &'a mut Command, config: &Path) -> &'a mut Command {
    for name in CLIENT_VARIABLES {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", config)
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Waits for the end of one that was started.
    pub async fn of(child: Child) -> Result<Self> {
        let output = timeout(PATIENCE, child.wait_with_output()).await.context("slipway does not end")??;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) })
    }
}

impl Hostd {
    /// A command to this hostd, by its socket, without input.
    pub fn slipway(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("slipway")?);
        self.address(command.args(arguments));
        command.kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Leads a command that runs `slipway` to this hostd, by its socket.
    pub fn address<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        without_settings(command, &self.dir.path().join("config")).env("SLIPWAY_DATA_DIR", self.data())
    }

    /// Runs a command to its end.
    pub async fn ran(&self, arguments: &[&str]) -> Result<Ran> {
        Ran::of(self.slipway(arguments)?.spawn()?).await
    }
}
