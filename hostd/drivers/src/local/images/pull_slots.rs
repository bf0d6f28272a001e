//! Limits concurrent pulls: in total, and for one tenant, so that no tenant holds all slots.

use super::{
    super::limits::{PULL_WAIT_MAX_MS, PULLS_MAX, PULLS_TENANT_MAX},
    image_error::ImageError,
    repeat_progress::repeat_progress,
};
use crate::ProgressSink;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

#[derive(Clone)]
pub struct PullSlots {
    all: Arc<Semaphore>,
    tenants: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

/// Permit for one pull; released on drop.
pub struct PullSlot {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl PullSlots {
    pub fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(PULLS_MAX)), tenants: Arc::default() }
    }

    /// Waits for a slot and reports the wait as progress.
    pub async fn take(
        &self,
        tenant: &str,
        image: &str,
        progress: &ProgressSink,
    ) -> Result<PullSlot, ImageError> {
        let waiting = format!("waiting to pull {image}: other pulls are in progress");
        let slot = repeat_progress(progress, &waiting, |_| {
            timeout(Duration::from_millis(PULL_WAIT_MAX_MS), self.acquire(tenant))
        });
        let late = || ImageError::Unavailable {
            message: format!("no pull slot became free within {} minutes", PULL_WAIT_MAX_MS / 60_000),
        };
        slot.await.ok().flatten().ok_or_else(late)
    }

    /// Takes the tenant's permit first: a pull that waits for its tenant holds no shared permit. `None` only
    /// if a semaphore were closed, which never happens.
    async fn acquire(&self, tenant: &str) -> Option<PullSlot> {
        let own = self.tenant_semaphore(tenant).acquire_owned().await.ok()?;
        let shared = self.all.clone().acquire_owned().await.ok()?;
        Some(PullSlot { _own: own, _shared: shared })
    }

    fn tenant_semaphore(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Every holder and waiter keeps a clone.
        tenants.retain(|_, own| Arc::strong_count(own) > 1);
        let fresh = || Arc::new(Semaphore::new(PULLS_TENANT_MAX));
        tenants.entry(tenant.to_owned()).or_insert_with(fresh).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported() -> (Arc<Mutex<Vec<String>>>, ProgressSink) {
        let reported: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = reported.clone();
        (reported, ProgressSink::new(move |text| listener.lock().expect("one writer").push(text.to_owned())))
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_reported_every_second_and_bounded() {
        let slots = PullSlots::new();
        let (reported, progress) = reported();
        let mut held = vec![];
        for _ in 0..PULLS_TENANT_MAX {
            held.push(slots.take("one", "x", &progress).await.expect("free"));
        }
        assert!(reported.lock().expect("reported").is_empty(), "no pull waited");
        // Another tenant still gets a slot.
        held.push(slots.take("two", "x", &progress).await.expect("free"));
        let late = slots.take("one", "x", &progress).await.err();
        assert!(matches!(late, Some(ImageError::Unavailable { .. })), "{late:?}");
        let seconds = usize::try_from(PULL_WAIT_MAX_MS / 1000).expect("a few");
        let reported = reported.lock().expect("reported").clone();
        assert!(reported.len() >= seconds && reported[0].contains("waiting to pull x"), "{}", reported.len());
        drop(held);
        slots.take("one", "x", &progress).await.expect("free again");
        assert_eq!(slots.tenants.lock().expect("kept").len(), 1, "only who is there is known");
    }
}
