//! The sandbox runs, and nothing listens on the port.

use super::{
    Explanation,
    service::{self, Health},
    teller::{Teller, can_be_reached},
    words,
};
use protocol::{ListeningPort, api::ApiErrorCode};

/// When a program may ask again, where nobody knows when somebody will listen.
const CLOSED_RETRY_S: u64 = 5;

pub fn closed(teller: &Teller) -> Explanation {
    let explanation = match teller.listeners().next() {
        Some(_) if teller.listeners().any(can_be_reached) => just_now(teller),
        Some(listening) => out_of_reach(teller, listening),
        None => nobody(teller),
    };
    let listening = teller.inside.ports.clone();
    Explanation { links: teller.links(), listening, ..explanation }
}

fn nobody(teller: &Teller) -> Explanation {
    match teller.responsible() {
        Some(view) if service::outlook(teller, view) != Health::Well => service::unwell(teller, view),
        _ if teller.inside.manifest_error.is_some() => manifest(teller),
        Some(view) if view.port == Some(teller.port()) => service::deaf(teller, view),
        _ if !teller.links().is_empty() => elsewhere(teller),
        Some(view) => service::deaf(teller, view),
        None => nothing(teller),
    }
}

/// It began between the refusal and the look.
fn just_now(teller: &Teller) -> Explanation {
    let title = format!("Port {} has just opened", teller.named_port());
    Explanation::new(ApiErrorCode::Waking, title, "The page opens in a moment.").hopeful(1)
}

fn out_of_reach(teller: &Teller, listening: &ListeningPort) -> Explanation {
    let port = teller.port();
    let title = format!("Port {} listens where previews cannot reach it", teller.named_port());
    let program = words::program(listening.process.as_ref());
    let text = match teller.known {
        true => format!("In the sandbox, {program} listens on {} only.", listening.address),
        false => "The app listens on another address than localhost only.".to_owned(),
    };
    let advice = [format!("Let it listen on localhost, 127.0.0.1 or 0.0.0.0, port {port}.")];
    teller.advised(closed_port(title, text), &advice)
}

fn manifest(teller: &Teller) -> Explanation {
    let error = teller.inside.manifest_error.as_deref().unwrap_or_default();
    let reason = if error.is_empty() { String::new() } else { format!(": {error}") };
    let text = format!("Its sandbox.yaml was refused, so its services are not started{reason}.");
    let advice = ["Correct sandbox.yaml; it is read again as soon as it is saved.".to_owned()];
    teller.advised(closed_port(title(teller), text), &advice)
}

fn elsewhere(teller: &Teller) -> Explanation {
    let ports = &teller.inside.ports;
    let (port, target) = (teller.port(), teller.target());
    let text = match teller.links().as_slice() {
        [one] => {
            let there = ports.iter().find(|listening| listening.port == one.preview.port);
            let program = words::program(there.and_then(|listening| listening.process.as_ref()));
            format!("But {program} listens on port {}.", one.preview.port)
        }
        _ => "But something listens on other ports.".to_owned(),
    };
    let advice =
        [format!("Open that instead, or let the app listen on {port}; see `slipway ports {target}`")];
    teller.advised(closed_port(title(teller), text), &advice)
}

fn nothing(teller: &Teller) -> Explanation {
    let (port, target) = (teller.port(), teller.target());
    let killed = match teller.inside.memory_limit_bytes {
        Some(bytes) if teller.inside.oom_kills > 0 => {
            format!(
                " The kernel has killed something in it for memory: it may use {}.",
                words::megabytes(bytes)
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
    teller.advised(closed_port(title(teller), text), &advice)
}

fn title(teller: &Teller) -> String {
    format!("Nothing listens on port {}", teller.named_port())
}

pub fn closed_port(title: impl Into<String>, text: impl Into<String>) -> Explanation {
    Explanation::new(ApiErrorCode::PortClosed, title, text).hopeful(CLOSED_RETRY_S)
}
