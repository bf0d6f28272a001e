//! Who may use models: a key is good for one task, from its own sandbox, while it runs.

use super::{
    Aim, Ask, Bounded, Call, Price, Refused, Speech,
    accounts::Whose,
    catalogue::{Catalogue, Meant},
    desk::{Desk, now_ms},
    limits,
};
use crate::{
    core::{
        Spent, Terms, Verdict,
        budget::{Denied, Wanted, admit, cost_micro_usd},
    },
    store::TaskRecord,
};
use protocol::{
    Dialect, FailureReason,
    api::{Label, SandboxId},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// What is known of a task whose key is good.
pub(super) struct Pledge {
    pub task: i64,
    pub sandbox: SandboxId,
    pub tenant: Label,
    pub key_hash: [u8; 32],
    pub terms: Terms,
    /// By calls before a restart of hostd.
    pub used_before: Spent,
    /// The number of the newest call.
    numbered: AtomicU64,
    /// Told when its turn has come.
    begun: CancellationToken,
    /// No call begins any more.
    closed: AtomicBool,
    /// Nor does it matter how those end that are under way: the task has ended.
    settling: AtomicBool,
    /// Calls that are under way end.
    pub over: CancellationToken,
    verdict: OnceLock<Verdict>,
    /// Calls that have no end yet; told when there are less of them.
    under_way: AtomicUsize,
    ended: Notify,
    /// To whoever can end the task.
    nudge: Arc<Notify>,
}

impl Pledge {
    /// None for a task that has no models.
    pub fn of(task: &TaskRecord, nudge: Arc<Notify>) -> Option<Self> {
        let grant = task.grant.as_ref()?;
        let usage = task.seen.usage.unwrap_or_default();
        let parts =
            [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens];
        let tokens = parts.into_iter().fold(0, u64::saturating_add);
        let cost_micro_usd = usage.cost_micro_usd.unwrap_or(0);
        let verdict = OnceLock::new();
        if let Some(known) = task.verdict.clone() {
            verdict.set(known).expect("it is new");
        }
        Some(Self {
            task: task.number,
            sandbox: task.sandbox,
            tenant: task.owner.tenant.clone(),
            key_hash: grant.key_hash,
            terms: grant.terms.clone(),
            used_before: Spent { tokens, cost_micro_usd, requests: usage.calls },
            numbered: AtomicU64::new(task.seen.numbered),
            begun: CancellationToken::new(),
            closed: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            over: CancellationToken::new(),
            verdict,
            under_way: AtomicUsize::new(0),
            ended: Notify::new(),
            nudge,
        })
    }

    pub fn whose(&self) -> Whose<'_> {
        Whose { task: self.task, tenant: &self.tenant }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn is_settling(&self) -> bool {
        self.settling.load(Ordering::Acquire)
    }

    /// The first one stays.
    pub fn judge(&self, verdict: Verdict) {
        // There is one already when this fails.
        let _ = self.verdict.set(verdict);
    }

    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Its number.
    pub fn call_begun(&self) -> u64 {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn call_ended(&self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_waiters();
    }
}

/// The key of a task is good as long as this lives. Held by whoever brings the task to its end.
pub struct OpenGrant {
    pub(super) desk: Arc<Desk>,
    pub(super) pledge: Arc<Pledge>,
}

impl OpenGrant {
    /// Its turn has come: from here on its agent may call.
    pub fn begun(&self) {
        self.pledge.begun.cancel();
    }

    /// Why the task must end, if it must.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.pledge.verdict.get()
    }

    /// The task has ended, and that is about to be written down: no call begins any more, and those that are under
    /// way get a moment to end. Then they are ended, and get another one to be counted.
    pub async fn settle(&self) {
        self.pledge.settling.store(true, Ordering::Release);
        self.pledge.closed.store(true, Ordering::Release);
        self.ended().await;
        self.pledge.over.cancel();
        self.ended().await;
    }

    /// Waits, not for long, until no call is under way.
    async fn ended(&self) {
        let none_left = async {
            loop {
                let ended = self.pledge.ended.notified();
                tokio::pin!(ended);
                // Before the look, so that none is missed in between.
                ended.as_mut().enable();
                if self.pledge.under_way.load(Ordering::Acquire) == 0 {
                    return;
                }
                ended.await;
            }
        };
        // Who takes longer is only counted for its tenant.
        let _ = timeout(Duration::from_millis(limits::SETTLE_MAX_MS), none_left).await;
    }
}

impl Drop for OpenGrant {
    fn drop(&mut self) {
        self.pledge.closed.store(true, Ordering::Release);
        self.pledge.over.cancel();
        self.desk.close(&self.pledge);
    }
}

/// What one task may do.
pub struct Grant {
    pub(super) desk: Arc<Desk>,
    pub(super) pledge: Arc<Pledge>,
}

impl Grant {
    pub(super) fn new(desk: Arc<Desk>, pledge: Arc<Pledge>) -> Self {
        Self { desk, pledge }
    }

    /// Waits, not for long, until the turn of the task has come: its agent may be faster than the word of it.
    pub async fn in_its_turn(&self) -> Result<(), Refused> {
        let most = Duration::from_millis(limits::BEGIN_MAX_MS);
        timeout(most, self.pledge.begun.cancelled()).await.map_err(|_| Refused::Waits)
    }

    /// As `begin`, but where all that is left is set aside for calls under way it waits for those, not for long.
    pub async fn begin_in_turn(&self, aim: &Aim, ask: Ask) -> Result<Call, Refused> {
        let waits = sleep(Duration::from_millis(limits::TURN_MAX_MS));
        tokio::pin!(waits);
        loop {
            let settled = self.desk.settled.notified();
            tokio::pin!(settled);
            // Before the look, so that none is missed in between.
            settled.as_mut().enable();
            match self.begin(aim, ask) {
                Err(Refused::Busy) => {}
                begun => return begun,
            }
            tokio::select! {
                // All three only say that it is time to look again.
                () = settled => {}
                () = self.pledge.over.cancelled() => {}
                () = &mut waits => return Err(Refused::Busy),
            }
        }
    }

    /// The names that calls of a dialect may use, the granted one first.
    pub fn models(&self, dialect: Dialect) -> Vec<String> {
        let terms = &self.pledge.terms;
        let granted = (terms.model.dialect == dialect).then(|| terms.model.name.clone());
        let catalogue = self.desk.catalogue();
        let views = catalogue.views(&self.pledge.tenant);
        let others = views.into_iter().filter(|view| view.dialect == dialect).filter_map(|view| view.model);
        let mut names: Vec<String> = granted.into_iter().chain(others).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Where a call goes that names this model.
    pub fn aim(&self, speech: Speech, model: &str) -> Result<Aim, Refused> {
        let catalogue = self.desk.catalogue();
        let found = self.meant(&catalogue, speech.dialect(), model);
        // A key that cannot be opened, or a model whose cost nobody knows where cost is bounded.
        let usable = found
            .filter(|meant| meant.known.problem.is_none())
            .filter(|meant| meant.price.is_some() || !self.bounded().cost);
        match usable {
            Some(Meant { known, model, price, .. }) => {
                Ok(Aim { provider: known.provider.clone(), model, price })
            }
            None => Err(Refused::Model { model: model.to_owned(), there_are: self.models(speech.dialect()) }),
        }
    }

    /// The one that the task was given comes first, then others of its provider, then any that there is.
    fn meant<'a>(&self, catalogue: &'a Catalogue, dialect: Dialect, name: &str) -> Option<Meant<'a>> {
        let (tenant, granted) = (&self.pledge.tenant, &self.pledge.terms.model);
        let own = catalogue.provider(tenant, &granted.provider);
        let own = own.filter(|known| known.record.dialect == dialect);
        let name = if name == granted.name { granted.model.as_str() } else { name };
        own.and_then(|known| known.model(name)).or_else(|| catalogue.meant(tenant, name, &[dialect]).ok())
    }

    /// By the budget of the task, or by that of its tenant.
    pub fn bounded(&self) -> Bounded {
        let of_tenant = self.desk.accounts().bounds_of(&self.pledge.tenant).unwrap_or_default();
        let all = [self.pledge.terms.bounds, of_tenant];
        let cost = all.iter().any(|bounds| bounds.cost_micro_usd.is_some());
        Bounded { tokens: cost || all.iter().any(|bounds| bounds.tokens.is_some()), cost }
    }

    /// Sets aside what the call may use. It counts until the [`Call`] has ended or is dropped.
    pub fn begin(&self, aim: &Aim, ask: Ask) -> Result<Call, Refused> {
        match self.pledge.verdict.get() {
            Some(Verdict { reason: FailureReason::BudgetExceeded, message }) => {
                return Err(Refused::Budget(message.clone()));
            }
            Some(_) => return Err(Refused::Ended),
            None if self.pledge.is_closed() => return Err(Refused::Ended),
            None => {}
        }
        let price = aim.price.unwrap_or_default();
        let input = Spent {
            tokens: ask.input_tokens,
            cost_micro_usd: cost_micro_usd(&[(ask.input_tokens, price.input)]),
            requests: 1,
        };
        let wanted = Wanted { input, output_price: price.output, max_output_tokens: ask.max_output_tokens };
        let whose = self.pledge.whose();
        let mut accounts = self.desk.accounts();
        let admitted = match accounts.with(whose, now_ms(), |accounts| admit(accounts, wanted)) {
            Ok(admitted) => admitted,
            Err(Denied::Busy) => return Err(Refused::Busy),
            Err(Denied::Over(index, over)) => {
                let message = accounts.explain(whose, (index, over));
                drop(accounts);
                return Err(refuse(&self.desk, &self.pledge, message));
            }
        };
        drop(accounts);
        let number = self.pledge.call_begun();
        Ok(Call::begun(self.desk.clone(), self.pledge.clone(), aim, (number, ask, admitted)))
    }
}

/// A budget is used up: the task ends.
pub(super) fn refuse(desk: &Desk, pledge: &Pledge, message: String) -> Refused {
    let verdict = Verdict { reason: FailureReason::BudgetExceeded, message: message.clone() };
    pledge.judge(verdict.clone());
    // It has its place before any end of the task; who ends the task looks whether it was written.
    drop(desk.store.judge_task(pledge.task, verdict));
    pledge.nudge();
    Refused::Budget(message)
}

impl Price {
    /// What a call cost, in millionths of a dollar.
    pub fn cost_micro_usd(&self, tokens: &super::Tokens) -> u64 {
        cost_micro_usd(&[
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
        ])
    }
}
