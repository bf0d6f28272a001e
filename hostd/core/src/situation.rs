//! The memory of a sandbox's actor: all that it knows between two steps and that no row holds. It is lost with
//! hostd, so nothing here may be needed to find out what is there.
//!
//! ```text
//! attempt     Closed, LeftOpen ──begin_attempt──▶ Open ──record_launch──▶ Open with its run
//!             Open, LeftOpen ──close_attempt──▶ Closed
//! readiness   Unknown ──inspected: a run──▶ Seen ──became_ready──▶ Ready ──inspected: another run──▶ Seen
//!             Ready ──provisioned──▶ Seen; every state ──inspected: no run; run_ended──▶ Unknown
//! backend     every state ──no answer──▶ Away ──give_up──▶ OutageLogged or Answering
//!             every state ──verb done; nothing left to do──▶ Answering
//! rest        Working ──nothing left to do──▶ AtRest ──act; drift_found──▶ Working
//! retry       AfterPause ──backend unhealthy──▶ OnRecovery ──take_retry──▶ AfterPause
//! ```
//!
//! The functions change nothing but the value and return what the actor has to do about it.

mod attempt;
mod backend;
#[cfg(test)]
mod liveness;
mod readiness;
#[cfg(test)]
mod tests;

pub use attempt::Attempt;
pub use backend::{Backend, no_answer};
pub use readiness::Readiness;

use super::{ContainerState, Drift, Goal, Handle, Observed, PlanStep, State, restarted};
use protocol::api::{Problem, ProblemCode, SandboxStatus};
use readiness::Continuity;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Situation {
    attempt: Attempt,
    readiness: Readiness,
    backend: Backend,
    inspection: LastInspection,
    rest: Rest,
    retry: Retry,
    /// The goal that a verb without an answer may still bring about.
    late_effect: Option<Goal>,
    backoff: BackoffCounts,
}

/// The newest inspection of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastInspection {
    #[default]
    None,
    Failed,
    /// `None` where what was shown corresponds to no goal.
    Showed(Option<Goal>),
}

/// Whether the sandbox was left as it should be: only then is a difference the doing of someone else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rest {
    #[default]
    Working,
    AtRest,
}

/// When a sandbox that should always run is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retry {
    #[default]
    AfterPause,
    /// At once, as soon as the backend is healthy: nothing can be done before.
    OnRecovery,
}

/// Counts in a row, from which pauses grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackoffCounts {
    /// Steps and inspections that failed.
    pub failures: u32,
    /// Signals of a change after which there was nothing to do.
    pub spurious_changes: u32,
    /// Deaths and tries of a sandbox that should always run.
    pub restarts: u32,
}

/// The change that an inspection showed in the run of a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum RunChange {
    None,
    /// Nothing runs: no connection is good any more.
    Ended,
    /// Someone else restarted the container: nothing of the old run counts. `drift` is to be reported.
    Replaced {
        drift: Option<Drift>,
    },
}

/// The cause of a difference between record and container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftCause {
    /// hostd was still at work.
    Unsettled,
    /// An earlier verb of hostd that was not answered in time.
    LateVerb,
    External,
}

/// The next thing an actor does about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanDecision {
    Rest,
    Perform,
}

/// How a verb of the driver ended.
#[derive(Debug, Clone, PartialEq)]
pub enum VerbOutcome {
    Done,
    /// The backend answered that it failed.
    Failed,
    /// Nothing waits for an answer any more; the backend is not to blame.
    Abandoned,
    /// The backend did not answer.
    Unanswered(Problem),
}

/// The wait before the next inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A pause that grows with the failures in a row.
    Retry,
    /// The backend, for as long as the operation has.
    Backend,
    /// The pause between inspections of what cannot be seen.
    Unseen,
}

/// A step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepFailure {
    pub is_news: bool,
    pub wait: Wait,
}

impl Situation {
    /// A sandbox whose row and first attempt were written a moment ago.
    pub fn created() -> Self {
        Self { attempt: Attempt::Open { launched: None }, ..Self::default() }
    }

