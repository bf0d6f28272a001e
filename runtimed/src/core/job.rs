//! The lifecycle of one job, as its shim decides it. Knows nothing of processes or clocks: the shim reports
//! what it observed and performs the effects.
//!
//! ```text
//!            cancel, timeout                grace over
//!  Running ─▶ (StopRequested) ─▶ Stopping ────────────────▶ Killing ──┐
//!     │ leader exits               │ tree empty               │      │ tree empty,
//!     ▼                            ▼                          ▼      ▼ or given up
//!  Draining ──▶ (kill the rest: Killing) ─────────────────────────▶ Over
//!     │ output closed, or DRAIN_MS                                    ▲
//!     ▼                            tree empty                         │
//!  Background (reported; leftover processes live on) ─────────────────┘
//! ```
//!
//! `StopRequested` is for agents whose protocol has a stop request, and is part of the one grace period.
//! `Leaving` is `Running` for a job whose conversation is over: it exits by itself or is killed a little
//! later, alone (`KillingLeader`) where leftover processes are kept. The end is reported exactly once. `Over`
//! is reached only with an empty tree, or after SIGKILL was tried for KILL_MAX_MS.

use crate::limits::{DRAIN_MS, KILL_MAX_MS, LEAVE_MS, PAUSED_MS};

mod input_effect;

pub use input_effect::{Effect, End, Input, Leftovers, Phase, RawExit, StopReason};

#[derive(Debug, Clone)]
pub struct Job {
    phase: Phase,
    leftovers: Leftovers,
    /// Between SIGTERM and SIGKILL when the timeout expires.
    timeout_grace_ms: u64,
    /// How long a stop request of the agent's protocol may take; 0 if there is none.
    stop_request_ms: u64,
    /// How long the job may print nothing, and until when.
    idle_ms: Option<u64>,
    silent_until: Option<u64>,
    awaits_decision: bool,
    reported: bool,
    output_open: bool,
    tree_empty: bool,
}

impl Job {
    pub fn new(leftovers: Leftovers, deadline: Option<u64>, timeout_grace_ms: u64) -> Self {
        let phase = Phase::Running { deadline };
        Self {
            phase,
            leftovers,
            timeout_grace_ms,
            stop_request_ms: 0,
            idle_ms: None,
            silent_until: None,
            awaits_decision: false,
            reported: false,
            output_open: true,
            tree_empty: false,
        }
    }

    /// Sets how long a stop request may take before SIGTERM.
    pub fn with_stop_request_ms(mut self, stop_request_ms: u64) -> Self {
        self.stop_request_ms = stop_request_ms;
        self
    }

    /// Ends the job as timed out when it prints nothing for this long.
    pub fn with_idle_ms(mut self, idle_ms: Option<u64>, now: u64) -> Self {
        self.idle_ms = idle_ms;
        self.silent_until = idle_ms.map(|ms| now.saturating_add(ms));
        self
    }

