//! What a row of the table of routes says.

use super::{
    call::Call,
    doc::{Answered, Doc, page_of, schema_of},
    failure::Answer,
    missing::addressed,
    param::Param,
};
use crate::core::{Access, Identity};
use hyper::Method;
use protocol::api::TokenScope;
use std::{pin::Pin, sync::Arc};
use utoipa::ToSchema;

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
pub type Handler = Arc<dyn Fn(Call) -> Answering + Send + Sync>;

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Everybody; nobody is asked who he is.
    Nothing,
    Read,
    Write,
    /// The administrator of a tenant.
    Admin,
    /// The administrator of the host.
    Operator,
}

impl Needs {
    pub fn met_by(self, who: &Identity) -> bool {
        match self {
            Self::Nothing => true,
            Self::Read => who.allows(Access::Read),
            Self::Write => who.allows(Access::Write),
            Self::Admin => who.operator || who.scope == TokenScope::Admin,
            Self::Operator => who.operator,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "anybody",
            Self::Read => "any token",
            Self::Write => "a token of scope run or admin",
            Self::Admin => "a token of scope admin",
            Self::Operator => "the administrator of this host",
        }
    }
}

/// What is done with the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Json,
    /// Handed on as it comes.
    Stream,
}

/// What `Idempotency-Key` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing: repeating the call does no harm.
    Harmless,
    /// The first answer is kept and given again.
    ByKey,
    /// It is refused: the answer is a secret that must not be kept.
    Refused,
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub needs: Needs,
    pub takes: Takes,
    pub repeats: Repeats,
    pub query: Vec<Param>,
    /// Headers that the handler reads, for the document.
    pub headers: Vec<Param>,
    pub doc: Doc,
    /// Whether its errors have the shape of the older routes.
    pub older: bool,
    pub handler: Handler,
}

impl Route {
    pub fn new<F>(method: Method, path: &'static str, needs: Needs, handler: fn(Call) -> F) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| {
            let params = call.params.clone();
            Box::pin(async move {
                handler(call).await.map_err(|failure| failure.naming(|| addressed(path, &params)))
            })
        });
        let (takes, repeats) = (Takes::Nothing, Repeats::Harmless);
        Self {
            method,
            path,
            needs,
            takes,
            repeats,
            query: Vec::new(),
            headers: Vec::new(),
            doc: Doc::default(),
            older: false,
            handler,
        }
    }

    /// A call that is written to the audit even when it succeeds. Input is not: the exec it goes to was,
    /// and every key that is typed is a call.
    pub fn acts(&self) -> bool {
        (self.method != Method::GET || self.needs == Needs::Write) && self.takes != Takes::Stream
    }

    pub fn older(mut self) -> Self {
        self.older = true;
        self
    }

    /// Its name in generated clients, and what it does.
    pub fn says(mut self, id: &'static str, summary: &'static str) -> Self {
        self.doc.id = id;
        self.doc.summary = summary;
        self
    }

    pub fn takes<T: ToSchema>(mut self) -> Self {
        self.takes = Takes::Json;
        self.doc.request = Some(schema_of::<T>);
        self
    }

    pub fn streams_in(mut self) -> Self {
        self.takes = Takes::Stream;
        self
    }

    pub fn by_key(mut self) -> Self {
        self.repeats = Repeats::ByKey;
        self
    }

    pub fn never_by_key(mut self) -> Self {
        self.repeats = Repeats::Refused;
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

    pub fn gives<T: ToSchema>(self, status: u16) -> Self {
        self.answered(Answered { status, kind: "application/json", mention: Some(schema_of::<T>) })
    }

    /// A page of these.
    pub fn lists<T: ToSchema>(self, status: u16) -> Self {
        self.answered(Answered { status, kind: "application/json", mention: Some(page_of::<T>) })
    }

    /// An answer that is no JSON document, or none at all.
    pub fn gives_raw(self, status: u16, kind: &'static str) -> Self {
        self.answered(Answered { status, kind, mention: None })
    }

    /// Server-sent events.
    pub fn streams_events(self) -> Self {
        self.gives_raw(200, "text/event-stream")
    }

    /// Output or a log: as lines of JSON, as server-sent events or as bytes, by `Accept`.
    pub fn gives_output(self) -> Self {
        self.gives_raw(200, "application/x-ndjson")
            .streams_events()
            .gives_raw(200, "application/octet-stream")
    }

    fn answered(mut self, answered: Answered) -> Self {
        self.doc.answers.push(answered);
        self
    }
}