    /// A sandbox of an earlier hostd. `generation` and `attempt` are those of its record.
    pub fn resumed(state: &State, generation: u64, attempt: u32) -> Self {
        // In error, cleaning up may have been cut off; and an adopted sandbox was never known.
        let settled = state.operation.is_none() && state.status != SandboxStatus::Error;
        let rest = if settled && generation > 1 { Rest::AtRest } else { Rest::Working };
        let left_open = state.operation.is_some() && attempt > 0;
        let attempt = if left_open { Attempt::LeftOpen } else { Attempt::Closed };
        Self { rest, attempt, ..Self::default() }
    }

    /// The driver showed the container. `state` is that of the record.
    pub fn inspected(&mut self, container: &ContainerState, state: &State) -> (Observed, RunChange) {
        let change = match container {
            ContainerState::Running { handle, .. } => self.run_seen(handle, state),
            ContainerState::Absent | ContainerState::Launching | ContainerState::Dead(_) => {
                self.run_ended();
                RunChange::Ended
            }
            ContainerState::OtherPidNamespace => RunChange::None,
        };
        let observed = container.observed(self.readiness.is_ready());
        self.inspection = LastInspection::Showed(observed.as_goal());
        (observed, change)
    }

    fn run_seen(&mut self, handle: &Handle, state: &State) -> RunChange {
        let (readiness, continuity) = std::mem::take(&mut self.readiness).seen(handle);
        self.readiness = readiness;
        match continuity {
            Continuity::Same => RunChange::None,
            Continuity::Replaced => {
                let drift = restarted(state).filter(|_| self.rest == Rest::AtRest);
                if drift.is_some() {
                    self.act();
                }
                RunChange::Replaced { drift }
            }
        }
    }

    /// The driver could not inspect the container; `outage` where its backend is away. Returns whether that is
    /// news for the log.
    pub fn inspection_failed(&mut self, outage: Option<Problem>) -> bool {
        let is_news = self.inspection != LastInspection::Failed;
        self.backoff.failures += 1;
        self.inspection = LastInspection::Failed;
        if let Some(problem) = outage {
            self.away(problem);
        }
        is_news
    }

    /// The driver did not answer an inspection in time.
    pub fn inspection_unanswered(&mut self) {
        self.inspection = LastInspection::Failed;
        self.away(no_answer());
    }

    /// A difference between record and container was found.
    pub fn drift_found(&mut self, observed: &Observed) -> DriftCause {
        match self.rest {
            Rest::Working => DriftCause::Unsettled,
            Rest::AtRest => {
                self.act();
                if self.late_effect.is_some() && self.late_effect == observed.as_goal() {
                    self.late_effect = None;
                    DriftCause::LateVerb
                } else {
                    DriftCause::External
                }
            }
        }
    }

    /// A plan was made from what was observed. `healthy`: the driver says that its backend is.
    pub fn planned(
        &mut self,
        steps: &[PlanStep],
        observed: &Observed,
        state: &State,
        healthy: bool,
    ) -> PlanDecision {
        let only_retries = *steps == [PlanStep::TryAgain];
        if !steps.is_empty() {
            self.retry = self.next_retry(only_retries, observed, state, healthy);
        }
        if steps.is_empty() || only_retries && !healthy {
            self.backoff.failures = 0;
            self.backend = Backend::Answering;
            if observed.is_visible() {
                self.rest = Rest::AtRest;
            }
            return PlanDecision::Rest;
        }
        self.backoff.spurious_changes = 0;
        PlanDecision::Perform
    }

    fn next_retry(&self, only_retries: bool, observed: &Observed, state: &State, healthy: bool) -> Retry {
        let on_recovery = match observed {
            Observed::Unknown => !healthy && !state.is_up(),
            Observed::Absent
            | Observed::Launching
            | Observed::Running { .. }
            | Observed::Dead(_)
            | Observed::OtherPidNamespace => only_retries && (!healthy || self.retry == Retry::OnRecovery),
        };
        if on_recovery { Retry::OnRecovery } else { Retry::AfterPause }
    }

    /// A sandbox that should always run is tried again: how, and from here on after a pause.
    pub fn take_retry(&mut self) -> Retry {
        std::mem::take(&mut self.retry)
    }

