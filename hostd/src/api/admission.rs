//! Connections to the API over TCP, as `core::connection_admission` admits them: this is where they are told apart
//! by principal, and closed when another one gets their place. The Unix socket has places of its own and no part
//! in this.

use super::failure::Failure;
use crate::core::{
    Identity,
    connection_admission::{Admission, ConnectionId, Full, Places, Verdict},
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

type Who = (Label, Label);

/// All of them. Cheap to clone.
#[derive(Clone)]
pub struct Admissions {
    state: Arc<Mutex<State>>,
}

struct State {
    admission: Admission<Who>,
    evictions: HashMap<ConnectionId, CancellationToken>,
}

/// The place of one connection, until this is dropped.
pub struct Seat {
    of: Admissions,
    id: ConnectionId,
    evicted: CancellationToken,
    is_known: AtomicBool,
}

/// A request on a connection, until its answer was sent.
pub struct Busy {
    seat: Arc<Seat>,
}

/// How a connection ends whose place another one got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Nobody is known to use it.
    AtOnce,
    /// It was idle; a request that came meanwhile is answered.
    AfterAnswer,
}

impl Admissions {
    pub fn new(places: Places) -> Self {
        let state = State { admission: Admission::new(places), evictions: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A place for a connection that was accepted.
    pub fn open(&self) -> Arc<Seat> {
        let evicted = CancellationToken::new();
        let mut state = self.state();
        let (id, replaced) = state.admission.open();
        state.evict(replaced);
        state.evictions.insert(id, evicted.clone());
        drop(state);
        Arc::new(Seat { of: self.clone(), id, evicted, is_known: AtomicBool::new(false) })
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

impl Seat {
    /// A request on this connection was authenticated: refuses it where the principal has too many connections.
    pub fn identify(&self, who: &Identity) -> Result<(), Failure> {
        let principal = (who.tenant.clone(), who.principal.clone());
        let mut state = self.of.state();
        let full = match state.admission.identify(self.id, &principal, who.operator) {
            Verdict::Admitted => None,
            Verdict::InPlaceOf(replaced) => {
                state.evict(Some(replaced));
                None
            }
            Verdict::Refused(full) => Some(full),
        };
        drop(state);
        self.is_known.store(full.is_none(), Relaxed);
        match full {
            None => Ok(()),
            Some(full) => Err(too_many(full)),
        }
    }

    pub fn begin(self: &Arc<Self>) -> Busy {
        self.of.state().admission.begin(self.id);
        Busy { seat: self.clone() }
    }

    /// Returns when another connection got this place.
    pub async fn evicted(&self) -> Eviction {
        self.evicted.cancelled().await;
        if self.is_known.load(Relaxed) { Eviction::AfterAnswer } else { Eviction::AtOnce }
    }
}

fn too_many(full: Full) -> Failure {
    let message = match full {
        Full::Share { mine } => format!(
            "this principal has {mine} connections to the API, its share of those that are left; close streams or \
             reuse connections, then try again"
        ),
        Full::All { callers } => format!(
            "all {callers} connections of the API are in use; try again in a moment, or use hostd's Unix socket on \
             the host"
        ),
    };
    Failure::new(ApiErrorCode::TooMany, message)
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.admission.close(self.id);
        state.evictions.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.seat.of.state().admission.end(self.seat.id);
    }
}
