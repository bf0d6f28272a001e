//! What the log and the trace of a request say about it: its id, its route, and what it is about. Nothing of its
//! content.

use axum::extract::{RawPathParams, rejection::RawPathParamsRejection};
use hostd_trace::{Attribute, Span, Tracer};
use hyper::{HeaderMap, Method, StatusCode};
use protocol::{ExecId, TRACEPARENT_HEADER, TaskId, TraceParent, api::SandboxId};
use tracing::{error_span, field};

/// The objects that a request names in its path.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestSubject {
    sandbox: Option<SandboxId>,
    task: Option<TaskId>,
    exec: Option<ExecId>,
}

impl RequestSubject {
    pub(super) fn of(params: &Result<RawPathParams, RawPathParamsRejection>) -> Self {
        let mut subject = Self::default();
        for (name, value) in params.as_ref().ok().into_iter().flatten() {
            match name {
                "id" => subject.sandbox = value.parse().ok(),
                "task" => subject.task = TaskId::parse(value).ok(),
                "exec" => subject.exec = ExecId::parse(value).ok(),
                _ => {}
            }
        }
        subject
    }

    /// Adds it to the log lines of the request.
    pub(super) fn log(&self) {
        self.sandbox.iter().for_each(|id| log_field("sandbox", id.as_str()));
        self.task.iter().for_each(|id| log_field("task", id.as_str()));
        self.exec.iter().for_each(|id| log_field("exec", id.as_str()));
    }
}

/// Adds the id of an object that the request makes to its log lines: `sandbox`, `task` or `exec`.
pub(super) fn log_field(name: &'static str, id: &str) {
    tracing::Span::current().record(name, id);
}

/// The span of a request's log lines, at whatever level they are.
pub(super) fn log_span(id: &str) -> tracing::Span {
    error_span!("request", request = id, sandbox = field::Empty, task = field::Empty, exec = field::Empty)
}

/// Begins the trace of a request, in that of its caller if it names one.
pub(super) fn begin(tracer: Option<&Tracer>, headers: &HeaderMap) -> Span {
    let Some(tracer) = tracer else { return Span::none() };
    let given = headers.get(TRACEPARENT_HEADER).and_then(|value| value.to_str().ok());
    Span::root(tracer, given.and_then(TraceParent::parse), "request")
}

/// Says what the request was.
pub(super) fn describe(
    span: &mut Span,
    (method, route, status): (&Method, &'static str, StatusCode),
    (id, subject): (&str, Option<RequestSubject>),
) {
    span.add(Attribute::Request(id.to_owned()));
    span.add(Attribute::Method(super::metrics::method_label(method)));
    span.add(Attribute::Route(route));
    span.add(Attribute::Status(status.as_u16()));
    let RequestSubject { sandbox, task, exec } = subject.unwrap_or_default();
    sandbox.into_iter().for_each(|id| span.add(Attribute::Sandbox(id)));
    task.into_iter().for_each(|id| span.add(Attribute::Task(id)));
    exec.into_iter().for_each(|id| span.add(Attribute::Exec(id)));
    if status.is_server_error() {
        span.fail();
    }
}
