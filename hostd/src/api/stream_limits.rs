//! Limits of SSE streams and terminal viewers. Fewer than there are connections, so that other calls still
//! get through; and each principal may hold at most as many permits as are left free, so that others can
//! stream too. Streams on the Unix socket have permits of their own.

use super::{call::Call, error::CallError, serve::connections_max};
use hostd_core::{
    Identity,
    connection_admission::{AdmissionLimits, is_within_fair_share},
};
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Principal = (Label, Label);

pub struct StreamLimits {
    tcp: StreamPermits,
    unix: StreamPermits,
}

#[derive(Clone)]
struct StreamPermits {
    max: usize,
    counts: Arc<Mutex<StreamCounts>>,
}

#[derive(Default)]
struct StreamCounts {
    total: usize,
    by_principal: HashMap<Principal, usize>,
}

/// The permit of one stream, released when dropped.
pub struct StreamPermit {
    permits: StreamPermits,
    principal: Principal,
}

impl Default for StreamLimits {
    fn default() -> Self {
        let max = AdmissionLimits::of(connections_max()).streams();
        Self { tcp: StreamPermits::new(max), unix: StreamPermits::new(max) }
    }
}

impl Call {
    /// Returns a permit for a stream of this caller.
    pub fn stream_permit(&self) -> Result<StreamPermit, CallError> {
        let StreamLimits { tcp, unix } = &self.api.stream_limits;
        if self.permit.is_some() { tcp.acquire(&self.caller) } else { unix.acquire(&self.caller) }
    }
}

impl StreamPermits {
    fn new(max: usize) -> Self {
        Self { max, counts: Arc::default() }
    }

    fn acquire(&self, caller: &Identity) -> Result<StreamPermit, CallError> {
        let principal = (caller.tenant.clone(), caller.principal.clone());
        let mut counts = self.lock();
        let mine = counts.by_principal.get(&principal).copied().unwrap_or_default();
        let free = self.max.saturating_sub(counts.total);
        if free == 0 {
            let message = format!(
                "all {} event streams and terminals are in use; close some, or try again in a moment",
                self.max
            );
            return Err(CallError::new(ApiErrorCode::TooMany, message));
        }
        if !is_within_fair_share(mine, free) {
            let message = format!(
                "this principal has {mine} event streams and terminals open, its fair share; close some"
            );
            return Err(CallError::new(ApiErrorCode::TooMany, message));
        }
        counts.total += 1;
        *counts.by_principal.entry(principal.clone()).or_default() += 1;
        drop(counts);
        Ok(StreamPermit { permits: self.clone(), principal })
    }

    fn lock(&self) -> MutexGuard<'_, StreamCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut counts = self.permits.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_principal.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                counts.by_principal.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::TokenScope;

    fn caller(principal: &str) -> Identity {
        let label = |text| Label::parse(text).expect("a label");
        let (tenant, principal) = (label("acme"), label(principal));
        Identity { tenant, principal, scope: TokenScope::Read, operator: false, via: String::new() }
    }

    #[test]
    fn one_principal_leaves_permits_for_others() {
        let permits = StreamPermits::new(100);
        let take =
            |caller: &Identity| std::iter::from_fn(|| permits.acquire(caller).ok()).collect::<Vec<_>>();
        let greedy = take(&caller("ann"));
        assert_eq!(greedy.len(), 50);
        let second = take(&caller("bob"));
        assert_eq!(second.len(), 25);
        assert!(permits.acquire(&caller("cid")).is_ok());
        drop((greedy, second));
        assert!(
            permits.lock().by_principal.is_empty() && permits.lock().total == 0,
            "released permits leave no entries"
        );
        assert_eq!(take(&caller("ann")).len(), 50);
    }
}
