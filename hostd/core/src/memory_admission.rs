//! Whether there is memory for one more sandbox that is up.
//!
//! A sandbox is admitted when what is available, above the reserve, covers what it is expected to need: not its whole
//! limit, because hosts are over-committed on purpose. What was admitted and is not in use yet is counted too, so that
//! a hundred wakes at once do not all pass on the same number.

use protocol::api::{CapacityDetail, MemoryLevel};
use std::{collections::HashMap, hash::Hash};

/// How long after its launch an admitted sandbox is taken not to use its memory yet.
pub const ADMISSION_SETTLE_MS: u64 = 1_000;
/// How long a launch may take before its admission expires.
pub const ADMISSION_MAX_MS: u64 = 120_000;
/// When a refused caller may try again: while sandboxes are being launched or stopped, and while none is.
const RETRY_SOON_S: u64 = 2;
const RETRY_LATER_S: u64 = 15;

/// The memory that admission looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    pub level: MemoryLevel,
    pub available_bytes: u64,
    pub reserve_bytes: u64,
}

/// The memory that a sandbox is expected to need: what it used when it was last stopped, between a floor and its
/// limit.
pub fn expected_need(limit_bytes: u64, floor_bytes: u64, last_used_bytes: Option<u64>) -> u64 {
    last_used_bytes.unwrap_or(0).max(floor_bytes).min(limit_bytes)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Admission {
    bytes: u64,
    expires_ms: u64,
}

/// Sandboxes that were admitted and do not use their memory yet.
#[derive(Debug)]
pub struct Admissions<T> {
    open: HashMap<T, Admission>,
}

impl<T> Default for Admissions<T> {
    fn default() -> Self {
        Self { open: HashMap::new() }
    }
}

impl<T: Eq + Hash + Copy> Admissions<T> {
    /// Admits a sandbox that needs so much, or says why not. One that is admitted already stays so.
    pub fn admit(
        &mut self,
        sandbox: T,
        needed_bytes: u64,
        room: &Headroom,
        now_ms: u64,
    ) -> Result<(), CapacityDetail> {
        self.open.retain(|_, admission| admission.expires_ms > now_ms);
        if self.open.contains_key(&sandbox) {
            return Ok(());
        }
        let admitted_bytes = self.bytes();
        let taken = room.reserve_bytes.saturating_add(admitted_bytes).saturating_add(needed_bytes);
        if room.level == MemoryLevel::Ok && taken <= room.available_bytes {
            let expires_ms = now_ms.saturating_add(ADMISSION_MAX_MS);
            self.open.insert(sandbox, Admission { bytes: needed_bytes, expires_ms });
            return Ok(());
        }
        Err(CapacityDetail {
            level: room.level,
            needed_bytes,
            available_bytes: room.available_bytes,
            reserve_bytes: room.reserve_bytes,
            admitted_bytes,
            retry_after_s: if admitted_bytes > 0 { RETRY_SOON_S } else { RETRY_LATER_S },
        })
    }

    /// The sandbox runs: what it needs shows in the numbers of the kernel soon.
    pub fn launched(&mut self, sandbox: &T, now_ms: u64) {
        if let Some(admission) = self.open.get_mut(sandbox) {
            admission.expires_ms = admission.expires_ms.min(now_ms.saturating_add(ADMISSION_SETTLE_MS));
        }
    }

    /// The sandbox is not to be up any more.
    pub fn release(&mut self, sandbox: &T) {
        self.open.remove(sandbox);
    }

    /// The memory that was admitted and is not in use yet.
    pub fn admitted_bytes(&mut self, now_ms: u64) -> u64 {
        self.open.retain(|_, admission| admission.expires_ms > now_ms);
        self.bytes()
    }

    fn bytes(&self) -> u64 {
        self.open.values().fold(0, |sum, admission| sum.saturating_add(admission.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn room(available_mb: u64) -> Headroom {
        Headroom { level: MemoryLevel::Ok, available_bytes: available_mb * MB, reserve_bytes: 100 * MB }
    }

    #[test]
    fn the_need_is_what_it_used_last_between_a_floor_and_its_limit() {
        for (limit, used, need) in
            [(512, None, 32), (512, Some(9), 32), (512, Some(200), 200), (16, None, 16), (64, Some(200), 64)]
        {
            assert_eq!(expected_need(limit, 32, used), need, "{limit} {used:?}");
        }
    }

    #[test]
    fn as_many_are_admitted_at_once_as_there_is_room_for() {
        let mut admissions = Admissions::default();
        let admitted: Vec<bool> =
            (0..20).map(|id| admissions.admit(id, 32 * MB, &room(200), 0).is_ok()).collect();
        assert_eq!(admitted.iter().filter(|ok| **ok).count(), 3);
        assert!(admitted[..3].iter().all(|ok| *ok));
        let refused = admissions.admit(99, 32 * MB, &room(200), 0).expect_err("there is no room");
        assert_eq!((refused.needed_bytes, refused.admitted_bytes), (32 * MB, 96 * MB));
        assert_eq!((refused.available_bytes, refused.reserve_bytes), (200 * MB, 100 * MB));
        // One that was admitted is not counted twice.
        assert!(admissions.admit(0, 32 * MB, &room(200), 0).is_ok());
    }

    #[test]
    fn an_admission_ends_when_the_memory_is_in_use_or_not_needed() {
        let mut admissions = Admissions::default();
        for id in 0..3 {
            admissions.admit(id, 32 * MB, &room(200), 0).expect("there is room");
        }
        admissions.release(&0);
        admissions.launched(&1, 10);
        assert_eq!(admissions.admitted_bytes(10), 64 * MB);
        assert_eq!(admissions.admitted_bytes(10 + ADMISSION_SETTLE_MS), 32 * MB);
        assert_eq!(admissions.admitted_bytes(ADMISSION_MAX_MS), 0);
        let later = admissions.admit(7, 200 * MB, &room(200), 0).expect_err("no room at all");
        assert!(later.retry_after_s > RETRY_SOON_S);
    }

    #[test]
    fn nothing_is_admitted_under_pressure() {
        for level in [MemoryLevel::Tight, MemoryLevel::Critical] {
            let room = Headroom { level, ..room(10_000) };
            assert!(Admissions::default().admit(1, 1, &room, 0).is_err(), "{level:?}");
        }
    }
}
