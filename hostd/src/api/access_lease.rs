//! The lease of a call on its access: what the caller was granted when the call began, and the moment it is taken away.
//! A response that goes on for long (a stream, a terminal, a tunnel, an upload) ends with its lease.

use super::error::CallError;
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use hostd_core::SandboxAccess;
use hostd_store::{
    SandboxRecord,
    access_watch::{AccessEnd, AccessWatch},
};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use protocol::api::{ApiErrorCode, Owner, SandboxId};
use std::{
    future::pending,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

pub struct AccessLease {
    watch: AccessWatch,
    /// The access that the route needs.
    required: SandboxAccess,
    /// The sandbox of the call, once it is known.
    sandbox: OnceLock<LeasedSandbox>,
}

struct LeasedSandbox {
    id: SandboxId,
    owner: Owner,
    access: SandboxAccess,
}

impl AccessLease {
    pub fn new(watch: AccessWatch, required: SandboxAccess) -> Arc<Self> {
        Arc::new(Self { watch, required, sandbox: OnceLock::new() })
    }

    /// Takes the lease on a sandbox, if the caller has the access that the route needs. A sandbox that the caller may
    /// not see is reported as not found.
    pub fn take(&self, record: &SandboxRecord) -> Result<(), CallError> {
        let access = self.watch.access_to(&record.id, &record.owner).ok_or_else(CallError::foreign)?;
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

    /// Returns when the access is taken away. Safe to cancel, and may be called again.
    pub async fn ended(&self) -> AccessEnd {
        let access = |sandbox: &LeasedSandbox| self.watch.access_to(&sandbox.id, &sandbox.owner);
        let is_unshared = || self.sandbox.get().is_some_and(|sandbox| access(sandbox) < Some(self.required));
        self.watch.ended(is_unshared).await
    }

    /// The same, for a call that is done whatever happens: only what it tells about a sandbox is withheld.
    pub async fn ended_on_sandbox(&self) -> AccessEnd {
        let end = self.ended().await;
        match self.sandbox.get() {
            Some(_) => end,
            None => pending().await,
        }
    }

    /// Ends the body of a response with the lease. The body is aborted: its reader must not take a part for the whole.
    pub fn bind(self: Arc<Self>, response: Response) -> Response {
        if self.watch.caller().operator {
            return response;
        }
        response.map(|body| Body::new(LeasedBody { body, lease: self, begun: false, ended: None }))
    }
}

pub fn lease_error(end: AccessEnd) -> CallError {
    let code = match end {
        AccessEnd::Unshared => ApiErrorCode::Forbidden,
        AccessEnd::TokenRevoked | AccessEnd::TokenExpired => ApiErrorCode::Unauthorized,
    };
    CallError::new(code, end.reason())
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
    lease: Arc<AccessLease>,
    /// Whether a frame was asked for.
    begun: bool,
    /// Made when it is needed. A body that is in memory is there with its first frame, and needs none; its size says
    /// nothing, since a stream may announce its own.
    ended: Option<Pin<Box<dyn Future<Output = AccessEnd> + Send>>>,
}

impl LeasedBody {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx).map(|frame| frame.map(|each| each.map_err(Into::into)))
    }
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if !this.begun {
            this.begun = true;
            let first = this.poll_body(cx);
            if first.is_ready() {
                return first;
            }
        }
        let lease = &this.lease;
        let ended = this.ended.get_or_insert_with(|| {
            let lease = lease.clone();
            Box::pin(async move { lease.ended().await })
        });
        if let Poll::Ready(end) = ended.as_mut().poll(cx) {
            // Polled again, it would panic.
            this.ended = Some(Box::pin(pending()));
            return Poll::Ready(Some(Err(end.reason().into())));
        }
        this.poll_body(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_core::{Grantee, Identity, Share};
    use hostd_store::{
        Clock, ShareChange,
        fixture::{empty, insert, new_sandbox},
    };
    use http_body_util::BodyExt;
    use protocol::api::{Label, ShareAccess, TokenScope};

    /// A stream that announces its size, and gives one frame without another being ready.
    struct Announced {
        frames: u64,
    }

    impl HttpBody for Announced {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            if self.frames == 0 {
                return Poll::Pending;
            }
            self.frames -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(10)
        }
    }

    #[tokio::test]
    async fn a_body_ends_with_its_lease_whatever_size_it_announces() {
        let (_dir, store) = empty();
        let record = insert(&store, new_sandbox(1, None)).await;
        let principal = Label::parse("guest").expect("a label");
        let share = Share { grantee: Grantee::Principal(principal.clone()), access: ShareAccess::Read };
        let tenant = record.owner.tenant.clone();
        let change = || ShareChange { sandbox: record.id, by: "ann".to_owned(), now_ms: 7 };
        for frames in [0, 1, 9] {
            store.put_share(change(), share.clone()).await.expect("shared");
            let (via, scope) = (String::new(), TokenScope::Run);
            let caller = Identity {
                tenant: tenant.clone(),
                principal: principal.clone(),
                scope,
                operator: false,
                via,
                expires_ms: None,
            };
            let watch = AccessWatch::new(store.clone(), caller, Clock::new(), store.token_revocations());
            let lease = AccessLease::new(watch, SandboxAccess::Read);
            lease.take(&record).expect("it is shared");
            let mut body = lease.bind(Response::new(Body::new(Announced { frames }))).into_body();
            assert_eq!(body.size_hint().exact(), Some(10));
            if frames > 0 {
                body.frame().await.expect("a frame").expect("shared");
            }
            store.remove_shares(change(), None).await.expect("unshared");
            let cut = body.frame().await.expect("not the end").expect_err("not shared any more");
            assert!(cut.to_string().contains("no longer shared"), "{cut}");
        }
    }
}
