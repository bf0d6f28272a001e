//! A connection of an editor: takes its messages, and answers its requests.
//!
//! ```text
//!  message ─▶ receive ─┬─ request ──▶ methods ──────▶ response
//!                      ├─ prompt ───▶ task ─ feed ──▶ updates … response
//!                      ├─ notification: cancel
//!                      └─ response: the answer to a permission request
//! ```

use super::{
    attached::Attached,
    feed::Feed,
    limits,
    methods::{self, Answer},
    outbox::{Gone, Outbox},
    params::QueryDefaults,
    permission_answer,
    rpc::{self, Incoming, RpcError},
    session_id::{PermissionRef, SessionId},
};
use crate::ApiClient;
use hostd_net::keyed_locks::KeyedLocks;
use protocol::api::SandboxId;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

/// How a session is told of its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By the one socket, from when the session is opened.
    Socket,
    /// By a stream that the editor opens.
    Http,
}

/// The sender of a message: the credential and the settings of its request.
#[derive(Clone)]
pub struct Caller {
    pub api: ApiClient,
    pub defaults: QueryDefaults,
}

pub struct Connection {
    /// Makes keys of requests that have none of their own different from those of other connections.
    pub name: String,
    pub transport: Transport,
    pub outbox: Outbox,
    pub locks: KeyedLocks<SandboxId>,
    sessions: Mutex<HashMap<SessionId, Arc<Attached>>>,
    open_requests: Arc<Semaphore>,
    work: TaskTracker,
    /// Cancelled when the connection ends, or hostd shuts down.
    pub ended: CancellationToken,
}

