//! The next steps of one sandbox. `plan(desired, observed, now)` compares what is wanted with what is there and
//! returns the steps that come next. Performing them and planning again ends in a state for which there is nothing
//! to do. Nothing is performed here.

use super::{Death, Goal, State};
use protocol::api::{IdlePolicy, Phase, Problem, ProblemCode, SandboxStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct Desired<'a> {
    pub state: &'a State,
    pub idle_policy: IdlePolicy,
    /// Whether steps of its provisioning are left.
    pub to_provision: bool,
}

/// The container of a sandbox, as the newest inspection shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// The driver cannot tell now.
    Unknown,
    /// There is no container. The workspace may be there.
    Absent,
    /// A launch is under way, perhaps of an earlier hostd.
    Launching,
    /// `ready`: PID 1 answered and has its configuration.
    Running { frozen: bool, ready: bool },
    /// PID 1 ended. The container must be removed.
    Dead(Death),
    /// The container lives in another PID namespace than hostd: nothing can be done to it from here.
    OtherPidNamespace,
}

impl Observed {
    /// The goal that a sandbox so observed has reached, as far as it can be seen.
    pub fn as_goal(&self) -> Option<Goal> {
        match self {
            Self::Unknown | Self::Launching | Self::OtherPidNamespace => None,
            Self::Absent | Self::Dead(_) => Some(Goal::Stopped),
            Self::Running { frozen: true, .. } => Some(Goal::Paused),
            Self::Running { frozen: false, .. } => Some(Goal::Running),
        }
    }

    /// Whether hostd can tell what is there.
    pub fn is_visible(&self) -> bool {
        match self {
            Self::Unknown | Self::OtherPidNamespace => false,
            Self::Absent | Self::Launching | Self::Running { .. } | Self::Dead(_) => true,
        }
    }

    /// The state of an adopted sandbox, which has no record: it is left as it is. One that runs no more, or cannot
    /// be seen, is taken for running: its actor then records what became of it.
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

/// A verb of the driver that changes a container or its workspace. `Launch` is apart: it has an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverVerb {
    Freeze,
    Thaw,
    /// SIGTERM, a grace period, SIGKILL.
    Terminate,
    /// Removes a dead container; the workspace stays.
    CleanUp,
    /// Empties the workspace.
    ResetWorkspace,
    /// Removes everything; the workspace unless it is to be kept.
    Destroy,
}

impl DriverVerb {
    /// The goal that the verb reaches when it takes effect late, as far as an inspection tells that from the doing
    /// of someone else.
    pub fn brings(self) -> Option<Goal> {
        match self {
            Self::Freeze => Some(Goal::Paused),
            Self::Thaw => Some(Goal::Running),
            Self::Terminate | Self::CleanUp | Self::ResetWorkspace | Self::Destroy => None,
        }
    }

