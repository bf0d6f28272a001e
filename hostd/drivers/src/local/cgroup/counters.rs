//! Resource counters of a sandbox.

use super::{Cgroup, hierarchy::Version};
use protocol::api::StatsView;
use std::io;

impl Cgroup {
    pub fn stats(&self) -> io::Result<StatsView> {
        // A missing memory file is an error, so that a sandbox that does not exist has no counters.
        let names = Names::of(self.version);
        let memory_bytes = parse(&self.get("memory", names.memory)?);
        let number = |controller, file| self.get(controller, file).map(|text| parse(&text)).unwrap_or(0);
        let cpu_usage_us = match self.version {
            Version::V1 => number("cpuacct", "cpuacct.usage") / 1000,
            Version::V2 => self.field("cpu", "cpu.stat", "usage_usec"),
        };
        Ok(StatsView {
            memory_bytes,
            memory_peak_bytes: number("memory", names.peak),
            memory_limit_bytes: number("memory", names.limit),
            cpu_usage_us,
            pids: number("pids", "pids.current"),
            pids_limit: number("pids", "pids.max"),
            oom_kills: self.field("memory", names.oom, "oom_kill"),
            pids_limit_hits: self.field("pids", "pids.events", "max"),
            disk_bytes: None,
            disk_limit_bytes: None,
        })
    }

    /// A value from a file of `name value` lines.
    fn field(&self, controller: &str, file: &str, name: &str) -> u64 {
        let text = self.get(controller, file).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| parse(value)).next().unwrap_or(0)
    }
}

struct Names {
    memory: &'static str,
    peak: &'static str,
    limit: &'static str,
    oom: &'static str,
}

impl Names {
    fn of(version: Version) -> Self {
        match version {
            Version::V1 => Self {
                memory: "memory.usage_in_bytes",
                peak: "memory.max_usage_in_bytes",
                limit: "memory.limit_in_bytes",
                oom: "memory.oom_control",
            },
            Version::V2 => Self {
                memory: "memory.current",
                peak: "memory.peak",
                limit: "memory.max",
                oom: "memory.events",
            },
        }
    }
}

/// `max` and invalid numbers count as 0: unlimited, unknown.
fn parse(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}
