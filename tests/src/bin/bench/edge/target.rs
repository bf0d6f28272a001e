//! The target of a load: an address, the host name to send, and the processes whose CPU time counts.

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};
use std::process::Command;
use std::time::Duration;

pub struct Target {
    pub name: &'static str,
    pub address: String,
    pub host: String,
    /// All processes of the proxy.
    pub pids: Vec<i32>,
    /// A process in whose network it is, where that is not ours.
    pub network_of: Option<i32>,
}

impl Target {
    /// A program with the network that the target is in.
    pub fn command(&self, program: &str) -> Command {
        match self.network_of {
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--target={pid}")).args(["--net", "--", program]);
                command
            }
            None => Command::new(program),
        }
    }

    /// Time that the proxy had on any core since it was started.
    pub fn cpu(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for pid in &self.pids {
            all += cpu_of(*pid)?;
        }
        Ok(all)
    }

    /// Resident memory of all its processes.
    pub fn memory_bytes(&self) -> Result<f64> {
        self.pids.iter().map(|pid| crate::host::rss_bytes(*pid)).sum()
    }
}

/// Returns the children of every thread of a process.
pub fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let text = lists.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub fn cpu_of(pid: i32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may have spaces and parentheses in it.
    let (_, rest) = text.rsplit_once(") ").context("a name")?;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<_, _>>()?;
    let per_s = sysconf(SysconfVar::CLK_TCK)?.context("ticks a second")?;
    Ok(Duration::from_secs_f64(ticks as f64 / per_s as f64))
}
