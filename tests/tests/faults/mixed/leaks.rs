//! What is left when every sandbox and snapshot of the load was destroyed: processes, mounts, control groups,
//! directories, descriptors of hostd.

use super::{Load, all, delete};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use tests::Hostd;
use tests::host::{PAUSE, Traces, until};
use tokio::time::{Instant, sleep};

/// Descriptors that a hostd keeps open for later (connections of the pool, readers of the database), above those of one
/// that has not served anything.
const DESCRIPTORS_KEPT: usize = 48;

/// What a hostd has.
#[derive(Debug, Clone)]
pub struct Footprint {
    traces: Traces,
    /// Of the driver `docker`.
    of_engine: BTreeSet<String>,
    descriptors: usize,
}

#[derive(Debug, Default, Serialize)]
pub struct Leaks {
    pub processes: usize,
    pub mounts: usize,
    pub control_groups: usize,
    pub directories: usize,
    pub descriptors: usize,
    pub descriptors_at_start: usize,
    /// Names of what is left.
    pub left: Vec<String>,
}

pub fn footprint(hostd: &Hostd) -> Result<Footprint> {
    let pid = hostd.pid()?;
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).context("its descriptors")?.count();
    let names = |path: &str| std::fs::read_dir(hostd.data().join(path)).into_iter().flatten().flatten();
    let of_engine = ["docker", "docker-workspaces"].into_iter().flat_map(names);
    let of_engine = of_engine.map(|entry| entry.path().display().to_string()).collect();
    Ok(Footprint { traces: hostd.traces()?, of_engine, descriptors })
}

/// Destroys everything, and counts what is left once nothing goes away any more.
pub async fn after_cleanup(hostd: &Hostd, load: &Load, before: &Footprint) -> Result<Leaks> {
    let caller = &load.caller;
    for view in all(caller, "/v1/snapshots").await? {
        delete(caller, &format!("/v1/snapshots/{}", view["id"].as_str().context("an id")?)).await?;
    }
    for view in all(caller, "/v1/sandboxes").await? {
        delete(caller, &format!("/v1/sandboxes/{}?workspace=remove", view["id"].as_str().context("an id")?))
            .await?;
    }
    until("all sandboxes are destroyed", async || {
        let living = all(caller, "/v1/sandboxes").await?;
        Ok(living.iter().all(|view| view["status"] == "destroyed").then_some(()))
    })
    .await?;
    // Files are removed after the answer.
    let deadline = Instant::now() + tests::sandbox::PATIENCE;
    loop {
        let leaks = count(hostd, before)?;
        if leaks.is_empty() || Instant::now() > deadline {
            return Ok(leaks);
        }
        sleep(PAUSE).await;
    }
}

fn count(hostd: &Hostd, before: &Footprint) -> Result<Leaks> {
    let now = footprint(hostd)?;
    let processes = hostd.processes()?;
    let (old, new) = (&before.traces, &now.traces);
    let more =
        |old: &BTreeSet<String>, new: &BTreeSet<String>| new.difference(old).cloned().collect::<Vec<_>>();
    let mounts: Vec<String> = new
        .mounts
        .iter()
        .filter(|mount| !old.mounts.contains(mount))
        .map(|mount| mount.display().to_string())
        .collect();
    let groups = more(&old.groups, &new.groups);
    let directories = [
        more(&old.directories, &new.directories),
        more(&old.states, &new.states),
        more(&old.workspaces, &new.workspaces),
        more(&old.volumes, &new.volumes),
        more(&old.trash, &new.trash),
        more(&before.of_engine, &now.of_engine),
    ]
    .concat();
    let named = processes.iter().map(|pid| format!("process {pid}"));
    Ok(Leaks {
        processes: processes.len(),
        mounts: mounts.len(),
        control_groups: groups.len(),
        directories: directories.len(),
        descriptors: now.descriptors.saturating_sub(before.descriptors + DESCRIPTORS_KEPT),
        descriptors_at_start: before.descriptors,
        left: named.chain(mounts).chain(groups).chain(directories).collect(),
    })
}

impl Leaks {
    pub fn is_empty(&self) -> bool {
        let Self { processes, mounts, control_groups, directories, descriptors, .. } = self;
        processes + mounts + control_groups + directories + descriptors == 0
    }
}