    /// Whether no process of the sandbox is left afterwards.
    pub fn ends_run(self) -> bool {
        match self {
            Self::Terminate | Self::CleanUp | Self::Destroy => true,
            Self::Freeze | Self::Thaw | Self::ResetWorkspace => false,
        }
    }
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanStep {
    /// Begin an attempt, create the container and start it.
    Launch,
    /// Wait until PID 1 answers, and configure it.
    AwaitReady,
    /// Perform the steps of its provisioning. Its services are configured by `AwaitReady` afterwards.
    Provision,
    /// Inspect again after a pause: another launch is under way, or the driver cannot tell.
    InspectAgain,
    Drive(DriverVerb),
    /// Record that the container and, if wanted, the files are gone: it can be launched anew.
    Renewed,
    /// Record that the goal is reached.
    Reached,
    GiveUp(Problem),
    /// Record the death of a sandbox that should run.
    Lost(Death),
    /// Record such a death where nothing was wrong with the sandbox: it counts as stopped.
    Ended(Death),
    /// Record such a death, and launch the sandbox again after a pause.
    Restart(Death),
    /// Launch a sandbox that should always run, and does not only because its backend was away.
    TryAgain,
    /// Go on with a new deadline: a destroy takes too long.
    Extend,
}

pub fn plan(desired: &Desired<'_>, observed: &Observed, now_ms: u64) -> Vec<PlanStep> {
    let state = desired.state;
    match &state.operation {
        None => settled(desired, observed),
        // The operation goes on as soon as a hostd can reach the container, however long that takes.
        Some(_) if *observed == Observed::OtherPidNamespace => vec![PlanStep::InspectAgain],
        Some(operation) if now_ms >= operation.deadline_ms => overdue(desired, operation.phase, observed),
        Some(_) => towards(desired, observed),
    }
}

/// The steps towards a goal. What comes after them depends on what they bring.
fn towards(desired: &Desired<'_>, observed: &Observed) -> Vec<PlanStep> {
    use Observed::{Absent, Dead, Launching, OtherPidNamespace, Running, Unknown};
    let state = desired.state;
    if let Some(renewal) = state.renewal {
        return match observed {
            Unknown | OtherPidNamespace => vec![PlanStep::InspectAgain],
            Launching | Running { .. } => vec![PlanStep::Drive(DriverVerb::Terminate)],
            Dead(_) => vec![PlanStep::Drive(DriverVerb::CleanUp)],
            Absent if renewal.keep_workspace => vec![PlanStep::Renewed],
            Absent => vec![PlanStep::Drive(DriverVerb::ResetWorkspace), PlanStep::Renewed],
        };
    }
    let step = match (state.goal, observed) {
        (_, Unknown | OtherPidNamespace) | (Goal::Running | Goal::Paused, Launching) => {
            PlanStep::InspectAgain
        }
        (Goal::Stopped | Goal::Destroyed, Launching | Running { .. }) => {
            PlanStep::Drive(DriverVerb::Terminate)
        }

        // A launch needs no inspection in between. Nothing of the run before counts any more.
        (Goal::Running, Absent) => {
            let renewed = should_live(state.status).then_some(PlanStep::Renewed);
            return renewed.into_iter().chain([PlanStep::Launch]).chain(after_launch(desired)).collect();
        }
        (Goal::Running | Goal::Stopped, Dead(_)) => PlanStep::Drive(DriverVerb::CleanUp),
        (Goal::Running, Running { frozen: true, .. }) => PlanStep::Drive(DriverVerb::Thaw),
        (Goal::Running, Running { frozen: false, ready: false }) => PlanStep::AwaitReady,
        (Goal::Running, Running { frozen: false, ready: true }) if desired.to_provision => {
            PlanStep::Provision
        }
        (Goal::Running, Running { frozen: false, ready: true }) => PlanStep::Reached,

        (Goal::Paused, Running { frozen: false, .. }) => PlanStep::Drive(DriverVerb::Freeze),
        (Goal::Paused, Running { frozen: true, .. }) => PlanStep::Reached,
        (Goal::Paused, Absent) => after(desired, &Death::default()),
        (Goal::Paused, Dead(death)) => after(desired, death),

        (Goal::Stopped, Absent) => PlanStep::Reached,
        (Goal::Destroyed, Dead(_) | Absent) => {
            return vec![PlanStep::Drive(DriverVerb::Destroy), PlanStep::Reached];
        }
    };
    vec![step]
}

fn after_launch(desired: &Desired<'_>) -> Vec<PlanStep> {
    match desired.to_provision {
        true => vec![PlanStep::AwaitReady, PlanStep::Provision, PlanStep::AwaitReady, PlanStep::Reached],
        false => vec![PlanStep::AwaitReady, PlanStep::Reached],
    }
}

/// The steps past the deadline. An operation is given up, but a destroy goes on.
fn overdue(desired: &Desired<'_>, phase: Phase, observed: &Observed) -> Vec<PlanStep> {
    let next = towards(desired, observed);
    match desired.state.goal {
        Goal::Destroyed => [vec![PlanStep::Extend], next].concat(),
        // The goal may have been reached at the last moment.
        Goal::Running | Goal::Paused | Goal::Stopped if next == [PlanStep::Reached] => next,
        Goal::Running | Goal::Paused | Goal::Stopped => vec![PlanStep::GiveUp(deadline_passed(phase))],
    }
}

/// The steps of a sandbox without an operation: what is observed may call for some.
fn settled(desired: &Desired<'_>, observed: &Observed) -> Vec<PlanStep> {
    use Observed::{Absent, Dead, Launching, OtherPidNamespace, Running, Unknown};
    let status = desired.state.status;
    let should_live = should_live(status);
    match observed {
        Unknown | OtherPidNamespace => vec![],
        Absent if should_live => vec![after(desired, &Death::default())],
        // The container is removed once the death is recorded.
        Dead(death) if should_live => vec![after(desired, death)],
        Absent if misses_its_backend(desired) => vec![PlanStep::TryAgain],
        Absent => vec![],
        Dead(_) => vec![PlanStep::Drive(DriverVerb::CleanUp)],
        Running { frozen: true, .. } if status == SandboxStatus::Running => {
            vec![PlanStep::Drive(DriverVerb::Thaw)]
        }
        Running { frozen: false, .. } if status == SandboxStatus::Paused => {
            vec![PlanStep::Drive(DriverVerb::Freeze)]
        }
        Running { ready: false, frozen: false } if should_live => vec![PlanStep::AwaitReady],
        Running { .. } if should_live => vec![],
        Launching if should_live => vec![PlanStep::InspectAgain],
        // Running though it was given up, or stopped.
        Running { .. } | Launching => vec![PlanStep::Drive(DriverVerb::Terminate)],
    }
}

fn should_live(status: SandboxStatus) -> bool {
    matches!(status, SandboxStatus::Running | SandboxStatus::Paused)
}

/// The step after the death of a sandbox that should run.
fn after(desired: &Desired<'_>, death: &Death) -> PlanStep {
    match desired.idle_policy {
        IdlePolicy::AlwaysOn => PlanStep::Restart(death.clone()),
        IdlePolicy::Sleep if death.allows_wake() => PlanStep::Ended(death.clone()),
        IdlePolicy::Sleep => PlanStep::Lost(death.clone()),
    }
}

/// Whether a sandbox should always run, ran before, and does not only because its backend did not answer. Nothing
/// else leaves a sandbox with the goal `Running`, without an operation, and not running.
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
    Problem { code: ProblemCode::DeadlinePassed, message, output: Vec::new(), step: None }
}

#[cfg(test)]
mod tests;
