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
            memory_working_bytes: memory_bytes.saturating_sub(self.reclaimable_bytes()),
            memory_peak_bytes: number("memory", names.peak),
            memory_limit_bytes: number("memory", names.limit),
            cpu_usage_us,
            pids: number("pids", "pids.current"),
            pids_limit: number("pids", "pids.max"),
            cpus_limit: self.cpus_limit(),
            oom_kills: self.field("memory", names.oom, "oom_kill"),
            pids_limit_hits: self.field("pids", "pids.events", "max"),
            disk_bytes: None,
            disk_limit_bytes: None,
        })
    }

    /// Memory that the kernel can free by dropping caches.
    pub fn reclaimable_bytes(&self) -> u64 {
        let text = self.get("memory", "memory.stat").unwrap_or_default();
        reclaimable(&text, self.version)
    }

    fn cpus_limit(&self) -> Option<f64> {
        let (quota, period) = match self.version {
            Version::V1 => {
                (self.get("cpu", "cpu.cfs_quota_us").ok()?, self.get("cpu", "cpu.cfs_period_us").ok()?)
            }
            Version::V2 => {
                let text = self.get("cpu", "cpu.max").ok()?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
        Some(number(&quota)? / number(&period)?)
    }

    /// A value from a file of `name value` lines.
    fn field(&self, controller: &str, file: &str, name: &str) -> u64 {
        value_of(&self.get(controller, file).unwrap_or_default(), name)
    }
}

/// A value of a file of `name value` lines.
fn value_of(text: &str, name: &str) -> u64 {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| parse(value)).next().unwrap_or(0)
}

/// Of each cache in active use this much, or half of it if that is less, counts as needed. The kernel keeps back its
/// low watermark in the same way when it computes `MemAvailable`; control groups have no watermark, and this is about
/// that of a host with 8 GB.
const CACHE_KEPT_MAX_BYTES: u64 = 16 << 20;

/// Caches by `memory.stat`, of the group and those below it: files, and on v2 the kernel's own, such as names of files.
pub fn reclaimable(memory_stat: &str, version: Version) -> u64 {
    let (inactive, in_use): (_, &[&str]) = match version {
        Version::V1 => ("total_inactive_file", &["total_active_file"]),
        Version::V2 => ("inactive_file", &["active_file", "slab_reclaimable"]),
    };
    let beyond_kept = |name: &&str| {
        let bytes = value_of(memory_stat, name);
        bytes - (bytes / 2).min(CACHE_KEPT_MAX_BYTES)
    };
    value_of(memory_stat, inactive) + in_use.iter().map(beyond_kept).sum::<u64>()
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
pub fn parse(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_count_as_free_except_a_little_of_what_is_in_active_use() {
        const MB: u64 = 1 << 20;
        let v1 = |inactive: u64, active: u64| {
            format!("total_inactive_file {inactive}\ntotal_active_file {active}\nslab_reclaimable 99\n")
        };
        let v2 = |inactive: u64, active: u64, slab: u64| {
            format!(
                "anon 7\ninactive_file {inactive}\nactive_file {active}\nslab_reclaimable {slab}\nslab 9\n"
            )
        };
        let table = [
            (Version::V1, v1(200, 100), 250),
            (Version::V1, v1(0, 3000 * MB), 2984 * MB),
            (Version::V2, v2(200, 100, 50), 275),
            (Version::V2, v2(0, 32 * MB, 0), 16 * MB),
            // Warm caches of a container with 4 GB: nearly all of it is available.
            (Version::V2, v2(500 * MB, 2500 * MB, 600 * MB), 3568 * MB),
            (Version::V2, String::new(), 0),
        ];
        for (version, text, expected) in table {
            assert_eq!(reclaimable(&text, version), expected, "{version:?} {text}");
        }
    }
}
