//! The known execs, indexed by whether they live: the end of an exec costs the same however many are
//! remembered.

use super::exec::Exec;
use crate::limits::{EXECS_KEPT_MAX, EXECS_KEPT_MAX_MS};
use protocol::ExecId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct ExecTable {
    all: BTreeMap<ExecId, Exec>,
    /// Execs that run, or left processes running.
    live: BTreeSet<ExecId>,
    /// Other execs, by when they ended.
    finished: BTreeSet<(u64, ExecId)>,
}

impl ExecTable {
    pub fn insert(&mut self, exec: Exec) {
        let id = exec.start.id.clone();
        match exec.end().filter(|_| exec.is_gone()).map(|end| end.ended_ms) {
            Some(ended_ms) => drop(self.finished.insert((ended_ms, id.clone()))),
            None => drop(self.live.insert(id.clone())),
        }
        self.all.insert(id, exec);
    }

    pub fn get(&self, id: &ExecId) -> Option<&Exec> {
        self.all.get(id)
    }

    pub fn get_mut(&mut self, id: &ExecId) -> Option<&mut Exec> {
        self.all.get_mut(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Exec> {
        self.all.values()
    }

    pub fn live(&self) -> impl Iterator<Item = &Exec> {
        self.live.iter().filter_map(|id| self.all.get(id))
    }

    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Marks an exec as finished: no process of it is left.
    pub fn retire(&mut self, id: &ExecId) {
        let Some(ended_ms) = self.all.get(id).and_then(Exec::end).map(|end| end.ended_ms) else { return };
        self.live.remove(id);
        self.finished.insert((ended_ms, id.clone()));
    }

    /// Removes a finished exec that is too old or one too many; call it until there is none.
    pub fn take_old(&mut self, now_ms: u64) -> Option<Exec> {
        let (ended_ms, _) = self.finished.first()?;
        let too_old = ended_ms.saturating_add(EXECS_KEPT_MAX_MS) < now_ms;
        if !too_old && self.finished.len() <= EXECS_KEPT_MAX {
            return None;
        }
        let (_, id) = self.finished.pop_first()?;
        self.all.remove(&id)
    }
}
