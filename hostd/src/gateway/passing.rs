//! An answer on its way to the agent, piece by piece as it comes, and how it ends.
//!
//! ```text
//!  flowing ──▶ telling (how it ended is written down) ──▶ breaking ──▶ over
//!     └─ dropped: the agent went away ─▶ told all the same
//! ```

use super::{
    attempt::{Begun, Rest},
    book::Book,
    limits::TOLD_EVERY_TOKENS,
    places::Place,
    refusal::last_event,
    scrub::Watch,
    silence::Silence,
    tap::{Form, Tap},
};
use crate::models::{CallRefusal, Fault};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

pub struct Passing {
    first: Option<Bytes>,
    rest: Rest,
    form: Form,
    tap: Tap,
    watch: Watch,
    book: Book,
    told_tokens: u64,
    /// More than may be used came: it ends here.
    refused: Option<CallRefusal>,
    /// Its last word has come.
    heard_out: bool,
    silence: Silence,
    step: Step,
    _place: Place,
}

enum Step {
    Flowing,
    Telling(Telling),
    /// What was passed on goes out first.
    Breaking(String),
    Over,
}

struct Telling {
    told: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The agent learns the end only when it is written down.
    wait: bool,
    last: Last,
}

/// What the agent gets at the end.
enum Last {
    Nothing,
    Words(Bytes),
    /// The connection breaks, as the provider's did.
    Broken(String),
}

impl Passing {
    pub fn new(begun: Begun, book: Book, idle: Duration, place: Place) -> Self {
        let Begun { first, rest, form, tap, .. } = begun;
        Self {
            first: Some(first),
            rest,
            form,
            tap,
            watch: Watch::new(book.key()),
            book,
            told_tokens: 0,
            refused: None,
            heard_out: false,
            silence: Silence::new(idle),
            step: Step::Flowing,
            _place: place,
        }
    }

