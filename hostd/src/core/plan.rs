//! What to do next with one sandbox. `plan(desired, container, now)` looks at what is wanted and what is
//! there and names the next steps; performing them and planning again comes to a state for which there is
//! nothing to do.

use super::{Goal, State};
use protocol::api::{IdlePolicy, Phase, Problem, ProblemCode, SandboxStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct Desired<'a> {
    pub state: &'a State,
    pub idle_policy: IdlePolicy,
}

/// What is seen of a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Container {
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
}

/// How a sandbox ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Death {
    /// runtimed shut down by itself and said so.
    pub in_order: bool,
    /// The kernel killed PID 1 for memory; limit and peak, for people ("512 MB, peak 511 MB").
    pub oom: Option<String>,
    /// The last lines PID 1 printed.
    pub last_lines: Vec<String>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A new attempt: make and start it.
    Launch,
    /// Wait until PID 1 answers, and tell it what it must know.
    AwaitReady,
    /// Look again in a moment: somebody else is at work, or the driver cannot tell.
    LookAgain,
    Freeze,
    Thaw,
    /// SIGTERM, a while, SIGKILL.
    Terminate,
    /// Take away what a dead one left, except its files.
    Clear,
    /// Empty the workspace.
    Empty,
    /// Take away everything, its files too unless they are to be kept.
    Erase,
    /// Record that it can be brought up anew.
    Renewed,
    /// Record that the goal is reached.
    Reached,
    GiveUp(Problem),
    Lost(Problem),
    Ended,
    /// It should run and died: record why, and bring it up again after a pause.
    Restart(Problem),
    /// The end takes too long: go on with a new deadline.
    Extend,
}

pub fn plan(desired: &Desired<'_>, container: &Container, now_ms: u64) -> Vec<Step> {
    let state = desired.state;
    match &state.effort {
        None => settled(desired, container),
        Some(effort) if now_ms >= effort.deadline_ms => overdue(state, effort.phase, container),
        Some(_) => towards(state, container),
    }
}

/// The way to a goal, one step at a time: what comes next depends on what that step brings.
fn towards(state: &State, container: &Container) -> Vec<Step> {
    use Container::{Absent, Dead, Launching, Running, Unknown};
    if let Some(renewal) = state.renewal {
        return match container {
            Unknown => vec![Step::LookAgain],
            Launching | Running { .. } => vec![Step::Terminate],
            Dead(_) => vec![Step::Clear],
            Absent if renewal.keep_workspace => vec![Step::Renewed],
            Absent => vec![Step::Empty, Step::Renewed],
        };
    }
    let step = match (state.goal, container) {
        (_, Unknown) | (Goal::Running | Goal::Paused, Launching) => Step::LookAgain,
        (Goal::Stopped | Goal::Destroyed, Launching | Running { .. }) => Step::Terminate,

        // What a launch brings is known without another look.
        (Goal::Running, Absent) => return vec![Step::Launch, Step::AwaitReady, Step::Reached],
        (Goal::Running | Goal::Stopped, Dead(_)) => Step::Clear,
        (Goal::Running, Running { frozen: true, .. }) => Step::Thaw,
        (Goal::Running, Running { frozen: false, ready: false }) => Step::AwaitReady,
        (Goal::Running, Running { frozen: false, ready: true }) => Step::Reached,

        (Goal::Paused, Running { frozen: false, .. }) => Step::Freeze,
        (Goal::Paused, Running { frozen: true, .. }) => Step::Reached,
        (Goal::Paused, Absent) => Step::Lost(died(Vec::new())),
        (Goal::Paused, Dead(death)) => Step::Lost(problem_of(death)),

        (Goal::Stopped, Absent) => Step::Reached,
        (Goal::Destroyed, Dead(_) | Absent) => return vec![Step::Erase, Step::Reached],
    };
    vec![step]
}

/// The time is up. Going up fails; being destroyed goes on.
fn overdue(state: &State, phase: Phase, container: &Container) -> Vec<Step> {
    let next = towards(state, container);
    match state.goal {
        Goal::Destroyed => [vec![Step::Extend], next].concat(),
        // It may have got there in the last moment.
        Goal::Running | Goal::Paused | Goal::Stopped if next == [Step::Reached] => next,
        Goal::Running | Goal::Paused | Goal::Stopped => vec![Step::GiveUp(deadline_passed(phase))],
    }
}

/// Nothing is being done. What is seen may still call for something.
fn settled(desired: &Desired<'_>, container: &Container) -> Vec<Step> {
    use Container::{Absent, Dead, Launching, Running, Unknown};
    let status = desired.state.status;
    let should_live = matches!(status, SandboxStatus::Running | SandboxStatus::Paused);
    match container {
        Unknown => vec![],
        Absent if should_live => lost(desired, died(Vec::new())),
        // What is left is cleared away once it is written down why it died.
        Dead(death) if should_live && death.in_order => vec![Step::Ended],
        Dead(death) if should_live => lost(desired, problem_of(death)),
        Absent => vec![],
        Dead(_) => vec![Step::Clear],
        Running { frozen: true, .. } if status == SandboxStatus::Running => vec![Step::Thaw],
        Running { frozen: false, .. } if status == SandboxStatus::Paused => vec![Step::Freeze],
        Running { ready: false, frozen: false } if should_live => vec![Step::AwaitReady],
        Running { .. } if should_live => vec![],
        Launching if should_live => vec![Step::LookAgain],
        // Given up, or stopped, and yet it runs.
        Running { .. } | Launching => vec![Step::Terminate],
    }
}

fn lost(desired: &Desired<'_>, problem: Problem) -> Vec<Step> {
    match desired.idle_policy {
        IdlePolicy::AlwaysOn => vec![Step::Restart(problem)],
        IdlePolicy::Sleep => vec![Step::Lost(problem)],
    }
}

fn problem_of(death: &Death) -> Problem {
    let Some(memory) = &death.oom else { return died(death.last_lines.clone()) };
    let message = format!("the kernel killed it for memory ({memory}); give it more with limits.memory_mb");
    Problem { code: ProblemCode::Oom, message, output: death.last_lines.clone() }
}

fn died(output: Vec<String>) -> Problem {
    let message = "PID 1 of the sandbox is gone; start it again".to_owned();
    Problem { code: ProblemCode::Died, message, output }
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
