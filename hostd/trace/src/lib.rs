//! Traces: spans of requests and of the work that they cause, in the terms of OpenTelemetry. Spans go into a bounded
//! queue, from which hostd exports them; a full queue drops them and no request waits.
//!
//! ```text
//!  request ─▶ Span::root ──within──▶ Span::child ──within──▶ Span::child
//!                 │                      │                       │  dropped: its end
//!                 └──────────────────────┴───────────────────────┴──▶ queue ──▶ otlp ──▶ collector
//! ```
//!
//! The trace of a piece of work is a value of its task ([`TraceContext`]), passed on explicitly where work moves to
//! another task. Without a tracer there is no context, and a span is nothing.
//!
//! **Invariant:** an attribute of a span is one of [`Attribute`]: ids, names of a closed set, numbers. There is none for
//! text, so that no prompt, output, environment, token or content of a file can be in a trace.

mod attribute;
mod context;
pub mod otlp;
mod queue;
mod span;

pub use attribute::Attribute;
pub use context::TraceContext;
pub use queue::{SpanQueue, Tracer, queue};
pub use span::{FinishedSpan, Span, SpanKind};
