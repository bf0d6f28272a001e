//! How many calls a sandbox makes at once, and how much of their bodies is held: some for each, and a sum for all.

use super::{
    limits::{BODIES_ALL_MAX_BYTES, BODIES_MAX_BYTES, CALLS_MAX, OWN_ANSWERS, READS_MAX, SANDBOXES_MAX},
    refusal::Refusal,
};
use crate::core::RateLimiter;
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Places {
    shared: Arc<Shared>,
}

struct Shared {
    by_sandbox: Mutex<HashMap<SandboxId, Arc<Counted>>>,
    bytes: AtomicUsize,
    /// Long bodies that are being read.
    reads: Arc<Semaphore>,
}

impl Default for Shared {
    fn default() -> Self {
        let reads = Arc::new(Semaphore::new(READS_MAX));
        Self { by_sandbox: Mutex::default(), bytes: AtomicUsize::new(0), reads }
    }
}

struct Counted {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    since: Instant,
    own_answers: Mutex<RateLimiter>,
}

impl Default for Counted {
    fn default() -> Self {
        let own_answers = Mutex::new(RateLimiter::new(OWN_ANSWERS, 0));
        Self { calls: AtomicUsize::new(0), bytes: AtomicUsize::new(0), since: Instant::now(), own_answers }
    }
}

impl Counted {
    fn own_answers(&self) -> MutexGuard<'_, RateLimiter> {
        self.own_answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call, as long as this lives.
pub struct Place {
    shared: Arc<Shared>,
    counted: Arc<Counted>,
}

/// Bytes that are held, as long as this lives.
pub struct Room {
    shared: Arc<Shared>,
    counted: Arc<Counted>,
    bytes: usize,
}

impl Places {
    fn of(&self, sandbox: &SandboxId) -> Arc<Counted> {
        let mut all = self.shared.by_sandbox.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SANDBOXES_MAX {
            all.retain(|_, counted| Arc::strong_count(counted) > 1);
        }
        all.entry(*sandbox).or_default().clone()
    }

    /// Whether hostd may have to answer this sandbox once more.
    pub fn hears(&self, sandbox: &SandboxId) -> bool {
        let counted = self.of(sandbox);
        let now_ms = u64::try_from(counted.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        counted.own_answers().try_acquire(now_ms)
    }

    /// A provider answered.
    pub fn answered_for(&self, sandbox: &SandboxId) {
        self.of(sandbox).own_answers().refund();
    }

    pub fn take(&self, sandbox: &SandboxId) -> Result<Place, Refusal> {
        let counted = self.of(sandbox);
        let shared = self.shared.clone();
        if !add(&counted.calls, 1, CALLS_MAX) {
            return Err(Refusal::TooMany);
        }
        Ok(Place { shared, counted })
    }
}

impl Place {
    /// The turn of a long body to be read, as long as it lives.
    pub async fn reading(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        // It is never closed.
        self.shared.reads.clone().acquire_owned().await.map_err(|_| Refusal::TooMany)
    }

    pub fn room(&self) -> Room {
        Room { shared: self.shared.clone(), counted: self.counted.clone(), bytes: 0 }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counted.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Room {
    /// So much more is held.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !add(&self.counted.bytes, bytes, BODIES_MAX_BYTES) {
            return Err(Refusal::TooMany);
        }
        if !add(&self.shared.bytes, bytes, BODIES_ALL_MAX_BYTES) {
            self.counted.bytes.fetch_sub(bytes, Ordering::SeqCst);
            return Err(Refusal::TooMany);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.counted.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.shared.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

fn add(to: &AtomicUsize, more: usize, max: usize) -> bool {
    let sum = |now: usize| now.checked_add(more).filter(|sum| *sum <= max);
    to.fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn sandbox(n: u32) -> SandboxId {
        format!("01j00000000000000000{n:06}").parse().expect("an id")
    }

    #[test]
    fn a_sandbox_has_so_many_calls_at_once_and_takes_none_from_others() {
        let places = Places::default();
        let mut taken: Vec<Place> = (0..CALLS_MAX).map(|_| places.take(&sandbox(1)).expect("free")).collect();
        assert!(matches!(places.take(&sandbox(1)), Err(Refusal::TooMany)));
        places.take(&sandbox(2)).expect("another's");
        taken.pop();
        places.take(&sandbox(1)).expect("free again");
    }

    #[test]
    fn bodies_are_bounded_for_each_and_for_all_and_given_back() {
        let places = Places::default();
        let place = places.take(&sandbox(1)).expect("free");
        let (mut first, mut second) = (place.room(), place.room());
        first.grow(BODIES_MAX_BYTES - 10).expect("room");
        assert_eq!(second.grow(11), Err(Refusal::TooMany));
        second.grow(10).expect("just enough");
        drop(first);
        second.grow(11).expect("given back");
        let others: Vec<(Place, Room)> = (2..20)
            .map(|n| {
                let place = places.take(&sandbox(n)).expect("free");
                let mut room = place.room();
                // Too much for all of them.
                let _ = room.grow(BODIES_MAX_BYTES);
                (place, room)
            })
            .collect();
        let late = places.take(&sandbox(99)).expect("free");
        assert_eq!(late.room().grow(BODIES_MAX_BYTES), Err(Refusal::TooMany));
        drop(others);
        late.room().grow(BODIES_MAX_BYTES).expect("room again");
    }

    #[test]
    fn long_bodies_are_read_a_few_at_a_time() {
        let places = Places::default();
        let place = places.take(&sandbox(1)).expect("free");
        let read = || place.reading().now_or_never();
        let mut reading: Vec<_> = std::iter::repeat_with(read).take(READS_MAX).collect();
        assert!(reading.iter().all(Option::is_some) && read().is_none());
        reading.pop();
        assert!(read().is_some());
    }

    #[test]
    fn a_sandbox_is_answered_by_hostd_so_often_and_takes_nothing_from_others() {
        let places = Places::default();
        let heard = (0..10_000).filter(|_| places.hears(&sandbox(1))).count();
        assert!((200..5_000).contains(&heard), "{heard}");
        assert!(places.hears(&sandbox(2)));
        for _ in 0..10_000 {
            assert!(places.hears(&sandbox(3)), "what a provider answered is given back");
            places.answered_for(&sandbox(3));
        }
    }

    #[test]
    fn sandboxes_without_a_call_are_forgotten() {
        let places = Places::default();
        let _kept = places.take(&sandbox(0)).expect("free");
        for n in 0..u32::try_from(SANDBOXES_MAX).expect("small") + 10 {
            places.take(&sandbox(n)).expect("free");
        }
        let all = places.shared.by_sandbox.lock().expect("mine");
        assert!(all.len() < 100 && all.contains_key(&sandbox(0)), "{}", all.len());
    }
}
