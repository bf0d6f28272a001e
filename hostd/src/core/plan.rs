//! What to do next with one sandbox. `plan(desired, observed, now)` looks at what is wanted and what is
//! there and names the next steps; performing them and planning again comes to a state for which there is
//! nothing to do.

use super::{Death, Goal, State};
use protocol::api::{IdlePolicy, Phase, Problem, ProblemCode, SandboxStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct Desired<'a> {
    pub state: &'a State,
    pub idle_policy: IdlePolicy,
}

/// What is seen of a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// The driver cannot tell now.
    Unknown,
    /// Nothing of it is there (files may be).
    Absent,
    /// Somebody, perhaps an earlier hostd, is starting it.
    Launching,
    /// `ready`: PID 1 answered and was told what it must know.
    Running { frozen: bool, ready: bool },
    /// PID 1 ended; what is left must be cleared away.
    Dead(Death),
    /// It lives in another PID namespace than hostd: nothing can be done to it here.
    OtherPidNamespace,
}

impl Observed {
    /// The goal that it would be at, as far as it can be seen.
    pub fn as_goal(&self) -> Option<Goal> {
        match self {
            Self::Unknown | Self::Launching | Self::OtherPidNamespace => None,
            Self::Absent | Self::Dead(_) => Some(Goal::Stopped),
            Self::Running { frozen: true, .. } => Some(Goal::Paused),
            Self::Running { frozen: false, .. } => Some(Goal::Running),
        }
    }

