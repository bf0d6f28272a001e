//! Connections by HTTP. Their ids are signed, so that one is known after a restart of hostd too; what is in memory are the
//! responses that were not read, and the sessions that are open.

use super::{
    authentication::TokenHash,
    connection::{Connection, Shared, Transport},
    kept_stream::{KeptBytes, KeptStream},
    limits,
    outbox::Outbox,
    session_id::SessionId,
};
use crate::ApiFailure;
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

pub struct HttpConnection {
    pub connection: Arc<Connection>,
    /// Responses that are of no session, or open one.
    pub kept: Arc<KeptStream>,
    owner: ConnectionOwner,
    /// The streams of sessions: a new one ends the one before.
    streams: Mutex<HashMap<SessionId, CancellationToken>>,
}

/// Whose a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionOwner {
    pub tenant: Label,
    pub token: TokenHash,
}

#[derive(Default)]
pub struct HttpConnections {
    state: Mutex<State>,
    kept_bytes: KeptBytes,
}

#[derive(Default)]
struct State {
    connections: HashMap<String, Arc<HttpConnection>>,
    /// Ids in the order of their use, oldest first.
    used: VecDeque<String>,
    /// Ids of connections that were closed.
    closed: VecDeque<String>,
}

impl HttpConnections {
    /// Returns the connection with this id, which was verified; `None` where its client closed it.
    pub fn get(
        &self,
        shared: &Shared,
        owner: &ConnectionOwner,
        id: &str,
        now_ms: u64,
    ) -> Result<Option<Arc<HttpConnection>>, ApiFailure> {
        let mut state = self.state();
        if state.closed.iter().any(|closed| closed == id) {
            return Ok(None);
        }
        state.used.retain(|used| used != id);
        state.used.push_back(id.to_owned());
        if let Some(known) = state.connections.get(id) {
            return Ok(Some(known.clone()));
        }
        if let Err(failure) = state.make_room(owner) {
            state.used.pop_back();
            return Err(failure);
        }
        let kept = Arc::new(KeptStream::new(now_ms, self.kept_bytes.clone()));
        let outbox = Outbox::Kept(kept.clone());
        let connection = Connection::new(id.to_owned(), Transport::Http, outbox, shared);
        let owner = owner.clone();
        let made = Arc::new(HttpConnection { connection, kept, owner, streams: Mutex::default() });
        state.connections.insert(id.to_owned(), made.clone());
        Ok(Some(made))
    }

    /// Ends a connection; whether there was one.
    pub fn close(&self, id: &str) -> bool {
        let mut state = self.state();
        if state.closed.iter().any(|closed| closed == id) {
            return false;
        }
        state.closed.push_back(id.to_owned());
        let excess = state.closed.len().saturating_sub(limits::HTTP_CONNECTIONS_MAX);
        state.closed.drain(..excess);
        state.remove(id);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections of which one makes way.
#[derive(Debug, PartialEq, Eq)]
enum Crowd {
    Token(ConnectionOwner),
    Tenant(Label),
}

impl Crowd {
    fn includes(&self, owner: &ConnectionOwner) -> bool {
        match self {
            Self::Token(crowded) => owner == crowded,
            Self::Tenant(tenant) => owner.tenant == *tenant,
        }
    }
}

impl State {
    /// Forgets unused connections until there is room for one of this owner.
    fn make_room(&mut self, owner: &ConnectionOwner) -> Result<(), ApiFailure> {
        loop {
            let Some(crowd) = self.crowd(owner) else { return Ok(()) };
            let unused = self.used.iter().find(|id| {
                self.connections
                    .get(*id)
                    .is_some_and(|known| known.is_unused() && crowd.includes(&known.owner))
            });
            let Some(unused) = unused.cloned() else {
                let message = "too many connections of editors are open; close some, or use a WebSocket";
                return Err(ApiFailure::new(ApiErrorCode::TooMany, message));
            };
            self.remove(&unused);
        }
    }

    /// Whose connections leave no room for one more of this owner.
    fn crowd(&self, owner: &ConnectionOwner) -> Option<Crowd> {
        let of_token = self.connections.values().filter(|known| known.owner == *owner).count();
        if of_token >= limits::HTTP_CONNECTIONS_OF_TOKEN_MAX {
            return Some(Crowd::Token(owner.clone()));
        }
        let mut of_tenants: HashMap<&Label, usize> = HashMap::new();
        for known in self.connections.values() {
            *of_tenants.entry(&known.owner.tenant).or_default() += 1;
        }
        let own = of_tenants.get(&owner.tenant).copied().unwrap_or_default();
        if own >= limits::HTTP_CONNECTIONS_OF_TENANT_MAX {
            return Some(Crowd::Tenant(owner.tenant.clone()));
        }
        if self.connections.len() < limits::HTTP_CONNECTIONS_MAX {
            return None;
        }
        // Nobody makes way for a tenant that has as many.
        let largest =
            of_tenants.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > own);
        Some(Crowd::Tenant(largest.map_or(&owner.tenant, |(tenant, _)| tenant).clone()))
    }

    fn remove(&mut self, id: &str) {
        self.used.retain(|used| used != id);
        if let Some(removed) = self.connections.remove(id) {
            removed.connection.ended.cancel();
            removed.kept.close();
        }
    }
}

impl HttpConnection {
    /// Whether no stream and no request uses it. Streams hold the connection.
    fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && !self.connection.is_busy()
    }

    /// Begins a stream of a session. The token is cancelled when another one begins.
    pub fn begin_stream(&self, session: &SessionId) -> CancellationToken {
        let token = self.connection.ended.child_token();
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = streams.insert(session.clone(), token.clone()) {
            before.cancel();
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_net::keyed_locks::KeyedLocks;
    use tokio_util::task::TaskTracker;

    #[test]
    fn a_tenant_makes_way_for_itself_and_the_largest_for_the_others() {
        let shared = Shared {
            locks: KeyedLocks::default(),
            work: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        let all = HttpConnections::default();
        let owner = |tenant: &str, token: usize| ConnectionOwner {
            tenant: Label::parse(tenant).expect("a label"),
            token: [u8::try_from(token).expect("small"); 32],
        };
        let open = |tenant: &str, number: usize| {
            let owner = owner(tenant, number / limits::HTTP_CONNECTIONS_OF_TOKEN_MAX);
            let opened = all.get(&shared, &owner, &format!("{tenant} {number}"), 0).ok().flatten();
            opened.expect("room").owner.tenant.as_str().to_owned()
        };
        let count = |tenant: &str| {
            let state = all.state();
            state.connections.values().filter(|known| known.owner.tenant.as_str() == tenant).count()
        };
        let most = limits::HTTP_CONNECTIONS_OF_TENANT_MAX;
        open("z", 0);
        for number in 0..=most {
            open("a", number);
        }
        assert_eq!((count("a"), count("z")), (most, 1), "it evicts its own only");
        for tenant in ["b", "c", "d"] {
            for number in 0..most {
                open(tenant, number);
            }
        }
        let total = || all.state().connections.len();
        assert_eq!((total(), count("z")), (limits::HTTP_CONNECTIONS_MAX, 1));
        open("z", 1);
        assert_eq!((total(), count("z")), (limits::HTTP_CONNECTIONS_MAX, 2), "the largest makes way");
        // Connections that are in use make way for none.
        let held: Vec<_> = all.state().connections.values().cloned().collect();
        assert!(all.get(&shared, &owner("y", 0), "y 0", 0).is_err());
        drop(held);
        open("y", 0);
        assert_eq!(count("y"), 1);
    }
}
