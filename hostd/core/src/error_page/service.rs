//! Error pages for a service that should listen on the port and is not healthy.

use super::{
    ErrorPage, LogExcerpt,
    context::PageContext,
    phrases::{self, ended},
    port::closed_port,
    sandbox::sentence,
    sanitized_status::text_line,
};
use protocol::{Exit, ServiceName, ServiceState, ServiceView, api::ApiErrorCode};

const STARTING_RETRY_S: u64 = 1;
const RETRY_MAX_S: u64 = 60;
/// A service without a check is ready as soon as it runs; it may take this long until it listens.
const LISTENS_WITHIN_MS: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Well,
    /// The service is starting.
    Coming,
    /// The service will not come up without a change, or not soon.
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

/// The health of the service of a port where nothing listens: one that waits for a service that is down
/// counts as down, and one that has just become ready may be about to listen.
pub fn outlook(context: &PageContext, view: &ServiceView) -> Health {
    match &view.state {
        ServiceState::Waiting { on } if failing(context, on).is_some() => Health::Down,
        ServiceState::Ready { since_ms } if listens_soon(context, view, *since_ms) => Health::Coming,
        ServiceState::Waiting { .. }
        | ServiceState::Ready { .. }
        | ServiceState::Starting
        | ServiceState::Unhealthy { .. }
        | ServiceState::Backoff { .. }
        | ServiceState::Stopping
        | ServiceState::Stopped
        | ServiceState::FailedDependency { .. } => health(view),
    }
}

fn listens_soon(context: &PageContext, view: &ServiceView, since_ms: u64) -> bool {
    let elsewhere = view.port != Some(context.port()) && !context.links().is_empty();
    !elsewhere && context.now_ms.saturating_sub(since_ms) < LISTENS_WITHIN_MS
}

fn failing<'a>(context: &'a PageContext, on: &[ServiceName]) -> Option<&'a ServiceView> {
    let mut needed = context.status.services.iter().filter(|service| on.contains(&service.name));
    needed.find(|service| health(service) == Health::Down)
}

pub fn unwell(context: &PageContext, view: &ServiceView) -> ErrorPage {
    let explanation = match &view.state {
        ServiceState::Starting | ServiceState::Ready { .. } => starting(context, view),
        ServiceState::Waiting { on } => return waiting(context, view, on),
        ServiceState::Unhealthy { reason, .. } => unhealthy(context, view, reason),
        ServiceState::Backoff { next_try_ms, failures } => backoff(context, view, *next_try_ms, *failures),
        ServiceState::Stopping => {
            let title = format!("{} is being stopped", context.service(&view.name));
            context.advised(closed_port(title, "A stop was requested."), &start(context, &view.name))
        }
        ServiceState::Stopped => stopped(context, view),
        ServiceState::FailedDependency { on } => return without(context, view, on),
    };
    finish(context, view, explanation)
}

/// The service counts as ready, and does not listen.
pub fn deaf(context: &PageContext, view: &ServiceView) -> ErrorPage {
    let port = context.port();
    let title = format!("Nothing listens on port {}", context.named_port());
    let text = format!("{} runs, but listens elsewhere or not at all.", context.service(&view.name));
    let advice = [
        format!("See where it listens: `slipway ports {}`", context.target()),
        format!("Let it listen on port {port} of localhost."),
    ];
    finish(context, view, context.advised(closed_port(title, text), &advice))
}

fn starting(context: &PageContext, view: &ServiceView) -> ErrorPage {
    let title = format!("{} is starting", context.service(&view.name));
    let text =
        format!("It does not listen on port {} yet. The page opens as soon as it does.", context.port());
    let explanation = ErrorPage::new(ApiErrorCode::Waking, title, text).page_waits(STARTING_RETRY_S);
    context.advised(explanation, &log(context, &view.name))
}

/// The service that is waited for gives the reason.
fn waiting(context: &PageContext, view: &ServiceView, on: &[ServiceName]) -> ErrorPage {
    if let Some(needed) = failing(context, on) {
        let reason = unwell(context, needed);
        let (on, text) = match context.trusted {
            true => (needed.name.as_str(), format!("{}. {}", reason.title, reason.text)),
            false => ("what it needs", "That has failed.".to_owned()),
        };
        return ErrorPage {
            title: format!("{} is waiting for {on}", context.service(&view.name)),
            text,
            ..reason
        };
    }
    let on = if context.trusted { phrases::names(on) } else { "what it needs".to_owned() };
    let title = format!("{} is waiting for {on}", context.service(&view.name));
    let text = "It starts as soon as that is ready, and the page opens with it.";
    let explanation = ErrorPage::new(ApiErrorCode::Waking, title, text).page_waits(STARTING_RETRY_S);
    finish(
        context,
        view,
        context.advised(explanation, &[format!("Look at them: `slipway services {}`", context.target())]),
    )
}

