//! The body of a stream of messages: runs the work that sends them, and ends with the frame that says how it went.
//!
//! ```text
//!  work ── Sink (bounded) ──▶ StreamBody ──▶ connection
//!            keepalive, deadline ─┘
//! ```
//! The work is polled with the body: it stops when the client hangs up, and waits when the client does not read.

use super::{CallOptions, Code, ConnectError, frame, limits::QUEUED_MESSAGES_MAX};
use axum::BoxError;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame};
use serde_json::json;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep, sleep_until},
};

/// A wait that never ends in practice.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// Takes the messages of a stream.
#[derive(Clone)]
pub struct Sink(mpsc::Sender<Bytes>);

impl Sink {
    /// Sends the text of a message. Returns once there is room for the next one.
    pub async fn send(&self, text: &[u8]) {
        // The receiver lives as long as the work that sends.
        let _ = self.0.send(frame::message(text)).await;
    }
}

pub struct StreamBody {
    work: Option<BoxFuture<'static, Result<(), ConnectError>>>,
    /// Set once the work has ended.
    outcome: Option<Result<(), ConnectError>>,
    messages: mpsc::Receiver<Bytes>,
    deadline: Pin<Box<Sleep>>,
    keepalive: Keepalive,
    is_done: bool,
}

struct Keepalive {
    every: Duration,
    message: Bytes,
    next: Pin<Box<Sleep>>,
}

impl StreamBody {
    /// `keepalive` is the text of the message that a silent stream sends.
    pub fn new<F>(options: CallOptions, keepalive: &'static str, work: impl FnOnce(Sink) -> F) -> Self
    where
        F: Future<Output = Result<(), ConnectError>> + Send + 'static,
    {
        let (sender, messages) = mpsc::channel(QUEUED_MESSAGES_MAX);
        let now = Instant::now();
        let every = options.keepalive.unwrap_or(FOREVER);
        Self {
            work: Some(Box::pin(work(Sink(sender)))),
            outcome: None,
            messages,
            deadline: Box::pin(sleep_until(now + options.timeout.unwrap_or(FOREVER))),
            keepalive: Keepalive {
                every,
                message: frame::message(keepalive.as_bytes()),
                next: Box::pin(sleep_until(now + every)),
            },
            is_done: false,
        }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            if let Poll::Ready(Some(message)) = self.messages.poll_recv(cx) {
                self.keepalive.next.as_mut().reset(Instant::now() + self.keepalive.every);
                return Poll::Ready(message);
            }
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(self.end(outcome));
            }
            if self.deadline.as_mut().poll(cx).is_ready() {
                let message = "the timeout of the call has passed";
                return Poll::Ready(self.end(Err(ConnectError::new(Code::DeadlineExceeded, message))));
            }
            let Some(work) = self.work.as_mut() else { return Poll::Pending };
            match work.as_mut().poll(cx) {
                Poll::Ready(outcome) => {
                    self.work = None;
                    self.outcome = Some(outcome);
                    // What it sent last comes first.
                }
                Poll::Pending if self.messages.is_empty() => break,
                Poll::Pending => {}
            }
        }
        if self.keepalive.next.as_mut().poll(cx).is_ready() {
            self.keepalive.next.as_mut().reset(Instant::now() + self.keepalive.every);
            return Poll::Ready(self.keepalive.message.clone());
        }
        Poll::Pending
    }

    fn end(&mut self, outcome: Result<(), ConnectError>) -> Bytes {
        self.is_done = true;
        self.work = None;
        let text = match outcome {
            Ok(()) => json!({}),
            Err(error) => json!({"error": error.to_json()}),
        };
        frame::end(text.to_string().as_bytes())
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        self.poll_message(cx).map(|frame| Some(Ok(Frame::data(frame))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn collected(options: CallOptions, body: impl FnOnce(CallOptions) -> StreamBody) -> Vec<String> {
        let mut body = body(options);
        let mut texts = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no error").into_data().expect("data");
            texts.push(format!("{} {}", data[0], String::from_utf8_lossy(&data[5..])));
        }
        texts
    }

    #[tokio::test]
    async fn messages_come_before_the_end_and_an_error_is_in_it() {
        let work = |sink: Sink| async move {
            for text in ["1", "2", "3"] {
                sink.send(text.as_bytes()).await;
            }
            Err(ConnectError::new(Code::NotFound, "gone"))
        };
        let texts = collected(CallOptions::default(), |options| StreamBody::new(options, "k", work)).await;
        assert_eq!(texts[..3], ["0 1", "0 2", "0 3"]);
        assert_eq!(texts[3], r#"2 {"error":{"code":"not_found","message":"gone"}}"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_shows_that_it_lives_until_its_deadline() {
        let options =
            CallOptions { timeout: Some(Duration::from_secs(25)), keepalive: Some(Duration::from_secs(10)) };
        let work = |_sink: Sink| std::future::pending();
        let texts = collected(options, |options| StreamBody::new(options, "k", work)).await;
        assert_eq!(texts[..2], ["0 k", "0 k"]);
        assert!(texts[2].contains("deadline_exceeded"), "{texts:?}");
        assert_eq!(texts.len(), 3);
    }
}
