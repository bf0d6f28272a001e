//! Reads the counters of our control group. A missing file, as in a root group, is a missing value.

use super::location::{ControllerDir, Hierarchy, Location};
use crate::sys::procfs::Buffer;
use protocol::Cgroup;

/// Without a memory limit v1 reports the largest number of pages, which depends on the page size. No machine
/// has this much.
const NO_MEMORY_LIMIT_BYTES: u64 = 1 << 62;

/// Counters that explain the end of a job: compared before and after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub oom_kills: Option<u64>,
    pub pids_limit_hits: Option<u64>,
}

/// Reads all counters.
pub fn read(location: &Location) -> Cgroup {
    let Counters { oom_kills, pids_limit_hits } = counters(location);
    let memory = location.memory.as_ref().map(|dir| (dir, MemoryFiles::of(dir.hierarchy)));
    let memory_number = |file: fn(&MemoryFiles) -> &'static str| {
        let (dir, files) = memory.as_ref()?;
        text(dir, file(files), number)
    };
    let pids_number = |file| location.pids.as_ref().and_then(|dir| text(dir, file, number));
    Cgroup {
        version: location.version(),
        cpu_usage_us: location.cpu.as_ref().and_then(cpu_usage_us),
        memory_bytes: memory_number(|files| files.usage),
        memory_peak_bytes: memory_number(|files| files.peak),
        memory_limit_bytes: memory_number(|files| files.limit).filter(|bytes| *bytes < NO_MEMORY_LIMIT_BYTES),
        pids: pids_number("pids.current"),
        pids_limit: pids_number("pids.max"),
        oom_kills,
        pids_limit_hits,
    }
}

/// Reads only the counters that explain an end; two small files.
pub fn counters(location: &Location) -> Counters {
    let oom_kills = |dir: &ControllerDir| {
        text(dir, MemoryFiles::of(dir.hierarchy).events, |events| keyed(events, "oom_kill"))
    };
    let hits = |dir: &ControllerDir| text(dir, "pids.events", |events| keyed(events, "max"));
    Counters {
        oom_kills: location.memory.as_ref().and_then(oom_kills),
        pids_limit_hits: location.pids.as_ref().and_then(hits),
    }
}

struct MemoryFiles {
    usage: &'static str,
    peak: &'static str,
    limit: &'static str,
    events: &'static str,
}

impl MemoryFiles {
    const fn of(hierarchy: Hierarchy) -> Self {
        match hierarchy {
            Hierarchy::V1 => Self {
                usage: "memory.usage_in_bytes",
                peak: "memory.max_usage_in_bytes",
                limit: "memory.limit_in_bytes",
                events: "memory.oom_control",
            },
            Hierarchy::V2 => Self {
                usage: "memory.current",
                peak: "memory.peak",
                limit: "memory.max",
                events: "memory.events",
            },
        }
    }
}

fn cpu_usage_us(dir: &ControllerDir) -> Option<u64> {
    match dir.hierarchy {
        Hierarchy::V1 => text(dir, "cpuacct.usage", number).map(|ns| ns / 1000),
        Hierarchy::V2 => text(dir, "cpu.stat", |stat| keyed(stat, "usage_usec")),
    }
}

fn text(dir: &ControllerDir, file: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut buffer = Buffer::new();
    let bytes = buffer.small(format_args!("{}/{file}", dir.directory.display())).ok()?;
    parse(std::str::from_utf8(bytes).ok()?)
}

/// Parses a number; `max`, which means no limit, is `None`.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The value of one `key number` line.
fn keyed(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key).and_then(|(_, value)| number(value))
}

#[cfg(test)]
mod tests;
