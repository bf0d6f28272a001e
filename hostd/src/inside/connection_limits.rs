//! Limits the connections from inside: a few that every sandbox always has, more as long as the shared ones
//! last. So no number of greedy sandboxes keeps another one out.

use super::limits::{
    CONNECTIONS_MORE, CONNECTIONS_OWN, CONNECTIONS_SHARED_MAX, CONNECTIONS_SHARED_MIN,
    CONNECTIONS_SHARED_PART,
};
use nix::sys::resource::{Resource, getrlimit};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits that all sandboxes share.
#[derive(Clone)]
pub struct SharedPermits(Arc<Semaphore>);

impl SharedPermits {
    /// As many as the descriptor limit allows.
    pub fn of_this_host() -> Self {
        let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let part = usize::try_from(descriptors / CONNECTIONS_SHARED_PART).unwrap_or(usize::MAX);
        Self::new(part.clamp(CONNECTIONS_SHARED_MIN, CONNECTIONS_SHARED_MAX))
    }

    fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }
}

/// The limits of one sandbox.
pub struct ConnectionLimits {
    own: Arc<Semaphore>,
    more: Arc<Semaphore>,
    shared: SharedPermits,
}

/// The permit of one connection, returned when dropped.
pub struct ConnectionPermit {
    _own: OwnedSemaphorePermit,
    _shared: Option<OwnedSemaphorePermit>,
}

impl ConnectionLimits {
    pub fn new(shared: SharedPermits) -> Self {
        let semaphore = |count| Arc::new(Semaphore::new(count));
        Self { own: semaphore(CONNECTIONS_OWN), more: semaphore(CONNECTIONS_MORE), shared }
    }

    /// Waits for a permit; one of the sandbox's own first.
    pub async fn take(&self) -> ConnectionPermit {
        tokio::select! {
            biased;
            // Both branches only wait: a permit that was not returned was not taken.
            own = permit(&self.own) => ConnectionPermit { _own: own, _shared: None },
            place = self.take_shared() => place,
        }
    }

    async fn take_shared(&self) -> ConnectionPermit {
        let own = permit(&self.more).await;
        ConnectionPermit { _own: own, _shared: Some(permit(&self.shared.0).await) }
    }
}

async fn permit(of: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    of.clone().acquire_owned().await.expect("never closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// Runs without a runtime, whose cooperative budget would make ready futures wait now and then.
    #[test]
    fn a_greedy_sandbox_gets_its_share_and_no_number_of_them_keeps_another_out() {
        let shared = SharedPermits::new(2_000);
        let fill = |places: ConnectionLimits| {
            let taken: Vec<ConnectionPermit> = std::iter::from_fn(|| places.take().now_or_never()).collect();
            (places, taken)
        };
        let (_first, taken) = fill(ConnectionLimits::new(shared.clone()));
        assert_eq!(taken.len(), CONNECTIONS_OWN + CONNECTIONS_MORE);
        let greedy: Vec<_> = (0..100).map(|_| fill(ConnectionLimits::new(shared.clone()))).collect();
        assert_eq!(shared.0.available_permits(), 0, "all of them together have everything");
        let (late, mut taken) = fill(ConnectionLimits::new(shared.clone()));
        assert_eq!(taken.len(), CONNECTIONS_OWN);
        drop(greedy);
        taken.extend(std::iter::from_fn(|| late.take().now_or_never()));
        assert_eq!(taken.len(), CONNECTIONS_OWN + CONNECTIONS_MORE);
    }
}