    /// The state of one that was found so, and of which there is no record: it is left as it is. Of one that
    /// runs no more, or of which nobody can tell, whoever cares for it writes down what became of it.
    pub fn adopted_state(&self) -> State {
        match self {
            Self::Absent => State::at(Goal::Stopped),
            Self::Running { frozen: true, .. } => State::at(Goal::Paused),
            Self::Running { frozen: false, .. }
            | Self::Launching
            | Self::Dead(_)
            | Self::Unknown
            | Self::OtherPidNamespace => State::at(Goal::Running),
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanStep {
    /// A new attempt: make and start it.
    Launch,
    /// Wait until PID 1 answers, and tell it what it must know.
    AwaitReady,
    /// Look again in a moment: somebody else is at work, or the driver cannot tell.
    InspectAgain,
    Freeze,
    Thaw,
    /// SIGTERM, a while, SIGKILL.
    Terminate,
    /// Take away what a dead one left, except its files.
    RemoveContainer,
    /// Empty the workspace.
    ResetWorkspace,
    /// Take away everything, its files too unless they are to be kept.
    Destroy,
    /// Record that it can be brought up anew.
    Renewed,
    /// Record that the goal is reached.
    Reached,
    GiveUp(Problem),
    /// It should run and died: record why.
    Lost(Death),
    /// The same, and nothing was wrong with it: it counts as stopped.
    Ended(Death),
    /// The same, and it is brought up again after a pause.
    Restart(Death),
    /// It should always run, and only its backend was away.
    TryAgain,
    /// The end takes too long: go on with a new deadline.
    Extend,
}

pub fn plan(desired: &Desired<'_>, observed: &Observed, now_ms: u64) -> Vec<PlanStep> {
    let state = desired.state;
    match &state.operation {
        None => settled(desired, observed),
        // It goes on where it was left as soon as a hostd can reach it, however long that takes.
        Some(_) if *observed == Observed::OtherPidNamespace => vec![PlanStep::InspectAgain],
        Some(operation) if now_ms >= operation.deadline_ms => overdue(desired, operation.phase, observed),
        Some(_) => towards(desired, observed),
    }
}

/// The way to a goal, one step at a time: what comes next depends on what that step brings.
fn towards(desired: &Desired<'_>, observed: &Observed) -> Vec<PlanStep> {
    use Observed::{Absent, Dead, Launching, OtherPidNamespace, Running, Unknown};
    let state = desired.state;
    if let Some(renewal) = state.renewal {
        return match observed {
            Unknown | OtherPidNamespace => vec![PlanStep::InspectAgain],
            Launching | Running { .. } => vec![PlanStep::Terminate],
            Dead(_) => vec![PlanStep::RemoveContainer],
            Absent if renewal.keep_workspace => vec![PlanStep::Renewed],
            Absent => vec![PlanStep::ResetWorkspace, PlanStep::Renewed],
        };
    }
    let step = match (state.goal, observed) {
        (_, Unknown | OtherPidNamespace) | (Goal::Running | Goal::Paused, Launching) => {
            PlanStep::InspectAgain
        }
        (Goal::Stopped | Goal::Destroyed, Launching | Running { .. }) => PlanStep::Terminate,

        // What a launch brings is known without another look. Nothing of the run before counts any more.
        (Goal::Running, Absent) if should_live(state.status) => {
            return vec![PlanStep::Renewed, PlanStep::Launch, PlanStep::AwaitReady, PlanStep::Reached];
        }
        (Goal::Running, Absent) => return vec![PlanStep::Launch, PlanStep::AwaitReady, PlanStep::Reached],
        (Goal::Running | Goal::Stopped, Dead(_)) => PlanStep::RemoveContainer,
        (Goal::Running, Running { frozen: true, .. }) => PlanStep::Thaw,
        (Goal::Running, Running { frozen: false, ready: false }) => PlanStep::AwaitReady,
        (Goal::Running, Running { frozen: false, ready: true }) => PlanStep::Reached,

        (Goal::Paused, Running { frozen: false, .. }) => PlanStep::Freeze,
        (Goal::Paused, Running { frozen: true, .. }) => PlanStep::Reached,
        (Goal::Paused, Absent) => after(desired, &Death::default()),
        (Goal::Paused, Dead(death)) => after(desired, death),

        (Goal::Stopped, Absent) => PlanStep::Reached,
        (Goal::Destroyed, Dead(_) | Absent) => return vec![PlanStep::Destroy, PlanStep::Reached],
    };
    vec![step]
}

/// The time is up. Going up fails; being destroyed goes on.
fn overdue(desired: &Desired<'_>, phase: Phase, observed: &Observed) -> Vec<PlanStep> {
    let next = towards(desired, observed);
    match desired.state.goal {
        Goal::Destroyed => [vec![PlanStep::Extend], next].concat(),
        // It may have got there in the last moment.
        Goal::Running | Goal::Paused | Goal::Stopped if next == [PlanStep::Reached] => next,
        Goal::Running | Goal::Paused | Goal::Stopped => vec![PlanStep::GiveUp(deadline_passed(phase))],
    }
}

/// Nothing is being done. What is seen may still call for something.
fn settled(desired: &Desired<'_>, observed: &Observed) -> Vec<PlanStep> {
    use Observed::{Absent, Dead, Launching, OtherPidNamespace, Running, Unknown};
    let status = desired.state.status;
    let should_live = should_live(status);
    match observed {
        Unknown | OtherPidNamespace => vec![],
        Absent if should_live => vec![after(desired, &Death::default())],
        // What is left is cleared away once it is written down why it died.
        Dead(death) if should_live => vec![after(desired, death)],
        Absent if misses_its_backend(desired) => vec![PlanStep::TryAgain],
        Absent => vec![],
        Dead(_) => vec![PlanStep::RemoveContainer],
        Running { frozen: true, .. } if status == SandboxStatus::Running => vec![PlanStep::Thaw],
        Running { frozen: false, .. } if status == SandboxStatus::Paused => vec![PlanStep::Freeze],
        Running { ready: false, frozen: false } if should_live => vec![PlanStep::AwaitReady],
        Running { .. } if should_live => vec![],
        Launching if should_live => vec![PlanStep::InspectAgain],
        // Given up, or stopped, and yet it runs.
        Running { .. } | Launching => vec![PlanStep::Terminate],
    }
}

fn should_live(status: SandboxStatus) -> bool {
    matches!(status, SandboxStatus::Running | SandboxStatus::Paused)
}

/// Where the death of one that should run leads.
fn after(desired: &Desired<'_>, death: &Death) -> PlanStep {
    match desired.idle_policy {
        IdlePolicy::AlwaysOn => PlanStep::Restart(death.clone()),
        IdlePolicy::Sleep if death.allows_wake() => PlanStep::Ended(death.clone()),
        IdlePolicy::Sleep => PlanStep::Lost(death.clone()),
    }
}

/// Whether it should always run, ran before, and does not only because its backend did not answer. Nothing
/// else leaves one that does not run with the goal to run and nothing being done.
fn misses_its_backend(desired: &Desired<'_>) -> bool {
    let problem = desired.state.problem.as_ref().map(|problem| problem.code);
    desired.idle_policy == IdlePolicy::AlwaysOn
        && desired.state.goal == Goal::Running
        && problem == Some(ProblemCode::DriverUnavailable)
}

fn deadline_passed(phase: Phase) -> Problem {
    let doing = match phase {
        Phase::Queued => "waiting",
        Phase::Building => "building",
        Phase::Provisioning => "provisioning",
        Phase::Starting => "starting",
        Phase::Pausing => "pausing",
        Phase::Resuming => "resuming",
        Phase::Stopping => "stopping",
        Phase::Destroying => "destroying",
    };
    let message = format!("{doing} took longer than its deadline; start it again, or destroy it");
    Problem { code: ProblemCode::DeadlinePassed, message, output: Vec::new() }
}

#[cfg(test)]
mod tests;
