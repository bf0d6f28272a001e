//! Error pages for a sandbox that runs while nothing listens on the port.

use super::{
    ErrorPage,
    context::{PageContext, is_reachable_from_preview},
    phrases,
    service::{self, Health},
};
use protocol::{ListeningPort, api::ApiErrorCode};

/// When a program may retry, where it is not known when the port will open.
const CLOSED_RETRY_S: u64 = 5;

pub fn closed(context: &PageContext) -> ErrorPage {
    let explanation = match context.listeners().next() {
        Some(_) if context.listeners().any(is_reachable_from_preview) => just_now(context),
        Some(listening) => out_of_reach(context, listening),
        None => nothing_listens(context),
    };
    let listening = context.status.ports.clone();
    ErrorPage { links: context.links(), listening, ..explanation }
}

fn nothing_listens(context: &PageContext) -> ErrorPage {
    match context.responsible() {
        Some(view) if service::outlook(context, view) != Health::Well => service::unwell(context, view),
        _ if context.status.manifest_error.is_some() => manifest(context),
        Some(view) if view.port == Some(context.port()) => service::deaf(context, view),
        _ if !context.links().is_empty() => elsewhere(context),
        Some(view) => service::deaf(context, view),
        None => nothing(context),
    }
}

/// The port was opened between the failed dial and the status.
fn just_now(context: &PageContext) -> ErrorPage {
    let title = format!("Port {} has just opened", context.named_port());
    ErrorPage::new(ApiErrorCode::Waking, title, "The page opens in a moment.").page_waits(1)
}

fn out_of_reach(context: &PageContext, listening: &ListeningPort) -> ErrorPage {
    let port = context.port();
    let title = format!("Port {} listens where previews cannot reach it", context.named_port());
    let program = phrases::program(listening.process.as_ref());
    let text = match context.trusted {
        true => format!("In the sandbox, {program} listens on {} only.", listening.address),
        false => "The app listens on another address than localhost only.".to_owned(),
    };
    let advice = [format!("Let it listen on localhost, 127.0.0.1 or 0.0.0.0, port {port}.")];
    context.advised(closed_port(title, text), &advice)
}

fn manifest(context: &PageContext) -> ErrorPage {
    let error = context.status.manifest_error.as_deref().unwrap_or_default();
    let reason = if error.is_empty() { String::new() } else { format!(": {error}") };
    let text = format!("Its sandbox.yaml was refused, so its services are not started{reason}.");
    let advice = ["Correct sandbox.yaml; it is read again as soon as it is saved.".to_owned()];
    context.advised(closed_port(title(context), text), &advice)
}

fn elsewhere(context: &PageContext) -> ErrorPage {
    let ports = &context.status.ports;
    let (port, target) = (context.port(), context.target());
    let text = match context.links().as_slice() {
        [one] => {
            let there = ports.iter().find(|listening| listening.port == one.preview.port);
            let program = phrases::program(there.and_then(|listening| listening.process.as_ref()));
            format!("But {program} listens on port {}.", one.preview.port)
        }
        _ => "But something listens on other ports.".to_owned(),
    };
    let advice =
        [format!("Open that instead, or let the app listen on {port}; see `slipway ports {target}`")];
    context.advised(closed_port(title(context), text), &advice)
}

fn nothing(context: &PageContext) -> ErrorPage {
    let (port, target) = (context.port(), context.target());
    let killed = match context.status.memory_limit_bytes {
        Some(bytes) if context.status.oom_kills > 0 => {
            format!(
                " The kernel has killed something in it for memory: it may use {}.",
                phrases::megabytes(bytes)
            )
        }
        _ => String::new(),
    };
    let text = format!("The sandbox is up, but no app is running in it.{killed}");
    let advice = [
        format!("To have it kept running, put a service with `port: {port}` into its sandbox.yaml."),
        format!("To try something now: `slipway exec {target} -- python3 -m http.server {port}`"),
        format!("See what runs: `slipway services {target}`"),
    ];
    context.advised(closed_port(title(context), text), &advice)
}

fn title(context: &PageContext) -> String {
    format!("Nothing listens on port {}", context.named_port())
}

pub fn closed_port(title: impl Into<String>, text: impl Into<String>) -> ErrorPage {
    ErrorPage::new(ApiErrorCode::PortClosed, title, text).page_waits(CLOSED_RETRY_S)
}