    /// Gives a job that was started in advance its task's limits; whether it still takes them.
    pub fn adopt(&mut self, leftovers: Leftovers, idle_ms: Option<u64>, now: u64) -> bool {
        if !matches!(self.phase, Phase::Running { .. }) {
            return false;
        }
        self.phase = Phase::Running { deadline: None };
        self.leftovers = leftovers;
        self.idle_ms = idle_ms;
        self.silent_until = idle_ms.map(|ms| now.saturating_add(ms));
        true
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether no descendant was left at the last sweep.
    pub fn tree_is_empty(&self) -> bool {
        self.tree_empty
    }

    pub fn step(&mut self, input: Input, now: u64) -> Vec<Effect> {
        match input {
            Input::LeaderExited(raw) => self.on_leader_exit(raw, now),
            Input::Output => self.reset_idle(now),
            Input::AwaitsDecision(awaits) => {
                self.awaits_decision = awaits;
                self.reset_idle(now)
            }
            Input::Concluded => {
                // A job whose conversation is over takes no more requests.
                self.stop_request_ms = 0;
                if let Phase::Running { .. } = self.phase {
                    self.phase = Phase::Leaving { until: now.saturating_add(LEAVE_MS) };
                }
                Vec::new()
            }
            Input::OutputClosed => {
                self.output_open = false;
                self.on_drained(now, false)
            }
            Input::TreeEmpty => {
                self.tree_empty = true;
                self.on_tree_empty()
            }
            Input::Cancel { grace_ms } => self.cancel(grace_ms, now),
            Input::ControlLost => {
                self.reported = true;
                self.kill(End::default(), now)
            }
            Input::Tick => self.tick(now),
        }
    }

    /// When the next `Tick` is due.
    pub fn next_wake(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { deadline } => deadline.into_iter().chain(self.silent_until).min(),
            Phase::Leaving { until } => Some(until),
            Phase::KillingLeader { give_up_at } => Some(give_up_at),
            Phase::StopRequested { until, .. } => Some(until),
            Phase::Stopping { kill_at, .. } => Some(kill_at),
            Phase::Killing { give_up_at, .. } => Some(give_up_at),
            Phase::Draining { until, .. } => Some(until),
            Phase::Background | Phase::Over => None,
        }
    }

    fn reset_idle(&mut self, now: u64) -> Vec<Effect> {
        let idle_ms = self.idle_ms.filter(|_| !self.awaits_decision);
        self.silent_until = idle_ms.map(|ms| now.saturating_add(ms));
        Vec::new()
    }

