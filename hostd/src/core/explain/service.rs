//! The service that should answer on the port is not well.

use super::{
    Explanation, Lines,
    inside::text_line,
    port::closed_port,
    sandbox::sentence,
    teller::Teller,
    words::{self, ended},
};
use protocol::{Exit, ServiceName, ServiceState, ServiceView, api::ApiErrorCode};

const STARTING_RETRY_S: u64 = 1;
const RETRY_MAX_S: u64 = 60;
/// A service without a check is ready as soon as it runs: so long it may take until it listens.
const LISTENS_WITHIN_MS: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Well,
    /// It is on its way up.
    Coming,
    /// It will not come without a change, or not soon.
    Down,
}

pub fn health(view: &ServiceView) -> Health {
    match view.state {
        ServiceState::Ready { .. } => Health::Well,
        ServiceState::Waiting { .. } | ServiceState::Starting => Health::Coming,
        ServiceState::Unhealthy { .. }
        | ServiceState::Backoff { .. }
        | ServiceState::Stopping
        | ServiceState::Stopped
        | ServiceState::FailedDependency { .. } => Health::Down,
    }
}

/// The same for the one that should answer on a port where nobody does: who waits for what is down is down
/// too, and who has just begun to run may be about to listen.
pub fn outlook(teller: &Teller, view: &ServiceView) -> Health {
    match &view.state {
        ServiceState::Waiting { on } if failing(teller, on).is_some() => Health::Down,
        ServiceState::Ready { since_ms } if listens_soon(teller, view, *since_ms) => Health::Coming,
        _ => health(view),
    }
}

fn listens_soon(teller: &Teller, view: &ServiceView, since_ms: u64) -> bool {
    let elsewhere = view.port != Some(teller.port()) && !teller.links().is_empty();
    !elsewhere && teller.now_ms.saturating_sub(since_ms) < LISTENS_WITHIN_MS
}

fn failing<'a>(teller: &'a Teller, on: &[ServiceName]) -> Option<&'a ServiceView> {
    let mut needed = teller.inside.services.iter().filter(|service| on.contains(&service.name));
    needed.find(|service| health(service) == Health::Down)
}

pub fn unwell(teller: &Teller, view: &ServiceView) -> Explanation {
    let explanation = match &view.state {
        ServiceState::Starting | ServiceState::Ready { .. } => starting(teller, view),
        ServiceState::Waiting { on } => return waiting(teller, view, on),
        ServiceState::Unhealthy { reason, .. } => unhealthy(teller, view, reason),
        ServiceState::Backoff { next_try_ms, failures } => backoff(teller, view, *next_try_ms, *failures),
        ServiceState::Stopping => {
            let title = format!("{} is being stopped", teller.service(&view.name));
            teller.advised(closed_port(title, "Somebody asked for that."), &start(teller, &view.name))
        }
        ServiceState::Stopped => stopped(teller, view),
        ServiceState::FailedDependency { on } => return without(teller, view, on),
    };
    finish(teller, view, explanation)
}

/// It counts as ready, and does not listen.
pub fn deaf(teller: &Teller, view: &ServiceView) -> Explanation {
    let port = teller.port();
    let title = format!("Nothing listens on port {}", teller.named_port());
    let text = format!("{} runs, but listens elsewhere or not at all.", teller.service(&view.name));
    let advice = [
        format!("See where it listens: `slipway ports {}`", teller.target()),
        format!("Let it listen on port {port} of localhost."),
    ];
    finish(teller, view, teller.advised(closed_port(title, text), &advice))
}

fn starting(teller: &Teller, view: &ServiceView) -> Explanation {
    let title = format!("{} is starting", teller.service(&view.name));
    let text =
        format!("It does not listen on port {} yet. The page opens as soon as it does.", teller.port());
    let explanation = Explanation::new(ApiErrorCode::Waking, title, text).hopeful(STARTING_RETRY_S);
    teller.advised(explanation, &log(teller, &view.name))
}

/// What it waits for says why.
fn waiting(teller: &Teller, view: &ServiceView, on: &[ServiceName]) -> Explanation {
    if let Some(needed) = failing(teller, on) {
        let cause = unwell(teller, needed);
        let (on, text) = match teller.known {
            true => (needed.name.as_str(), format!("{}. {}", cause.title, cause.text)),
            false => ("what it needs", "That has failed.".to_owned()),
        };
        return Explanation {
            title: format!("{} is waiting for {on}", teller.service(&view.name)),
            text,
            ..cause
        };
    }
    let on = if teller.known { words::names(on) } else { "what it needs".to_owned() };
    let title = format!("{} is waiting for {on}", teller.service(&view.name));
    let text = "It starts as soon as that is ready, and the page opens with it.";
    let explanation = Explanation::new(ApiErrorCode::Waking, title, text).hopeful(STARTING_RETRY_S);
    finish(
        teller,
        view,
        teller.advised(explanation, &[format!("Look at them: `slipway services {}`", teller.target())]),
    )
}

