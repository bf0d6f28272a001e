//! A model call, from its admission to its recorded end.

use super::{
    CallParams, CallRefusal, CallReport, CallTarget, Fault, Price, TokenUsage,
    calls_in_flight::{InFlightCall, Slot},
    grant::{GrantState, exceed_budget},
    service::{ModelService, now_ms},
};
use hostd_core::{
    FailedProvider, ModelFailure, Spend,
    budget::{Reservation, extend_reservation, output_spend, settle},
    explain_provider_failure,
};
use hostd_store::{CallEnd, QueuedWrite, StoreError};
use protocol::{FailureReason, ModelCall, ModelCallState, Usage};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A model call in flight. Dropped without an end, it counts as abandoned.
pub struct Call {
    /// The output limit of the call: what it asked for, or what is left of the budget.
    pub max_output_tokens: Option<u64>,
    service: Arc<ModelService>,
    grant_state: Arc<GrantState>,
    number: u64,
    params: CallParams,
    /// A budget bounds the output.
    bounded: bool,
    provider: String,
    has_key: bool,
    model: String,
    price: Option<Price>,
    started: Instant,
    progress: Mutex<Progress>,
    /// `Some` until the call has ended.
    slot: Mutex<Option<Slot>>,
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    reserved: Spend,
    /// The part of `set_aside` that is for output.
    output_tokens: u64,
    /// Output tokens so far.
    streamed: u64,
    /// A provider has a request and may charge for it.
    sent: bool,
    attempt: u32,
    ended: bool,
}

impl Call {
    pub(super) fn begin(
        service: Arc<ModelService>,
        grant_state: Arc<GrantState>,
        target: &CallTarget,
        (number, params, admitted): (u64, CallParams, Reservation),
    ) -> Self {
        let Reservation { reserved, max_output_tokens, bounded } = admitted;
        let output_tokens = reserved.tokens.saturating_sub(params.input_tokens);
        let progress =
            Progress { reserved, output_tokens, streamed: 0, sent: false, attempt: 1, ended: false };
        let call = Self {
            max_output_tokens,
            service,
            grant_state,
            number,
            params,
            bounded,
            provider: target.provider.name.clone(),
            has_key: target.provider.key.is_some(),
            model: target.model.clone(),
            price: target.price,
            started: Instant::now(),
            progress: Mutex::new(progress),
            slot: Mutex::default(),
        };
        if !params.count_only {
            let record = call.in_flight_record(&progress, call.estimated_usage(&progress));
            *call.slot() = call.service.in_flight.begin(&record);
        }
        call
    }

    /// Returns the record that counts if hostd dies before the call ends.
    fn in_flight_record(&self, progress: &Progress, tokens: TokenUsage) -> InFlightCall {
        InFlightCall {
            task: self.grant_state.task,
            key_hash: self.grant_state.key_hash,
            number: self.number,
            provider: self.provider.clone(),
            model: self.model.clone(),
            began_ms: now_ms().saturating_sub(self.duration_ms()),
            attempt: progress.attempt,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cost_micro_usd: self.price.map(|price| price.cost_micro_usd(&tokens)),
            whole: false,
        }
    }

