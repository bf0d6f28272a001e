//! What is written down about one call: who is told, and with which words.

use super::{desk::Open, scrub::words, tap::Trouble};
use crate::{
    core::{Nature, nature_of_kind},
    models::{CallRefusal, CallReport, CallTarget, Fault, ModelApi, TokenUsage},
};
use std::{pin::Pin, sync::Arc};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::TaskTracker;

pub struct Book {
    /// Until its end is told.
    pub call: Option<Open>,
    pub aim: Arc<CallTarget>,
    pub speech: ModelApi,
    /// Nothing is made, so nothing depends on it.
    pub count_only: bool,
    pub input_tokens: u64,
    pub began: Instant,
    pub attempt: u32,
    pub used_up: bool,
    pub status: Option<u16>,
    pub first_byte_ms: Option<u64>,
    pub tracker: TaskTracker,
}

type Told = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Book {
    pub fn key(&self) -> Option<&str> {
        self.aim.provider.key.as_ref().map(|key| key.0.as_str())
    }

    pub fn speech(&self) -> ModelApi {
        self.speech
    }

    pub fn input_tokens(&self) -> u64 {
        self.input_tokens
    }

    pub fn streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        self.call.as_ref().map_or(Ok(()), |call| call.streamed(output_tokens))
    }

    pub fn heard_out(&self) {
        self.call.iter().for_each(Open::heard_out);
    }

    pub fn is_permanent(&self, trouble: &Trouble) -> bool {
        self.used_up || nature_of_kind(&trouble.kind) == Nature::Permanent
    }

    pub fn fault(&self, said: &str, permanent: bool) -> Fault {
        let mut message = words(said, self.key());
        if self.used_up && self.attempt > 1 {
            message = format!("{message} (after {} tries)", self.attempt);
        }
        Fault { status: self.status, message, permanent }
    }

    /// The end of it. Whoever gets this must see to it that it is run.
    pub fn close(
        &mut self,
        outcome: Result<(), Fault>,
        tokens: Option<TokenUsage>,
        abandoned: bool,
    ) -> Option<Told> {
        let call = self.call.take()?;
        let tokens = if self.count_only { Some(TokenUsage::default()) } else { tokens };
        // A provider that cannot count may still answer: nothing is judged by it.
        let permanent = |fault: Fault| Fault { permanent: fault.permanent && !self.count_only, ..fault };
        let abandoned = abandoned || (self.count_only && outcome.is_err());
        let outcome = outcome.map_err(permanent);
        let end = CallReport {
            attempt: self.attempt,
            status: self.status,
            tokens,
            first_byte_ms: self.first_byte_ms,
            outcome,
            abandoned,
        };
        Some(Box::pin(call.ended(end)))
    }

    /// Out of the agent's way.
    pub fn finish_later(&self, told: Told) {
        // Without a runtime hostd is on its way out, and a call without an end counts as abandoned.
        if let Ok(runtime) = Handle::try_current() {
            self.tracker.spawn_on(told, &runtime);
        }
    }

    pub fn ms_since_began(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