    fn on_leader_exit(&mut self, raw: RawExit, now: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Running { .. } | Phase::Leaving { .. } | Phase::KillingLeader { .. } => {
                self.phase = Phase::Draining { leader: raw, until: now.saturating_add(DRAIN_MS) };
                if self.output_open { Vec::new() } else { self.on_drained(now, false) }
            }
            Phase::StopRequested { end, kill_at, .. } => {
                // The leader obeyed; the rest of the tree only knows signals.
                let (end, kill_at) = (End { leader: Some(raw), ..*end }, *kill_at);
                self.terminate(end, kill_at, now)
            }
            Phase::Stopping { end, .. } | Phase::Killing { end, .. } => {
                end.leader.get_or_insert(raw);
                Vec::new()
            }
            Phase::Draining { .. } | Phase::Background | Phase::Over => Vec::new(),
        }
    }

    /// Handles complete output, or the end of the wait for it.
    fn on_drained(&mut self, now: u64, leaky: bool) -> Vec<Effect> {
        let Phase::Draining { leader, .. } = self.phase else { return Vec::new() };
        let end = End { leader: Some(leader), leaky, ..End::default() };
        match (self.tree_empty, self.leftovers) {
            (true, _) => self.finish(end),
            (false, Leftovers::Kill) => self.kill(end, now),
            (false, Leftovers::Keep) => {
                self.phase = Phase::Background;
                self.report(end)
            }
        }
    }

    fn on_tree_empty(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::StopRequested { end, .. } | Phase::Stopping { end, .. } | Phase::Killing { end, .. } => {
                self.finish(end)
            }
            Phase::Background => self.finish(End::default()),
            // The last of the output is still to be read.
            Phase::Running { .. }
            | Phase::Leaving { .. }
            | Phase::KillingLeader { .. }
            | Phase::Draining { .. }
            | Phase::Over => Vec::new(),
        }
    }

    fn cancel(&mut self, grace_ms: u64, now: u64) -> Vec<Effect> {
        let end = match self.phase {
            Phase::Running { .. } | Phase::Leaving { .. } | Phase::KillingLeader { .. } => {
                End { reason: Some(StopReason::Cancelled), ..End::default() }
            }
            Phase::Draining { leader, .. } => End { leader: Some(leader), ..End::default() },
            Phase::Background => End::default(),
            Phase::StopRequested { end, until, kill_at } => {
                let kill_at = kill_at.min(now.saturating_add(grace_ms));
                self.phase = Phase::StopRequested { end, until: until.min(kill_at), kill_at };
                return Vec::new();
            }
            Phase::Stopping { end, kill_at } => {
                // A second caller with a shorter grace shortens it.
                self.phase = Phase::Stopping { end, kill_at: kill_at.min(now.saturating_add(grace_ms)) };
                return Vec::new();
            }
            Phase::Killing { .. } | Phase::Over => return Vec::new(),
        };
        self.stop(end, grace_ms, now)
    }

    fn tick(&mut self, now: u64) -> Vec<Effect> {
        if self.next_wake().is_none_or(|at| now < at) {
            return Vec::new();
        }
        match self.phase {
            Phase::Running { deadline } => {
                let in_time = deadline.is_none_or(|deadline| now < deadline);
                if in_time && self.silent_until.is_some_and(|until| now >= until.saturating_add(PAUSED_MS)) {
                    // The shim stood still with the whole sandbox, so no job could print anything.
                    return self.reset_idle(now);
                }
                let end = End { reason: Some(StopReason::TimedOut), ..End::default() };
                self.stop(end, self.timeout_grace_ms, now)
            }
            Phase::Leaving { .. } => self.kill_leader(now),
            Phase::KillingLeader { .. } => {
                self.phase = Phase::Background;
                self.report(End { gave_up: true, ..End::default() })
            }
            Phase::StopRequested { end, kill_at, .. } => self.terminate(end, kill_at, now),
            Phase::Stopping { end, .. } => self.kill(end, now),
            Phase::Killing { end, .. } => self.finish(End { gave_up: true, ..end }),
            Phase::Draining { .. } => self.on_drained(now, true),
            Phase::Background | Phase::Over => Vec::new(),
        }
    }

    /// Kills a job that does not exit after its conversation.
    fn kill_leader(&mut self, now: u64) -> Vec<Effect> {
        match self.leftovers {
            Leftovers::Kill => self.kill(End::default(), now),
            Leftovers::Keep => {
                self.phase = Phase::KillingLeader { give_up_at: now.saturating_add(KILL_MAX_MS) };
                vec![Effect::KillLeader]
            }
        }
    }

    fn stop(&mut self, end: End, grace_ms: u64, now: u64) -> Vec<Effect> {
        if self.tree_empty {
            return self.finish(end);
        }
        let kill_at = now.saturating_add(grace_ms);
        // Half of the grace is for processes that only know signals. A leader that has exited takes no
        // request.
        let stop_request_ms = if end.leader.is_none() { self.stop_request_ms.min(grace_ms / 2) } else { 0 };
        if stop_request_ms == 0 || matches!(self.phase, Phase::Background) {
            return self.terminate(end, kill_at, now);
        }
        self.phase = Phase::StopRequested { end, until: now.saturating_add(stop_request_ms), kill_at };
        vec![Effect::RequestStop]
    }

    fn terminate(&mut self, end: End, kill_at: u64, now: u64) -> Vec<Effect> {
        if now >= kill_at {
            return self.kill(end, now);
        }
        if self.tree_empty {
            return self.finish(end);
        }
        self.phase = Phase::Stopping { end, kill_at };
        vec![Effect::TermTree]
    }

    fn kill(&mut self, end: End, now: u64) -> Vec<Effect> {
        if self.tree_empty {
            return self.finish(end);
        }
        self.phase = Phase::Killing { end, give_up_at: now.saturating_add(KILL_MAX_MS) };
        vec![Effect::KillTree]
    }

    fn finish(&mut self, end: End) -> Vec<Effect> {
        self.phase = Phase::Over;
        let mut effects = self.report(end);
        effects.push(Effect::Finish);
        effects
    }

    fn report(&mut self, end: End) -> Vec<Effect> {
        if self.reported {
            return Vec::new();
        }
        self.reported = true;
        vec![Effect::Report(end)]
    }
}

#[cfg(test)]
mod tests;
