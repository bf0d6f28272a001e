//! A span: a piece of work with a begin and an end, which is when it is dropped.

use super::{attribute::Attribute, context::TraceContext, queue::Tracer};
use protocol::TraceParent;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Who is at the other end of a span, in the terms of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Server,
    Client,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSpan {
    /// Its trace and its own id.
    pub ids: TraceParent,
    /// The id of the span that caused it.
    pub parent: Option<[u8; 8]>,
    pub name: &'static str,
    pub kind: SpanKind,
    /// Since 1970.
    pub begun_ns: u64,
    pub ended_ns: u64,
    pub attributes: Vec<Attribute>,
    pub failed: bool,
}

/// A span that is under way. It is nothing where its trace is not recorded.
#[derive(Debug)]
pub struct Span {
    context: Option<TraceContext>,
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    span: FinishedSpan,
    since: Instant,
}

impl Span {
    /// A span that records nothing.
    pub fn none() -> Self {
        Self { context: None, recorded: None }
    }

    /// The first span of a trace in hostd. With a parent in another process it belongs to the trace of that; a trace
    /// that is not sampled there is passed on and not recorded.
    pub fn root(tracer: &Tracer, remote: Option<TraceParent>, name: &'static str) -> Self {
        let fresh = || TraceParent { trace_id: random(), span_id: random(), sampled: true };
        let ids = remote.map_or_else(fresh, |parent| TraceParent { span_id: random(), ..parent });
        Self::begin(tracer, ids, remote.map(|parent| parent.span_id), (name, SpanKind::Server))
    }

    /// A part of the work that is under way; nothing where that is not traced.
    pub fn child(name: &'static str) -> Self {
        Self::child_of(TraceContext::current().as_ref(), (name, SpanKind::Internal))
    }

    /// A request to another process.
    pub fn client(name: &'static str) -> Self {
        Self::child_of(TraceContext::current().as_ref(), (name, SpanKind::Client))
    }

    /// A part of work in another task.
    pub fn child_in(context: Option<&TraceContext>, name: &'static str) -> Self {
        Self::child_of(context, (name, SpanKind::Internal))
    }

    fn child_of(context: Option<&TraceContext>, named: (&'static str, SpanKind)) -> Self {
        match context {
            Some(TraceContext { tracer, span }) => {
                let ids = TraceParent { span_id: random(), ..*span };
                Self::begin(tracer, ids, Some(span.span_id), named)
            }
            None => Self::none(),
        }
    }

    fn begin(
        tracer: &Tracer,
        ids: TraceParent,
        parent: Option<[u8; 8]>,
        (name, kind): (&'static str, SpanKind),
    ) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        let recorded = ids.sampled.then(|| Recorded {
            span: FinishedSpan {
                ids,
                parent,
                name,
                kind,
                begun_ns,
                ended_ns: begun_ns,
                attributes: Vec::new(),
                failed: false,
            },
            since: Instant::now(),
        });
        Self { context: Some(TraceContext { tracer: tracer.clone(), span: ids }), recorded }
    }

    /// Whether anything is recorded: what costs something is asked for only then.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    #[must_use]
    pub fn with(mut self, attribute: Attribute) -> Self {
        self.add(attribute);
        self
    }

    pub fn add(&mut self, attribute: Attribute) {
        if let Some(recorded) = &mut self.recorded {
            recorded.span.attributes.push(attribute);
        }
    }

    /// Marks the work as failed.
    pub fn fail(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            recorded.span.failed = true;
        }
    }

    /// Does the work; spans that begin in it are parts of this one.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        TraceContext::within(self.context.clone().or_else(TraceContext::current), work).await
    }

    /// Does work that may fail, and marks the span if it did.
    pub async fn run_fallible<T, E>(mut self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let result = self.run(work).await;
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// The context of work that this span causes in another task.
    pub fn context(&self) -> Option<TraceContext> {
        self.context.clone()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let (Some(Recorded { mut span, since }), Some(context)) = (self.recorded.take(), &self.context)
        else {
            return;
        };
        let took_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        span.ended_ns = span.begun_ns.saturating_add(took_ns);
        context.tracer.record(span);
    }
}

/// An id that is not zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Fails only where the kernel has no random numbers, and then ids that collide spoil traces and nothing else.
    let _ = getrandom::fill(&mut bytes);
    bytes[N - 1] |= 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue;

    #[tokio::test]
    async fn spans_of_one_request_are_one_trace_across_tasks() {
        let (tracer, mut ended) = queue(10);
        let remote = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let root = Span::root(&tracer, remote, "request").with(Attribute::Status(200));
        let context = root.run(async { Span::child("wake").context() }).await;
        let elsewhere = tokio::spawn(TraceContext::within(context, async {
            Span::client("runtimed").run_fallible(async { Err::<(), ()>(()) }).await
        }));
        assert_eq!(elsewhere.await.expect("no panic"), Err(()));
        drop(root);
        let spans = ended.take(10).await.expect("spans");
        let [wake, runtimed, request] = &spans[..] else { panic!("three spans: {spans:?}") };
        assert_eq!([wake.name, runtimed.name, request.name], ["wake", "runtimed", "request"]);
        let remote = remote.expect("good");
        assert!(spans.iter().all(|span| span.ids.trace_id == remote.trace_id && span.ids.sampled));
        assert_eq!(request.parent, Some(remote.span_id));
        assert_eq!(wake.parent, Some(request.ids.span_id));
        assert_eq!(runtimed.parent, Some(wake.ids.span_id));
        assert_eq!((request.failed, runtimed.failed), (false, true));
        assert!(wake.begun_ns <= wake.ended_ns);
    }

    #[tokio::test]
    async fn without_a_trace_a_span_is_nothing() {
        let span = Span::child("wake").with(Attribute::Status(200));
        assert!(!span.is_recorded() && span.context().is_none());
        assert!(span.run(async { TraceContext::current() }).await.is_none());
        let (tracer, mut ended) = queue(10);
        let unsampled = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let root = Span::root(&tracer, unsampled, "request");
        let header = root.run(async { TraceContext::current().map(|context| context.header()) }).await;
        assert_eq!(header.map(|header| header.trace_id), unsampled.map(|header| header.trace_id));
        assert!(!root.is_recorded());
        drop((root, tracer));
        assert!(ended.take(10).await.is_none());
    }

    #[tokio::test]
    async fn a_full_queue_drops_spans_and_counts_them() {
        let (tracer, mut ended) = queue(2);
        for _ in 0..5 {
            drop(Span::root(&tracer, None, "request"));
        }
        assert_eq!((ended.take_ready(10).len(), ended.take_dropped(), ended.take_dropped()), (2, 3, 0));
    }
}