    /// A verb of the driver ended that was to bring the sandbox to a goal, if to one at all.
    pub fn verb_ended(&mut self, brings: Option<Goal>, outcome: VerbOutcome) {
        let late = match outcome {
            VerbOutcome::Done | VerbOutcome::Failed => None,
            VerbOutcome::Abandoned | VerbOutcome::Unanswered(_) => brings,
        };
        if brings.is_some() {
            self.late_effect = late;
        }
        match outcome {
            VerbOutcome::Done => self.backend = Backend::Answering,
            VerbOutcome::Failed | VerbOutcome::Abandoned => {}
            VerbOutcome::Unanswered(problem) => self.away(problem),
        }
    }

    /// A step failed, `unavailable` because the backend is away.
    pub fn step_failed(&mut self, unavailable: bool) -> StepFailure {
        let (backend, is_news) = std::mem::take(&mut self.backend).step_failed(unavailable);
        self.backend = backend;
        self.backoff.failures += 1;
        StepFailure { is_news, wait: if unavailable { Wait::Backend } else { Wait::Retry } }
    }

    /// The wait of a plan that only says to inspect again.
    pub fn wait_to_inspect(&self, other_pid_namespace: bool) -> Wait {
        if other_pid_namespace {
            Wait::Unseen
        } else if self.backend.is_away() {
            Wait::Backend
        } else {
            Wait::Retry
        }
    }

    /// The operation under way is given up. Returns the problem to record: of a deadline that passed while the
    /// backend was away, the outage is the cause.
    pub fn give_up(&mut self, problem: Problem) -> Problem {
        let (backend, outage) = std::mem::take(&mut self.backend).give_up();
        self.backend = backend;
        let late = problem.code == ProblemCode::DeadlinePassed;
        outage.filter(|_| late).unwrap_or(problem)
    }

    /// hostd changes something itself: what is found until it is at rest again is its own doing.
    pub fn act(&mut self) {
        self.rest = Rest::Working;
    }

    pub fn begin_attempt(&mut self) {
        self.attempt = std::mem::take(&mut self.attempt).begun();
    }

    pub fn record_launch(&mut self, run: Handle) {
        self.attempt = std::mem::take(&mut self.attempt).launched(run);
    }

    /// The end of the attempt is recorded.
    pub fn close_attempt(&mut self) {
        self.attempt = Attempt::Closed;
    }

    /// PID 1 answered and has its configuration.
    pub fn became_ready(&mut self) {
        self.readiness = std::mem::take(&mut self.readiness).ready();
    }

    /// The provisioning is done: PID 1 gets its services now.
    pub fn provisioned(&mut self) {
        self.readiness = std::mem::take(&mut self.readiness).unconfigured();
    }

    /// Nothing of the sandbox runs any more.
    pub fn run_ended(&mut self) {
        self.readiness = Readiness::Unknown;
    }

    /// The driver signalled a change while the sandbox was at rest.
    pub fn change_signalled(&mut self) {
        self.backoff.spurious_changes = self.backoff.spurious_changes.saturating_add(1);
    }

    /// The time until the next inspection passed without a signal.
    pub fn timer_elapsed(&mut self, status: SandboxStatus) {
        self.backoff.spurious_changes = 0;
        if status == SandboxStatus::Running {
            self.backoff.restarts = 0;
        }
    }

    /// A sandbox that should always run is brought up once more.
    pub fn restarting(&mut self) {
        self.backoff.restarts += 1;
    }

    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    pub fn is_ready(&self) -> bool {
        self.readiness.is_ready()
    }

    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    pub fn retry(&self) -> Retry {
        self.retry
    }

    pub fn backoff(&self) -> BackoffCounts {
        self.backoff
    }

    /// The goal that the newest inspection showed to be reached, if it showed any.
    pub fn found(&self) -> Option<Goal> {
        match self.inspection {
            LastInspection::Showed(goal) => goal,
            LastInspection::None | LastInspection::Failed => None,
        }
    }

    fn away(&mut self, problem: Problem) {
        self.backend = std::mem::take(&mut self.backend).away(problem);
    }
}
