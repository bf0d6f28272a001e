//! One call of a model, from the moment it is allowed to its end in the ledger.

use super::{
    Aim, Ask, End, Fault, Price, Refused, Tokens,
    desk::{Desk, now_ms},
    grant::{Pledge, refuse},
    under_way::{Begun, Slot},
};
use crate::{
    core::{
        Refuser, Spent, Verdict,
        budget::{Admitted, extend, output_spent, settle},
        provider_failed,
    },
    store::{CallEnd, Posted, StoreError},
};
use protocol::{FailureReason, ModelCall, ModelCallState, Usage};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Dropped without an end, it counts as abandoned.
pub struct Call {
    /// The most it may answer now: what it asked for, or what is left.
    pub max_output_tokens: Option<u64>,
    desk: Arc<Desk>,
    pledge: Arc<Pledge>,
    number: u64,
    ask: Ask,
    /// A budget bounds what it answers.
    bounded: bool,
    provider: String,
    has_key: bool,
    model: String,
    price: Option<Price>,
    started: Instant,
    progress: Mutex<Progress>,
    /// Until it has ended.
    slot: Mutex<Option<Slot>>,
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    set_aside: Spent,
    /// Of what is set aside, for what is answered.
    output_tokens: u64,
    /// Answered so far.
    streamed: u64,
    /// A request is with the provider, and may count there.
    sent: bool,
    attempt: u32,
    ended: bool,
}

impl Call {
    pub(super) fn begun(
        desk: Arc<Desk>,
        pledge: Arc<Pledge>,
        aim: &Aim,
        (number, ask, admitted): (u64, Ask, Admitted),
    ) -> Self {
        let Admitted { set_aside, max_output_tokens, bounded } = admitted;
        let output_tokens = set_aside.tokens.saturating_sub(ask.input_tokens);
        let progress =
            Progress { set_aside, output_tokens, streamed: 0, sent: false, attempt: 1, ended: false };
        let call = Self {
            max_output_tokens,
            desk,
            pledge,
            number,
            ask,
            bounded,
            provider: aim.provider.name.clone(),
            has_key: aim.provider.key.is_some(),
            model: aim.model.clone(),
            price: aim.price,
            started: Instant::now(),
            progress: Mutex::new(progress),
            slot: Mutex::default(),
        };
        if !ask.only_counts {
            let begun = call.if_cut_off(&progress, call.reckoned(&progress));
            *call.slot() = call.desk.under_way.begin(&begun);
        }
        call
    }

