//! Queues of tasks: those of a sandbox are delivered in the order of their rows.

use protocol::api::SandboxId;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The tasks that wait for one sandbox, by row.
type Queue = BTreeMap<i64, Arc<Notify>>;

#[derive(Clone, Default)]
pub(super) struct TaskQueues {
    queues: Arc<Mutex<HashMap<SandboxId, Queue>>>,
}

impl TaskQueues {
    pub(super) fn enqueue(&self, sandbox: SandboxId, number: i64) -> QueueTicket {
        let moved_up = Arc::new(Notify::new());
        self.lock().entry(sandbox).or_default().insert(number, moved_up.clone());
        QueueTicket { queues: self.clone(), sandbox, number, moved_up }
    }

    /// A poisoned lock is fine: nothing here is left half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a task in the queue of its sandbox, until it is left or dropped.
pub(super) struct QueueTicket {
    queues: TaskQueues,
    sandbox: SandboxId,
    number: i64,
    moved_up: Arc<Notify>,
}

impl QueueTicket {
    /// Whether no older task waits.
    pub(super) fn is_first(&self) -> bool {
        let queues = self.queues.lock();
        let first = queues.get(&self.sandbox).and_then(|queue| queue.keys().next());
        first.is_none_or(|first| *first >= self.number)
    }

    /// Returns when `is_first` may have changed.
    pub(super) async fn changed(&self) {
        self.moved_up.notified().await;
    }

    pub(super) fn leave(&self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.sandbox) else { return };
        queue.remove(&self.number);
        match queue.values().next() {
            Some(next) => next.notify_one(),
            None => drop(queues.remove(&self.sandbox)),
        }
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_is_first_and_leaving_notifies_the_next() {
        let queues = TaskQueues::default();
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let [third, first, second] = [3, 1, 2].map(|number| queues.enqueue(sandbox, number));
        let coming = || [&first, &second, &third].map(QueueTicket::is_first);
        assert_eq!(coming(), [true, false, false]);
        drop(queues.enqueue(sandbox, 4));
        second.leave();
        assert_eq!(coming(), [true, false, false]);
        first.leave();
        third.changed().await;
        assert!(third.is_first());
        drop(third);
        assert!(queues.lock().is_empty(), "nothing is left");
        drop((first, second));
        assert!(queues.lock().is_empty());
    }
}
