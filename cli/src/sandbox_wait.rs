//! Waits until a sandbox has settled (no operation in progress) and shows its phase.

use crate::{
    client::{ApiRequest, ApiResponse},
    context::Context,
    failure::{Failure, eprint_line, problem_lines},
    limits,
    progress::Progress,
    retry::Retry,
    text::{plain, wire_name},
};
use protocol::api::{SandboxId, SandboxSpec, SandboxStatus, SandboxView};
use tokio::time::{Instant, sleep, sleep_until};

/// Sends a request whose response comes when the sandbox has settled, and shows the phase meanwhile.
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
            // Safe to cancel: the future is pinned and continues.
            response = &mut response => return until_settled(context, response?, progress).await,
            // Safe to cancel: a timer.
            () = sleep_until(poll_at) => {
                // An error is ignored: the pending request reports what is wrong.
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

/// How long the request that creates a sandbox waits for it. The steps of a setup are shown while they run.
pub fn create_wait(spec: &SandboxSpec) -> String {
    match spec.setup.is_some() || spec.dotfiles.is_some() || spec.source.is_some() {
        true => "0".to_owned(),
        false => format!("{}s", limits::CREATE_WAIT_S),
    }
}

/// Polls until no operation is in progress. Returns the first response unchanged when the sandbox has settled already.
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
            return Err(Failure::new(message).hint(format!("check it with `slipway get {}`", view.id)));
        }
        show(progress, &view);
        // Each step of a setup has a time limit of its own.
        if is_setting_up(&view) || view.progress.is_some() && view.progress != told {
            // Progress extends the deadline; hostd bounds the whole operation.
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

/// Fails, and prints why, when the sandbox is in `error`.
pub fn fail_if_error(view: &SandboxView) -> Result<(), Failure> {
    if view.status != SandboxStatus::Error {
        return Ok(());
    }
    eprint_line(&format!("slipway: {} is in error", view.id));
    for line in view.problem.iter().flat_map(problem_lines) {
        eprint_line(&line);
    }
    eprint_line(&format!(
        "  next: `slipway attempts {0}` shows why; `slipway start {0}` tries again",
        view.id
    ));
    Err(Failure::Reported)
}

fn show(progress: &Progress, view: &SandboxView) {
    match &view.progress {
        Some(text) if is_setting_up(view) => progress.step(&plain(text)),
        Some(text) => progress.report(&plain(text)),
        None => progress.set_text(phase_text(view)),
    }
}

/// Whether steps of the setup run.
fn is_setting_up(view: &SandboxView) -> bool {
    let left = view.setup.as_ref().is_some_and(|setup| (setup.done as usize) < setup.steps.len());
    left && view.progress.as_ref().is_some_and(|text| text.starts_with("setup "))
}

fn phase_text(view: &SandboxView) -> String {
    view.phase.map_or_else(|| wire_name(&view.status), |phase| wire_name(&phase))
}