fn unhealthy(teller: &Teller, view: &ServiceView, reason: &str) -> Explanation {
    let title = format!("{} runs, but is not healthy", teller.service(&view.name));
    let text = if reason.is_empty() { "Its check fails.".to_owned() } else { sentence(&text_line(reason)) };
    let mut advice = log(teller, &view.name);
    advice.push(format!("Start it anew: `slipway service {} {} restart`", teller.target(), view.name));
    teller.advised(closed_port(title, text), &advice)
}

fn backoff(teller: &Teller, view: &ServiceView, next_try_ms: u64, failures: u32) -> Explanation {
    let name = teller.service(&view.name);
    let how = view.last_exit.as_ref().map_or_else(|| "does not stay up".to_owned(), ended);
    let wait_ms = next_try_ms.saturating_sub(teller.now_ms);
    let next = format!("The next try is in {}, or as soon as a file changes.", words::duration(wait_ms));
    let text = match &view.last_exit {
        Some(Exit::Oom) => format!("{} {next}", too_large(teller)),
        Some(Exit::SpawnFailed { message }) if !message.is_empty() => format!("{} {next}", sentence(message)),
        _ if failures > 1 => format!("It has failed {} in a row. {next}", words::times(failures)),
        _ => next,
    };
    let explanation = closed_port(format!("{name} {how}"), text);
    let retry_after_s = Some(wait_ms.div_ceil(1_000).clamp(1, RETRY_MAX_S));
    let mut advice = log(teller, &view.name);
    if view.last_exit == Some(Exit::Oom) {
        advice
            .push("Let it use less, or make the sandbox with more: `slipway create --memory 2g`".to_owned());
    } else {
        let restart = format!("`slipway service {} {} restart`", teller.target(), view.name);
        advice.push(format!("Correct what it complains about; to try at once: {restart}"));
    }
    teller.advised(Explanation { retry_after_s, ..explanation }, &advice)
}

fn too_large(teller: &Teller) -> String {
    match teller.inside.memory_limit_bytes {
        Some(bytes) => format!("All of the sandbox may use {}, and it wanted more.", words::megabytes(bytes)),
        None => "The sandbox ran out of memory.".to_owned(),
    }
}

fn stopped(teller: &Teller, view: &ServiceView) -> Explanation {
    let title = format!("{} is stopped", teller.service(&view.name));
    let text = match &view.last_exit {
        Some(Exit::Oom) => too_large(teller),
        Some(exit) => format!("It {}, and is not started again by itself.", ended(exit)),
        None => "It is not started by itself.".to_owned(),
    };
    teller.advised(closed_port(title, text), &start(teller, &view.name))
}

fn without(teller: &Teller, view: &ServiceView, on: &ServiceName) -> Explanation {
    if !teller.known {
        let text = "Something it needs is stopped.";
        return teller.advised(closed_port("The app cannot start", text), &[]);
    }
    let title = format!("{} cannot start without {on}", teller.service(&view.name));
    let needed = teller.inside.services.iter().find(|service| service.name == *on);
    let explanation = closed_port(title, format!("It needs {on}, which is stopped."));
    let explanation = teller.advised(explanation, &start(teller, on));
    finish(teller, needed.unwrap_or(view), explanation)
}

fn start(teller: &Teller, name: &ServiceName) -> Vec<String> {
    vec![format!("Start it: `slipway service {} {name} start`", teller.target())]
}

fn log(teller: &Teller, name: &ServiceName) -> Vec<String> {
    vec![format!("The whole log: `slipway logs {} {name}`", teller.target())]
}

/// What the service printed, and what is wrong beside it.
fn finish(teller: &Teller, view: &ServiceView, mut explanation: Explanation) -> Explanation {
    if !teller.known {
        return explanation;
    }
    if let Some(error) = &teller.inside.manifest_error {
        explanation.advice.push(format!("sandbox.yaml was refused as it is now: {error}"));
    }
    let lines = Lines::of(format!("The last lines of {}", view.name), &view.last_lines);
    Explanation { lines, service: Some(view.clone()), ..explanation }
}
