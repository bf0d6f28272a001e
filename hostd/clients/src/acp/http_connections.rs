//! Connections by HTTP. Their ids are signed, so that one is known after a restart of hostd too; what is in memory are the
//! responses that were not read, and the sessions that are open.

use super::{
    authentication::TokenHash,
    connection::{Connection, Shared, Transport},
    kept_stream::KeptStream,
    limits,
    outbox::Outbox,
    session_id::SessionId,
};
use crate::ApiFailure;
use protocol::api::ApiErrorCode;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

pub struct HttpConnection {
    pub connection: Arc<Connection>,
    /// Responses that are of no session, or open one.
    pub kept: Arc<KeptStream>,
    token: TokenHash,
    /// The streams of sessions: a new one ends the one before.
    streams: Mutex<HashMap<SessionId, CancellationToken>>,
}

#[derive(Default)]
pub struct HttpConnections {
    state: Mutex<State>,
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
        token: TokenHash,
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
        if let Err(failure) = state.make_room(&token) {
            state.used.pop_back();
            return Err(failure);
        }
        let kept = Arc::new(KeptStream::new(now_ms));
        let outbox = Outbox::Kept(kept.clone());
        let connection = Connection::new(id.to_owned(), Transport::Http, outbox, shared);
        let made = Arc::new(HttpConnection { connection, kept, token, streams: Mutex::default() });
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

impl State {
    /// Forgets unused connections until there is room for one of this token.
    fn make_room(&mut self, token: &TokenHash) -> Result<(), ApiFailure> {
        loop {
            let of_token = self.connections.values().filter(|known| known.token == *token).count();
            let crowded = of_token >= limits::HTTP_CONNECTIONS_OF_TOKEN_MAX;
            if !crowded && self.connections.len() < limits::HTTP_CONNECTIONS_MAX {
                return Ok(());
            }
            let unused = self.used.iter().find(|id| {
                self.connections
                    .get(*id)
                    .is_some_and(|known| known.is_unused() && (!crowded || known.token == *token))
            });
            let Some(unused) = unused.cloned() else {
                let message = "too many connections of editors are open; close some, or use a WebSocket";
                return Err(ApiFailure::new(ApiErrorCode::TooMany, message));
            };
            self.remove(&unused);
        }
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
