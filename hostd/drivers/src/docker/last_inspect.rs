//! Results of the last inspect of each sandbox, in memory, for the next one.

use super::{super::local::cgroup::Cgroup, container_cache::ContainerVersion};
use protocol::api::{SandboxId, StatsView};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Clone, Default)]
pub struct LastInspect {
    pub version: ContainerVersion,
    /// PID 1, if it was running.
    pub pid: Option<i32>,
    /// Control groups to read counters from. Kept because a process that exited is in no group any more,
    /// while the group exists a moment longer.
    pub group: Option<Cgroup>,
    /// As last read.
    pub counters: Option<StatsView>,
    /// OOM kills when PID 1 was last seen running; they hit jobs.
    pub oom_kills_before: u64,
    /// Whether the counters were read after PID 1 exited.
    pub counted_after_exit: bool,
    /// Whether PID 1 exited while the engine was unreachable.
    pub engine_was_away: bool,
}

impl LastInspect {
    /// Reads the counters while they exist; returns whether it could.
    pub fn read_counters(&mut self) -> bool {
        let counters = self.group.as_ref().and_then(|group| group.stats().ok());
        let read = counters.is_some();
        self.counters = counters.or(self.counters.take());
        read
    }

    /// Forgets everything but the version, for another run of the same sandbox.
    pub fn reset_for_new_run(&mut self) {
        *self = Self { version: self.version.clone(), ..Self::default() };
    }
}

#[derive(Default)]
pub struct LastInspects(Mutex<HashMap<SandboxId, LastInspect>>);

impl LastInspects {
    pub fn get(&self, sandbox: &SandboxId) -> Option<LastInspect> {
        self.all().get(sandbox).cloned()
    }

    pub fn change(&self, sandbox: &SandboxId, change: impl FnOnce(&mut LastInspect)) {
        change(self.all().entry(*sandbox).or_default());
    }

    pub fn forget(&self, sandbox: &SandboxId) {
        self.all().remove(sandbox);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SandboxId, LastInspect>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
