//! Processes as the machine sees them, from outside of a sandbox.

use crate::{Client, sandbox::PATIENCE};
use anyhow::{Context, Result};
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;
use tokio::time::timeout;

/// Returns the memory of a process by a field name of `smaps_rollup`.
pub fn memory_bytes(pid: Pid, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
    let kb: u64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
    Ok(kb << 10)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    pub pid: Pid,
    pub parent: Pid,
    /// Its number inside of its own namespace.
    pub inner_pid: i32,
    pub uid: u32,
    pub state: char,
    pub command: String,
    /// When it was started, in the kernel's ticks: a number that is used again is not the same process.
    born: u64,
}

impl ProcessEntry {
    /// A process that may still go, or nothing.
    pub fn at(pid: Pid) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let word = |name: &str, at: usize| field(name)?.split_whitespace().nth(at);
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Counted from behind the name, which may hold anything.
        let born = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self {
            pid,
            parent: Pid::from_raw(word("PPid:", 0)?.parse().ok()?),
            inner_pid: field("NSpid:")?.split_whitespace().last()?.parse().ok()?,
            uid: word("Uid:", 0)?.parse().ok()?,
            state: word("State:", 0)?.chars().next()?,
            command: String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned(),
            born,
        })
    }

    pub fn is_gone(&self) -> bool {
        Self::at(self.pid).is_none_or(|now| now.born != self.born)
    }

    /// Nothing of it runs any more, it only has not been taken by its parent yet: a process that ends gives up its
    /// memory first, and with that what it was called with.
    pub fn has_ended(&self) -> bool {
        self.state == 'Z' || self.command.is_empty()
    }

    pub fn is_shim(&self) -> bool {
        self.command == "runtimed shim"
    }
}

/// Everybody in the process namespace of `init`, itself too.
pub fn in_namespace_of(init: Pid) -> Result<Vec<ProcessEntry>> {
    let namespace = fs::read_link(format!("/proc/{init}/ns/pid")).context("init is gone")?;
    let same = |pid: &Pid| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|ns| ns == namespace);
    Ok(all().into_iter().filter(same).filter_map(ProcessEntry::at).collect())
}

/// Everybody below a process.
pub fn below(root: Pid) -> Vec<ProcessEntry> {
    let everybody: Vec<ProcessEntry> = all().into_iter().filter_map(ProcessEntry::at).collect();
    let mut found: Vec<ProcessEntry> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in everybody.iter().filter(|seen| seen.parent == parent) {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// The process whose number inside the namespace of `init` is this one.
pub fn from_inside(init: Pid, inner_pid: i32) -> Result<ProcessEntry> {
    let found = in_namespace_of(init)?.into_iter().find(|seen| seen.inner_pid == inner_pid);
    found.with_context(|| format!("no process {inner_pid} in the sandbox"))
}

fn all() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw).collect()
}

/// Waits until so many processes in the namespace of `init` have this command line. A job is told to have started
/// before it has become what its shell line makes of it.
pub async fn appear(init: Pid, command: &str, count: usize) -> Result<()> {
    let mut found = 0;
    let looking = async {
        loop {
            found = in_namespace_of(init)?.iter().filter(|seen| seen.command == command).count();
            if found == count {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let appeared = timeout(PATIENCE, looking).await;
    appeared.with_context(|| format!("{count} times {command:?} expected, {found} are there"))?
}

/// Lists the processes of the sandbox's user in the namespace of `init`, once none is exiting and none
/// matches `passes`.
pub async fn people(init: Pid, passes: impl Fn(&ProcessEntry) -> bool) -> Result<Vec<ProcessEntry>> {
    let looking = async {
        loop {
            let mut people = in_namespace_of(init)?;
            people.retain(|seen| seen.uid == 1000);
            if !people.iter().any(|seen| seen.has_ended() || seen.is_shim() || passes(seen)) {
                return Ok(people);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, looking).await.context("a process stays that should exit")?
}

/// Waits until a process is gone. Only its parent is notified, so this polls.
pub async fn gone(seen: &ProcessEntry) -> Result<()> {
    let watching = async {
        while !seen.is_gone() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, watching).await.with_context(|| format!("{seen:?} stays"))
}

/// Waits until runtimed counts so many processes and no zombie. A shim exits a moment after it reported the
/// end of its job, without a further event.
pub async fn settles(client: &Client, processes: u32) -> Result<()> {
    let mut last = (0, 0);
    let looking = async {
        while last != (processes, 0) {
            let status = client.status().await?;
            last = (status.processes, status.zombies);
        }
        anyhow::Ok(())
    };
    let settled = timeout(PATIENCE, looking).await;
    settled
        .with_context(|| format!("{processes} processes expected, {} with {} zombies stay", last.0, last.1))?
}
