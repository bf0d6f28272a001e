//! What a row of the table of routes says.

use super::{
    call::Call,
    error::CallResult,
    not_found::missing_resource,
    openapi::route_doc::{ResponseDoc, RouteDoc, page_of, schema_of},
    param::Param,
};
use crate::core::{Access, Identity};
use hyper::Method;
use protocol::api::TokenScope;
use std::{pin::Pin, sync::Arc};
use utoipa::ToSchema;

type HandlerFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;
pub type Handler = Arc<dyn Fn(Call) -> HandlerFuture + Send + Sync>;

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No authentication.
    Anonymous,
    Read,
    Write,
    /// The administrator of a tenant.
    Admin,
    /// The administrator of the host.
    Operator,
}

impl RequiredAccess {
    pub fn met_by(self, caller: &Identity) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Read => caller.allows(Access::Read),
            Self::Write => caller.allows(Access::Write),
            Self::Admin => caller.operator || caller.scope == TokenScope::Admin,
            Self::Operator => caller.operator,
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Anonymous => "anybody",
            Self::Read => "any token",
            Self::Write => "a token of scope run or admin",
            Self::Admin => "a token of scope admin",
            Self::Operator => "the administrator of this host",
        }
    }
}

/// What is done with the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    Empty,
    Json,
    /// Handed on as it comes.
    Stream,
}

/// What `Idempotency-Key` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// Nothing: repeating the call does no harm.
    Inherent,
    /// The first answer is kept and given again.
    ByKey,
    /// It is refused: the answer is a secret that must not be kept.
    KeyRejected,
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub required: RequiredAccess,
    pub body: RequestBody,
    pub idempotency: Idempotency,
    pub query: Vec<Param>,
    /// Headers that the handler reads, for the document.
    pub headers: Vec<Param>,
    pub doc: RouteDoc,
    /// Whether its errors have the shape of the older routes.
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
            query: Vec::new(),
            headers: Vec::new(),
            doc: RouteDoc::default(),
            older: false,
            handler,
        }
    }

    /// A call that is written to the audit even when it succeeds. Input is not: the exec it goes to was,
    /// and every key that is typed is a call.
    pub fn mutates(&self) -> bool {
        (self.method != Method::GET || self.required == RequiredAccess::Write)
            && self.body != RequestBody::Stream
    }

    pub fn older(mut self) -> Self {
        self.older = true;
        self
    }

    /// Its name in generated clients, and what it does.
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
        self.with_response(ResponseDoc { status, kind: "application/json", schema_fn: Some(schema_of::<T>) })
    }

    /// A page of these.
    pub fn returns_page<T: ToSchema>(self, status: u16) -> Self {
        self.with_response(ResponseDoc { status, kind: "application/json", schema_fn: Some(page_of::<T>) })
    }

    /// An answer that is no JSON document, or none at all.
    pub fn returns_media(self, status: u16, kind: &'static str) -> Self {
        self.with_response(ResponseDoc { status, kind, schema_fn: None })
    }

    /// Server-sent events.
    pub fn returns_sse(self) -> Self {
        self.returns_media(200, "text/event-stream")
    }

    /// Output or a log: as lines of JSON, as server-sent events or as bytes, by `Accept`.
    pub fn returns_output(self) -> Self {
        self.returns_media(200, "application/x-ndjson")
            .returns_sse()
            .returns_media(200, "application/octet-stream")
    }

    fn with_response(mut self, response: ResponseDoc) -> Self {
        self.doc.responses.push(response);
        self
    }
}
