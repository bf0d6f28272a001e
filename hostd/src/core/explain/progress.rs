//! What a page that waits is told, again and again, until there is nothing to wait for.

use super::{
    Facts,
    inside::text_line,
    service::{Health, outlook},
    teller::{Teller, can_be_reached},
    words::{self, ended},
};
use crate::core::Goal;
use protocol::{
    ServiceState, ServiceView,
    api::{Phase, SandboxStatus},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// This runs. The word is for programs, the text for people.
    Step { word: &'static str, text: String },
    /// The app can be asked.
    Ready,
    /// It was put to sleep, so nothing will come.
    Asleep,
    /// It will not come without somebody; the explanation says why.
    Failed,
}

/// How long a page waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until something goes wrong: a page that has not said yet what.
    UntilTrouble,
    /// As long as the sandbox is up: a page that has said what is wrong.
    Long,
}

/// The cause is not looked at: a page that waits has none.
pub fn progress(facts: &Facts<'_>, patience: Patience) -> Progress {
    let state = facts.state;
    if state.goal == Goal::Destroyed || state.status == SandboxStatus::Destroyed {
        return Progress::Failed;
    }
    if let Some(operation) = &state.operation {
        return busy(facts).unwrap_or_else(|| doing(operation.phase));
    }
    match (state.status, facts.inner) {
        (SandboxStatus::Error | SandboxStatus::Destroyed, _) => Progress::Failed,
        (SandboxStatus::Paused | SandboxStatus::Stopped, _) => Progress::Asleep,
        (SandboxStatus::Creating, _) => doing(Phase::Provisioning),
        (SandboxStatus::Running, None) => step("sandbox", "waiting for the sandbox to answer"),
        (SandboxStatus::Running, Some(_)) => inside(&Teller::new(facts), patience),
    }
}

/// What the driver says is for the owner: it names images and addresses.
fn busy(facts: &Facts<'_>) -> Option<Progress> {
    let text = facts.progress.filter(|_| facts.known)?;
    Some(step("provisioning", text_line(text)))
}

fn doing(phase: Phase) -> Progress {
    match phase {
        Phase::Queued => step("queued", "waiting for its turn"),
        Phase::Building => step("building", "building its image"),
        Phase::Provisioning => step("provisioning", "making the sandbox"),
        Phase::Starting => step("starting", "starting the sandbox"),
        Phase::Resuming => step("resuming", "waking the sandbox"),
        Phase::Pausing | Phase::Stopping => step("stopping", "waiting for the sandbox to fall asleep"),
        Phase::Destroying => Progress::Failed,
    }
}

fn inside(teller: &Teller, patience: Patience) -> Progress {
    if teller.listeners().any(can_be_reached) {
        return Progress::Ready;
    }
    let port = teller.port();
    let somebody_comes = teller.inside.services.iter().any(|view| outlook(teller, view) == Health::Coming);
    match teller.responsible() {
        Some(view) if outlook(teller, view) == Health::Coming => step("service", coming(teller, view)),
        None if somebody_comes => step("port", format!("waiting for something to listen on {port}")),
        Some(_) | None if patience == Patience::UntilTrouble => Progress::Failed,
        Some(view) => step("service", down(teller, view)),
        None => step("port", format!("waiting for something to listen on {port}")),
    }
}

fn coming(teller: &Teller, view: &ServiceView) -> String {
    let (name, port) = (called(teller, view), teller.port());
    match &view.state {
        ServiceState::Waiting { on } if teller.known => {
            let states: Vec<String> = on.iter().take(4).map(|name| needed(teller, name)).collect();
            format!("{name} waits for {}", states.join(", "))
        }
        _ => format!("waiting for {name} to listen on {port}"),
    }
}

fn needed(teller: &Teller, name: &protocol::ServiceName) -> String {
    let view = teller.inside.services.iter().find(|view| view.name == *name);
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

fn down(teller: &Teller, view: &ServiceView) -> String {
    let name = called(teller, view);
    match &view.state {
        ServiceState::Backoff { next_try_ms, .. } => {
            let how = view.last_exit.as_ref().map_or_else(|| "does not stay up".to_owned(), ended);
            let wait = words::duration(next_try_ms.saturating_sub(teller.now_ms));
            format!("{name} {how}; the next try is in {wait}")
        }
        ServiceState::Unhealthy { .. } => format!("{name} runs, but is not healthy"),
        ServiceState::FailedDependency { .. } => format!("{name} lacks something it needs"),
        ServiceState::Waiting { .. } => coming(teller, view),
        ServiceState::Ready { .. } | ServiceState::Starting => {
            format!("{name} runs, but does not listen on {}", teller.port())
        }
        ServiceState::Stopping | ServiceState::Stopped => format!("{name} is stopped"),
    }
}

fn called(teller: &Teller, view: &ServiceView) -> String {
    if teller.known { view.name.to_string() } else { "the app".to_owned() }
}

fn step(word: &'static str, text: impl Into<String>) -> Progress {
    Progress::Step { word, text: text.into() }
}
