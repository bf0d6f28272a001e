//! The request that caused some work of another task: its span in the log, and its trace.

use hostd_trace::{Attribute, Span, TraceContext};
use tracing::Instrument;

#[derive(Debug, Clone)]
pub(super) struct Cause {
    log: tracing::Span,
    trace: Option<TraceContext>,
}

impl Cause {
    /// Work that hostd does by itself.
    pub(super) fn none() -> Self {
        Self { log: tracing::Span::none(), trace: None }
    }

    /// The request that is under way here, if any.
    pub(super) fn current() -> Self {
        Self { log: tracing::Span::current(), trace: TraceContext::current() }
    }

    /// Does work in the log and the trace of the request.
    pub(super) async fn within<F: Future>(self, work: F) -> F::Output {
        TraceContext::within(self.trace, work).instrument(self.log).await
    }

    /// A span for a part of the work.
    pub(super) fn span(&self, name: &'static str, attributes: impl IntoIterator<Item = Attribute>) -> Span {
        attributes.into_iter().fold(Span::child_in(self.trace.as_ref(), name), Span::with)
    }
}
