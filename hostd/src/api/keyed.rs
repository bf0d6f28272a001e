//! One at a time for each key, in the order of arrival.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{Mutex as Turn, OwnedMutexGuard},
    time::timeout,
};

#[derive(Default)]
pub struct Keyed {
    turns: Mutex<HashMap<String, Arc<Turn<()>>>>,
}

/// The right to act for a key; others wait until it is dropped.
pub struct Holder<'a> {
    of: &'a Keyed,
    key: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keyed {
    /// Waits for the turn; `None` when that takes longer than `within`.
    pub async fn turn(&self, key: String, within: Duration) -> Option<Holder<'_>> {
        let turn = self.turns.lock().expect("no panic while held").entry(key.clone()).or_default().clone();
        // Made first: when the wait is cut short, dropping it tidies up.
        let mut holder = Holder { of: self, key, guard: None };
        holder.guard = timeout(within, turn.lock_owned()).await.ok();
        holder.guard.is_some().then_some(holder)
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = self.of.turns.lock().expect("no panic while held");
        // Only the map knows it: nobody holds it or waits for it.
        if turns.get(&self.key).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let keyed = Keyed::default();
        let first = keyed.turn("a".into(), LONG).await;
        assert!(first.is_some());
        assert!(keyed.turn("a".into(), Duration::ZERO).await.is_none(), "taken");
        assert!(keyed.turn("b".into(), Duration::ZERO).await.is_some(), "another key is free");
        drop(first);
        assert!(keyed.turn("a".into(), LONG).await.is_some());
        assert!(keyed.turns.lock().unwrap().is_empty());
    }
}
