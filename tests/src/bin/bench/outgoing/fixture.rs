//! hostd with one sandbox that has the client in it, and what is asked behind it.

use super::client::{LOAD, Load, Measured, Route, WORD};
use super::provider::Provider;
use super::relay::Relay;
use crate::{edge::upstream::copy_to, host::start_with, idle_machine::calm};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Stdio;
use tempfile::TempDir;
use tests::{Caller, Hostd};
use tokio::process::Command;

/// An agent that is the client: it gets what every agent gets, a key and where to go with it.
const AGENT: &str = r#"
[agents.probe]
title = "Client of the benchmark"
speaks = "command"
find = ["/home/sandbox/upstream"]
args = ["ask"]
dialects = ["anthropic"]

[agents.probe.env_for.anthropic]
PROBE_KEY = "{key}"
PROBE_URL = "{base_url}"
"#;

pub struct OutgoingFixture {
    pub provider: Provider,
    relay: Relay,
    hostd: Hostd,
    caller: Caller,
    sandbox: String,
    _config: TempDir,
}

impl OutgoingFixture {
    pub async fn open() -> Result<Self> {
        let provider = Provider::start().await?;
        let relay = Relay::start(provider.address).await?;
        let config = tempfile::tempdir()?;
        let file = config.path().join("slipway.toml");
        std::fs::write(&file, AGENT)?;
        let excepted = provider.address.to_string();
        let hostd = start_with(&[
            ("SLIPWAY_LOG", "warn"),
            ("SLIPWAY_CONFIG", file.to_str().context("a path")?),
            ("SLIPWAY_EGRESS_PRIVATE", &excepted),
        ])
        .await?;
        let caller = hostd.operator()?;
        let model = json!({
            "base_url": format!("http://{}/v1", provider.address), "key": "sk-bench",
            "models": [{"name": "m"}], "default": "m", "verify": false,
        });
        let reply = caller.put("/v1/model-providers/anthropic", &model).await?;
        ensure!(reply.status < 300, "{}", reply.text());
        let sandbox = caller.create(&json!({"limits": {"memory_mb": 512, "pids": 256}})).await?;
        copy_to(&hostd.workspace(&sandbox))?;
        Ok(Self { provider, relay, hostd, caller, sandbox, _config: config })
    }

    /// On the host: straight, and through what only copies.
    pub async fn others(&self, load: &Load) -> Result<[Measured; 2]> {
        let to = |address: SocketAddr| Load { way: Route::Direct(address.to_string()), ..load.clone() };
        calm().await?;
        let direct = self.outside(&to(self.provider.address)).await?;
        calm().await?;
        Ok([direct, self.outside(&to(self.relay.address)).await?])
    }

    async fn outside(&self, load: &Load) -> Result<Measured> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).env(LOAD, serde_json::to_string(load)?).stdin(Stdio::null());
        let output = command.output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// In the sandbox, as a task: only a task has a key.
    pub async fn as_task(&self, load: &Load) -> Result<Measured> {
        let body = json!({"prompt": serde_json::to_string(load)?, "agent": "probe", "build": ""});
        let job = self.caller.submit(&self.sandbox, &body).await?;
        let events = self.caller.events_of(&job).await?;
        let said = tests::messages(&events).concat();
        serde_json::from_str(&said).with_context(|| format!("{said} {:?}", events.last()))
    }

    /// In the sandbox, as an exec.
    pub async fn as_exec(&self, load: &Load) -> Result<Measured> {
        let path = format!("/v1/sandboxes/{}/execs", self.sandbox);
        let env = json!({LOAD: serde_json::to_string(load)?});
        let body = json!({"argv": ["/home/sandbox/upstream", WORD], "env": env});
        let exec: Value = self.caller.post(&path, &body).await?.expect(200)?;
        let said = exec["stdout"].as_str().unwrap_or_default();
        serde_json::from_str(said).with_context(|| exec.to_string())
    }

    pub async fn close(self) -> Result<()> {
        self.hostd.stop().await
    }
}
