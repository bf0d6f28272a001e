//! A hostd that uses an engine. When it ends, nothing of it is left on the engine, which others may use.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use tests::engines::{Engine, Kind, Setup};
use tests::{Caller, Hostd};
use tokio::task::{block_in_place, spawn_blocking};

pub struct EngineUser {
    pub hostd: Hostd,
    pub caller: Caller,
    pub engine: Engine,
}

impl EngineUser {
    /// On the engine that all tests share.
    pub async fn shared(kind: Kind) -> Result<Self> {
        Self::shared_with(kind, &[]).await
    }

    /// The same with further environment variables for hostd.
    pub async fn shared_with(kind: Kind, variables: &[(&str, &str)]) -> Result<Self> {
        Self::of(spawn_blocking(move || Engine::shared(kind)).await??, variables).await
    }

    /// On an engine of its own.
    pub async fn apart(kind: Kind, setup: Setup) -> Result<Self> {
        Self::of(spawn_blocking(move || Engine::start_as(kind, setup)).await??, &[]).await
    }

    async fn of(engine: Engine, variables: &[(&str, &str)]) -> Result<Self> {
        let socket = engine.socket().display().to_string();
        let own = [("SLIPWAY_DRIVER", "docker"), ("SLIPWAY_DOCKER_SOCKET", socket.as_str())];
        let hostd = Hostd::start_with(&[&own, variables].concat()).await?;
        let user = Self { caller: hostd.local(), hostd, engine };
        user.until_usable().await?;
        Ok(user)
    }

    /// Waits until hostd has met the engine.
    pub async fn until_usable(&self) -> Result<()> {
        let usable = |page: &Value| {
            let mut items = page["items"].as_array().into_iter().flatten();
            items.any(|one| one["name"] == "docker" && one["usable"] == true)
        };
        let met = self.caller.until("/v1/drivers", usable).await;
        met.map(drop).with_context(|| format!("the engine said last:{}", self.engine.said_last()))
    }

    /// The label of every container of this hostd.
    pub fn label(&self) -> Result<String> {
        Ok(format!("dev.slipway.instance={}", self.instance()?))
    }

    fn instance(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.hostd.data().join("instance"))?.trim().to_owned())
    }

    /// Networks of this hostd on the engine.
    pub fn networks(&self) -> Result<Vec<String>> {
        let instance = self.instance()?;
        let prefix = format!("slipway-{}", instance.get(..12).context("a long name")?);
        let names = self.engine.prints(&["network", "ls", "--format", "{{.Name}}"])?;
        Ok(names.lines().filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect())
    }
}

impl Drop for EngineUser {
    fn drop(&mut self) {
        // First: it would mend what is taken away.
        let _ = self.hostd.pid().map(|pid| kill(pid, Signal::SIGKILL));
        block_in_place(|| {
            if let Ok(label) = self.label() {
                self.engine.clear(&label);
            }
            for network in self.networks().unwrap_or_default() {
                let _ = self.engine.command(&["network", "rm", &network]).output();
            }
        });
    }
}
