//! Connections to the API over TCP, as `core::connection_admission` admits them: this is where they are told apart
//! by principal, and closed when another one gets their place. The Unix socket has places of its own and no part
//! in this.

use super::error::CallError;
use crate::core::{
    Identity,
    connection_admission::{Admission, AdmissionDecision, AdmissionLimits, ConnectionId, LimitReached},
};
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio_util::sync::CancellationToken;

type Principal = (Label, Label);

/// All of them. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionLimiter {
    state: Arc<Mutex<State>>,
}

struct State {
    admission: Admission<Principal>,
    evictions: HashMap<ConnectionId, CancellationToken>,
}

/// The place of one connection, until this is dropped.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    id: ConnectionId,
    evicted: CancellationToken,
    authenticated: AtomicBool,
}

/// A request on a connection, until its answer was sent.
pub struct ActiveRequest {
    permit: Arc<ConnectionPermit>,
}

/// How a connection ends whose place another one got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Nobody is known to use it.
    Immediate,
    /// It was idle; a request that came meanwhile is answered.
    AfterResponse,
}

impl ConnectionLimiter {
    pub fn new(places: AdmissionLimits) -> Self {
        let state = State { admission: Admission::new(places), evictions: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A place for a connection that was accepted.
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
    /// A request on this connection was authenticated: refuses it where the principal has too many connections.
    pub fn identify(&self, caller: &Identity) -> Result<(), CallError> {
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
        self.limiter.state().admission.begin(self.id);
        ActiveRequest { permit: self.clone() }
    }

    /// Returns when another connection got this place.
    pub async fn evicted(&self) -> Eviction {
        self.evicted.cancelled().await;
        if self.authenticated.load(Relaxed) { Eviction::AfterResponse } else { Eviction::Immediate }
    }
}

fn too_many(full: LimitReached) -> CallError {
    let message = match full {
        LimitReached::PerCaller { mine } => format!(
            "this principal has {mine} connections to the API, its share of those that are left; close streams or \
             reuse connections, then try again"
        ),
        LimitReached::All { callers } => format!(
            "all {callers} connections of the API are in use; try again in a moment, or use hostd's Unix socket on \
             the host"
        ),
    };
    CallError::new(ApiErrorCode::TooMany, message)
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
