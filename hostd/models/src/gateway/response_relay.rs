//! Relays a response to the agent piece by piece, and records how it ended.
//!
//! ```text
//!  Streaming ──▶ Recording (the end is written to the ledger) ──▶ Aborting ──▶ Done
//!      └─ dropped: the agent disconnected ─▶ the end is recorded in the background
//! ```

use super::{
    call_limits::CallPermit,
    call_record::{CallRecord, EndReport},
    idle_timeout::IdleTimeout,
    limits::BUDGET_CHECK_EVERY_TOKENS,
    provider_client::{ProviderBody, ProviderResponse},
    redact_key::KeyDetector,
    response_inspector::{BodyFormat, ResponseInspector},
};
use crate::{CallRefusal, Fault};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

pub struct ResponseRelay {
    first: Option<Bytes>,
    rest: ProviderBody,
    format: BodyFormat,
    inspector: ResponseInspector,
    key_detector: KeyDetector,
    record: CallRecord,
    /// Output tokens at the last check of the budget.
    checked_tokens: u64,
    /// Set when the budget allows no more: the next poll ends the response.
    refused: Option<CallRefusal>,
    /// The end of the response was seen, and reported to the authorizer.
    marked_complete: bool,
    idle_timeout: IdleTimeout,
    state: RelayState,
    _permit: CallPermit,
}

enum RelayState {
    Streaming,
    Recording(Recording),
    /// The pieces that were relayed are flushed before the connection breaks.
    Aborting(String),
    Done,
}

struct Recording {
    report: EndReport,
    /// The agent sees the end only after it is recorded.
    wait: bool,
    closing: Closing,
}

/// How the body ends for the agent.
enum Closing {
    Normal,
    /// An event that says what went wrong.
    ErrorEvent(Bytes),
    /// A broken connection, as the provider broke its own.
    Abort(String),
}

impl ResponseRelay {
    pub fn new(response: ProviderResponse, record: CallRecord, idle: Duration, permit: CallPermit) -> Self {
        let ProviderResponse { first, rest, format, inspector, .. } = response;
        Self {
            first: Some(first),
            rest,
            format,
            inspector,
            key_detector: KeyDetector::new(record.key()),
            record,
            checked_tokens: 0,
            refused: None,
            marked_complete: false,
            idle_timeout: IdleTimeout::new(idle),
            state: RelayState::Streaming,
            _permit: permit,
        }
    }

