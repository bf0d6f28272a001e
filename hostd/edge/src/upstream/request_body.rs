//! The body of a request on its way to an app.

use super::delivery::DeliveryMeter;
use crate::traffic;
use bytes::Bytes;
use hostd_core::CredentialScanner;
use hostd_net::backpressure::{Transfer, WriteWindow};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// How long a browser may send nothing while its body is waited for.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Why the body of a request ended early. The fault is the client's, not the server's that it was sent to.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the body did not come whole and in time")]
    Stalled,
    /// A malformed chunk or trailer, a stream that was reset, or a connection that ended.
    #[error("the body is malformed, or ended too early")]
    Malformed(#[source] hyper::Error),
}

impl BodyError {
    /// The body error that made a forwarded request fail.
    pub fn of(error: &hyper::Error) -> Option<&Self> {
        error.source()?.downcast_ref()
    }
}

/// The body of a browser's request, streamed.
pub struct RequestBody {
    from: Option<Incoming>,
    traffic: Option<traffic::PreviewStream>,
    /// Strips trailers: no credential of ours goes to the app in one.
    scanner: Option<Arc<CredentialScanner>>,
    stall: Option<Pin<Box<Sleep>>>,
    /// The window of the browser's connection.
    source: Option<Arc<WriteWindow>>,
    /// The connection it goes to.
    to: Option<(Arc<DeliveryMeter>, Transfer)>,
}

impl RequestBody {
    pub fn empty() -> Self {
        Self { from: None, traffic: None, scanner: None, stall: None, source: None, to: None }
    }

    pub fn new(
        from: Incoming,
        traffic: traffic::PreviewStream,
        scanner: Arc<CredentialScanner>,
        source: Option<Arc<WriteWindow>>,
    ) -> Self {
        if from.is_end_stream() {
            Self::empty()
        } else {
            let (from, traffic, scanner) = (Some(from), Some(traffic), Some(scanner));
            Self { from, traffic, scanner, stall: None, source, to: None }
        }
    }

    pub(super) fn attach(&mut self, meter: &Arc<DeliveryMeter>, window: &Arc<WriteWindow>) {
        if self.from.is_some() {
            self.to = Some((meter.clone(), Transfer::new(self.source.clone(), window.clone())));
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Some(from) = &mut this.from else { return Poll::Ready(None) };
        if let Some((_, transfer)) = &mut this.to {
            ready!(transfer.poll_open(&from.size_hint(), cx));
        }
        match Pin::new(from).poll_frame(cx) {
            Poll::Ready(mut frame) => {
                this.stall = None;
                if let Some((meter, _)) = &this.to {
                    meter.on_body_frame();
                }
                if let (Some(Ok(frame)), Some(traffic)) = (&frame, &mut this.traffic) {
                    traffic.record_bytes(frame.data_ref().map_or(0, Bytes::len));
                }
                if let (Some(Ok(frame)), Some(scanner)) = (&mut frame, &this.scanner)
                    && let Some(trailers) = frame.trailers_mut()
                {
                    scanner.strip_headers(trailers);
                }
                let count = |frame| match &mut this.to {
                    Some((_, transfer)) => transfer.count(frame),
                    None => frame,
                };
                Poll::Ready(frame.map(|frame| frame.map(count).map_err(BodyError::Malformed)))
            }
            Poll::Pending => {
                let stall = this.stall.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
                stall.as_mut().poll(cx).map(|()| Some(Err(BodyError::Stalled)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.from.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.from.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
