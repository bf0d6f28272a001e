//! hostd with one sandbox that runs the app as a service, seen through the edge.

use super::target::Target;
use super::upstream::{PORT, WORD, copy_to};
use crate::host::start_with;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use tests::{Caller, Hostd};

pub struct Ours {
    pub hostd: Hostd,
    pub caller: Caller,
    pub id: String,
    pub target: Target,
}

impl Ours {
    pub async fn start() -> Result<Self> {
        Self::start_app(WORD).await
    }

    /// With the app that this word makes of the program.
    pub async fn start_app(word: &str) -> Result<Self> {
        let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
        let caller = hostd.local();
        let (id, target) = sandbox(&hostd, &caller, word).await?;
        Ok(Self { hostd, caller, id, target })
    }

    /// A further sandbox of the same hostd.
    pub async fn another(&self) -> Result<Target> {
        Ok(sandbox(&self.hostd, &self.caller, WORD).await?.1)
    }

    /// `stop`, `pause` and so on, and only then back.
    pub async fn told(&self, verb: &str) -> Result<()> {
        let path = format!("/v1/sandboxes/{}/{verb}", self.id);
        self.caller.post(&path, &json!({})).await?.expect::<Value>(200)?;
        Ok(())
    }

    /// How often it was brought up.
    pub async fn attempts(&self) -> Result<usize> {
        let path = format!("/v1/sandboxes/{}/attempts", self.id);
        let page: Value = self.caller.get(&path).await?.expect(200)?;
        Ok(page["items"].as_array().context("items")?.len())
    }
}

/// Creates a sandbox with the app in it and waits until the app answers.
async fn sandbox(hostd: &Hostd, caller: &Caller, word: &str) -> Result<(String, Target)> {
    let command = format!("exec /home/sandbox/upstream {word} 127.0.0.1:{PORT}");
    let service = json!({"name": "app", "port": PORT, "command": command});
    let spec = json!({"ports": [PORT], "services": [service], "limits": {"memory_mb": 1024, "pids": 512}});
    let id = caller.create(&spec).await?;
    copy_to(&hostd.data().join("workspaces").join(&id))?;
    let path = format!("/v1/sandboxes/{id}/services/app/restart");
    caller.post(&path, &json!({})).await?.expect::<Value>(200)?;
    let view = caller.sandbox(&id).await?;
    let url = view["previews"][PORT.to_string()].as_str().context("a preview")?;
    let host = url.strip_prefix("http://").context("http")?.to_owned();
    let port = host.rsplit_once(':').context("a port")?.1;
    let address = format!("127.0.0.1:{port}");
    let pids = vec![hostd.pid()?.as_raw()];
    let target = Target { name: "ours", address, host, pids, network_of: None };
    super::probe::until_it_answers(&target.address, &target.host).await?;
    Ok((id, target))
}
