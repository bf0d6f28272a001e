//! `Call`: a request as its handler gets it, with the caller authenticated and authorized and the body read.

use super::{
    Api, access_lease::AccessLease, connection_permits::ConnectionPermit, error::CallError, query::Query,
    request_body, views,
};
use axum::body::Body;
use bytes::Bytes;
use hostd_core::{Identity, SandboxAccess};
use hostd_drivers::control::Control;
use hostd_net::backpressure::{LargeReads, SourceWindow};
use hostd_store::SandboxRecord;
use hyper::{HeaderMap, header::ACCEPT, upgrade::OnUpgrade};
use protocol::{
    ExecId, ServiceName,
    api::{
        ApiErrorCode, Label, Missing, MissingKind, SandboxId, SandboxView, ShareAccess, SharedView,
        TokenScope,
    },
};
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex};

pub struct Call {
    pub api: Arc<Api>,
    pub caller: Identity,
    /// Ends when the access of the caller is taken away.
    pub lease: Arc<AccessLease>,
    /// Path parameters by name.
    pub params: Vec<(String, String)>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body of routes that stream it.
    pub stream: TakeOnce<Body>,
    /// The connection that it comes from.
    pub source: Option<SourceWindow>,
    pub upgrade: Option<OnUpgrade>,
    /// The permit of a TCP connection; connections on the Unix socket have none.
    pub permit: Option<Arc<ConnectionPermit>>,
    /// When the `Idempotency-Key` was first claimed: a repetition after a crash has the same time.
    pub claimed_ms: Option<u64>,
}

/// A value that is taken at most once. Never shared: the mutex only makes it `Sync`.
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
    /// The streamed body, read in large pieces while the other value lives.
    pub fn take_upload(&mut self) -> (Body, Option<LargeReads>) {
        let large = self.source.as_ref().and_then(SourceWindow::enlarge);
        (self.stream.take().unwrap_or_default(), large)
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        request_body::parse(&self.body)
    }

    pub fn param(&self, name: &str) -> Result<&str, CallError> {
        let found = self.params.iter().find(|(each, _)| each == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(CallError::not_found)
    }

    /// A malformed id is reported as not found.
    pub fn exec_id(&self) -> Result<ExecId, CallError> {
        ExecId::parse(self.param("exec")?).map_err(|_| CallError::not_found())
    }

    pub fn service(&self) -> Result<ServiceName, CallError> {
        ServiceName::parse(self.param("service")?).map_err(|_| CallError::not_found())
    }

    /// Returns the sandbox named in the path, if the caller has the access to it that the route needs.
    pub async fn sandbox(&self) -> Result<Arc<SandboxRecord>, CallError> {
        self.sandbox_by(self.param("id")?).await
    }

    pub async fn sandbox_by(&self, id: &str) -> Result<Arc<SandboxRecord>, CallError> {
        let found = self.visible_sandbox(id).await;
        found.map_err(|failure| failure.with_resource(|| Some(Missing::new(MissingKind::Sandbox, id))))
    }

    /// A malformed id is reported as not found.
    async fn visible_sandbox(&self, id: &str) -> Result<Arc<SandboxRecord>, CallError> {
        let id: SandboxId = id.parse().map_err(|_| CallError::not_found())?;
        let record = self.api.fleet.record(&id).await?;
        self.lease.take(&record)?;
        Ok(record)
    }

    /// Returns the control client of the sandbox named in the path. Wakes the sandbox, unless the caller
    /// passed `wake=false` or may only read it.
    pub async fn control(&self) -> Result<(Arc<SandboxRecord>, Control), CallError> {
        let id = self.sandbox().await?.id;
        self.control_of(&id).await
    }

    /// Like `control`, for a sandbox already known to be visible to the caller.
    pub async fn control_of(&self, id: &SandboxId) -> Result<(Arc<SandboxRecord>, Control), CallError> {
        let wakes = self.query.flag("wake", true)? && self.lease.allows_run();
        if wakes {
            // The request may delete files to make room, and that itself needs a few bytes of disk.
            self.api.disk.ensure_free();
        }
        let control = if wakes { self.api.fleet.wake(id).await } else { self.api.fleet.control(id).await };
        Ok(control?)
    }

    /// Returns a sandbox as the caller sees it.
    pub fn view_of(&self, record: &SandboxRecord) -> SandboxView {
        let shared = self.shared_view(record);
        SandboxView { shared, ..views::sandbox(record, &self.api.settings.previews) }
    }

    fn shared_view(&self, record: &SandboxRecord) -> Option<SharedView> {
        if self.caller.owns(&record.owner) {
            return None;
        }
        let access = match self.caller.access_to(&record.owner, &self.api.store.shares().of(&record.id))? {
            SandboxAccess::Read => ShareAccess::Read,
            SandboxAccess::Run | SandboxAccess::Own => ShareAccess::Run,
        };
        Some(SharedView { access, owner: record.owner.principal.clone() })
    }

    /// The tenant and principal whose resources the caller may see; `None` is all of them.
    pub fn tenant_filter(&self) -> (Option<Label>, Option<Label>) {
        let (tenant, principal) = (self.caller.tenant.clone(), self.caller.principal.clone());
        if self.caller.operator {
            return (None, None);
        }
        match self.caller.scope {
            TokenScope::Admin => (Some(tenant), None),
            TokenScope::Run | TokenScope::Read => (Some(tenant), Some(principal)),
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
