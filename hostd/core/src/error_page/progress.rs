//! The progress that a waiting page shows, until there is nothing to wait for.

use super::{
    PreviewFacts,
    context::{PageContext, is_reachable_from_preview},
    phrases::{self, ended},
    sanitized_status::text_line,
    service::{Health, outlook},
};
use crate::Goal;
use protocol::{
    ServiceState, ServiceView,
    api::{Phase, SandboxStatus},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitProgress {
    /// The step that runs. The word is for programs, the text for users.
    Step { word: &'static str, text: String },
    /// The app can be requested.
    Ready,
    /// The sandbox was put to sleep: the app will not come.
    Asleep,
    /// The app will not come without a change; the error page says why.
    Failed,
}

/// How long a page waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Until something goes wrong: for a page that has not said yet what.
    UntilProblem,
    /// As long as the sandbox is up: for a page that has said what is wrong.
    WhileUp,
}

/// Does not use `facts.reason`: a page that waits has none.
pub fn progress(facts: &PreviewFacts<'_>, mode: WaitMode) -> WaitProgress {
    let state = facts.state;
    if state.goal == Goal::Destroyed || state.status == SandboxStatus::Destroyed {
        return WaitProgress::Failed;
    }
    if let Some(operation) = &state.operation {
        return busy(facts).unwrap_or_else(|| doing(operation.phase));
    }
    match (state.status, facts.status) {
        (SandboxStatus::Error | SandboxStatus::Destroyed, _) => WaitProgress::Failed,
        (SandboxStatus::Paused | SandboxStatus::Stopped, _) => WaitProgress::Asleep,
        (SandboxStatus::Creating, _) => doing(Phase::Provisioning),
        (SandboxStatus::Running, None) => step("sandbox", "waiting for the sandbox to answer"),
        (SandboxStatus::Running, Some(_)) => of_services(&PageContext::new(facts), mode),
    }
}

/// Only for trusted visitors: the driver names images and addresses.
fn busy(facts: &PreviewFacts<'_>) -> Option<WaitProgress> {
    let text = facts.progress.filter(|_| facts.trusted)?;
    Some(step("provisioning", text_line(text)))
}

fn doing(phase: Phase) -> WaitProgress {
    match phase {
        Phase::Queued => step("queued", "waiting for its turn"),
        Phase::Building => step("building", "building its image"),
        Phase::Provisioning => step("provisioning", "making the sandbox"),
        Phase::Starting => step("starting", "starting the sandbox"),
        Phase::Resuming => step("resuming", "waking the sandbox"),
        Phase::Pausing | Phase::Stopping => step("stopping", "waiting for the sandbox to fall asleep"),
        Phase::Destroying => WaitProgress::Failed,
    }
}

fn of_services(context: &PageContext, mode: WaitMode) -> WaitProgress {
    if context.listeners().any(is_reachable_from_preview) {
        return WaitProgress::Ready;
    }
    let port = context.port();
    let any_coming = context.status.services.iter().any(|view| outlook(context, view) == Health::Coming);
    match context.responsible() {
        Some(view) if outlook(context, view) == Health::Coming => step("service", coming(context, view)),
        None if any_coming => step("port", format!("waiting for something to listen on {port}")),
        Some(_) | None if mode == WaitMode::UntilProblem => WaitProgress::Failed,
        Some(view) => step("service", down(context, view)),
        None => step("port", format!("waiting for something to listen on {port}")),
    }
}

fn coming(context: &PageContext, view: &ServiceView) -> String {
    let (name, port) = (called(context, view), context.port());
    match &view.state {
        ServiceState::Waiting { on } if context.trusted => {
            let states: Vec<String> = on.iter().take(4).map(|name| needed(context, name)).collect();
            format!("{name} waits for {}", states.join(", "))
        }
        ServiceState::Waiting { .. }
        | ServiceState::Starting
        | ServiceState::Ready { .. }
        | ServiceState::Unhealthy { .. }
        | ServiceState::Backoff { .. }
        | ServiceState::Stopping
        | ServiceState::Stopped
        | ServiceState::FailedDependency { .. } => format!("waiting for {name} to listen on {port}"),
    }
}

fn needed(context: &PageContext, name: &protocol::ServiceName) -> String {
    let view = context.status.services.iter().find(|view| view.name == *name);
    let state = match view.map(|view| &view.state) {
        Some(ServiceState::Starting) => "starting",
        Some(ServiceState::Waiting { .. }) => "waiting",
        Some(ServiceState::Ready { .. }) => "ready",
        Some(ServiceState::Unhealthy { .. }) => "not healthy",
        Some(ServiceState::Backoff { .. }) => "failing",
        Some(ServiceState::Stopping | ServiceState::Stopped | ServiceState::FailedDependency { .. }) => {
            "stopped"
        }
        None => return name.to_string(),
    };
    format!("{name} ({state})")
}

fn down(context: &PageContext, view: &ServiceView) -> String {
    let name = called(context, view);
    match &view.state {
        ServiceState::Backoff { next_try_ms, .. } => {
            let how = view.last_exit.as_ref().map_or_else(|| "does not stay up".to_owned(), ended);
            let wait = phrases::duration(next_try_ms.saturating_sub(context.now_ms));
            format!("{name} {how}; the next try is in {wait}")
        }
        ServiceState::Unhealthy { .. } => format!("{name} runs, but is not healthy"),
        ServiceState::FailedDependency { .. } => format!("{name} lacks something it needs"),
        ServiceState::Waiting { .. } => coming(context, view),
        ServiceState::Ready { .. } | ServiceState::Starting => {
            format!("{name} runs, but does not listen on {}", context.port())
        }
        ServiceState::Stopping | ServiceState::Stopped => format!("{name} is stopped"),
    }
}

fn called(context: &PageContext, view: &ServiceView) -> String {
    if context.trusted { view.name.to_string() } else { "the app".to_owned() }
}

fn step(word: &'static str, text: impl Into<String>) -> WaitProgress {
    WaitProgress::Step { word, text: text.into() }
}
