//! Error pages for an app that listens and does not respond as it should. The page does not wait: a reload
//! would only send the same request again.

use super::{ErrorPage, LogExcerpt, context::PageContext, phrases};
use protocol::api::ApiErrorCode;

pub fn no_answer(context: &PageContext, after_ms: u64) -> ErrorPage {
    let text = format!(
        "{} accepted the request and was silent for {}.",
        responder(context),
        phrases::duration(after_ms)
    );
    let title = format!("The app on port {} does not answer", context.named_port());
    let explanation = ErrorPage::new(ApiErrorCode::TimedOut, title, text);
    finish(context, explanation, "It may be busy, or stuck: try again, and see what it prints.")
}

pub fn closed(context: &PageContext) -> ErrorPage {
    let text =
        format!("{} accepted the request and closed the connection without a response.", responder(context));
    let title = format!("The app on port {} hung up", context.named_port());
    let explanation = ErrorPage::new(ApiErrorCode::PortClosed, title, text);
    finish(context, explanation, "It may have crashed on this request: see what it printed.")
}

pub fn garbled(context: &PageContext) -> ErrorPage {
    let text = format!(
        "{} answered with something that is not HTTP, which a browser cannot show.",
        responder(context)
    );
    let title = format!("Port {} does not speak HTTP", context.named_port());
    let explanation = ErrorPage::new(ApiErrorCode::PortClosed, title, text);
    finish(
        context,
        explanation,
        "If it serves TLS, let it serve plain HTTP: the preview is where TLS belongs.",
    )
}

fn responder(context: &PageContext) -> String {
    let process = context.listeners().find_map(|listening| listening.process.as_ref());
    match process {
        Some(process) => format!("`{}`", phrases::program(Some(process))),
        None => "It".to_owned(),
    }
}

fn finish(context: &PageContext, explanation: ErrorPage, first: &str) -> ErrorPage {
    let target = context.target();
    let mut advice = vec![first.to_owned()];
    let service = context.responsible();
    match service {
        Some(service) => {
            let name = &service.name;
            advice.push(format!(
                "Its log: `slipway logs {target} {name}`; start it anew: `slipway service {target} {name} restart`"
            ));
        }
        None => advice.push(format!("See what runs: `slipway ps {target}`")),
    }
    let lines = service.and_then(|service| {
        LogExcerpt::of(format!("The last lines of {}", service.name), &service.last_lines)
    });
    let service = service.filter(|_| context.trusted).cloned();
    let listening = context.status.ports.clone();
    context.advised(ErrorPage { lines, service, listening, ..explanation }, &advice)
}
