//! New limits of a group with processes in it: all of them are put in force, or none.

use super::{
    Cgroup,
    group::{optional, quota_us},
    hierarchy::Version,
};
use crate::local::limits::CPU_PERIOD_US;
use protocol::api::Limits;
use std::io;

/// Why a group has its limits as before.
#[derive(Debug)]
pub enum ResizeError {
    /// The kernel cannot free enough memory.
    MemoryInUse {
        used_bytes: u64,
    },
    Io(io::Error),
}

impl From<io::Error> for ResizeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The files of a group that hold limits, as they were.
struct Saved(Vec<(&'static str, &'static str, String)>);

impl Cgroup {
    pub fn resize(&self, limits: &Limits) -> Result<(), ResizeError> {
        let wanted_bytes = limits.memory_mb << 20;
        let stats = self.stats()?;
        // v2 would kill processes instead of refusing.
        if stats.memory_working_bytes > wanted_bytes {
            return Err(ResizeError::MemoryInUse { used_bytes: stats.memory_working_bytes });
        }
        let saved = self.saved();
        let done = match self.version {
            Version::V1 => self.resize_v1(limits, wanted_bytes < stats.memory_limit_bytes),
            Version::V2 => self.resize_v2(limits),
        };
        done.map_err(|error| {
            self.restore(&saved);
            if error.kind() != io::ErrorKind::ResourceBusy {
                return ResizeError::Io(error);
            }
            ResizeError::MemoryInUse { used_bytes: self.stats().map_or(0, |stats| stats.memory_bytes) }
        })
    }

    /// The limit with swap is never below the one without: which is written first depends on the direction.
    fn resize_v1(&self, limits: &Limits, shrinks: bool) -> io::Result<()> {
        let memory = (limits.memory_mb << 20).to_string();
        let plain = || self.set("memory", "memory.limit_in_bytes", &memory);
        let with_swap = || optional(self.set("memory", "memory.memsw.limit_in_bytes", &memory));
        if shrinks {
            plain()?;
            with_swap()?;
        } else {
            with_swap()?;
            plain()?;
        }
        self.set("pids", "pids.max", &limits.pids.to_string())?;
        if self.dir("cpu").is_some() {
            self.set("cpu", "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            self.set("cpu", "cpu.cfs_quota_us", &quota_us(limits).to_string())?;
        }
        Ok(())
    }

    fn resize_v2(&self, limits: &Limits) -> io::Result<()> {
        self.set("memory", "memory.max", &(limits.memory_mb << 20).to_string())?;
        self.set("pids", "pids.max", &limits.pids.to_string())?;
        optional(self.set("cpu", "cpu.max", &format!("{} {CPU_PERIOD_US}", quota_us(limits))))
    }

    fn saved(&self) -> Saved {
        let files: &[(&str, &str)] = match self.version {
            Version::V1 => &[
                ("memory", "memory.limit_in_bytes"),
                ("memory", "memory.memsw.limit_in_bytes"),
                ("memory", "memory.limit_in_bytes"),
                ("pids", "pids.max"),
                ("cpu", "cpu.cfs_period_us"),
                ("cpu", "cpu.cfs_quota_us"),
            ],
            Version::V2 => &[("memory", "memory.max"), ("pids", "pids.max"), ("cpu", "cpu.max")],
        };
        let read = |(controller, file): &(&'static str, &'static str)| {
            Some((*controller, *file, self.get(controller, file).ok()?))
        };
        Saved(files.iter().filter_map(read).collect())
    }

    /// Writes the limits as they were. The memory limit comes before and after the one with swap: one of the two
    /// orders is allowed, whatever was changed.
    fn restore(&self, saved: &Saved) {
        for (controller, file, value) in &saved.0 {
            if let Err(error) = self.set(controller, file, value.trim()) {
                tracing::debug!(file, %error, "failed to restore a limit");
            }
        }
    }
}
