//! Which connections the API keeps when there are more than it has places for.
//!
//! ```text
//!  accepted ──▶ stranger ──a request was authenticated──▶ caller, or administrator in a reserved place
//!                  │ places run out: the one idle for longest,      │ over its share: its own connection
//!                  ▼ else the oldest, is evicted                    ▼ idle for longest is evicted, else refused
//! ```
//!
//! A stranger that just came is always let in, so health checks are answered however many others hang around. A
//! principal may have as many connections as it leaves free: one gets half of all places, two get a third each,
//! and some are free for the next one.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// On which no request was authenticated yet.
    pub strangers: usize,
    /// Of all principals.
    pub callers: usize,
    /// Of the administrator, beside those.
    pub reserved: usize,
}

impl Places {
    /// Divides up so many.
    pub fn of(all: usize) -> Self {
        let (strangers, reserved) = ((all / 8).max(1), (all / 16).max(1));
        Self { strangers, reserved, callers: all.saturating_sub(strangers + reserved).max(1) }
    }

    /// Those of callers that may be streams, so that calls still come through.
    pub fn streams(&self) -> usize {
        self.callers - self.callers / 8
    }
}

/// Whether a principal that has `mine` may have one more when so many are free.
pub fn is_fair(mine: usize, free: usize) -> bool {
    mine < free
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    /// In the place of another one, which must be closed.
    InPlaceOf(ConnectionId),
    Refused(Full),
}

/// Which places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Of this principal: it has so many.
    Share { mine: usize },
    /// Of everybody: there are so many.
    All { callers: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder<W> {
    Stranger,
    Caller(W),
    Administrator,
}

#[derive(Debug)]
struct Connection<W> {
    holder: Holder<W>,
    /// Requests on it that have no whole answer yet.
    busy: usize,
    /// When it became idle, counted in changes.
    idle_since: u64,
}

/// All connections, of principals that `W` tells apart.
#[derive(Debug)]
pub struct Admission<W> {
    places: Places,
    connections: BTreeMap<ConnectionId, Connection<W>>,
    strangers: usize,
    callers: HashMap<W, usize>,
    callers_all: usize,
    administrators: usize,
    /// Grows with each change: the order in which they happened.
    changes: u64,
}

impl<W: Clone + Eq + Hash> Admission<W> {
    pub fn new(places: Places) -> Self {
        Self {
            places,
            connections: BTreeMap::new(),
            strangers: 0,
            callers: HashMap::new(),
            callers_all: 0,
            administrators: 0,
            changes: 0,
        }
    }

    /// A new connection, and the stranger that must be closed for it.
    pub fn open(&mut self) -> (ConnectionId, Option<ConnectionId>) {
        let is_stranger = |connection: &Connection<W>| connection.holder == Holder::Stranger;
        let evicted = if self.strangers < self.places.strangers {
            None
        } else {
            self.idle_longest(is_stranger).or_else(|| {
                let mut all = self.connections.iter();
                all.find(|(_, connection)| is_stranger(connection)).map(|(id, _)| *id)
            })
        };
        if let Some(evicted) = evicted {
            self.close(evicted);
        }
        let since = self.change();
        let id = ConnectionId(since);
        self.connections.insert(id, Connection { holder: Holder::Stranger, busy: 0, idle_since: since });
        self.strangers += 1;
        (id, evicted)
    }

    /// A request on it was authenticated.
    pub fn identify(&mut self, id: ConnectionId, who: &W, administrator: bool) -> Verdict {
        let Some(connection) = self.connections.get(&id) else {
            // Evicted meanwhile: it is being closed.
            return Verdict::Refused(Full::All { callers: self.places.callers });
        };
        if connection.holder == Holder::Caller(who.clone())
            || administrator && connection.holder == Holder::Administrator
        {
            return Verdict::Admitted;
        }
        // It gives back the place that it had, also where it gets no other one.
        self.seat(id, Holder::Stranger);
        let mine = self.callers.get(who).copied().unwrap_or_default();
        if is_fair(mine, self.places.callers.saturating_sub(self.callers_all)) {
            self.seat(id, Holder::Caller(who.clone()));
            return Verdict::Admitted;
        }
        if administrator && self.administrators < self.places.reserved {
            self.seat(id, Holder::Administrator);
            return Verdict::Admitted;
        }
        let replaced = self.idle_longest(|connection| match &connection.holder {
            Holder::Caller(other) => mine == 0 || other == who,
            Holder::Stranger | Holder::Administrator => false,
        });
        match replaced {
            Some(replaced) => {
                self.close(replaced);
                self.seat(id, Holder::Caller(who.clone()));
                Verdict::InPlaceOf(replaced)
            }
            None if mine == 0 => Verdict::Refused(Full::All { callers: self.places.callers }),
            None => Verdict::Refused(Full::Share { mine }),
        }
    }

    /// A request began on it.
    pub fn begin(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy += 1;
        }
    }

    /// A request on it has its whole answer.
    pub fn end(&mut self, id: ConnectionId) {
        let now = self.change();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy = connection.busy.saturating_sub(1);
            connection.idle_since = now;
        }
    }

    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.leave(&connection.holder);
        }
    }

    fn idle_longest(&self, wanted: impl Fn(&Connection<W>) -> bool) -> Option<ConnectionId> {
        let idle = self.connections.iter().filter(|(_, each)| each.busy == 0 && wanted(each));
        idle.min_by_key(|(_, connection)| connection.idle_since).map(|(id, _)| *id)
    }

    fn seat(&mut self, id: ConnectionId, holder: Holder<W>) {
        match &holder {
            Holder::Stranger => self.strangers += 1,
            Holder::Administrator => self.administrators += 1,
            Holder::Caller(who) => {
                *self.callers.entry(who.clone()).or_default() += 1;
                self.callers_all += 1;
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            let before = std::mem::replace(&mut connection.holder, holder);
            self.leave(&before);
        }
    }

    fn leave(&mut self, holder: &Holder<W>) {
        match holder {
            Holder::Stranger => self.strangers -= 1,
            Holder::Administrator => self.administrators -= 1,
            Holder::Caller(who) => {
                self.callers_all -= 1;
                if let Some(count) = self.callers.get_mut(who) {
                    *count -= 1;
                    if *count == 0 {
                        self.callers.remove(who);
                    }
                }
            }
        }
    }

    fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }
}

#[cfg(test)]
#[path = "connection_admission_tests.rs"]
mod tests;
