//! The order in which evicted sandboxes are started again. One that is refused, because it needs more than there is or
//! its owner has no room, does not hold up the others, and is tried less and less often.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// The wait after the first refusal; it doubles with each, up to the maximum.
const WAIT_MIN_MS: u64 = 2_000;
const WAIT_MAX_MS: u64 = 60_000;

/// The refusals of sandboxes that wait to be started.
#[derive(Debug)]
pub struct RestartQueue<T> {
    refused: HashMap<T, Refused>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    wait_ms: u64,
    until_ms: u64,
}

impl<T> Default for RestartQueue<T> {
    fn default() -> Self {
        Self { refused: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash + Ord> RestartQueue<T> {
    /// The sandboxes to try now, those that were evicted first before the others. `evicted` are all that wait: what is
    /// not among them any more is forgotten.
    pub fn due(&mut self, evicted: BTreeSet<(u64, T)>, now_ms: u64) -> Vec<T> {
        let waiting: BTreeSet<T> = evicted.iter().map(|(_, sandbox)| *sandbox).collect();
        self.refused.retain(|sandbox, _| waiting.contains(sandbox));
        let is_due = |sandbox: &T| self.refused.get(sandbox).is_none_or(|refused| refused.until_ms <= now_ms);
        evicted.into_iter().map(|(_, sandbox)| sandbox).filter(is_due).collect()
    }

    /// Records that a start was refused; returns after how long it is tried again.
    pub fn refused(&mut self, sandbox: T, now_ms: u64) -> u64 {
        let before = self.refused.get(&sandbox).map(|refused| refused.wait_ms);
        let wait_ms = before.map_or(WAIT_MIN_MS, |wait_ms| wait_ms.saturating_mul(2).min(WAIT_MAX_MS));
        self.refused.insert(sandbox, Refused { wait_ms, until_ms: now_ms.saturating_add(wait_ms) });
        wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_refused_backs_off_and_holds_up_no_other() {
        let mut queue = RestartQueue::default();
        let all = || BTreeSet::from([(30, 'a'), (10, 'b'), (20, 'c')]);
        assert_eq!(queue.due(all(), 0), ['b', 'c', 'a'], "in the order of their eviction");
        assert_eq!(queue.refused('b', 0), 2_000);
        assert_eq!(queue.due(all(), 1_999), ['c', 'a']);
        assert_eq!(queue.due(all(), 2_000), ['b', 'c', 'a']);
        let waits: Vec<u64> = (0..6).map(|_| queue.refused('b', 2_000)).collect();
        assert_eq!(waits, [4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(queue.due(all(), 61_999), ['c', 'a']);
        // One that was started, and is evicted once more, begins anew.
        assert_eq!(queue.due(BTreeSet::from([(20, 'c')]), 61_999), ['c']);
        assert_eq!(queue.due(all(), 61_999), ['b', 'c', 'a']);
    }
}
