//! The `slipway` command as people and scripts start it.

use super::Hostd;
use crate::{launch::program, sandbox::PATIENCE};
use anyhow::{Context, Result};
use std::process::Stdio;
use tokio::process::{Child, Command};
use tokio::time::timeout;

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
        command.args(arguments).env("SLIPWAY_DATA_DIR", self.data());
        command.env_remove("SLIPWAY_URL").env_remove("SLIPWAY_TOKEN").env_remove("SLIPWAY_CONTEXT");
        command.kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs a command to its end.
    pub async fn ran(&self, arguments: &[&str]) -> Result<Ran> {
        Ran::of(self.slipway(arguments)?.spawn()?).await
    }
}
