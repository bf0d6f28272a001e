//! Grants: the key of a task is valid for this task, from its own sandbox, while the task runs.

use super::{
    ActiveBudgets, Call, CallParams, CallRefusal, CallTarget, Price,
    budget_accounts::AccountKey,
    catalogue::{Catalogue, ResolvedModel},
    limits,
    service::{ModelService, now_ms},
};
use hostd_core::{
    GrantTerms, ModelFailure, Spend,
    budget::{CallEstimate, ReserveError, cost_micro_usd, reserve},
};
use hostd_store::TaskRecord;
use protocol::{
    Dialect, FailureReason,
    api::{Label, SandboxId},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How a grant was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantClosed {
    /// The task has ended, so the outcome of calls in flight does not matter.
    Settling,
    /// The runner went away, as when hostd stops: the task may go on.
    Dropped,
}

/// The shared state of a grant.
pub(super) struct GrantState {
    pub task: i64,
    pub sandbox: SandboxId,
    pub tenant: Label,
    pub key_hash: [u8; 32],
    pub terms: GrantTerms,
    /// Usage of calls before hostd was restarted.
    pub used_before: Spend,
    /// The number of the newest call.
    numbered: AtomicU64,
    /// Cancelled when the task has begun.
    task_begun: CancellationToken,
    /// Set when no call may begin any more; the first value stays.
    closed: OnceLock<GrantClosed>,
    /// Ends the calls in flight.
    pub task_ended: CancellationToken,
    verdict: OnceLock<ModelFailure>,
    /// Calls without an end; `ended` is notified when the number falls.
    in_flight: AtomicUsize,
    ended: Notify,
    /// Notifies the runner, which can end the task.
    nudge: Arc<Notify>,
}

impl GrantState {
    /// Returns `None` for a task without models.
    pub fn of(task: &TaskRecord, nudge: Arc<Notify>) -> Option<Self> {
        let grant = task.grant.as_ref()?;
        let usage = task.seen.usage.unwrap_or_default();
        let parts =
            [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens];
        let tokens = parts.into_iter().fold(0, u64::saturating_add);
        let cost_micro_usd = usage.cost_micro_usd.unwrap_or(0);
        let verdict = OnceLock::new();
        if let Some(stored) = task.verdict.clone() {
            verdict.set(stored).expect("it is new");
        }
        Some(Self {
            task: task.number,
            sandbox: task.sandbox,
            tenant: task.owner.tenant.clone(),
            key_hash: grant.key_hash,
            terms: grant.terms.clone(),
            used_before: Spend { tokens, cost_micro_usd, requests: usage.calls },
            numbered: AtomicU64::new(task.seen.numbered),
            task_begun: CancellationToken::new(),
            closed: OnceLock::new(),
            task_ended: CancellationToken::new(),
            verdict,
            in_flight: AtomicUsize::new(0),
            ended: Notify::new(),
            nudge,
        })
    }

    pub fn account_key(&self) -> AccountKey<'_> {
        AccountKey { task: self.task, tenant: &self.tenant }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    pub fn is_settling(&self) -> bool {
        self.closed.get() == Some(&GrantClosed::Settling)
    }

    fn close(&self, how: GrantClosed) {
        // The set fails when the grant is closed already.
        let _ = self.closed.set(how);
    }

    /// Sets the verdict; the first one stays.
    pub fn set_verdict(&self, verdict: ModelFailure) {
        // The set fails when there is a verdict already.
        let _ = self.verdict.set(verdict);
    }

    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Counts a call that begins and returns its number.
    pub fn call_begun(&self) -> u64 {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn call_ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_waiters();
    }
}

/// Keeps the key of a task valid while it lives. Held by the runner of the task.
pub struct OpenGrant {
    pub(super) service: Arc<ModelService>,
    pub(super) grant_state: Arc<GrantState>,
}

impl OpenGrant {
    /// Marks the task as begun: from now on its agent may call models.
    pub fn begun(&self) {
        self.grant_state.task_begun.cancel();
    }

    /// Returns why the task must end, if it must.
    pub fn verdict(&self) -> Option<&ModelFailure> {
        self.grant_state.verdict.get()
    }

    /// Settles calls before the end of the task is recorded: no call begins any more, and those in flight get
    /// a moment to end. Then they are cancelled, and get another moment to be counted.
    pub async fn settle(&self) {
        self.grant_state.close(GrantClosed::Settling);
        self.ended().await;
        self.grant_state.task_ended.cancel();
        self.ended().await;
    }

    /// Waits, for a limited time, until no call is in flight.
    async fn ended(&self) {
        let none_left = async {
            loop {
                let ended = self.grant_state.ended.notified();
                tokio::pin!(ended);
                // Enabled before the check, so that no notification is missed in between.
                ended.as_mut().enable();
                if self.grant_state.in_flight.load(Ordering::Acquire) == 0 {
                    return;
                }
                ended.await;
            }
        };
        // A call that takes longer counts only for its tenant.
        let _ = timeout(Duration::from_millis(limits::SETTLE_MAX_MS), none_left).await;
    }
}

impl Drop for OpenGrant {
    fn drop(&mut self) {
        self.grant_state.close(GrantClosed::Dropped);
        self.grant_state.task_ended.cancel();
        self.service.close(&self.grant_state);
    }
}

/// The right of one task to call models.
pub struct Grant {
    pub(super) service: Arc<ModelService>,
    pub(super) grant_state: Arc<GrantState>,
}

impl Grant {
    pub(super) fn new(service: Arc<ModelService>, grant_state: Arc<GrantState>) -> Self {
        Self { service, grant_state }
    }

    /// Waits, for a limited time, until the task has begun: its agent may be faster than the event that says
    /// so.
    pub async fn wait_until_begun(&self) -> Result<(), CallRefusal> {
        let most = Duration::from_millis(limits::TASK_BEGIN_WAIT_MAX_MS);
        timeout(most, self.grant_state.task_begun.cancelled()).await.map_err(|_| CallRefusal::Waits)
    }

    /// Begins a call as `begin` does, but waits, for a limited time, while the rest of the budget is reserved
    /// by calls in flight.
    pub async fn begin_when_free(
        &self,
        target: &CallTarget,
        params: CallParams,
    ) -> Result<Call, CallRefusal> {
        let waits = sleep(Duration::from_millis(limits::BUDGET_WAIT_MAX_MS));
        tokio::pin!(waits);
        loop {
            let settled = self.service.settled.notified();
            tokio::pin!(settled);
            // Enabled before the check, so that no notification is missed in between.
            settled.as_mut().enable();
            match self.begin(target, params) {
                Err(CallRefusal::Busy) => {}
                result => return result,
            }
            tokio::select! {
                // All three only trigger another check.
                () = settled => {}
                () = self.grant_state.task_ended.cancelled() => {}
                () = &mut waits => return Err(CallRefusal::Busy),
            }
        }
    }

    /// Returns the names that calls of a dialect may use, the granted model first.
    pub fn models(&self, dialect: Dialect) -> Vec<String> {
        let terms = &self.grant_state.terms;
        let granted = (terms.model.dialect == dialect).then(|| terms.model.name.clone());
        let catalogue = self.service.catalogue();
        let views = catalogue.views(&self.grant_state.tenant);
        let others = views.into_iter().filter(|view| view.dialect == dialect).filter_map(|view| view.model);
        let mut names: Vec<String> = granted.into_iter().chain(others).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Resolves the provider and model of a call that names this model.
    pub fn target(&self, dialect: Dialect, model: &str) -> Result<CallTarget, CallRefusal> {
        let catalogue = self.service.catalogue();
        let found = self.resolve(&catalogue, dialect, model);
        if let Some((configured, problem)) =
            found.as_ref().and_then(|found| Some((found.configured, found.configured.problem.as_ref()?)))
        {
            let (provider, problem) = (configured.record.name.clone(), problem.to_string());
            return Err(CallRefusal::Key { provider, problem });
        }
        // Excludes models without a price where cost is bounded.
        let usable = found.filter(|resolved| resolved.price.is_some() || !self.active_budgets().cost);
        match usable {
            Some(ResolvedModel { configured, model, price, .. }) => {
                self.service.note_key_use(&configured.record);
                Ok(CallTarget { provider: configured.provider.clone(), model, price })
            }
            None => Err(CallRefusal::Model { model: model.to_owned(), available: self.models(dialect) }),
        }
    }

    /// Resolves a name: the granted model first, then models of its provider, then any other.
    fn resolve<'a>(
        &self,
        catalogue: &'a Catalogue,
        dialect: Dialect,
        name: &str,
    ) -> Option<ResolvedModel<'a>> {
        let (tenant, granted) = (&self.grant_state.tenant, &self.grant_state.terms.model);
        let own = catalogue.provider(tenant, &granted.provider);
        let own = own.filter(|configured| configured.record.dialect == dialect);
        let name = if name == granted.name { granted.model.as_str() } else { name };
        own.and_then(|configured| configured.model(name))
            .or_else(|| catalogue.resolve(tenant, name, &[dialect]).ok())
    }

    /// Returns what the budgets of the task and of its tenant bound.
    pub fn active_budgets(&self) -> ActiveBudgets {
        let of_tenant = self.service.accounts().bounds_of(&self.grant_state.tenant).unwrap_or_default();
        let all = [self.grant_state.terms.bounds, of_tenant];
        let cost = all.iter().any(|bounds| bounds.cost_micro_usd.is_some());
        ActiveBudgets { tokens: cost || all.iter().any(|bounds| bounds.tokens.is_some()), cost }
    }

    /// Begins a call and reserves what it may use. The reservation holds until the [`Call`] has ended or is
    /// dropped.
    pub fn begin(&self, target: &CallTarget, params: CallParams) -> Result<Call, CallRefusal> {
        match self.grant_state.verdict.get() {
            Some(ModelFailure { reason: FailureReason::BudgetExceeded, message }) => {
                return Err(CallRefusal::Budget(message.clone()));
            }
            Some(_) => return Err(CallRefusal::Ended),
            None if self.grant_state.is_closed() => return Err(CallRefusal::Ended),
            None => {}
        }
        let price = target.price.unwrap_or_default();
        let input = Spend {
            tokens: params.input_tokens,
            cost_micro_usd: cost_micro_usd(&[(params.input_tokens, price.input)]),
            requests: 1,
        };
        let wanted =
            CallEstimate { input, output_price: price.output, max_output_tokens: params.max_output_tokens };
        let account_key = self.grant_state.account_key();
        let mut accounts = self.service.accounts();
        let admitted = match accounts.with(account_key, now_ms(), |accounts| reserve(accounts, wanted)) {
            Ok(admitted) => admitted,
            Err(ReserveError::Busy) => return Err(CallRefusal::Busy),
            Err(ReserveError::Exceeded(index, over)) => {
                let message = accounts.explain(account_key, (index, over));
                drop(accounts);
                return Err(exceed_budget(&self.service, &self.grant_state, message));
            }
        };
        drop(accounts);
        let number = self.grant_state.call_begun();
        Ok(Call::begin(self.service.clone(), self.grant_state.clone(), target, (number, params, admitted)))
    }
}

/// Ends the task because a budget is used up.
pub(super) fn exceed_budget(
    service: &ModelService,
    grant_state: &GrantState,
    message: String,
) -> CallRefusal {
    let verdict = ModelFailure { reason: FailureReason::BudgetExceeded, message: message.clone() };
    grant_state.set_verdict(verdict.clone());
    // Queued before any later end of the task; the runner checks whether it was written.
    drop(service.store.judge_task(grant_state.task, verdict));
    grant_state.nudge();
    CallRefusal::Budget(message)
}

impl Price {
    /// Returns the cost of a call in millionths of a dollar.
    pub fn cost_micro_usd(&self, tokens: &super::TokenUsage) -> u64 {
        cost_micro_usd(&[
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
        ])
    }
}
