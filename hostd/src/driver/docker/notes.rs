//! What was found at the last look at a sandbox, for the next one.

use super::{super::local::cgroup::Group, mirror::Mark};
use protocol::api::{SandboxId, StatsView};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Clone, Default)]
pub struct Note {
    pub mark: Mark,
    /// PID 1, if it ran.
    pub pid: Option<i32>,
    /// Where the kernel counts for it. Whoever has ended is in no group any more, and the group goes a moment
    /// later.
    pub group: Option<Group>,
    /// As they were last read.
    pub counters: Option<StatsView>,
    /// Kills for memory when it was last seen to run: of jobs.
    pub oom_kills_before: u64,
    /// The counters were read after its end.
    pub is_final: bool,
    /// It ended while the engine was away.
    pub away: bool,
}

impl Note {
    /// Reads the counters as long as there are any.
    pub fn count(&mut self) -> bool {
        let counters = self.group.as_ref().and_then(|group| group.stats().ok());
        let counted = counters.is_some();
        self.counters = counters.or(self.counters.take());
        counted
    }

    /// For another run of the same sandbox.
    pub fn begin_anew(&mut self) {
        *self = Self { mark: self.mark.clone(), ..Self::default() };
    }
}

#[derive(Default)]
pub struct Notes(Mutex<HashMap<SandboxId, Note>>);

impl Notes {
    pub fn get(&self, sandbox: &SandboxId) -> Option<Note> {
        self.all().get(sandbox).cloned()
    }

    pub fn change(&self, sandbox: &SandboxId, change: impl FnOnce(&mut Note)) {
        change(self.all().entry(*sandbox).or_default());
    }

    pub fn forget(&self, sandbox: &SandboxId) {
        self.all().remove(sandbox);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SandboxId, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