    /// The next piece; none where it has ended, and `step` says how.
    fn flow(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(refused) = self.refused.take() {
            self.cut_short(&refused);
            return Poll::Ready(None);
        }
        // The tap has read the first one already.
        let (next, is_read) = match self.first.take() {
            Some(first) => (Poll::Ready(Some(Ok(first))), true),
            None => (self.rest.poll(cx), false),
        };
        match next {
            Poll::Ready(Some(Ok(piece))) => {
                self.silence.broken();
                if self.watch.shows_key(&piece) {
                    self.stop("the provider's answer has its key in it".to_owned(), true);
                    return Poll::Ready(None);
                }
                if !is_read {
                    self.tap.read(&piece);
                }
                self.count();
                if self.tap.is_complete() && self.tap.trouble().is_none() && !self.heard_out {
                    self.heard_out = true;
                    self.book.heard_out();
                }
                Poll::Ready(Some(piece))
            }
            // Who has said his last word may leave as he likes, or not at all.
            Poll::Ready(Some(Err(_)) | None) if self.tap.is_complete() => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let said = format!("the provider broke off in the middle of its answer: {error}");
                self.end(Some((said.clone(), false)), Last::Broken(said));
                Poll::Ready(None)
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.silence.poll(cx));
                if self.tap.is_complete() {
                    self.finish();
                    return Poll::Ready(None);
                }
                let said = format!("the provider said nothing for {} s", self.silence.idle().as_secs());
                self.stop(said, false);
                Poll::Ready(None)
            }
        }
    }

    /// Asks now and then whether it may go on.
    fn count(&mut self) {
        let tokens = self.tap.output_tokens();
        if tokens >= self.told_tokens.saturating_add(TOLD_EVERY_TOKENS) {
            self.told_tokens = tokens;
            self.refused = self.book.streamed(tokens).err();
        }
    }

    /// It is ended by us, and the agent is told why where that can be said.
    fn stop(&mut self, why: String, permanent: bool) {
        let last = self.last_words(&why);
        self.end(Some((why, permanent)), last);
    }

    /// Whoever refused has judged the task already: the provider has no fault in it.
    fn cut_short(&mut self, refused: &CallRefusal) {
        let why = refused.to_string();
        let last = self.last_words(&why);
        let (outcome, abandoned) = match refused {
            CallRefusal::Ended => (Ok(()), true),
            CallRefusal::Budget(_) | CallRefusal::Busy | CallRefusal::Waits | CallRefusal::Model { .. } => {
                (Err(self.book.fault(&why, false)), false)
            }
        };
        self.step = match self.close(outcome, abandoned) {
            Some(told) => Step::Telling(Telling { told, wait: true, last }),
            None => Step::Over,
        };
    }

    fn last_words(&self, why: &str) -> Last {
        match self.form {
            Form::Events => {
                let mut words = self.tap.gap().as_bytes().to_vec();
                words.extend_from_slice(&last_event(self.book.speech(), why));
                Last::Words(words.into())
            }
            Form::Whole | Form::Other => Last::Broken(why.to_owned()),
        }
    }

    /// The provider has said everything.
    fn finish(&mut self) {
        self.tap.finish();
        let cut = || ("the provider's answer stopped before its end".to_owned(), false);
        let fault = self.trouble().or_else(|| (!self.tap.is_complete()).then(cut));
        self.end(fault, Last::Nothing);
    }

    fn trouble(&self) -> Option<(String, bool)> {
        self.tap.trouble().map(|trouble| (trouble.words.clone(), self.book.is_permanent(trouble)))
    }

    fn end(&mut self, fault: Option<(String, bool)>, last: Last) {
        let outcome = match fault {
            Some((said, permanent)) => Err(self.book.fault(&said, permanent)),
            None => Ok(()),
        };
        let wait = outcome.is_err();
        self.step = match self.close(outcome, false) {
            Some(told) => Step::Telling(Telling { told, wait, last }),
            None => Step::Over,
        };
    }

    fn close(
        &mut self,
        outcome: Result<(), Fault>,
        abandoned: bool,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        // What failed before its first word used nothing, as far as one knows.
        let used = outcome.is_ok() || self.tap.has_begun();
        let tokens = used.then(|| self.tap.tokens(self.book.input_tokens()));
        self.book.close(outcome, tokens, abandoned)
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            match &mut this.step {
                Step::Flowing => {
                    if let Some(piece) = ready!(this.flow(cx)) {
                        return Poll::Ready(Some(Ok(Frame::data(piece))));
                    }
                }
                Step::Telling(telling) => {
                    let told = telling.told.as_mut().poll(cx);
                    if telling.wait {
                        ready!(told);
                    }
                    let Step::Telling(telling) = std::mem::replace(&mut this.step, Step::Over) else {
                        continue;
                    };
                    if told.is_pending() {
                        // It is in the ledger's hands; the agent need not wait for the disk.
                        this.book.finish_later(telling.told);
                    }
                    match telling.last {
                        Last::Nothing => {}
                        Last::Words(words) => return Poll::Ready(Some(Ok(Frame::data(words)))),
                        Last::Broken(why) => {
                            this.step = Step::Breaking(why);
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                Step::Breaking(why) => {
                    let error = io::Error::other(std::mem::take(why));
                    this.step = Step::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                Step::Over => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Flowing => {
                // Some do not wait for the end of what has said its last word, good or bad.
                self.tap.finish();
                let (outcome, abandoned) = match self.trouble() {
                    Some((said, permanent)) => (Err(self.book.fault(&said, permanent)), false),
                    None => (Ok(()), !self.tap.is_complete()),
                };
                if let Some(told) = self.close(outcome, abandoned) {
                    self.book.finish_later(told);
                }
            }
            Step::Telling(telling) => self.book.finish_later(telling.told),
            Step::Breaking(_) | Step::Over => {}
        }
    }
}
