//! Limits of SSE streams, terminal viewers and tunnels. Fewer than there are connections, so that other calls still
//! get through; and each principal may hold at most as many permits as are left free, so that others can
//! stream too. Streams on the Unix socket have permits of their own.

use super::{call::Call, error::CallError, serve::connections_max};
use hostd_core::{
    Identity,
    connection_admission::{AdmissionLimits, is_within_fair_share},
};
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use protocol::api::{ApiErrorCode, Label};

pub type Principal = (Label, Label);

pub struct StreamLimits {
    tcp: StreamPermits,
    unix: StreamPermits,
}

struct StreamPermits {
    max: usize,
    in_use: KeyedLimiter<Principal>,
}

/// The permit of one stream, released when dropped.
pub type StreamPermit = KeyedPermit<Principal>;

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
        Self { max, in_use: KeyedLimiter::default() }
    }

    fn acquire(&self, caller: &Identity) -> Result<StreamPermit, CallError> {
        let principal = (caller.tenant.clone(), caller.principal.clone());
        self.in_use.acquire(principal, |in_use| self.check(in_use))
    }

    fn check(&self, in_use: InUse) -> Result<(), CallError> {
        let InUse { mine, total } = in_use;
        let free = self.max.saturating_sub(total);
        let message = if free == 0 {
            format!(
                "all {} event streams, terminals and tunnels are in use; close some, or try again in a moment",
                self.max
            )
        } else if !is_within_fair_share(mine, free) {
            format!(
                "this principal has {mine} event streams, terminals and tunnels open, its fair share; close some"
            )
        } else {
            return Ok(());
        };
        Err(CallError::new(ApiErrorCode::TooMany, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::TokenScope;

    fn caller(principal: &str) -> Identity {
        let label = |text| Label::parse(text).expect("a label");
        let (tenant, principal) = (label("acme"), label(principal));
        Identity {
            tenant,
            principal,
            scope: TokenScope::Read,
            operator: false,
            via: String::new(),
            expires_ms: None,
        }
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
        assert!(permits.in_use.is_empty(), "released permits leave no entries");
        assert_eq!(take(&caller("ann")).len(), 50);
    }
}
