//! Ranges of user ids on the host, one for each sandbox. The badges are authoritative; this holds the ranges
//! read from them and those allocated since. Each instance starts its search elsewhere, so that two hostds on
//! one host seldom allocate the same.

use super::limits::{UID_FIRST, UID_LAST, UID_RANGE};
use std::{collections::BTreeSet, sync::Mutex};

const RANGES: u32 = (UID_LAST - UID_FIRST) / UID_RANGE + 1;

pub struct UidRanges {
    used: Mutex<UsedRanges>,
}

struct UsedRanges {
    bases: BTreeSet<u32>,
    /// Start of the search: after the last allocated range.
    next: u32,
}

impl UidRanges {
    pub fn of(instance: &str) -> Self {
        // FNV-1a: instances may collide, most do not.
        let hash = instance
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self { used: Mutex::new(UsedRanges { bases: BTreeSet::new(), next: hash % RANGES }) }
    }

    /// Allocates the next free range, if there is one.
    pub fn allocate(&self) -> Option<u32> {
        let mut used = self.lock();
        let base = |slot: u32| UID_FIRST + slot % RANGES * UID_RANGE;
        let slot = (used.next..used.next + RANGES).find(|slot| !used.bases.contains(&base(*slot)))?;
        used.bases.insert(base(slot));
        used.next = (slot + 1) % RANGES;
        Some(base(slot))
    }

    /// Marks a range that a badge names as used.
    pub fn claim(&self, base: u32) {
        self.lock().bases.insert(base);
    }

    pub fn release(&self, base: u32) {
        self.lock().bases.remove(&base);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UsedRanges> {
        self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sandboxes_share_a_range_and_a_released_one_comes_back() {
        let uid_ranges = UidRanges::of("one");
        let first = uid_ranges.allocate().expect("all are free");
        let second = uid_ranges.allocate().expect("most are free");
        assert_ne!(first, second);
        uid_ranges.release(first);
        let rest: BTreeSet<u32> = std::iter::from_fn(|| uid_ranges.allocate()).collect();
        assert!(rest.contains(&first) && !rest.contains(&second));
        assert_eq!(rest.len() as u32, RANGES - 1);
    }

    #[test]
    fn no_range_is_allocated_when_all_are_used() {
        let uid_ranges = UidRanges::of("other");
        uid_ranges.claim(UID_LAST);
        let all = std::iter::from_fn(|| uid_ranges.allocate()).take(100_000).count();
        assert_eq!(all as u32, RANGES - 1);
    }
}
