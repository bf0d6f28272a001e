//! One connection to a port, driven by whoever uses it: no task of its own, so a request costs no more
//! wake-ups than it has packets, and a line that nobody uses costs nothing.

use super::{
    meter::{HEAD_MAX_BYTES, Meter},
    outgoing::Outgoing,
    sniff::Sniff,
    sockets::Place,
};
use crate::{
    backpressure::{WindowIo, WriteWindow},
    driver,
};
use bytes::Bytes;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    thread::{self, ThreadId},
};

type Wire = TokioIo<WindowIo<Sniff>>;

pub struct Line {
    sender: SendRequest<Outgoing>,
    connection: Connection<Wire, Outgoing>,
    /// It must not be polled any more.
    ended: bool,
    /// How often the sandbox had stopped when it was opened.
    pub epoch: u64,
    pub(super) place: Place,
    meter: Arc<Meter>,
    /// Of the bodies that are sent on it.
    pub window: Arc<WriteWindow>,
    /// Where its socket was opened. Another thread would have to be woken for each of its packets.
    pub(super) home: ThreadId,
}

/// Why there is no answer.
pub enum Unsent {
    /// None of the request was sent.
    Nothing(Box<Request<Outgoing>>, hyper::Error),
    /// What comes before the answer has no end.
    Endless,
    Broke {
        error: hyper::Error,
        /// Something was answered.
        said: bool,
    },
}

/// What is left of a line that does not speak HTTP any more.
pub struct Taken {
    pub stream: Box<dyn driver::Stream>,
    /// What it said already.
    pub said: Bytes,
    pub epoch: u64,
    /// As long as the stream is open.
    pub place: Place,
}

impl Line {
    pub async fn over(stream: Box<dyn driver::Stream>, place: Place, epoch: u64) -> hyper::Result<Self> {
        let meter = Arc::<Meter>::default();
        let window = Arc::<WriteWindow>::default();
        let io = TokioIo::new(WindowIo::new(Sniff::new(stream, meter.clone()), window.clone()));
        let (sender, connection) = Builder::new().max_header_size(HEAD_MAX_BYTES).handshake(io).await?;
        let home = thread::current().id();
        Ok(Self { sender, connection, ended: false, epoch, place, meter, window, home })
    }

    /// The head of the answer. Its body comes only while the line is driven.
    pub fn send(
        &mut self,
        mut request: Request<Outgoing>,
    ) -> (impl Future<Output = Result<Response<Incoming>, Unsent>> + Send, &Meter) {
        let Self { sender, connection, ended, meter, window, .. } = self;
        let meter: &Meter = {
            request.body_mut().goes_to(meter, window);
            meter
        };
        meter.begin();
        let answered = sender.try_send_request(request);
        let sent = async move {
            let mut answered = pin!(answered);
            let answer = poll_fn(|cx| {
                drive(connection, ended, cx);
                match answered.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if meter.is_used_up() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            let mut failed = match answer.await {
                Some(Ok(response)) => {
                    meter.answered();
                    return Ok(response);
                }
                Some(Err(failed)) => failed,
                None => return Err(Unsent::Endless),
            };
            let request = failed.take_message();
            let (error, said) = (failed.into_error(), !meter.is_silent());
            Err(match request {
                Some(request) => Unsent::Nothing(Box::new(request), error),
                None => Unsent::Broke { error, said },
            })
        };
        (sent, meter)
    }

    /// Moves what can be moved.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, &mut self.ended, cx);
    }

    /// Whether another request can be sent on it, as far as one can tell without sending one.
    pub fn is_free(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.ended && self.sender.is_ready()
    }

    /// Of a line that gave no answer: what it said instead, if that was not HTTP.
    pub fn odd(self) -> Option<Taken> {
        let (stream, odd) = self.connection.into_parts().io.into_inner().into_inner().into_inner();
        odd.map(|said| Taken { stream, said, epoch: self.epoch, place: self.place })
    }

    /// After an answer of 101: the stream, once all of the answer was read.
    pub async fn take(mut self) -> Taken {
        poll_fn(|cx| {
            self.drive(cx);
            if self.ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let parts = self.connection.into_parts();
        let (stream, _) = parts.io.into_inner().into_inner().into_inner();
        Taken { stream, said: parts.read_buf, epoch: self.epoch, place: self.place }
    }
}

fn drive(connection: &mut Connection<Wire, Outgoing>, ended: &mut bool, cx: &mut Context<'_>) {
    if !*ended {
        // How it ended is told to whoever waits for the answer.
        *ended = connection.poll_without_shutdown(cx).is_ready();
    }
}
