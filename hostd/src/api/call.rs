//! One request, as a handler sees it: the caller is known and allowed, the body is read.

use super::{Api, connection_permits::ConnectionPermit, error::CallError, query::Query, request_body};
use crate::{
    control::Control,
    core::{Access, Identity},
    store::SandboxRecord,
};
use axum::body::Body;
use bytes::Bytes;
use hyper::{HeaderMap, header::ACCEPT, upgrade::OnUpgrade};
use protocol::{
    ExecId, ServiceName,
    api::{ApiErrorCode, Label, Missing, MissingKind, SandboxId},
};
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex};

pub struct Call {
    pub api: Arc<Api>,
    pub caller: Identity,
    /// The variable parts of the path, by name.
    pub params: Vec<(String, String)>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Where the body is not read whole.
    pub stream: TakeOnce<Body>,
    pub upgrade: Option<OnUpgrade>,
    /// The place of its connection; the Unix socket has none.
    pub permit: Option<Arc<ConnectionPermit>>,
    /// Since when the call has its `Idempotency-Key`: a repetition after a crash has the same time.
    pub claimed_ms: Option<u64>,
}

/// What can be taken once. Never shared: the lock only makes it `Sync`.
pub struct TakeOnce<T>(Mutex<Option<T>>);

impl<T> TakeOnce<T> {
    pub fn new(value: Option<T>) -> Self {
        Self(Mutex::new(value))
    }

    pub fn take(&mut self) -> Option<T> {
        self.0.get_mut().ok().and_then(Option::take)
    }
}

impl Call {
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        request_body::parse(&self.body)
    }

    pub fn param(&self, name: &str) -> Result<&str, CallError> {
        let found = self.params.iter().find(|(each, _)| each == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(CallError::not_found)
    }

    /// A malformed id is the id of nothing.
    pub fn exec_id(&self) -> Result<ExecId, CallError> {
        ExecId::parse(self.param("exec")?).map_err(|_| CallError::not_found())
    }

    pub fn service(&self) -> Result<ServiceName, CallError> {
        ServiceName::parse(self.param("service")?).map_err(|_| CallError::not_found())
    }

    /// The sandbox the path names, if it is there for this caller.
    pub async fn sandbox(&self) -> Result<Arc<SandboxRecord>, CallError> {
        self.sandbox_by(self.param("id")?).await
    }

    pub async fn sandbox_by(&self, id: &str) -> Result<Arc<SandboxRecord>, CallError> {
        let found = self.visible_sandbox(id).await;
        found.map_err(|failure| failure.with_resource(|| Some(Missing::new(MissingKind::Sandbox, id))))
    }

    /// A malformed id is the id of nothing.
    async fn visible_sandbox(&self, id: &str) -> Result<Arc<SandboxRecord>, CallError> {
        let id: SandboxId = id.parse().map_err(|_| CallError::not_found())?;
        let record = self.api.fleet.record(&id).await?;
        if self.caller.can_see(&record.owner) { Ok(record) } else { Err(CallError::foreign()) }
    }

    /// The way into the sandbox the path names. Wakes it, unless the caller does not want that or may
    /// only look.
    pub async fn control(&self) -> Result<(Arc<SandboxRecord>, Control), CallError> {
        let id = self.sandbox().await?.id;
        self.control_of(&id).await
    }

    /// The same for one that this caller was seen to have.
    pub async fn control_of(&self, id: &SandboxId) -> Result<(Arc<SandboxRecord>, Control), CallError> {
        let wakes = self.query.flag("wake", true)? && self.caller.allows(Access::Write);
        if wakes {
            // What it is asked to do may be to delete files, and that takes a few bytes of the disk.
            self.api.fleet.disk().ensure_free();
        }
        let control = if wakes { self.api.fleet.wake(id).await } else { self.api.fleet.control(id).await };
        Ok(control?)
    }

    /// The tenant and principal whose things this caller sees; `None` is all of them.
    pub fn tenant_filter(&self) -> (Option<Label>, Option<Label>) {
        let (tenant, principal) = (self.caller.tenant.clone(), self.caller.principal.clone());
        match (self.caller.operator, self.caller.scope) {
            (true, _) => (None, None),
            (false, protocol::api::TokenScope::Admin) => (Some(tenant), None),
            (false, _) => (Some(tenant), Some(principal)),
        }
    }

    pub fn accepts(&self, kind: &str) -> bool {
        let accept = self.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accept
            .flat_map(|value| value.split(','))
            .any(|part| part.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind)))
    }
}

pub fn forbidden(field: &str, message: &str) -> CallError {
    let error = protocol::api::ApiError::new(ApiErrorCode::Forbidden, message);
    error.with(|detail| detail.field = Some(field.to_owned())).into()
}
