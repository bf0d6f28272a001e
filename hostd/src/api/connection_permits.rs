//! Permits of TCP connections to the API, as decided by `core::connection_admission`: connections are counted
//! by principal, and evicted when another connection gets their permit. Where a connection carries many requests at a
//! time (HTTP/2), each of them counts for the share of its principal as well. The Unix socket has limits of its own.

use super::error::CallError;
use hostd_core::{
    Identity,
    connection_admission::{
        Admission, AdmissionDecision, AdmissionLimits, ConnectionId, LimitReached, is_within_fair_share,
    },
};
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio_util::sync::CancellationToken;

type Principal = (Label, Label);

/// Permits of all connections. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionLimiter {
    state: Arc<Mutex<State>>,
    /// Requests in flight on connections that carry many at a time.
    multiplexed: KeyedLimiter<Principal>,
    multiplexed_max: usize,
}

struct State {
    admission: Admission<Principal>,
    evictions: HashMap<ConnectionId, CancellationToken>,
}

/// The permit of one connection, released when dropped.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    id: ConnectionId,
    evicted: CancellationToken,
    authenticated: AtomicBool,
}

/// A request in flight, until its response was sent.
pub struct ActiveRequest {
    permit: Arc<ConnectionPermit>,
    sharing: Sharing,
}

/// Whether a request has its connection for itself.
enum Sharing {
    Alone,
    /// One of many, with a permit of its own once its caller is known.
    Multiplexed(OnceLock<KeyedPermit<Principal>>),
}

/// How an evicted connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// No request on it was authenticated.
    Immediate,
    /// An idle connection: a request that arrived meanwhile still gets its response.
    AfterResponse,
}

impl ConnectionLimiter {
    pub fn new(places: AdmissionLimits) -> Self {
        let state = State { admission: Admission::new(places), evictions: HashMap::new() };
        Self {
            state: Arc::new(Mutex::new(state)),
            multiplexed: KeyedLimiter::default(),
            multiplexed_max: places.callers,
        }
    }