/// Parts of hostd that connections need.
#[derive(Clone)]
pub struct Shared {
    pub locks: KeyedLocks<SandboxId>,
    pub work: TaskTracker,
    pub closing: CancellationToken,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Connection {
    pub fn new(name: String, transport: Transport, outbox: Outbox, shared: &Shared) -> Arc<Self> {
        Arc::new(Self {
            name,
            transport,
            outbox,
            locks: shared.locks.clone(),
            sessions: Mutex::default(),
            open_requests: Arc::new(Semaphore::new(limits::OPEN_REQUESTS_MAX)),
            work: shared.work.clone(),
            ended: shared.closing.child_token(),
        })
    }

    /// Takes a message. Its work goes on in the background, until the connection ends.
    pub async fn receive(self: &Arc<Self>, caller: Caller, text: &[u8]) -> Result<(), Gone> {
        match rpc::parse(text) {
            Ok(Incoming::Request { id, method, params }) => self.on_request(caller, id, method, params).await,
            Ok(Incoming::Notification { method, params }) => {
                self.on_notification(caller, &method, params).await;
                Ok(())
            }
            Ok(Incoming::Response { id, outcome }) => {
                self.on_response(caller, &id, outcome).await;
                Ok(())
            }
            Err(malformed) => self.outbox.tell(rpc::response(&malformed.id, Err(malformed.error))).await,
        }
    }

    async fn on_request(
        self: &Arc<Self>,
        caller: Caller,
        id: Value,
        method: String,
        params: Value,
    ) -> Result<(), Gone> {
        let Ok(permit) = self.open_requests.clone().try_acquire_owned() else {
            let most = limits::OPEN_REQUESTS_MAX;
            let message = format!("{most} requests of this connection are open; wait for a response");
            return self
                .outbox
                .tell(rpc::response(&id, Err(RpcError::new(rpc::INTERNAL_ERROR, message))))
                .await;
        };
        let submission = (method == methods::PROMPT).then(|| self.submitted_to(&caller, &params)).flatten();
        let this = self.clone();
        self.spawn(async move {
            let counted = submission.as_ref().map(|session| session.submission());
            let answer = methods::call(&this, &caller, &id, &method, &params).await;
            drop(counted);
            this.answer(&id, answer, permit).await;
        });
        Ok(())
    }

    /// The session of a prompt. Counted before the next message is read, so that a cancellation comes after it.
    fn submitted_to(self: &Arc<Self>, caller: &Caller, params: &Value) -> Option<Arc<Attached>> {
        let id = SessionId::parse(params["sessionId"].as_str()?)?;
        let session = self.attach(&caller.api, &id).ok()?;
        session.begin_submission();
        Some(session)
    }

    async fn answer(&self, id: &Value, answer: Result<Answer, RpcError>, permit: OwnedSemaphorePermit) {
        let (outcome, then) = match answer {
            Ok(Answer::Later) => return,
            Ok(Answer::Now(result)) => (Ok(result), None),
            Ok(Answer::Then(result, feed)) => (Ok(result), Some(feed)),
            Err(error) => (Err(error), None),
        };
        drop(permit);
        // Not sent: the connection ends.
        let _ = self.outbox.tell(rpc::response(id, outcome)).await;
        if let Some(feed) = then {
            self.start(*feed);
        }
    }

    async fn on_notification(self: &Arc<Self>, caller: Caller, method: &str, params: Value) {
        let this = self.clone();
        match method {
            "session/cancel" => {
                let work = async move { methods::cancel(&this, &caller, &params).await };
                self.spawn_quiet("session/cancel", work).await;
            }
            "$/cancel_request" => {
                let work = async move { methods::cancel_request(&this, &caller, &params).await };
                self.spawn_quiet("$/cancel_request", work).await;
            }
            // As the protocol wants it.
            _ => {}
        }
    }

    async fn on_response(self: &Arc<Self>, caller: Caller, id: &Value, outcome: Result<Value, Value>) {
        let Some(asked) = id.as_str().and_then(PermissionRef::parse) else { return };
        if let Some(session) = self.attached(&asked.session) {
            session.answered(&asked.to_string());
        }
        let work = async move { permission_answer::give(&caller.api, &asked, outcome).await };
        self.spawn_quiet("answer to a permission request", work).await;
    }

    /// Works on a message that has no response, as one of the open requests: waits while there are too many.
    async fn spawn_quiet(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<(), RpcError>> + Send + 'static,
    ) {
        // Fails only when the semaphore is closed, which it never is.
        let Ok(permit) = self.open_requests.clone().acquire_owned().await else { return };
        self.spawn(async move {
            if let Err(error) = work.await {
                debug!(%error, message = what, "message of an editor without effect");
            }
            drop(permit);
        });
    }

    /// Works in the background, until the connection ends.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.work.spawn(async move {
            tokio::select! {
                // Cancelled at any point: what it stored in hostd is found again by a repeated request.
                () = work => {}
                () = ended.cancelled() => {}
            }
        });
    }

    /// Opens a session on this connection, or returns it where it is open already.
    pub fn attach(self: &Arc<Self>, api: &ApiClient, id: &SessionId) -> Result<Arc<Attached>, RpcError> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id) {
            return Ok(session.clone());
        }
        let session = self.insert(&mut sessions, id)?;
        drop(sessions);
        if self.transport == Transport::Socket {
            self.start(self.feed(api, &session));
        }
        Ok(session)
    }

    /// Opens a session anew, without telling of its tasks yet: see [`Answer::Then`].
    pub fn attach_anew(&self, id: &SessionId) -> Result<Arc<Attached>, RpcError> {
        let mut sessions = self.sessions();
        let before = sessions.remove(id);
        let session = self.insert(&mut sessions, id)?;
        if let Some(before) = before {
            before.ended.cancel();
            session.take_over(&before);
        }
        Ok(session)
    }

    /// Lets go of a session that could not be opened anew. Where requests of the editor wait in it, they get their
    /// responses first.
    pub fn give_up_opening(&self, feed: Feed) {
        let id = feed.session.id.clone();
        self.forget(&id);
        if self.attached(&id).is_some() {
            self.start(feed);
        }
    }

    fn insert(
        &self,
        sessions: &mut HashMap<SessionId, Arc<Attached>>,
        id: &SessionId,
    ) -> Result<Arc<Attached>, RpcError> {
        if sessions.len() >= limits::SESSIONS_OPEN_MAX {
            let most = limits::SESSIONS_OPEN_MAX;
            let message = format!("{most} sessions of this connection are open; close one");
            return Err(RpcError::new(rpc::INTERNAL_ERROR, message));
        }
        let session = Arc::new(Attached::new(id.clone(), self.ended.child_token()));
        sessions.insert(id.clone(), session.clone());
        Ok(session)
    }

    pub fn feed(&self, api: &ApiClient, session: &Arc<Attached>) -> Feed {
        Feed { api: api.clone(), session: session.clone(), to: self.outbox.clone() }
    }

    /// Tells of the tasks of a session by the socket, until it is closed.
    fn start(&self, feed: Feed) {
        if self.transport == Transport::Http {
            // By the stream that the editor opens.
            return;
        }
        let ended = feed.session.ended.clone();
        self.work.spawn(async move {
            tokio::select! {
                // The receiver is gone.
                () = feed.run() => {}
                () = ended.cancelled() => {}
            }
        });
    }

    pub fn attached(&self, id: &SessionId) -> Option<Arc<Attached>> {
        self.sessions().get(id).cloned()
    }

    pub fn all_attached(&self) -> Vec<Arc<Attached>> {
        self.sessions().values().cloned().collect()
    }

    /// Lets go of a session that does not exist, unless requests still wait for tasks that it had.
    pub fn forget(&self, id: &SessionId) {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id).filter(|session| session.has_no_prompts()) {
            session.ended.cancel();
            sessions.remove(id);
        }
    }

    pub fn detach(&self, id: &SessionId) -> Option<Arc<Attached>> {
        self.sessions().remove(id)
    }

    /// Whether a request is being worked on.
    pub fn is_busy(&self) -> bool {
        self.open_requests.available_permits() < limits::OPEN_REQUESTS_MAX
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Attached>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::session_id::SessionNumber, *};
    use crate::{ApiService, Credential};
    use axum::{body::Body, response::Response};
    use hyper::Request;
    use protocol::TaskId;
    use serde_json::json;
    use tokio::sync::mpsc;

    fn api() -> ApiClient {
        let service = ApiService::new(tower::service_fn(async |_| Ok(Response::new(Body::empty()))));
        ApiClient::of(service, &Request::new(()), Credential::Connection)
    }

    #[tokio::test]
    async fn a_session_that_could_not_be_opened_anew_is_let_go_unless_requests_wait() {
        let shared = Shared {
            locks: KeyedLocks::default(),
            work: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        let (sender, _receiver) = mpsc::channel(1);
        let connection = Connection::new("c".to_owned(), Transport::Socket, Outbox::Stream(sender), &shared);
        let sandbox = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let id = SessionNumber::derive("key").in_sandbox(sandbox);
        let session = connection.attach_anew(&id).expect("room");
        connection.give_up_opening(connection.feed(&api(), &session));
        assert!(connection.attached(&id).is_none() && session.ended.is_cancelled());
        assert_eq!(shared.work.len(), 0);

        let before = connection.attach_anew(&id).expect("room");
        before.expect(&TaskId::parse("t").expect("an id"), json!(1));
        let session = connection.attach_anew(&id).expect("room");
        connection.give_up_opening(connection.feed(&api(), &session));
        assert!(connection.attached(&id).is_some() && !session.ended.is_cancelled());
        assert_eq!(shared.work.len(), 1, "a feed tells of the task");
    }
}
