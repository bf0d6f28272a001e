//! The trace that a piece of work belongs to.

use super::queue::Tracer;
use protocol::TraceParent;

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

/// The span that is under way, and where its children are recorded.
#[derive(Debug, Clone)]
pub struct TraceContext {
    pub(crate) tracer: Tracer,
    pub(crate) span: TraceParent,
}

impl TraceContext {
    /// The context of the work that asks; none where nothing is traced.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Does some work in a context, which is that of another task.
    pub async fn within<F: Future>(context: Option<Self>, work: F) -> F::Output {
        CURRENT.scope(context, work).await
    }

    /// The header by which the work of another process joins the trace.
    pub fn header(&self) -> TraceParent {
        self.span
    }
}