    /// Returns the permit of an accepted connection.
    pub fn open(&self) -> Arc<ConnectionPermit> {
        let evicted = CancellationToken::new();
        let mut state = self.state();
        let (id, replaced) = state.admission.open();
        state.evict(replaced);
        state.evictions.insert(id, evicted.clone());
        drop(state);
        Arc::new(ConnectionPermit {
            limiter: self.clone(),
            id,
            evicted,
            authenticated: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn evict(&mut self, replaced: Option<ConnectionId>) {
        if let Some(eviction) = replaced.and_then(|id| self.evictions.remove(&id)) {
            eviction.cancel();
        }
    }
}

impl ConnectionPermit {
    /// Counts the connection for the caller of an authenticated request; an error when the principal has too
    /// many connections.
    fn identify(&self, caller: &Identity) -> Result<(), CallError> {
        let principal = (caller.tenant.clone(), caller.principal.clone());
        let mut state = self.limiter.state();
        let full = match state.admission.identify(self.id, &principal, caller.operator) {
            AdmissionDecision::Admitted => None,
            AdmissionDecision::Replacing(replaced) => {
                state.evict(Some(replaced));
                None
            }
            AdmissionDecision::Refused(full) => Some(full),
        };
        drop(state);
        self.authenticated.store(full.is_none(), Relaxed);
        match full {
            None => Ok(()),
            Some(full) => Err(too_many(full)),
        }
    }

    pub fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.begin_request(Sharing::Alone)
    }

    /// Begins one of many requests of the connection.
    pub fn begin_multiplexed(self: &Arc<Self>) -> ActiveRequest {
        self.begin_request(Sharing::Multiplexed(OnceLock::new()))
    }

    fn begin_request(self: &Arc<Self>, sharing: Sharing) -> ActiveRequest {
        self.limiter.state().admission.begin(self.id);
        ActiveRequest { permit: self.clone(), sharing }
    }

    /// Whether a request of the connection was authenticated, and the connection admitted.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Relaxed)
    }

    /// Returns when another connection got this permit.
    pub async fn evicted(&self) -> Eviction {
        self.evicted.cancelled().await;
        if self.is_authenticated() { Eviction::AfterResponse } else { Eviction::Immediate }
    }
}

fn too_many(full: LimitReached) -> CallError {
    let message = match full {
        LimitReached::PerCaller { mine } => format!(
            "this principal has {mine} connections to the API open, its fair share; close streams or reuse connections, then try again"
        ),
        LimitReached::All { callers } => format!(
            "all {callers} connections of the API are in use; try again in a moment, or use hostd's Unix socket on \
             the host"
        ),
    };
    CallError::new(ApiErrorCode::TooMany, message)
}

impl ActiveRequest {
    /// Counts connection and request for the caller, who was authenticated; an error when the principal has too many.
    pub fn identify(&self, caller: &Identity) -> Result<(), CallError> {
        self.permit.identify(caller)?;
        match &self.sharing {
            Sharing::Alone => Ok(()),
            // It was counted already, by an earlier call that a protocol made for it.
            Sharing::Multiplexed(share) if share.get().is_some() => Ok(()),
            // The operator gets through, as with connections.
            Sharing::Multiplexed(_) if caller.operator => Ok(()),
            Sharing::Multiplexed(share) => {
                let limiter = &self.permit.limiter;
                let principal = (caller.tenant.clone(), caller.principal.clone());
                let most = limiter.multiplexed_max;
                let taken = limiter.multiplexed.acquire(principal, |in_use| check_share(in_use, most))?;
                // A request is identified once; a second permit would be released at once.
                let _ = share.set(taken);
                Ok(())
            }
        }
    }
}

/// Checks that a principal may have one more request in flight.
fn check_share(in_use: InUse, most: usize) -> Result<(), CallError> {
    let InUse { mine, total } = in_use;
    if is_within_fair_share(mine, most.saturating_sub(total)) {
        return Ok(());
    }
    let message = format!(
        "this principal has {mine} requests in flight, its fair share; close streams, or try again in a moment"
    );
    Err(CallError::new(ApiErrorCode::TooMany, message))
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        state.admission.close(self.id);
        state.evictions.remove(&self.id);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.permit.limiter.state().admission.end(self.permit.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::TokenScope;

    #[test]
    fn requests_of_one_connection_count_one_by_one() {
        let limiter =
            ConnectionLimiter::new(AdmissionLimits { unauthenticated: 4, callers: 10, reserved: 1 });
        let permit = limiter.open();
        let label = |text| Label::parse(text).expect("a label");
        let caller = |principal, operator| Identity {
            tenant: label("acme"),
            principal: label(principal),
            scope: TokenScope::Run,
            operator,
            via: String::new(),
            expires_ms: None,
        };
        let begin = |who: &Identity| {
            let request = permit.begin_multiplexed();
            request.identify(who).map(|()| request)
        };
        let requests = |who: &Identity| std::iter::from_fn(|| begin(who).ok()).take(100).collect::<Vec<_>>();
        let (ann, bob) = (caller("ann", false), caller("bob", false));
        let of_ann = requests(&ann);
        assert_eq!(of_ann.len(), 5, "half of them");
        let of_bob = requests(&bob);
        assert_eq!(of_bob.len(), 3, "half of the rest");
        let refused = begin(&ann).err().expect("over its share");
        assert_eq!(refused.error.code, ApiErrorCode::TooMany);
        assert_eq!(requests(&caller("root", true)).len(), 100, "the operator gets through");
        assert!(permit.begin().identify(&ann).is_ok(), "a request that is alone counts as its connection");
        drop((of_ann, of_bob));
        assert_eq!(requests(&ann).len(), 5);
        assert!(limiter.multiplexed.is_empty(), "released permits leave no entries");
    }
}