    /// What it counts for if hostd is gone before its end.
    fn if_cut_off(&self, progress: &Progress, tokens: Tokens) -> Begun {
        Begun {
            task: self.pledge.task,
            key_hash: self.pledge.key_hash,
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

    /// The agent has the last word of the answer, whenever its end comes.
    pub fn heard_out(&self) {
        let progress = *self.progress();
        if let Some(slot) = &*self.slot() {
            slot.write(&Begun { whole: true, ..self.if_cut_off(&progress, self.reckoned(&progress)) });
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Slot>> {
        self.slot.lock().expect("no panic while held")
    }

    /// Told when the task is over, and with it this call.
    pub fn over(&self) -> CancellationToken {
        self.pledge.over.clone()
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().expect("no panic while held")
    }

    /// Its request goes out to the provider.
    pub fn sent(&self) {
        self.progress().sent = true;
    }

    /// It is tried again after `wait_ms`: an event.
    pub fn retrying(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        let call = ModelCall {
            state: ModelCallState::Retrying,
            attempt,
            status: fault.status,
            error: Some(fault.message.clone()),
            retry_in_ms: Some(wait_ms),
            ..self.told()
        };
        let mut progress = self.progress();
        progress.attempt = progress.attempt.max(attempt.saturating_add(1));
        progress.sent = false;
        drop(progress);
        // Only told: one that cannot be written is missed by nobody.
        drop(self.desk.store.call_retried(self.pledge.task, call, now_ms()));
    }

    /// So many tokens came so far, reckoned. Refused where that is more than may be used.
    pub fn streamed(&self, output_tokens: u64) -> Result<(), Refused> {
        if self.pledge.is_closed() {
            return Err(Refused::Ended);
        }
        let mut progress = self.progress();
        progress.streamed = progress.streamed.max(output_tokens);
        if output_tokens <= progress.output_tokens {
            return Ok(());
        }
        let more =
            output_spent(output_tokens - progress.output_tokens, self.price.unwrap_or_default().output);
        let whose = self.pledge.whose();
        let mut accounts = self.desk.accounts();
        match accounts.with(whose, now_ms(), |accounts| extend(accounts, more)) {
            Ok(()) => {
                progress.set_aside = progress.set_aside.and(more);
                progress.output_tokens = output_tokens;
                Ok(())
            }
            Err(refusal) => {
                let message = accounts.explain(whose, refusal);
                drop(accounts);
                Err(refuse(&self.desk, &self.pledge, message))
            }
        }
    }

    /// Writes down how it ended, and returns when that is durable. A permanent fault ends the task.
    pub async fn ended(self, end: End) {
        let fatal = match &end.outcome {
            Err(fault) if fault.permanent && !end.abandoned && !self.is_of_another(fault) => {
                Some(self.verdict(fault))
            }
            Ok(()) | Err(_) => None,
        };
        if let Some(verdict) = &fatal {
            self.pledge.judge(verdict.clone());
        }
        let ends = fatal.is_some();
        let Some(told) = self.finish(&end, fatal) else { return };
        if let Err(error) = told.written().await {
            error!(task = self.pledge.task, %error, "a call of a model could not be written down");
        }
        if ends {
            self.pledge.nudge();
        }
    }

    /// A model is not there that an agent asks for besides its own: it fails without that one, and may go on.
    fn is_of_another(&self, fault: &Fault) -> bool {
        const NOT_FOUND: Option<u16> = Some(404);
        let granted = &self.pledge.terms.model;
        fault.status == NOT_FOUND && (&self.provider, &self.model) != (&granted.provider, &granted.model)
    }

    fn verdict(&self, fault: &Fault) -> Verdict {
        let catalogue = self.desk.catalogue();
        let known = catalogue.provider(&self.pledge.tenant, &self.provider);
        let tenant = known.and_then(|known| known.record.tenant.as_ref());
        let provider = Refuser { name: &self.provider, has_key: self.has_key, tenant };
        let message = provider_failed(provider, fault.status, &fault.message);
        Verdict { reason: FailureReason::ModelFailed, message }
    }

    /// Once: counts what it used, and has it written down.
    fn finish(&self, end: &End, verdict: Option<Verdict>) -> Option<Told> {
        let mut progress = self.progress();
        if std::mem::replace(&mut progress.ended, true) {
            return None;
        }
        let seen = *progress;
        drop(progress);
        let slot = self.slot().take();
        let tokens = self.used(end, &seen);
        let whole = end.outcome.is_ok() && !end.abandoned;
        let slot = slot.map(|slot| (slot, Begun { whole, ..self.if_cut_off(&seen, tokens) }));
        if end.abandoned && self.desk.is_leaving() && !self.pledge.is_settling() {
            // It was hostd that went away: the next one finds it, and tells.
            slot.into_iter().for_each(|(slot, begun)| keep(slot, &begun));
            self.pledge.call_ended();
            return None;
        }
        let cost_micro_usd = self.price.map(|price| price.cost_micro_usd(&tokens));
        let parts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
        let sum = parts.into_iter().fold(0, u64::saturating_add);
        let used = Spent { tokens: sum, cost_micro_usd: cost_micro_usd.unwrap_or(0), requests: 1 };
        let now_ms = now_ms();
        let whose = self.pledge.whose();
        self.desk.accounts().with(whose, now_ms, |accounts| settle(accounts, seen.set_aside, used));
        self.desk.settled.notify_waiters();
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
            ..self.told()
        };
        let end = CallEnd {
            task: self.pledge.task,
            call,
            used,
            verdict,
            only_counts: self.ask.only_counts,
            unheard: false,
            time_ms: now_ms,
        };
        let posted = self.desk.store.call_ended(end);
        self.pledge.call_ended();
        Some(Told { posted, slot })
    }

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// As the provider says, else as we reckon. A call that was refused before an answer came used nothing, nor did
    /// one that ended while no request of it was with the provider.
    fn used(&self, end: &End, seen: &Progress) -> Tokens {
        let refused = end.outcome.is_err() && !end.abandoned;
        let nothing = seen.streamed == 0 && (refused || !seen.sent);
        match end.tokens {
            Some(tokens) => self.at_least(tokens, seen),
            None if nothing => Tokens::default(),
            None => self.reckoned(seen),
        }
    }

    fn reckoned(&self, seen: &Progress) -> Tokens {
        let (input, output) = (self.ask.input_tokens, seen.streamed);
        self.at_least(Tokens { input, output, estimated: true, ..Tokens::default() }, seen)
    }

    /// Not all that a model makes is seen, so what nobody told counts as all that was allowed. Else whoever leaves in
    /// time, or has the end left out, would have it for nothing.
    fn at_least(&self, tokens: Tokens, seen: &Progress) -> Tokens {
        let output = match self.bounded && tokens.estimated {
            true => tokens.output.max(seen.output_tokens),
            false => tokens.output,
        };
        Tokens { output, ..tokens }
    }

    fn told(&self) -> ModelCall {
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
        let end = End {
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

/// An end on its way into the ledger.
struct Told {
    posted: Posted<()>,
    slot: Option<(Slot, Begun)>,
}

impl Told {
    /// What cannot be written is for the next hostd.
    async fn written(self) -> Result<(), StoreError> {
        let written = self.posted.written().await;
        if let (Err(_), Some((slot, begun))) = (&written, self.slot) {
            keep(slot, &begun);
        }
        written
    }
}

fn keep(slot: Slot, begun: &Begun) {
    slot.write(begun);
    slot.keep();
}

impl Begun {
    /// Its end, which nobody heard: unless the agent had all of it, whatever it made of it was not the whole answer.
    pub(super) fn unheard(self, now_ms: u64) -> CallEnd {
        let (input, output) = (self.input_tokens, self.output_tokens);
        let tokens = Tokens { input, output, estimated: true, ..Tokens::default() };
        let (state, error) = match self.whole {
            true => (ModelCallState::Succeeded, None),
            false => (ModelCallState::Failed, Some("hostd was stopped in the middle of it".to_owned())),
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
        let used = Spent {
            tokens: input.saturating_add(output),
            cost_micro_usd: self.cost_micro_usd.unwrap_or(0),
            requests: 1,
        };
        CallEnd { task: self.task, call, used, unheard: true, time_ms: now_ms, ..CallEnd::default() }
    }
}

fn usage(tokens: &Tokens, cost_micro_usd: Option<u64>, state: ModelCallState) -> Usage {
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
