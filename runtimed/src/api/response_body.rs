//! Bodies of HTTP responses: complete bytes, or a stream.

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub enum ResponseBody {
    Full(Option<Bytes>),
    Stream(StreamingBody),
}

/// A task that sends pieces, and the receiver. Both are dropped with the response: a disconnected client ends
/// the task.
pub struct StreamingBody {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pieces: mpsc::Receiver<Bytes>,
}

pub type Sender = mpsc::Sender<Bytes>;

/// Pieces that wait for a slow client before the task blocks.
const PIECES_WAITING_MAX: usize = 2;

impl ResponseBody {
    pub fn empty() -> Self {
        Self::Full(None)
    }

    pub fn full(bytes: Bytes) -> Self {
        Self::Full(Some(bytes))
    }

    pub fn stream<F: Future<Output = ()> + Send + 'static>(work: impl FnOnce(Sender) -> F) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        Self::Stream(StreamingBody { work: Some(Box::pin(work(sender))), pieces })
    }
}

impl StreamingBody {
    /// Takes a piece, or polls the task for one. The receiver is polled once more afterwards and no oftener:
    /// one that exhausted its coop budget is pending although it has pieces, and has already scheduled a
    /// wake-up.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Poll::Ready(piece) = self.pieces.poll_recv(context) {
            return Poll::Ready(piece);
        }
        if self.work.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
            // The sender is dropped with the task, so the rest can be received and then ends.
            self.work = None;
        }
        self.pieces.poll_recv(context)
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(stream) => stream.poll_piece(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
