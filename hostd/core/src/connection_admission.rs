//! Which connections the API keeps when there are more than its limits allow.
//!
//! ```text
//!  accepted ──▶ unauthenticated ──a request was authenticated──▶ caller, or administrator on a reserved one
//!                  │ limit reached: the one idle for longest,       │ over its share: its own connection idle
//!                  ▼ else the oldest, is evicted                    ▼ for longest is evicted, else refused
//! ```
//!
//! A new connection is always accepted, so health checks get responses however many others are open. A principal
//! may have as many connections as it leaves free: one gets half of all, two get a third each, and some are free
//! for the next one.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// How many connections there may be, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Connections without an authenticated request so far.
    pub unauthenticated: usize,
    /// Connections of all principals together.
    pub callers: usize,
    /// Connections of the administrator, beside those of callers.
    pub reserved: usize,
}

impl AdmissionLimits {
    /// Divides up `all` connections.
    pub fn of(all: usize) -> Self {
        let (unauthenticated, reserved) = ((all / 8).max(1), (all / 16).max(1));
        Self { unauthenticated, reserved, callers: all.saturating_sub(unauthenticated + reserved).max(1) }
    }

    /// Connections of callers that may be streams, so that calls still come through.
    pub fn streams(&self) -> usize {
        self.callers - self.callers / 8
    }
}

/// Whether a principal with `mine` connections may have one more when so many are free.
pub fn is_within_fair_share(mine: usize, free: usize) -> bool {
    mine < free
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionDecision {
    Admitted,
    /// Admitted in place of this one, which must be closed.
    Replacing(ConnectionId),
    Refused(LimitReached),
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReached {
    /// The share of this principal, which has so many connections.
    PerCaller { mine: usize },
    /// The limit of all principals together.
    All { callers: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ConnectionClass<W> {
    Unauthenticated,
    Caller(W),
    Administrator,
}

#[derive(Debug)]
struct Connection<W> {
    class: ConnectionClass<W>,
    /// Requests without a complete response so far.
    busy: usize,
    /// The tick at which it became idle.
    idle_since: u64,
}

/// All connections; `W` identifies a principal.
#[derive(Debug)]
pub struct Admission<W> {
    limits: AdmissionLimits,
    connections: BTreeMap<ConnectionId, Connection<W>>,
    unauthenticated: usize,
    callers: HashMap<W, usize>,
    callers_all: usize,
    administrators: usize,
    /// Counts changes, which orders them.
    ticks: u64,
}

impl<W: Clone + Eq + Hash> Admission<W> {
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            connections: BTreeMap::new(),
            unauthenticated: 0,
            callers: HashMap::new(),
            callers_all: 0,
            administrators: 0,
            ticks: 0,
        }
    }

    /// Admits a new connection; returns the unauthenticated one that must be closed for it, if any.
    pub fn open(&mut self) -> (ConnectionId, Option<ConnectionId>) {
        let is_unauthenticated =
            |connection: &Connection<W>| connection.class == ConnectionClass::Unauthenticated;
        let evicted = if self.unauthenticated < self.limits.unauthenticated {
            None
        } else {
            self.idle_longest(is_unauthenticated).or_else(|| {
                let mut all = self.connections.iter();
                all.find(|(_, connection)| is_unauthenticated(connection)).map(|(id, _)| *id)
            })
        };
        if let Some(evicted) = evicted {
            self.close(evicted);
        }
        let since = self.tick();
        let id = ConnectionId(since);
        self.connections
            .insert(id, Connection { class: ConnectionClass::Unauthenticated, busy: 0, idle_since: since });
        self.unauthenticated += 1;
        (id, evicted)
    }

    /// Decides about a connection when a request on it was authenticated.
    pub fn identify(&mut self, id: ConnectionId, caller: &W, administrator: bool) -> AdmissionDecision {
        let Some(connection) = self.connections.get(&id) else {
            // The connection was evicted meanwhile, and is being closed.
            return AdmissionDecision::Refused(LimitReached::All { callers: self.limits.callers });
        };
        if connection.class == ConnectionClass::Caller(caller.clone())
            || administrator && connection.class == ConnectionClass::Administrator
        {
            return AdmissionDecision::Admitted;
        }
        // The connection gives up its previous class, also where it is not admitted to another one.
        self.assign(id, ConnectionClass::Unauthenticated);
        let mine = self.callers.get(caller).copied().unwrap_or_default();
        if is_within_fair_share(mine, self.limits.callers.saturating_sub(self.callers_all)) {
            self.assign(id, ConnectionClass::Caller(caller.clone()));
            return AdmissionDecision::Admitted;
        }
        if administrator && self.administrators < self.limits.reserved {
            self.assign(id, ConnectionClass::Administrator);
            return AdmissionDecision::Admitted;
        }
        let replaced = self.idle_longest(|connection| match &connection.class {
            ConnectionClass::Caller(other) => mine == 0 || other == caller,
            ConnectionClass::Unauthenticated | ConnectionClass::Administrator => false,
        });
        match replaced {
            Some(replaced) => {
                self.close(replaced);
                self.assign(id, ConnectionClass::Caller(caller.clone()));
                AdmissionDecision::Replacing(replaced)
            }
            None if mine == 0 => {
                AdmissionDecision::Refused(LimitReached::All { callers: self.limits.callers })
            }
            None => AdmissionDecision::Refused(LimitReached::PerCaller { mine }),
        }
    }

    /// Called when a request begins on a connection.
    pub fn begin(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy += 1;
        }
    }

    /// Called when a request on a connection has its complete response.
    pub fn end(&mut self, id: ConnectionId) {
        let now = self.tick();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy = connection.busy.saturating_sub(1);
            connection.idle_since = now;
        }
    }

    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.release(&connection.class);
        }
    }

    fn idle_longest(&self, wanted: impl Fn(&Connection<W>) -> bool) -> Option<ConnectionId> {
        let idle = self.connections.iter().filter(|(_, each)| each.busy == 0 && wanted(each));
        idle.min_by_key(|(_, connection)| connection.idle_since).map(|(id, _)| *id)
    }

    fn assign(&mut self, id: ConnectionId, class: ConnectionClass<W>) {
        match &class {
            ConnectionClass::Unauthenticated => self.unauthenticated += 1,
            ConnectionClass::Administrator => self.administrators += 1,
            ConnectionClass::Caller(caller) => {
                *self.callers.entry(caller.clone()).or_default() += 1;
                self.callers_all += 1;
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            let before = std::mem::replace(&mut connection.class, class);
            self.release(&before);
        }
    }

    fn release(&mut self, class: &ConnectionClass<W>) {
        match class {
            ConnectionClass::Unauthenticated => self.unauthenticated -= 1,
            ConnectionClass::Administrator => self.administrators -= 1,
            ConnectionClass::Caller(caller) => {
                self.callers_all -= 1;
                if let Some(count) = self.callers.get_mut(caller) {
                    *count -= 1;
                    if *count == 0 {
                        self.callers.remove(caller);
                    }
                }
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

#[cfg(test)]
#[path = "connection_admission_tests.rs"]
mod tests;
