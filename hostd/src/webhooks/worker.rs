//! The one task that reads the log for all webhooks and sends what is due.

use super::{
    attempt::{AttemptEnded, NextDelivery, attempt},
    limits,
    log_reader::{Position, ReadOutcome},
    service::Webhooks,
};
use hostd_core::webhook::{Head, Pick, Schedule};
use hostd_store::{DeliveryPruning, StoreError, WebhookRow};
use protocol::api::Label;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// An enabled webhook.
struct Known {
    row: Arc<WebhookRow>,
    position: Position,
    /// Ends of attempts since its deliveries were pruned.
    ends: u64,
}

pub struct Worker {
    webhooks: Webhooks,
    /// The number of the newest event.
    head: watch::Receiver<u64>,
    known: BTreeMap<String, Known>,
    schedule: Schedule,
    attempts: JoinSet<AttemptEnded>,
    /// The delivery of each attempt.
    picks: HashMap<Id, Pick>,
    /// When the rows are to be read, when the log, and when ended deliveries are pruned.
    reload_at: Option<Instant>,
    read_at: Option<Instant>,
    prune_at: Instant,
    last_read: Option<Instant>,
}

/// Why the worker goes on.
enum Wake {
    Stop,
    Changed,
    LogGrew,
    Ended(Result<(Id, AttemptEnded), JoinError>),
    Time,
}

impl Worker {
    pub fn new(webhooks: Webhooks) -> Self {
        let head = webhooks.store().head();
        let now = Instant::now();
        Self {
            webhooks,
            head,
            known: BTreeMap::new(),
            schedule: Schedule::new(limits::CONCURRENCY),
            attempts: JoinSet::new(),
            picks: HashMap::new(),
            reload_at: Some(now),
            read_at: Some(now),
            prune_at: now + Duration::from_millis(limits::PRUNE_EVERY_MS),
            last_read: None,
        }
    }

    pub async fn run(mut self, closing: CancellationToken) {
        loop {
            self.step().await;
            match self.wait(&closing).await {
                Wake::Stop => return self.finish().await,
                Wake::Changed => self.reload_at = Some(Instant::now()),
                Wake::LogGrew => self.read_soon(),
                Wake::Ended(ended) => self.attempt_ended(ended).await,
                Wake::Time => {}
            }
        }
    }

    /// Does what is due: reads rows and the log, and sends.
    async fn step(&mut self) {
        let now = Instant::now();
        if self.reload_at.is_some_and(|at| at <= now) {
            self.reload_at = None;
            if let Err(error) = self.reload().await {
                warn!(%error, "failed to read the webhooks");
                self.reload_at = Some(now + Duration::from_millis(limits::STORE_RETRY_MS));
            }
            self.read_at = Some(now);
        }
        if self.read_at.is_some_and(|at| at <= now) {
            self.read_at = None;
            self.last_read = Some(now);
            self.read_logs().await;
        }
        if self.prune_at <= now {
            self.prune_at = now + Duration::from_millis(limits::PRUNE_EVERY_MS);
            self.prune_all().await;
        }
        for pick in self.schedule.pick(self.webhooks.now_ms()) {
            self.send(pick);
        }
    }

