//! A row of the table of routes.

use super::{
    call::Call,
    error::CallResult,
    not_found::missing_resource,
    openapi::route_doc::{ResponseDoc, RouteDoc, page_of, schema_of},
    param::Param,
};
use hostd_core::{Access, Identity, SandboxAccess};
use hyper::Method;
use protocol::api::TokenScope;
use std::{pin::Pin, sync::Arc};
use utoipa::ToSchema;

type HandlerFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;
pub type Handler = Arc<dyn Fn(Call) -> HandlerFuture + Send + Sync>;

/// The access a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No authentication.
    Anonymous,
    Read,
    Write,
    /// Write, and a sandbox of the caller's own: a share does not include it.
    Own,
    /// An admin of the tenant.
    Admin,
    /// The operator of the host.
    Operator,
    /// The signature of a URL instead of a token.
    Signature,
}

impl RequiredAccess {
    pub fn met_by(self, caller: &Identity) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Read => caller.allows(Access::Read),
            Self::Write | Self::Own => caller.allows(Access::Write),
            Self::Admin => caller.operator || caller.scope == TokenScope::Admin,
            Self::Operator => caller.operator,
            // Checked when the caller is authenticated: the identity is that of the URL.
            Self::Signature => true,
        }
    }

    /// The access to the sandbox that the request names.
    pub fn on_sandbox(self) -> SandboxAccess {
        match self {
            Self::Write => SandboxAccess::Run,
            Self::Own => SandboxAccess::Own,
            Self::Anonymous | Self::Read | Self::Admin | Self::Operator | Self::Signature => {
                SandboxAccess::Read
            }
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Anonymous => "no token",
            Self::Read => "any token",
            Self::Write => "a token of scope run or admin",
            Self::Own => "a token of scope run or admin, of the owner or an admin of the tenant",
            Self::Admin => "a token of scope admin",
            Self::Operator => "the operator of this host",
            Self::Signature => "a signed URL",
        }
    }
}

/// How the body of a request is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    Empty,
    Json,
    /// Handed to the handler as it comes.
    Stream,
}

/// How `Idempotency-Key` is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// Ignored: repeating the call does no harm.
    Inherent,
    /// The first response is kept and replayed.
    ByKey,
    /// Refused: the response contains a secret that must not be kept.
    KeyRejected,
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub required: RequiredAccess,
    pub body: RequestBody,
    pub idempotency: Idempotency,
    /// Whether a streamed body does not keep the call from being audited.
    pub audits_stream: bool,
    pub query: Vec<Param>,
    /// Headers that the handler reads, for the document.
    pub headers: Vec<Param>,
    pub doc: RouteDoc,
    /// Whether its errors have the format of the older routes.
    pub older: bool,
    pub handler: Handler,
}

impl Route {
    pub fn new<F>(
        method: Method,
        path: &'static str,
        required: RequiredAccess,
        handler: fn(Call) -> F,
    ) -> Self
    where
        F: Future<Output = CallResult> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| {
            let params = call.params.clone();
            Box::pin(async move {
                handler(call)
                    .await
                    .map_err(|failure| failure.with_resource(|| missing_resource(path, &params)))
            })
        });
        let (body, idempotency) = (RequestBody::Empty, Idempotency::Inherent);
        Self {
            method,
            path,
            required,
            body,
            idempotency,
            audits_stream: false,
            query: Vec::new(),
            headers: Vec::new(),
            doc: RouteDoc::default(),
            older: false,
            handler,
        }
    }

    /// Whether the call is audited even when it succeeds, and finishes when its caller disconnects. Standard
    /// input is not audited: its exec was, and every keystroke is a call.
    pub fn mutates(&self) -> bool {
        (self.method != Method::GET || matches!(self.required, RequiredAccess::Write | RequiredAccess::Own))
            && self.body != RequestBody::Stream
    }

    /// Whether the call is audited when it succeeds.
    pub fn is_audited(&self) -> bool {
        self.mutates() || self.audits_stream
    }

    /// Whether what the call makes is a sandbox.
    pub fn makes_sandbox(&self) -> bool {
        let path = self.path;
        self.method == Method::POST && ["/v1/sandboxes", "/v1/sandboxes/ensure", "/sandbox"].contains(&path)
    }

    /// Audits a call whose body is streamed.
    pub fn audited(mut self) -> Self {
        self.audits_stream = true;
        self
    }

    pub fn older(mut self) -> Self {
        self.older = true;
        self
    }

    /// Sets operation id and summary.
    pub fn operation(mut self, id: &'static str, summary: &'static str) -> Self {
        self.doc.id = id;
        self.doc.summary = summary;
        self
    }

    pub fn json_body<T: ToSchema>(mut self) -> Self {
        self.body = RequestBody::Json;
        self.doc.request = Some(schema_of::<T>);
        self
    }

    pub fn streamed_body(mut self) -> Self {
        self.body = RequestBody::Stream;
        self
    }

    pub fn idempotent_by_key(mut self) -> Self {
        self.idempotency = Idempotency::ByKey;
        self
    }

    pub fn rejects_idempotency_key(mut self) -> Self {
        self.idempotency = Idempotency::KeyRejected;
        self
    }

    pub fn query(mut self, params: &[Param]) -> Self {
        self.query.extend_from_slice(params);
        self
    }

    pub fn headers(mut self, params: &[Param]) -> Self {
        self.headers.extend_from_slice(params);
        self
    }

    pub fn returns<T: ToSchema>(self, status: u16) -> Self {
        self.with_response(ResponseDoc {
            status,
            kind: "application/json",
            schema_fn: Some(schema_of::<T>),
            item: None,
        })
    }

    /// A page of these.
    pub fn returns_page<T: ToSchema>(self, status: u16) -> Self {
        self.with_response(ResponseDoc {
            status,
            kind: "application/json",
            schema_fn: Some(page_of::<T>),
            item: None,
        })
    }

    /// A response that is not a JSON document, or has no body.
    pub fn returns_media(self, status: u16, kind: &'static str) -> Self {
        self.with_response(ResponseDoc { status, kind, schema_fn: None, item: None })
    }

    /// Server-sent events whose `data` has this schema.
    pub fn returns_sse(self, item: &'static str) -> Self {
        self.returns_stream("text/event-stream", item)
    }

    fn returns_stream(self, kind: &'static str, item: &'static str) -> Self {
        self.with_response(ResponseDoc { status: 200, kind, schema_fn: None, item: Some(item) })
    }

    /// Output or a log: as NDJSON, as server-sent events or as bytes, by `Accept`.
    pub fn returns_output(self) -> Self {
        self.returns_stream("application/x-ndjson", "Chunk")
            .returns_sse("Chunk")
            .returns_media(200, "application/octet-stream")
    }

    fn with_response(mut self, response: ResponseDoc) -> Self {
        self.doc.responses.push(response);
        self
    }
}
