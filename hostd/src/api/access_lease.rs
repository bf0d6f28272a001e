//! The lease of a call on its access: what the caller was granted when the call began, and the moment it is taken away.
//! A response that goes on for long (a stream, a terminal, a tunnel, an upload) ends with its lease.
//!
//! ```text
//!  DELETE …/shares, destroy ─▶ store: ShareIndex ─┐
//!  DELETE /v1/tokens/{token} ─▶ Api: revocations ─┴─▶ AccessLease::ended ─▶ body, WebSocket, handler
//! ```

use super::error::CallError;
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use hostd_core::{Identity, SandboxAccess};
use hostd_store::{SandboxRecord, Store};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use protocol::api::{ApiErrorCode, Owner, SandboxId};
use std::{
    future::pending,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};
use tokio::sync::watch;

pub struct AccessLease {
    store: Store,
    caller: Identity,
    /// The access that the route needs.
    required: SandboxAccess,
    /// Counts revoked tokens; subscribed to before the caller was authenticated.
    revocations: watch::Receiver<u64>,
    /// The sandbox of the call, once it is known.
    sandbox: OnceLock<LeasedSandbox>,
}

struct LeasedSandbox {
    id: SandboxId,
    owner: Owner,
    access: SandboxAccess,
}

/// Why a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The sandbox is not shared with the caller any more, or no longer to run.
    Unshared,
    TokenRevoked,
}

impl AccessLease {
    pub fn new(
        store: Store,
        caller: Identity,
        required: SandboxAccess,
        revocations: watch::Receiver<u64>,
    ) -> Arc<Self> {
        Arc::new(Self { store, caller, required, revocations, sandbox: OnceLock::new() })
    }

    /// Takes the lease on a sandbox, if the caller has the access that the route needs. A sandbox that the caller may
    /// not see is reported as not found.
    pub fn take(&self, record: &SandboxRecord) -> Result<(), CallError> {
        let access = self.access_to(&record.id, &record.owner).ok_or_else(CallError::foreign)?;
        if access < self.required {
            return Err(insufficient(access, self.required));
        }
        // A call has one sandbox: a second one would be the same.
        let _ = self.sandbox.set(LeasedSandbox { id: record.id, owner: record.owner.clone(), access });
        Ok(())
    }

    /// Whether the caller may run something in the sandbox of this call: wake it, or start a process.
    pub fn allows_run(&self) -> bool {
        self.sandbox.get().is_some_and(|sandbox| sandbox.access >= SandboxAccess::Run)
    }

    fn access_to(&self, id: &SandboxId, owner: &Owner) -> Option<SandboxAccess> {
        self.caller.access_to(owner, &self.store.shares().of(id))
    }

    /// Returns when the access is taken away. Safe to cancel, and may be called again.
    pub async fn ended(&self) -> LeaseEnd {
        if self.caller.operator {
            return pending().await;
        }
        let (mut shares, mut revocations) = (self.store.shares().changes(), self.revocations.clone());
        loop {
            shares.mark_unchanged();
            if self.is_unshared() {
                return LeaseEnd::Unshared;
            }
            tokio::select! {
                // Both branches only wait: what changed is looked up.
                Ok(()) = shares.changed() => {}
                Ok(()) = revocations.changed() => {
                    if self.is_token_revoked().await {
                        return LeaseEnd::TokenRevoked;
                    }
                }
                // hostd ends.
                else => return pending().await,
            }
        }
    }

    /// The same, for a call that is done whatever happens: only what it tells about a sandbox is withheld.
    pub async fn ended_on_sandbox(&self) -> LeaseEnd {
        let end = self.ended().await;
        match self.sandbox.get() {
            Some(_) => end,
            None => pending().await,
        }
    }

    fn is_unshared(&self) -> bool {
        let access = |sandbox: &LeasedSandbox| self.access_to(&sandbox.id, &sandbox.owner);
        self.sandbox.get().is_some_and(|sandbox| access(sandbox) < Some(self.required))
    }

    /// A signed URL has no token. A token that cannot be looked up is not trusted.
    async fn is_token_revoked(&self) -> bool {
        let found = self.store.token(&self.caller.via).await;
        found.map_or(true, |token| token.is_some_and(|token| token.revoked_ms.is_some()))
    }

    /// Ends the body of a response with the lease, unless it is there already. The body is aborted: its reader must not
    /// take a part for the whole.
    pub fn bind(self: Arc<Self>, response: Response) -> Response {
        if self.caller.operator || response.body().size_hint().exact().is_some() {
            return response;
        }
        let ended = Box::pin(async move { self.ended().await });
        response.map(|body| Body::new(LeasedBody { body, ended }))
    }
}

impl LeaseEnd {
    /// The reason, for a person.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unshared => "this sandbox is no longer shared with you for this",
            Self::TokenRevoked => "this token was revoked",
        }
    }

    pub fn error(self) -> CallError {
        let code = match self {
            Self::Unshared => ApiErrorCode::Forbidden,
            Self::TokenRevoked => ApiErrorCode::Unauthorized,
        };
        CallError::new(code, self.reason())
    }
}

/// Says what is missing to a caller that may see the sandbox.
fn insufficient(access: SandboxAccess, required: SandboxAccess) -> CallError {
    let shared = match access {
        SandboxAccess::Read => "to read",
        SandboxAccess::Run | SandboxAccess::Own => "to run",
    };
    let message = match required {
        SandboxAccess::Read | SandboxAccess::Run => {
            format!(
                "this sandbox is shared with you {shared}; this call needs it shared to run: ask its owner"
            )
        }
        SandboxAccess::Own => {
            format!(
                "this sandbox is shared with you {shared}; only its owner and admins of the tenant may do this"
            )
        }
    };
    CallError::new(ApiErrorCode::Forbidden, message)
}

struct LeasedBody {
    body: Body,
    ended: Pin<Box<dyn Future<Output = LeaseEnd> + Send>>,
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(end) = self.ended.as_mut().poll(cx) {
            // Polled again, it would panic.
            self.ended = Box::pin(pending());
            return Poll::Ready(Some(Err(end.reason().into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map(|frame| frame.map(|each| each.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
