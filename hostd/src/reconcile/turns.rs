//! Whose turn it is: the tasks of a sandbox are given to it in the order in which they were written down.

use protocol::api::SandboxId;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Those that wait, by their rows.
type Queue = BTreeMap<i64, Arc<Notify>>;

#[derive(Clone, Default)]
pub(super) struct Turns {
    queues: Arc<Mutex<HashMap<SandboxId, Queue>>>,
}

impl Turns {
    pub(super) fn queue(&self, sandbox: SandboxId, number: i64) -> Turn {
        let told = Arc::new(Notify::new());
        self.lock().entry(sandbox).or_default().insert(number, told.clone());
        Turn { turns: self.clone(), sandbox, number, told }
    }

    /// A panic of somebody else leaves nothing half done here.
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a sandbox, until it is left or dropped.
pub(super) struct Turn {
    turns: Turns,
    sandbox: SandboxId,
    number: i64,
    told: Arc<Notify>,
}

impl Turn {
    /// Whether nobody is before it.
    pub(super) fn has_come(&self) -> bool {
        let queues = self.turns.lock();
        let first = queues.get(&self.sandbox).and_then(|queue| queue.keys().next());
        first.is_none_or(|first| *first >= self.number)
    }

    /// Returns when that may have changed.
    pub(super) async fn changed(&self) {
        self.told.notified().await;
    }

    pub(super) fn leave(&self) {
        let mut queues = self.turns.lock();
        let Some(queue) = queues.get_mut(&self.sandbox) else { return };
        queue.remove(&self.number);
        match queue.values().next() {
            Some(next) => next.notify_one(),
            None => drop(queues.remove(&self.sandbox)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_comes_first_and_whoever_leaves_tells_the_next() {
        let turns = Turns::default();
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let [third, first, second] = [3, 1, 2].map(|number| turns.queue(sandbox, number));
        let coming = || [&first, &second, &third].map(Turn::has_come);
        assert_eq!(coming(), [true, false, false]);
        drop(turns.queue(sandbox, 4));
        second.leave();
        assert_eq!(coming(), [true, false, false]);
        first.leave();
        third.changed().await;
        assert!(third.has_come());
        drop(third);
        assert!(turns.lock().is_empty(), "nothing is left");
        drop((first, second));
        assert!(turns.lock().is_empty());
    }
}
