//! A hostd with agents, the fake model as its provider, and one sandbox to work in.

use super::EndedTask;
use super::concurrency_limit::StartPermit;
use crate::{
    host::{Caller, Hostd, Job, until},
    model::{Dialect, FakeModel},
};
use anyhow::{Context, Result, ensure};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The provider's credential. It must never be found anywhere.
pub const KEY: &str = "sk-quay-7f3a91c2e5d84b60a1f2937cbe50d4e8";
/// As the provider calls it; no agent's catalogue knows it.
pub const MODEL: &str = "quay-large";
/// Where agents work.
pub const APP: &str = "/home/sandbox/workspace/app";
/// OpenCode takes two thirds of a gigabyte, and what it builds comes on top.
const MEMORY_MB: u64 = 3072;

pub struct AgentsFixture {
    pub hostd: Hostd,
    pub caller: Caller,
    pub model: FakeModel,
    pub sandbox: String,
    _seat: StartPermit,
}

impl AgentsFixture {
    pub async fn open(speech: Dialect) -> Result<Self> {
        Self::open_with(speech, json!({}), &[]).await
    }

    /// With further fields of the sandbox, and further variables of hostd.
    pub async fn open_with(speech: Dialect, spec: Value, variables: &[(&str, &str)]) -> Result<Self> {
        agents_are_there()?;
        let seat = StartPermit::take().await?;
        let hostd = Hostd::start_with(variables).await?;
        let model = FakeModel::start(Some(KEY)).await?;
        let caller = hostd.operator()?;
        provider(&caller, &model, speech).await?;
        let mut whole = json!({"limits": {"memory_mb": MEMORY_MB, "pids": 2048}});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), spec.as_object()) {
            whole.extend(more.clone());
        }
        let sandbox = caller.create(&whole).await?;
        Ok(Self { hostd, caller, model, sandbox, _seat: seat })
    }

    pub async fn submit(&self, body: &Value) -> Result<Job> {
        self.caller.submit(&self.sandbox, body).await
    }

    /// Submits a task, and follows it to its end.
    pub async fn done(&self, body: &Value) -> Result<EndedTask> {
        let job = self.submit(body).await?;
        self.end_of(&job).await
    }

    pub async fn end_of(&self, job: &Job) -> Result<EndedTask> {
        Ok(EndedTask { job: job.clone(), events: self.caller.events_of(job).await? })
    }

    /// Starts OpenCode before there is a task for it, and waits until it is ready.
    pub async fn warm_up(&self) -> Result<()> {
        let path = format!("/v1/sandboxes/{}/warm", self.sandbox);
        let reply = self.caller.post(&path, &json!({"agent": "opencode"})).await?;
        ensure!(reply.status == 202, "{} {}", reply.status, reply.text());
        until("an agent that is ready", async || {
            let warm: Value = self.caller.get(&path).await?.expect(200)?;
            Ok((warm["ready"] == true).then_some(()))
        })
        .await
    }

    /// Processes of the sandbox whose command has this word, without those that one of them started: until it
    /// becomes something else, such a one looks like its parent.
    pub fn processes_of(&self, word: &str) -> Result<Vec<Pid>> {
        let all = crate::processes::in_namespace_of(self.hostd.init(&self.sandbox)?)?;
        let named: Vec<_> = all.into_iter().filter(|seen| seen.command.contains(word)).collect();
        let first = named.iter().filter(|seen| named.iter().all(|other| other.pid != seen.parent));
        Ok(first.map(|seen| seen.pid).collect())
    }

    /// A file of the app, seen from outside.
    pub fn file(&self, name: &str) -> Result<String> {
        let path = self.hostd.workspace(&self.sandbox).join("workspace/app").join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Commands of everything in the sandbox but PID 1 and what it is made of.
    pub fn running(&self) -> Result<Vec<String>> {
        let all = crate::processes::in_namespace_of(self.hostd.init(&self.sandbox)?)?;
        let jobs = all.into_iter().filter(|seen| seen.inner_pid != 1 && !seen.has_ended());
        Ok(jobs.map(|seen| seen.command).filter(|command| !command.starts_with("runtimed")).collect())
    }
}

/// Tells hostd of the model.
pub async fn provider(caller: &Caller, model: &FakeModel, speech: Dialect) -> Result<()> {
    let (name, dialect) = match speech {
        Dialect::Messages => ("anthropic", "anthropic"),
        Dialect::Responses | Dialect::Chat => ("openai", "openai"),
        Dialect::Generate => ("gemini", "gemini"),
    };
    let spec = json!({
        "dialect": dialect, "base_url": model.base_url(speech), "key": KEY,
        "models": [{"name": MODEL, "price": {"input": 2.0, "output": 10.0}}], "default": MODEL,
        "verify": false,
    });
    let reply = caller.put(&format!("/v1/model-providers/{name}"), &spec).await?;
    ensure!(reply.status < 300, "{} {}", reply.status, reply.text());
    ensure!(!reply.text().contains(KEY), "the answer shows the key");
    Ok(())
}

/// hostd inherits the variable; without it, it would look elsewhere and find nothing.
fn agents_are_there() -> Result<()> {
    let agents = std::env::var_os("SLIPWAY_AGENTS_DIR");
    let agents = agents.context("SLIPWAY_AGENTS_DIR must name the directory that scripts/agents printed")?;
    ensure!(PathBuf::from(&agents).join("bin").is_dir(), "no agents in {}", agents.display());
    Ok(())
}