fn unhealthy(context: &PageContext, view: &ServiceView, reason: &str) -> ErrorPage {
    let title = format!("{} runs, but is not healthy", context.service(&view.name));
    let text = if reason.is_empty() { "Its check fails.".to_owned() } else { sentence(&text_line(reason)) };
    let mut advice = log(context, &view.name);
    advice.push(format!("Start it anew: `slipway service {} {} restart`", context.target(), view.name));
    context.advised(closed_port(title, text), &advice)
}

fn backoff(context: &PageContext, view: &ServiceView, next_try_ms: u64, failures: u32) -> ErrorPage {
    let name = context.service(&view.name);
    let how = view.last_exit.as_ref().map_or_else(|| "does not stay up".to_owned(), ended);
    let wait_ms = next_try_ms.saturating_sub(context.now_ms);
    let next = format!("The next try is in {}, or as soon as a file changes.", phrases::duration(wait_ms));
    let text = match &view.last_exit {
        Some(Exit::Oom) => format!("{} {next}", too_large(context)),
        Some(Exit::SpawnFailed { message }) if !message.is_empty() => format!("{} {next}", sentence(message)),
        _ if failures > 1 => format!("It has failed {} in a row. {next}", phrases::times(failures)),
        _ => next,
    };
    let explanation = closed_port(format!("{name} {how}"), text);
    let retry_after_s = Some(wait_ms.div_ceil(1_000).clamp(1, RETRY_MAX_S));
    let mut advice = log(context, &view.name);
    if view.last_exit == Some(Exit::Oom) {
        advice
            .push("Let it use less, or make the sandbox with more: `slipway create --memory 2g`".to_owned());
    } else {
        let restart = format!("`slipway service {} {} restart`", context.target(), view.name);
        advice.push(format!("Correct what it complains about; to try at once: {restart}"));
    }
    context.advised(ErrorPage { retry_after_s, ..explanation }, &advice)
}

fn too_large(context: &PageContext) -> String {
    match context.status.memory_limit_bytes {
        Some(bytes) => {
            format!("All of the sandbox may use {}, and it wanted more.", phrases::megabytes(bytes))
        }
        None => "The sandbox ran out of memory.".to_owned(),
    }
}

fn stopped(context: &PageContext, view: &ServiceView) -> ErrorPage {
    let title = format!("{} is stopped", context.service(&view.name));
    let text = match &view.last_exit {
        Some(Exit::Oom) => too_large(context),
        Some(exit) => format!("It {}, and is not started again by itself.", ended(exit)),
        None => "It is not started by itself.".to_owned(),
    };
    context.advised(closed_port(title, text), &start(context, &view.name))
}

fn without(context: &PageContext, view: &ServiceView, on: &ServiceName) -> ErrorPage {
    if !context.trusted {
        let text = "Something it needs is stopped.";
        return context.advised(closed_port("The app cannot start", text), &[]);
    }
    let title = format!("{} cannot start without {on}", context.service(&view.name));
    let needed = context.status.services.iter().find(|service| service.name == *on);
    let explanation = closed_port(title, format!("It needs {on}, which is stopped."));
    let explanation = context.advised(explanation, &start(context, on));
    finish(context, needed.unwrap_or(view), explanation)
}

fn start(context: &PageContext, name: &ServiceName) -> Vec<String> {
    vec![format!("Start it: `slipway service {} {name} start`", context.target())]
}

fn log(context: &PageContext, name: &ServiceName) -> Vec<String> {
    vec![format!("The whole log: `slipway logs {} {name}`", context.target())]
}

/// Adds the last lines of the service, and an error of the manifest if there is one.
fn finish(context: &PageContext, view: &ServiceView, mut explanation: ErrorPage) -> ErrorPage {
    if !context.trusted {
        return explanation;
    }
    if let Some(error) = &context.status.manifest_error {
        explanation.advice.push(format!("sandbox.yaml was refused as it is now: {error}"));
    }
    let lines = LogExcerpt::of(format!("The last lines of {}", view.name), &view.last_lines);
    ErrorPage { lines, service: Some(view.clone()), ..explanation }
}
