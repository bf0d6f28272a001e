//! Something listens and does not answer as it should. The page does not wait: a reload would only ask the
//! same again, and again.

use super::{Explanation, Lines, teller::Teller, words};
use protocol::api::ApiErrorCode;

pub fn no_answer(teller: &Teller, after_ms: u64) -> Explanation {
    let text =
        format!("{} accepted the request and was silent for {}.", who(teller), words::duration(after_ms));
    let title = format!("The app on port {} does not answer", teller.named_port());
    let explanation = Explanation::new(ApiErrorCode::TimedOut, title, text);
    finish(teller, explanation, "It may be busy, or stuck: try again, and see what it prints.")
}

pub fn closed(teller: &Teller) -> Explanation {
    let text = format!("{} accepted the request and closed the connection without a word.", who(teller));
    let title = format!("The app on port {} hung up", teller.named_port());
    let explanation = Explanation::new(ApiErrorCode::PortClosed, title, text);
    finish(teller, explanation, "It may have crashed on this request: see what it printed.")
}

pub fn garbled(teller: &Teller) -> Explanation {
    let text =
        format!("{} answered with something that is not HTTP, which a browser cannot show.", who(teller));
    let title = format!("Port {} does not speak HTTP", teller.named_port());
    let explanation = Explanation::new(ApiErrorCode::PortClosed, title, text);
    finish(
        teller,
        explanation,
        "If it serves TLS, let it serve plain HTTP: the preview is where TLS belongs.",
    )
}

fn who(teller: &Teller) -> String {
    let process = teller.listeners().find_map(|listening| listening.process.as_ref());
    match process {
        Some(process) => format!("`{}`", words::program(Some(process))),
        None => "It".to_owned(),
    }
}

fn finish(teller: &Teller, explanation: Explanation, first: &str) -> Explanation {
    let target = teller.target();
    let mut advice = vec![first.to_owned()];
    let service = teller.responsible();
    match service {
        Some(service) => {
            let name = &service.name;
            advice.push(format!(
                "Its log: `slipway logs {target} {name}`; start it anew: `slipway service {target} {name} restart`"
            ));
        }
        None => advice.push(format!("See what runs: `slipway ps {target}`")),
    }
    let lines = service
        .and_then(|service| Lines::of(format!("The last lines of {}", service.name), &service.last_lines));
    let service = service.filter(|_| teller.known).cloned();
    let listening = teller.inside.ports.clone();
    teller.advised(Explanation { lines, service, listening, ..explanation }, &advice)
}
