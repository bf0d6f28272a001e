//! Reacts to memory that runs out: nothing is brought up that it has no room for, idle sandboxes are paused and then
//! stopped, one at a time, and those that should always run are started again when there is room.

use super::{
    Fleet, FleetError, SandboxCommand,
    actor::{CommandReply, SandboxActor},
    fleet::{Inner, Record},
    sandbox_command::EvictionCause,
};
use futures_util::{StreamExt, stream};
use hostd_core::{
    Attachment, Blueprint, Goal, IdleTimes, Occupation, OpenStreams, Relief, ReliefCandidate, RestartQueue,
    Transition, idle_inside_ms,
    limits::{
        MEMORY_ACTIVITY_MAX_MS, MEMORY_ASKED_AT_ONCE, MEMORY_POLL_MS, MEMORY_POLL_SHORT_MS, MEMORY_SETTLE_MS,
    },
    may_pause_for_memory, may_stop_for_memory, relief,
};
use hostd_drivers::{control::Control, host_memory::MemoryState};
use hostd_store::SandboxRecord;
use protocol::{
    Activity,
    api::{IdlePolicy, MemoryLevel, Problem, ProblemCode, SandboxId, SandboxStatus},
};
use std::{collections::HashSet, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

/// The driver whose sandboxes are in the control group of all sandboxes.
const GROUPED_DRIVER: &str = "oci";

impl Inner {
    /// Refuses to bring up a sandbox for which there is no memory.
    pub(super) fn admit_memory(&self, id: &SandboxId, blueprint: &Blueprint) -> Result<(), FleetError> {
        let admitted = self.memory.admit(*id, blueprint.limits.memory_mb << 20);
        admitted.map_err(|detail| FleetError::Capacity(Box::new(detail)))
    }
}

impl SandboxActor {
    /// Refuses a launch for which there is no memory. A sandbox that is up, or on its way, has its memory.
    pub(super) fn admit_launch(&self) -> Result<(), FleetError> {
        let record = self.record();
        if record.state.is_wanted_up() {
            return Ok(());
        }
        self.fleet.admit_memory(&record.id, &record.blueprint)
    }

    /// Gives back the memory of a launch that was admitted and then not recorded: a quota or a full disk refused it.
    pub(super) fn release_unrecorded_launch(&self, launched: CommandReply) -> CommandReply {
        launched.inspect_err(|_| {
            let record = self.record();
            if !record.state.is_wanted_up() {
                self.fleet.memory.release(&record.id);
            }
        })
    }

    /// Counts the memory of a sandbox as in use, or as free, when its record says so.
    pub(super) fn account_memory(&self, record: &SandboxRecord) {
        let (memory, state) = (&self.fleet.memory, &record.state);
        if state.status == SandboxStatus::Destroyed {
            memory.forget(&record.id);
        } else if state.is_up() {
            memory.launched(&record.id);
        } else if !state.is_wanted_up() {
            memory.release(&record.id);
        }
    }

    /// Remembers what the sandbox uses before it is stopped: it is expected to need as much when it is woken.
    pub(super) async fn remember_memory(&self) {
        if let Ok(stats) = self.driver.stats(&self.id()).await {
            self.fleet.memory.remember_use(self.id(), stats.memory_working_bytes);
        }
    }

    /// Stops a sandbox that is still idle.
    pub(super) async fn evict_if_idle(&mut self, available_bytes: u64, reserve_bytes: u64) -> CommandReply {
        let problem = memory_problem(&self.record(), available_bytes, reserve_bytes);
        let deadline_ms = self.deadline_ms(Goal::Stopped);
        self.if_idle(Transition::Evict { problem, deadline_ms }, may_stop_for_memory).await
    }

    /// Freezes a sandbox that is still idle.
    pub(super) async fn doze_if_idle(&mut self) -> CommandReply {
        let deadline_ms = self.deadline_ms(Goal::Paused);
        self.if_idle(Transition::Doze { deadline_ms }, may_pause_for_memory).await
    }

    async fn if_idle(&mut self, transition: Transition, may: fn(&IdleTimes) -> bool) -> CommandReply {
        // Read before the record: a client takes its lease before it reads the record.
        let leases = self.connections.control.leases_taken();
        if !self.is_idle().await? || !may(&self.traffic.quiet()) {
            return Err(FleetError::InUse);
        }
        let before = self.record().state.clone();
        let record = self.transition(transition).await?;
        // A client that came while this was recorded took its lease before it read the record.
        if self.connections.control.leases_taken() != leases {
            self.transition(Transition::TakeBack { before: Box::new(before) }).await?;
            return Err(FleetError::InUse);
        }
        Ok(record)
    }

    async fn is_idle(&self) -> Result<bool, FleetError> {
        let control = &self.connections.control;
        if control.in_use() || !self.fleet.store.open_tasks(Some(self.id())).await?.is_empty() {
            return Ok(false);
        }
        // A frozen sandbox cannot answer, and does nothing.
        if self.record().state.status == SandboxStatus::Paused {
            return Ok(true);
        }
        Ok(activity_of(control).await.is_some_and(|activity| !activity.busy))
    }
}

impl Fleet {
    /// Watches memory until hostd ends.
    pub async fn watch_memory(&self) {
        let mut relieved: Option<Instant> = None;
        let (begun, mut restarts) = (Instant::now(), RestartQueue::default());
        loop {
            self.count_ungrouped().await;
            let memory = self.memory().state();
            let settle = Duration::from_millis(MEMORY_SETTLE_MS);
            match memory.level {
                MemoryLevel::Ok => {
                    let now_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.restart_evicted(&mut restarts, now_ms).await;
                }
                MemoryLevel::Tight | MemoryLevel::Critical => {
                    if relieved.is_none_or(|at| at.elapsed() >= settle) && self.relieve(&memory).await {
                        relieved = Some(Instant::now());
                    }
                }
            }
            let short = memory.available_bytes < memory.reserve_bytes.saturating_mul(2);
            let pause_ms = if short { MEMORY_POLL_SHORT_MS } else { MEMORY_POLL_MS };
            sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Takes one measure; says whether one was taken.
    async fn relieve(&self, memory: &MemoryState) -> bool {
        let candidates = self.relief_candidates().await;
        let (level, available_bytes) = (memory.level, memory.available_bytes);
        let (sandbox, command) = match relief(level, &candidates) {
            None => {
                debug!(
                    ?level,
                    available_bytes,
                    sandboxes = candidates.len(),
                    "no idle sandbox to pause or stop"
                );
                return false;
            }
            Some(Relief::Pause(sandbox)) => (sandbox, SandboxCommand::Doze),
            Some(Relief::Stop(sandbox)) => {
                let reserve_bytes = memory.reserve_bytes;
                let cause = EvictionCause::MemoryPressure { available_bytes, reserve_bytes };
                (sandbox, SandboxCommand::Evict(cause))
            }
        };
        info!(%sandbox, ?level, available_bytes, ?command, "memory is short: relieving the host of an idle sandbox");
        match self.send(&sandbox, command).await {
            Ok(_) => {
                self.metrics().count_relief(command);
                // The next measure is taken only if this one was not enough.
                let within = Duration::from_millis(self.timing().down_ms);
                let _ = self.wait_settled(&sandbox, within).await;
                true
            }
            // Used, stopped or destroyed meanwhile.
            Err(FleetError::InUse | FleetError::Restoring | FleetError::Refused(_)) => false,
            Err(error) => {
                warn!(%sandbox, %error, "failed to pause or stop an idle sandbox");
                false
            }
        }
    }

    /// The sandboxes that are up and settled, with what they do.
    async fn relief_candidates(&self) -> Vec<ReliefCandidate<SandboxId>> {
        let working = match self.store().open_tasks(None).await {
            Ok(tasks) => tasks.into_iter().map(|task| task.sandbox).collect::<HashSet<_>>(),
            // Without knowing the tasks no sandbox is stopped.
            Err(error) => {
                warn!(%error, "failed to read the open tasks");
                return Vec::new();
            }
        };
        let settled = |record: &Record| record.state.operation.is_none() && !record.other_pid_namespace;
        let up = self.all_up().into_iter().filter(settled);
        let asked = up.map(|record| {
            let busy = working.contains(&record.id);
            async move { self.relief_candidate(&record, busy).await }
        });
        stream::iter(asked).buffer_unordered(MEMORY_ASKED_AT_ONCE).filter_map(async |one| one).collect().await
    }

    async fn relief_candidate(
        &self,
        record: &SandboxRecord,
        has_task: bool,
    ) -> Option<ReliefCandidate<SandboxId>> {
        let (sandbox, handle) = (record.id, self.handle(&record.id)?);
        let frozen = record.state.status == SandboxStatus::Paused;
        let control = handle.observer(sandbox);
        let quiet = handle.traffic.quiet();
        let occupation = if has_task || control.in_use() || !may_pause_for_memory(&quiet) {
            Occupation::Busy
        } else if frozen {
            Occupation::Idle { idle_ms: quiet.idle_ms() }
        } else {
            match activity_of(&control).await {
                Some(activity) if !activity.busy => {
                    let inside_ms = idle_inside_ms(&activity, self.clock().now_ms());
                    Occupation::Idle { idle_ms: quiet.silent_ms.min(inside_ms) }
                }
                Some(_) | None => Occupation::Busy,
            }
        };
        let streams = OpenStreams::of(&quiet);
        let attachment = match record.blueprint.idle_policy {
            IdlePolicy::AlwaysOn => Attachment::AlwaysOn,
            IdlePolicy::Sleep if frozen && !record.state.dozing => Attachment::PausedByClient,
            IdlePolicy::Sleep => Attachment::MaySleep,
        };
        let memory_bytes =
            self.driver_of(record).stats(&sandbox).await.map_or(0, |stats| stats.memory_working_bytes);
        Some(ReliefCandidate { sandbox, occupation, attachment, streams, frozen, memory_bytes })
    }

    /// Starts one sandbox again that should always run, and was stopped for lack of memory: the first that is not
    /// refused, of those that were stopped longest ago.
    async fn restart_evicted(&self, restarts: &mut RestartQueue<SandboxId>, now_ms: u64) {
        let should_run = |record: &Record| {
            let evicted = record.state.evicted().map(|problem| problem.code);
            record.blueprint.idle_policy == IdlePolicy::AlwaysOn
                && record.state.operation.is_none()
                && evicted == Some(ProblemCode::MemoryPressure)
        };
        let evicted = self.records().into_iter().filter(should_run);
        let evicted = evicted.map(|record| (record.updated_ms, record.id)).collect();
        for sandbox in restarts.due(evicted, now_ms) {
            match self.send(&sandbox, SandboxCommand::Start).await {
                Ok(_) => {
                    info!(%sandbox, "memory is sufficient: starting a sandbox that should always run");
                    return;
                }
                Err(error) => {
                    let after_ms = restarts.refused(sandbox, now_ms);
                    debug!(%sandbox, %error, after_ms, "failed to start an evicted sandbox");
                }
            }
        }
    }

    /// Counts the memory of sandboxes that no control group of hostd holds, where all together have a limit.
    async fn count_ungrouped(&self) {
        if !self.memory().counts_all() {
            return;
        }
        let mut bytes = 0_u64;
        for record in self.all_up().into_iter().filter(|record| record.blueprint.driver != GROUPED_DRIVER) {
            let stats = self.driver_of(&record).stats(&record.id).await;
            bytes = bytes.saturating_add(stats.map_or(0, |stats| stats.memory_working_bytes));
        }
        self.memory().set_counted(bytes);
    }
}

/// What a sandbox does; `None` where it does not say in time.
async fn activity_of(control: &Control) -> Option<Activity> {
    let within = Duration::from_millis(MEMORY_ACTIVITY_MAX_MS);
    timeout(within, control.activity()).await.ok()?.ok()
}

/// The problem of a sandbox that was stopped for lack of memory.
fn memory_problem(record: &SandboxRecord, available_bytes: u64, reserve_bytes: u64) -> Problem {
    let (available, reserve) = (available_bytes >> 20, reserve_bytes.div_ceil(1 << 20));
    let after = match record.blueprint.idle_policy {
        IdlePolicy::AlwaysOn => "it is started again when there is room",
        IdlePolicy::Sleep => "it wakes when it is used and there is room",
    };
    let message = format!(
        "hostd stopped it: the host ran out of memory ({available} MB available, {reserve} MB are kept), and it was \
         idle; {after}"
    );
    Problem { code: ProblemCode::MemoryPressure, message, output: Vec::new(), step: None }
}
