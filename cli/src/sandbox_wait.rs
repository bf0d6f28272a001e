//! Waiting for a sandbox to arrive where it goes, with its phase on the screen.

use crate::{
    client::{ApiRequest, ApiResponse},
    context::Context,
    failure::{Failure, eprint_line, problem_lines},
    limits,
    progress::Progress,
    retry::Retry,
    text::{plain, wire_name},
};
use protocol::api::{SandboxId, SandboxStatus, SandboxView};
use tokio::time::{Instant, sleep, sleep_until};

/// Sends a request about a sandbox that answers when it has settled, and shows the phase meanwhile.
pub async fn send_and_wait(
    context: &Context,
    id: SandboxId,
    request: ApiRequest,
    progress: &Progress,
) -> Result<ApiResponse, Failure> {
    let response = context.client.send(request.timeout(limits::SETTLE_TIMEOUT));
    let mut response = std::pin::pin!(response);
    let mut poll_at = Instant::now() + limits::SPINNER_AFTER;
    loop {
        tokio::select! {
            // Pinned: it goes on where it was.
            response = &mut response => return until_settled(context, response?, progress).await,
            // Only a time.
            () = sleep_until(poll_at) => {
                // A look that fails costs a word on the screen; the request itself tells what is wrong.
                if let Ok(seen) = context.client.send(ApiRequest::get(format!("/v1/sandboxes/{id}"))).await
                    && let Ok(view) = seen.parse::<SandboxView>()
                {
                    show(progress, &view);
                }
                poll_at = Instant::now() + limits::SPINNER_AFTER;
            }
        }
    }
}

/// Looks again until nothing is being done to the sandbox any more. The first answer is given as it is
/// when it is settled already.
pub async fn until_settled(
    context: &Context,
    first: ApiResponse,
    progress: &Progress,
) -> Result<ApiResponse, Failure> {
    let mut deadline = Instant::now() + limits::SETTLE_TIMEOUT;
    let mut told = None;
    let mut response = first;
    loop {
        let Ok(view) = response.parse::<SandboxView>() else { return Ok(response) };
        if view.phase.is_none() && view.status != SandboxStatus::Creating {
            return Ok(response);
        }
        if Instant::now() > deadline {
            let message = format!(
                "{} is still {} after {} s",
                view.id,
                phase_text(&view),
                limits::SETTLE_TIMEOUT.as_secs()
            );
            return Err(Failure::new(message).hint(format!("`slipway get {}` shows how it goes on", view.id)));
        }
        show(progress, &view);
        if view.progress.is_some() && view.progress != told {
            // It gets on: hostd has its own bound for that.
            told.clone_from(&view.progress);
            deadline = Instant::now() + limits::SETTLE_TIMEOUT;
        }
        sleep(limits::SETTLE_POLL).await;
        let mut retry = Retry::new();
        response = loop {
            match context.client.send(ApiRequest::get(format!("/v1/sandboxes/{}", view.id))).await {
                Ok(response) => break response,
                Err(error) => retry.backoff(error).await?,
            }
        };
    }
}

/// Fails when the sandbox went to `error`, and says why.
pub fn fail_if_error(view: &SandboxView) -> Result<(), Failure> {
    if view.status != SandboxStatus::Error {
        return Ok(());
    }
    eprint_line(&format!("slipway: {} is in error", view.id));
    for line in view.problem.iter().flat_map(problem_lines) {
        eprint_line(&line);
    }
    eprint_line(&format!(
        "  next: `slipway attempts {0}` shows what was tried; `slipway start {0}` tries again",
        view.id
    ));
    Err(Failure::Reported)
}

fn show(progress: &Progress, view: &SandboxView) {
    match &view.progress {
        Some(text) => progress.report(&plain(text)),
        None => progress.set_text(phase_text(view)),
    }
}

fn phase_text(view: &SandboxView) -> String {
    view.phase.map_or_else(|| wire_name(&view.status), |phase| wire_name(&phase))
}