    /// The next piece; none where the response has ended, and `state` says how.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(refused) = self.refused.take() {
            self.end_refused(&refused);
            return Poll::Ready(None);
        }
        // The inspector has read the first piece already.
        let (next, is_inspected) = match self.first.take() {
            Some(first) => (Poll::Ready(Some(Ok(first))), true),
            None => (self.rest.poll(cx), false),
        };
        match next {
            Poll::Ready(Some(Ok(piece))) => Poll::Ready(self.inspect(piece, is_inspected)),
            // After the end of a response its connection may break, close or stay silent.
            Poll::Ready(Some(Err(_)) | None) if self.inspector.is_complete() => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let message = format!("the provider broke off in the middle of its response: {error}");
                self.end(Some((message.clone(), false)), Closing::Abort(message));
                Poll::Ready(None)
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.idle_timeout.poll(cx));
                if self.inspector.is_complete() {
                    self.finish();
                    return Poll::Ready(None);
                }
                let idle_s = self.idle_timeout.idle().as_secs();
                self.fail(format!("the provider sent nothing for {idle_s} s"), false);
                Poll::Ready(None)
            }
        }
    }

    /// Checks a piece before it is relayed; none where it must not be.
    fn inspect(&mut self, piece: Bytes, is_inspected: bool) -> Option<Bytes> {
        self.idle_timeout.reset();
        if self.key_detector.completes_key(&piece) {
            self.fail("the provider's response contains its key".to_owned(), true);
            return None;
        }
        if !is_inspected {
            self.inspector.read(&piece);
        }
        self.record.meter.received(piece.len());
        self.check_budget();
        if self.inspector.is_complete() && self.inspector.error().is_none() && !self.marked_complete {
            self.marked_complete = true;
            self.record.mark_complete();
        }
        Some(piece)
    }

    /// Asks every few tokens whether the budget allows more.
    fn check_budget(&mut self) {
        let tokens = self.inspector.output_tokens();
        if tokens >= self.checked_tokens.saturating_add(BUDGET_CHECK_EVERY_TOKENS) {
            self.checked_tokens = tokens;
            self.refused = self.record.report_streamed(tokens).err();
        }
    }

    /// Ends the response with an error of the gateway's own.
    fn fail(&mut self, message: String, permanent: bool) {
        let closing = self.closing(&message);
        self.end(Some((message, permanent)), closing);
    }

    /// Ends a response that the authorizer refused to continue. The task has its outcome from there, and the
    /// provider is not at fault.
    fn end_refused(&mut self, refused: &CallRefusal) {
        let message = refused.to_string();
        let closing = self.closing(&message);
        let (outcome, abandoned) = match refused {
            CallRefusal::Ended => (Ok(()), true),
            CallRefusal::Budget(_)
            | CallRefusal::Key { .. }
            | CallRefusal::Busy
            | CallRefusal::Waits
            | CallRefusal::Model { .. } => (Err(self.record.fault(&message, false)), false),
        };
        self.state = match self.end_record(outcome, abandoned) {
            Some(report) => RelayState::Recording(Recording { report, wait: true, closing }),
            None => RelayState::Done,
        };
    }

    /// An error event where the format has events, else a broken connection.
    fn closing(&self, message: &str) -> Closing {
        match self.format {
            BodyFormat::Events => {
                let mut event = self.inspector.event_separator().as_bytes().to_vec();
                event.extend_from_slice(self.record.api.rules().final_error_event(message).as_bytes());
                Closing::ErrorEvent(event.into())
            }
            BodyFormat::Json | BodyFormat::Unknown => Closing::Abort(message.to_owned()),
        }
    }

    /// Ends a response whose provider sends nothing more.
    fn finish(&mut self) {
        self.inspector.finish();
        let truncated = || ("the provider's response ended too early".to_owned(), false);
        let fault = self.provider_error().or_else(|| (!self.inspector.is_complete()).then(truncated));
        self.end(fault, Closing::Normal);
    }

    /// The error in the response: its message, and whether it is permanent.
    fn provider_error(&self) -> Option<(String, bool)> {
        self.inspector.error().map(|error| (error.message.clone(), self.record.is_permanent(error)))
    }

    fn end(&mut self, fault: Option<(String, bool)>, closing: Closing) {
        let outcome = match fault {
            Some((message, permanent)) => Err(self.record.fault(&message, permanent)),
            None => Ok(()),
        };
        let wait = outcome.is_err();
        self.state = match self.end_record(outcome, false) {
            Some(report) => RelayState::Recording(Recording { report, wait, closing }),
            None => RelayState::Done,
        };
    }

    fn end_record(&mut self, outcome: Result<(), Fault>, abandoned: bool) -> Option<EndReport> {
        // A call that failed before the model wrote anything is taken to have used nothing.
        let used = outcome.is_ok() || self.inspector.has_begun();
        let tokens = used.then(|| self.inspector.tokens(self.record.input_tokens));
        self.record.end(outcome, tokens, abandoned)
    }
}

impl Body for ResponseRelay {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                RelayState::Streaming => {
                    if let Some(piece) = ready!(this.poll_piece(cx)) {
                        return Poll::Ready(Some(Ok(Frame::data(piece))));
                    }
                }
                RelayState::Recording(recording) => {
                    let recorded = recording.report.as_mut().poll(cx);
                    if recording.wait {
                        ready!(recorded);
                    }
                    let RelayState::Recording(recording) =
                        std::mem::replace(&mut this.state, RelayState::Done)
                    else {
                        continue;
                    };
                    if recorded.is_pending() {
                        // The first poll has queued the write, so the agent need not wait for the disk.
                        this.record.report_later(recording.report);
                    }
                    match recording.closing {
                        Closing::Normal => {}
                        Closing::ErrorEvent(event) => return Poll::Ready(Some(Ok(Frame::data(event)))),
                        Closing::Abort(message) => {
                            this.state = RelayState::Aborting(message);
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                RelayState::Aborting(message) => {
                    let error = io::Error::other(std::mem::take(message));
                    this.state = RelayState::Done;
                    return Poll::Ready(Some(Err(error)));
                }
                RelayState::Done => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for ResponseRelay {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, RelayState::Done) {
            RelayState::Streaming => {
                // Some agents disconnect once they have read the end of a response, or an error in it.
                self.inspector.finish();
                let (outcome, abandoned) = match self.provider_error() {
                    Some((message, permanent)) => (Err(self.record.fault(&message, permanent)), false),
                    None => (Ok(()), !self.inspector.is_complete()),
                };
                if let Some(report) = self.end_record(outcome, abandoned) {
                    self.record.report_later(report);
                }
            }
            RelayState::Recording(recording) => self.record.report_later(recording.report),
            RelayState::Aborting(_) | RelayState::Done => {}
        }
    }
}
