//! The record of one call while it runs, and the report of its end to the authorizer.

use super::{
    authorizer::AdmittedCall,
    dialect::ModelApi,
    metrics::{CallMeter, CallOutcome},
    provider_error::ProviderError,
    redact_key::redacted_line,
};
use crate::{CallRefusal, CallReport, CallTarget, Fault, TokenUsage};
use futures_util::future::BoxFuture;
use hostd_core::{FailureKind, classify_error_kind};
use std::sync::Arc;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::TaskTracker;

pub struct CallRecord {
    /// None once the end is reported.
    pub call: Option<Box<dyn AdmittedCall>>,
    pub call_target: Arc<CallTarget>,
    pub api: ModelApi,
    /// The call generates nothing, so the task does not depend on its outcome.
    pub count_only: bool,
    pub input_tokens: u64,
    pub started: Instant,
    pub attempt: u32,
    pub gave_up: bool,
    pub status: Option<u16>,
    pub first_byte_ms: Option<u64>,
    pub meter: CallMeter,
    pub tracker: TaskTracker,
}

/// Writes the end of a call. Runs only when it is polled.
pub type EndReport = BoxFuture<'static, ()>;

impl CallRecord {
    pub fn key(&self) -> Option<&str> {
        self.call_target.provider.key.as_ref().map(|key| key.0.as_str())
    }

    pub fn report_streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        self.call.as_ref().map_or(Ok(()), |call| call.report_streamed(output_tokens))
    }

    pub fn mark_complete(&self) {
        self.call.iter().for_each(|call| call.mark_complete());
    }

    pub fn is_permanent(&self, error: &ProviderError) -> bool {
        self.gave_up || classify_error_kind(&error.kind) == FailureKind::Permanent
    }

    pub fn fault(&self, message: &str, permanent: bool) -> Fault {
        let mut message = redacted_line(message, self.key());
        if self.gave_up && self.attempt > 1 {
            message = format!("{message} (after {} tries)", self.attempt);
        }
        Fault { status: self.status, message, permanent }
    }

    /// The request is on its way to the provider.
    pub fn mark_sent(&self) {
        self.call.iter().for_each(|call| call.mark_sent());
    }

    pub fn report_retry(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        self.meter.retried();
        self.call.iter().for_each(|call| call.report_retry(attempt, fault, wait_ms));
    }

    /// Ends the call. The caller must run the report, or hand it to `report_later`.
    pub fn end(
        &mut self,
        outcome: Result<(), Fault>,
        tokens: Option<TokenUsage>,
        abandoned: bool,
    ) -> Option<EndReport> {
        let call = self.call.take()?;
        let tokens = if self.count_only { Some(TokenUsage::default()) } else { tokens };
        // A provider without token counting may still generate: the task does not fail over it.
        let permanent = |fault: Fault| Fault { permanent: fault.permanent && !self.count_only, ..fault };
        let abandoned = abandoned || (self.count_only && outcome.is_err());
        let outcome = outcome.map_err(permanent);
        let counted = match &outcome {
            _ if abandoned => CallOutcome::Abandoned,
            Ok(()) => CallOutcome::Succeeded,
            Err(_) => CallOutcome::Failed,
        };
        self.meter.ended(counted, tokens.as_ref(), self.status);
        let end = CallReport {
            attempt: self.attempt,
            status: self.status,
            tokens,
            first_byte_ms: self.first_byte_ms,
            outcome,
            abandoned,
        };
        Some(call.end(end))
    }

    /// Runs the report in the background, so that the agent does not wait for it.
    pub fn report_later(&self, report: EndReport) {
        // Without a runtime hostd is shutting down, and a call whose end is missing counts as abandoned.
        if let Ok(runtime) = Handle::try_current() {
            self.tracker.spawn_on(report, &runtime);
        }
    }

    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