    async fn wait(&mut self, closing: &CancellationToken) -> Wake {
        let until = self.next_time();
        let due = async {
            match until {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let watches_log = !self.known.is_empty();
        // Each branch only waits, so cancelling it is safe: a result of `join_next` stays in the set, a notice in the
        // `Notify`, and a change of the head in its receiver.
        tokio::select! {
            biased;
            () = closing.cancelled() => Wake::Stop,
            Some(ended) = self.attempts.join_next_with_id() => Wake::Ended(ended),
            () = self.webhooks.changed() => Wake::Changed,
            grew = self.head.changed(), if watches_log => match grew {
                Ok(()) => Wake::LogGrew,
                // The store is closed.
                Err(_) => Wake::Stop,
            },
            () = due => Wake::Time,
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = self.schedule.next_due_ms().map(|due_ms| {
            // At most a minute: the clock of the host may be set.
            let wait_ms = due_ms.saturating_sub(self.webhooks.now_ms()).clamp(1, 60_000);
            now + Duration::from_millis(wait_ms)
        });
        let prune = (!self.known.is_empty()).then_some(self.prune_at);
        [due, self.reload_at, self.read_at, prune].into_iter().flatten().min()
    }

    /// Reads the log soon, but not for every event.
    fn read_soon(&mut self) {
        let interval = Duration::from_millis(limits::READ_EVERY_MS);
        let now = Instant::now();
        let at = self.last_read.map_or(now, |last| (last + interval).max(now));
        self.read_at = Some(self.read_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Reads the rows of webhooks, and the deliveries of those that changed.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let rows = self.webhooks.store().enabled_webhooks().await?;
        let gone: Vec<String> =
            self.known.keys().filter(|id| !rows.iter().any(|row| row.id == **id)).cloned().collect();
        for id in gone {
            self.schedule.remove(&id);
            self.known.remove(&id);
        }
        for row in rows {
            if self.known.get(&row.id).is_some_and(|known| known.row.version == row.version) {
                continue;
            }
            let heads = self.webhooks.store().delivery_heads(&row.id).await?;
            self.schedule.set(&row.id, tenant_of(&row), heads);
            let position = Position::at(&row, self.webhooks.now_ms());
            self.known.insert(row.id.clone(), Known { row: Arc::new(row), position, ends: 0 });
        }
        Ok(())
    }

    async fn read_logs(&mut self) {
        let ids: Vec<String> = self.known.keys().cloned().collect();
        for id in ids {
            for _ in 0..limits::PARTS_IN_A_ROW_MAX {
                match self.read_log(&id).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        warn!(webhook = id, %error, "failed to read the log for a webhook");
                        self.read_at = Some(Instant::now() + Duration::from_millis(limits::STORE_RETRY_MS));
                        break;
                    }
                }
            }
        }
    }

    /// Reads a part of the log of one webhook; returns whether there may be more.
    async fn read_log(&mut self, id: &str) -> Result<bool, StoreError> {
        let newest = *self.head.borrow();
        let Some(known) = self.known.get_mut(id) else { return Ok(false) };
        if known.position.read >= newest {
            return Ok(false);
        }
        let row = known.row.clone();
        match known.position.advance(&self.webhooks, &row).await? {
            ReadOutcome::Read { heads, gap } => {
                if gap {
                    self.webhooks.metrics().gaps.inc();
                    warn!(webhook = id, "events were deleted before a webhook was told of them");
                }
                for head in heads {
                    self.schedule.update(id, tenant_of(&row), head);
                }
                // The rest after other webhooks had their turn.
                self.read_soon();
                Ok(true)
            }
            ReadOutcome::End | ReadOutcome::Full => Ok(false),
            ReadOutcome::Stale => {
                self.reload_at = Some(Instant::now());
                Ok(false)
            }
        }
    }

    fn send(&mut self, pick: Pick) {
        match self.known.get(&pick.webhook) {
            Some(known) => {
                let task = attempt(self.webhooks.clone(), known.row.clone(), pick.clone());
                let id = self.attempts.spawn(task).id();
                self.picks.insert(id, pick);
            }
            // Removed meanwhile.
            None => self.schedule.finish(&pick, None),
        }
    }

    async fn attempt_ended(&mut self, ended: Result<(Id, AttemptEnded), JoinError>) {
        let AttemptEnded { pick, next } = match ended {
            Ok((id, ended)) => {
                self.picks.remove(&id);
                ended
            }
            Err(error) => {
                error!(%error, "an attempt to deliver to a webhook panicked");
                let Some(pick) = self.picks.remove(&error.id()) else { return };
                let due_ms = self.webhooks.now_ms().saturating_add(limits::AFTER_PANIC_MS);
                let again = Head { lane: pick.lane.clone(), number: pick.number, due_ms };
                AttemptEnded { pick, next: NextDelivery::Known(Some(again)) }
            }
        };
        match next {
            NextDelivery::Known(next) => self.schedule.finish(&pick, next),
            NextDelivery::Reload => {
                self.schedule.finish(&pick, None);
                self.schedule.remove(&pick.webhook);
                // Also where the row is as it was: its deliveries are read again.
                self.known.remove(&pick.webhook);
                self.reload_at = Some(Instant::now());
            }
            NextDelivery::Unwritten(error) => {
                warn!(webhook = pick.webhook, %error, "failed to record a webhook delivery: it is sent again");
                let due_ms = self.webhooks.now_ms().saturating_add(limits::STORE_RETRY_MS);
                let again = Head { lane: pick.lane.clone(), number: pick.number, due_ms };
                self.schedule.finish(&pick, Some(again));
            }
        }
        self.count_end(&pick.webhook).await;
    }

    /// Prunes now and then, and reads on where there was no room.
    async fn count_end(&mut self, webhook: &str) {
        let Some(known) = self.known.get_mut(webhook) else { return };
        known.ends += 1;
        let prunes = known.ends >= limits::PRUNE_AFTER_ENDS;
        if prunes {
            known.ends = 0;
        }
        if known.position.read < *self.head.borrow() {
            self.read_soon();
        }
        if prunes {
            self.prune(webhook).await;
        }
    }

    async fn prune(&self, webhook: &str) {
        let (store, now_ms) = (self.webhooks.store(), self.webhooks.now_ms());
        match store.prune_deliveries(webhook, DeliveryPruning::default(), now_ms).await {
            Ok(dropped) => {
                self.webhooks.metrics().dropped.inc_by(dropped);
            }
            Err(error) => warn!(webhook, %error, "failed to prune webhook deliveries"),
        }
    }

    async fn prune_all(&self) {
        let ids: Vec<String> = self.known.keys().cloned().collect();
        for id in ids {
            self.prune(&id).await;
        }
    }

    /// Lets attempts in flight end for a moment, and writes cursors that moved.
    async fn finish(mut self) {
        let drained = async { while self.attempts.join_next().await.is_some() {} };
        if timeout(Duration::from_millis(limits::DRAIN_MAX_MS), drained).await.is_err() {
            self.attempts.shutdown().await;
        }
        for known in self.known.values_mut() {
            let through = known.position.read;
            if through > known.row.cursor
                && let Err(error) =
                    known.position.write(&self.webhooks, &known.row, Vec::new(), through).await
            {
                warn!(webhook = known.row.id, %error, "failed to write the cursor of a webhook");
            }
        }
    }
}

fn tenant_of(row: &WebhookRow) -> &str {
    row.tenant.as_ref().map_or("", Label::as_str)
}
