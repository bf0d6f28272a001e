//! What was found at the last look at a sandbox, for the next one.

use super::{super::local::cgroup::Cgroup, container_cache::ContainerVersion};
use protocol::api::{SandboxId, StatsView};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Clone, Default)]
pub struct LastInspect {
    pub version: ContainerVersion,
    /// PID 1, if it ran.
    pub pid: Option<i32>,
    /// Where the kernel counts for it. Whoever has ended is in no group any more, and the group goes a moment
    /// later.
    pub group: Option<Cgroup>,
    /// As they were last read.
    pub counters: Option<StatsView>,
    /// Kills for memory when it was last seen to run: of jobs.
    pub oom_kills_before: u64,
    /// The counters were read after its end.
    pub counted_after_exit: bool,
    /// It ended while the engine was away.
    pub engine_was_away: bool,
}

impl LastInspect {
    /// Reads the counters as long as there are any.
    pub fn read_counters(&mut self) -> bool {
        let counters = self.group.as_ref().and_then(|group| group.stats().ok());
        let read = counters.is_some();
        self.counters = counters.or(self.counters.take());
        read
    }

    /// For another run of the same sandbox.
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