    /// Records that the agent has the whole response, even if the end of the call is never recorded.
    pub fn response_delivered(&self) {
        let progress = *self.progress();
        if let Some(slot) = &*self.slot() {
            slot.write(&InFlightCall {
                whole: true,
                ..self.in_flight_record(&progress, self.estimated_usage(&progress))
            });
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Slot>> {
        self.slot.lock().expect("no panic while held")
    }

    /// Cancelled when the task, and with it this call, must end.
    pub fn task_ended(&self) -> CancellationToken {
        self.grant_state.task_ended.clone()
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().expect("no panic while held")
    }

    /// Records that the request goes out to the provider.
    pub fn sent(&self) {
        self.progress().sent = true;
    }

    /// Appends an event: the call is tried again after `wait_ms`.
    pub fn retrying(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        let call = ModelCall {
            state: ModelCallState::Retrying,
            attempt,
            status: fault.status,
            error: Some(fault.message.clone()),
            retry_in_ms: Some(wait_ms),
            ..self.event()
        };
        let mut progress = self.progress();
        progress.attempt = progress.attempt.max(attempt.saturating_add(1));
        progress.sent = false;
        drop(progress);
        // Informational: a lost retry event has no consequence.
        drop(self.service.store.call_retried(self.grant_state.task, call, now_ms()));
    }

    /// Reports the estimated output so far. Refuses output beyond the budget.
    pub fn streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        if self.grant_state.is_closed() {
            return Err(CallRefusal::Ended);
        }
        let mut progress = self.progress();
        progress.streamed = progress.streamed.max(output_tokens);
        if output_tokens <= progress.output_tokens {
            return Ok(());
        }
        let more =
            output_spend(output_tokens - progress.output_tokens, self.price.unwrap_or_default().output);
        let account_key = self.grant_state.account_key();
        let mut accounts = self.service.accounts();
        match accounts.with(account_key, now_ms(), |accounts| extend_reservation(accounts, more)) {
            Ok(()) => {
                progress.reserved = progress.reserved.plus(more);
                progress.output_tokens = output_tokens;
                Ok(())
            }
            Err(refusal) => {
                let message = accounts.explain(account_key, refusal);
                drop(accounts);
                Err(exceed_budget(&self.service, &self.grant_state, message))
            }
        }
    }

    /// Records the end of the call and returns when that is durable. A permanent fault ends the task.
    pub async fn ended(self, end: CallReport) {
        let fatal = match &end.outcome {
            Err(fault) if fault.permanent && !end.abandoned && !self.is_other_model(fault) => {
                Some(self.verdict(fault))
            }
            Ok(()) | Err(_) => None,
        };
        if let Some(verdict) = &fatal {
            self.grant_state.set_verdict(verdict.clone());
        }
        let ends = fatal.is_some();
        let Some(pending) = self.finish(&end, fatal) else { return };
        if let Err(error) = pending.written().await {
            error!(task = self.grant_state.task, %error, "failed to record the end of a model call");
        }
        if ends {
            self.grant_state.nudge();
        }
    }

    /// Returns whether the fault concerns a missing model other than the granted one: the agent may go on
    /// without it.
    fn is_other_model(&self, fault: &Fault) -> bool {
        const NOT_FOUND: Option<u16> = Some(404);
        let granted = &self.grant_state.terms.model;
        fault.status == NOT_FOUND && (&self.provider, &self.model) != (&granted.provider, &granted.model)
    }

    fn verdict(&self, fault: &Fault) -> ModelFailure {
        let catalogue = self.service.catalogue();
        let configured = catalogue.provider(&self.grant_state.tenant, &self.provider);
        let tenant = configured.and_then(|configured| configured.record.tenant.as_ref());
        let provider = FailedProvider { name: &self.provider, has_key: self.has_key, tenant };
        let message = explain_provider_failure(provider, fault.status, &fault.message);
        ModelFailure { reason: FailureReason::ModelFailed, message }
    }

    /// Settles the account and queues the end of the call, once.
    fn finish(&self, end: &CallReport, verdict: Option<ModelFailure>) -> Option<PendingEnd> {
        let mut guard = self.progress();
        if std::mem::replace(&mut guard.ended, true) {
            return None;
        }
        let progress = *guard;
        drop(guard);
        let slot = self.slot().take();
        let tokens = self.used(end, &progress);
        let whole = end.outcome.is_ok() && !end.abandoned;
        let slot =
            slot.map(|slot| (slot, InFlightCall { whole, ..self.in_flight_record(&progress, tokens) }));
        if end.abandoned && self.service.is_shutting_down() && !self.grant_state.is_settling() {
            // hostd is shutting down: the next hostd finds the slot and records the end.
            slot.into_iter().for_each(|(slot, record)| keep(slot, &record));
            self.grant_state.call_ended();
            return None;
        }
        let cost_micro_usd = self.price.map(|price| price.cost_micro_usd(&tokens));
        let parts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
        let sum = parts.into_iter().fold(0, u64::saturating_add);
        let used = Spend { tokens: sum, cost_micro_usd: cost_micro_usd.unwrap_or(0), requests: 1 };
        let now_ms = now_ms();
        let account_key = self.grant_state.account_key();
        self.service
            .accounts()
            .with(account_key, now_ms, |accounts| settle(accounts, progress.reserved, used));
        self.service.settled.notify_waiters();
        let state = match (&end.outcome, end.abandoned) {
            (_, true) => ModelCallState::Abandoned,
            (Ok(()), false) => ModelCallState::Succeeded,
            (Err(_), false) => ModelCallState::Failed,
        };
        let call = ModelCall {
            state,
            attempt: end.attempt,
            status: end.status,
            error: end.outcome.as_ref().err().map(|fault| fault.message.clone()),
            first_byte_ms: end.first_byte_ms,
            usage: Some(usage(&tokens, cost_micro_usd, state)),
            ..self.event()
        };
        let end = CallEnd {
            task: self.grant_state.task,
            call,
            used,
            verdict,
            count_only: self.params.count_only,
            interrupted: false,
            time_ms: now_ms,
        };
        let write = self.service.store.call_ended(end);
        self.grant_state.call_ended();
        Some(PendingEnd { write, slot })
    }

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the usage as reported by the provider, else as estimated. A call that was refused before any
    /// output used nothing, nor did a call without a request at a provider.
    fn used(&self, end: &CallReport, progress: &Progress) -> TokenUsage {
        let refused = end.outcome.is_err() && !end.abandoned;
        let nothing = progress.streamed == 0 && (refused || !progress.sent);
        match end.tokens {
            Some(tokens) => self.with_output_floor(tokens, progress),
            None if nothing => TokenUsage::default(),
            None => self.estimated_usage(progress),
        }
    }

    fn estimated_usage(&self, progress: &Progress) -> TokenUsage {
        let (input, output) = (self.params.input_tokens, progress.streamed);
        self.with_output_floor(
            TokenUsage { input, output, estimated: true, ..TokenUsage::default() },
            progress,
        )
    }

    /// Raises an estimate to the whole reservation where a budget bounds the output. Not all output of a
    /// model is visible, so an agent could avoid charges by disconnecting early or by suppressing the
    /// reported usage.
    fn with_output_floor(&self, tokens: TokenUsage, progress: &Progress) -> TokenUsage {
        let output = match self.bounded && tokens.estimated {
            true => tokens.output.max(progress.output_tokens),
            false => tokens.output,
        };
        TokenUsage { output, ..tokens }
    }

    fn event(&self) -> ModelCall {
        ModelCall {
            call: self.number,
            provider: self.provider.clone(),
            model: self.model.clone(),
            duration_ms: self.duration_ms(),
            ..ModelCall::default()
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let attempt = self.progress().attempt;
        let end = CallReport {
            attempt,
            status: None,
            tokens: None,
            first_byte_ms: None,
            outcome: Ok(()),
            abandoned: true,
        };
        drop(self.finish(&end, None));
    }
}

/// The end of a call that is queued for the store.
struct PendingEnd {
    write: QueuedWrite<()>,
    slot: Option<(Slot, InFlightCall)>,
}

impl PendingEnd {
    /// Waits for the write. An end that could not be stored is kept in its slot for the next hostd.
    async fn written(self) -> Result<(), StoreError> {
        let written = self.write.written().await;
        if let (Err(_), Some((slot, record))) = (&written, self.slot) {
            keep(slot, &record);
        }
        written
    }
}

fn keep(slot: Slot, record: &InFlightCall) {
    slot.write(record);
    slot.keep();
}

impl InFlightCall {
    /// Returns the end of an interrupted call: failed, unless the agent had the whole response.
    pub(super) fn interrupted_end(self, now_ms: u64) -> CallEnd {
        let (input, output) = (self.input_tokens, self.output_tokens);
        let tokens = TokenUsage { input, output, estimated: true, ..TokenUsage::default() };
        let (state, error) = match self.whole {
            true => (ModelCallState::Succeeded, None),
            false => (ModelCallState::Failed, Some("hostd stopped during it".to_owned())),
        };
        let call = ModelCall {
            call: self.number,
            provider: self.provider,
            model: self.model,
            state,
            attempt: self.attempt,
            duration_ms: now_ms.saturating_sub(self.began_ms),
            error,
            usage: Some(usage(&tokens, self.cost_micro_usd, state)),
            ..ModelCall::default()
        };
        let used = Spend {
            tokens: input.saturating_add(output),
            cost_micro_usd: self.cost_micro_usd.unwrap_or(0),
            requests: 1,
        };
        CallEnd { task: self.task, call, used, interrupted: true, time_ms: now_ms, ..CallEnd::default() }
    }
}

fn usage(tokens: &TokenUsage, cost_micro_usd: Option<u64>, state: ModelCallState) -> Usage {
    Usage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
        reasoning_tokens: tokens.reasoning,
        calls: 1,
        retries: 0,
        failed_calls: u64::from(state == ModelCallState::Failed),
        cost_micro_usd,
        estimated: tokens.estimated,
    }
}
