//! Permits of TCP connections to the API, as decided by `core::connection_admission`: connections are counted
//! by principal, and evicted when another connection gets their permit. The Unix socket has limits of its
//! own.

use super::error::CallError;
use hostd_core::{
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

/// Permits of all connections. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionLimiter {
    state: Arc<Mutex<State>>,
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
        Self { state: Arc::new(Mutex::new(state)) }
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

    /// Returns when another connection got this permit.
    pub async fn evicted(&self) -> Eviction {
        self.evicted.cancelled().await;
        if self.authenticated.load(Relaxed) { Eviction::AfterResponse } else { Eviction::Immediate }
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
