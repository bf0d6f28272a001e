//! A hostd of its own for one row, and what rows do with it again and again.

use super::driver_column::{Column, Outcome};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tests::host::until;
use tests::processes::ProcessEntry;
use tests::{Caller, Hostd};

pub struct Fixture {
    pub hostd: Hostd,
    /// The client with access to the Unix socket.
    pub caller: Caller,
    pub column: Arc<Column>,
}

impl Fixture {
    pub async fn new(column: &Arc<Column>) -> Result<Self> {
        Self::with(column, &[]).await
    }

    /// With further environment variables for hostd.
    pub async fn with(column: &Arc<Column>, more: &[(&str, &str)]) -> Result<Self> {
        let variables = column.variables();
        let all: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(more.iter().copied())
            .collect();
        let hostd = Hostd::start_with(&all).await?;
        let place = Self { caller: hostd.local(), hostd, column: Arc::clone(column) };
        place.until_usable().await?;
        Ok(place)
    }

    /// The same with one sandbox that asks for nothing special.
    pub async fn one(column: &Arc<Column>) -> Result<(Self, String)> {
        let place = Self::new(column).await?;
        let id = place.caller.create(&json!({})).await?;
        Ok((place, id))
    }

    /// An engine is met, and tried, beside everything else.
    pub async fn until_usable(&self) -> Result<()> {
        let driver = self.column.driver();
        let wanted = |page: &Value| {
            page["items"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["name"] == driver && one["usable"] == true))
        };
        let Some(engine) = self.column.engine() else { return Ok(()) };
        let met = self.caller.until("/v1/drivers", wanted).await;
        met.map(drop).with_context(|| format!("the engine said last:{}", engine.said_last()))
    }

    pub async fn crash(&mut self) -> Result<()> {
        self.hostd.crash().await?;
        self.caller = self.hostd.local();
        self.until_usable().await
    }

    /// A verb of a sandbox that must settle.
    pub async fn verb(&self, id: &str, verb: &str) -> Result<Value> {
        self.caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
    }

    /// A verb that brings the sandbox to a status.
    pub async fn brings(&self, id: &str, verb: &str, status: &str) -> Result<Value> {
        let view = self.verb(id, verb).await?;
        ensure!(view["status"] == status, "{verb}: {view}");
        Ok(view)
    }

    pub async fn destroy(&self, id: &str) -> Result<()> {
        let view: Value = self.caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
        ensure!(view["status"] == "destroyed", "{view}");
        Ok(())
    }

    /// Starts a command and leaves it running.
    pub async fn leaves(&self, id: &str, exec: &str, argv: &[&str]) -> Result<()> {
        let body = json!({"id": exec, "argv": argv, "wait": false});
        self.caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202).map(drop)
    }

    /// PID 1, to be recognised.
    pub fn init(&self, id: &str) -> Result<ProcessEntry> {
        ProcessEntry::at(self.hostd.init(id)?).context("PID 1 is gone")
    }

    /// Reads a file of a control group of PID 1.
    pub fn group_file(&self, id: &str, controller: &str, file: &str) -> Result<String> {
        let path = self.group_path(self.hostd.init(id)?, controller, file)?;
        Ok(std::fs::read_to_string(&path).context(path)?.trim().to_owned())
    }

    fn group_path(&self, init: Pid, controller: &str, file: &str) -> Result<String> {
        let groups = std::fs::read_to_string(format!("/proc/{init}/cgroup"))?;
        let path = groups.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            let found = names.split(',').any(|name| name == controller);
            found.then(|| format!("/sys/fs/cgroup/{controller}{path}/{file}"))
        });
        path.with_context(|| format!("no {controller} in {groups}"))
    }

    pub fn is_frozen(&self, id: &str) -> Result<bool> {
        Ok(self.group_file(id, "freezer", "freezer.state")? != "THAWED")
    }

    /// That exactly these sandboxes have left something, and that only these of them run.
    pub fn holds(&self, alive: &[&str], running: &[&str]) -> Result<()> {
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<String>>();
        let Some(engine) = self.column.engine() else {
            return self.hostd.holds_only(&set(alive), &set(running));
        };
        let names = |path: &str| -> Result<BTreeSet<String>> {
            let entries = std::fs::read_dir(self.hostd.data().join(path)).with_context(|| path.to_owned())?;
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        let workspaces = names("docker-workspaces")?;
        ensure!(workspaces == set(alive), "workspaces of {workspaces:?}");
        let kept: BTreeSet<String> = names("docker")?.into_iter().filter(|name| name.len() == 26).collect();
        ensure!(kept == set(alive), "directories of {kept:?}, alive are {alive:?}");
        let containers = tokio::task::block_in_place(|| engine.containers(&self.label()?))?;
        let ours = |name: &String| alive.iter().any(|id| name.ends_with(id));
        ensure!(containers.iter().all(ours), "containers {containers:?}, alive are {alive:?}");
        for id in running {
            ensure!(self.init(id)?.inner_pid == 1, "{id} does not run");
        }
        Ok(())
    }

    /// The label of every container of this hostd.
    pub fn label(&self) -> Result<String> {
        Ok(format!("dev.slipway.instance={}", self.instance()?))
    }

    pub fn instance(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.hostd.data().join("instance"))?.trim().to_owned())
    }

    /// A command of the engine's own program, past us.
    pub fn told(&self, arguments: &[&str]) -> Result<String> {
        tokio::task::block_in_place(|| super::driver_column::engine(&self.column)?.prints(arguments))
    }

    /// The container of a sandbox.
    pub fn container(&self, id: &str) -> Result<String> {
        tokio::task::block_in_place(|| super::driver_column::engine(&self.column)?.container(id))
    }

    /// Waits for an event of a sandbox.
    pub async fn event(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Vec::new();
        let found = until("the event", async || {
            last = tests::host::all_events(&self.caller).await?;
            Ok(last.iter().find(|event| event["sandbox"] == id && wanted(event)).cloned())
        });
        found.await.with_context(|| format!("only {last:?}"))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let (Some(engine), Ok(label)) = (self.column.engine(), self.label()) else { return };
        // First: it would mend what is taken away.
        let _ = self.hostd.pid().map(|pid| kill(pid, Signal::SIGKILL));
        // A failed row may have left the engine frozen, and then it does not answer.
        let _ = engine.thaw();
        tokio::task::block_in_place(|| engine.clear(&label));
    }
}

/// The end of a row that went well.
pub fn passed() -> super::driver_column::Verdict {
    Ok(Outcome::Passed)
}
