//! Waiting for a sandbox to arrive where it goes, with its phase on the screen.

use crate::{
    client::{Answer, Ask},
    context::Context,
    failure::{Failure, eprint_line, problem_lines},
    limits,
    patience::Patience,
    progress::Progress,
    text::{plain, word},
};
use protocol::api::{SandboxId, SandboxStatus, SandboxView};
use tokio::time::{Instant, sleep, sleep_until};

/// Sends a request about a sandbox that answers when it has settled, and shows the phase meanwhile.
pub async fn ask(context: &Context, id: SandboxId, ask: Ask, progress: &Progress) -> Result<Answer, Failure> {
    let answer = context.client.send(ask.timeout(limits::SETTLE_TIMEOUT));
    let mut answer = std::pin::pin!(answer);
    let mut look_at = Instant::now() + limits::SPINNER_AFTER;
    loop {
        tokio::select! {
            // Pinned: it goes on where it was.
            answer = &mut answer => return settled(context, answer?, progress).await,
            // Only a time.
            () = sleep_until(look_at) => {
                // A look that fails costs a word on the screen; the request itself tells what is wrong.
                if let Ok(seen) = context.client.send(Ask::get(format!("/v1/sandboxes/{id}"))).await
                    && let Ok(view) = seen.parse::<SandboxView>()
                {
                    show(progress, &view);
                }
                look_at = Instant::now() + limits::SPINNER_AFTER;
            }
        }
    }
}

/// Looks again until nothing is being done to the sandbox any more. The first answer is given as it is
/// when it is settled already.
pub async fn settled(context: &Context, first: Answer, progress: &Progress) -> Result<Answer, Failure> {
    let mut deadline = Instant::now() + limits::SETTLE_TIMEOUT;
    let mut told = None;
    let mut answer = first;
    loop {
        let Ok(view) = answer.parse::<SandboxView>() else { return Ok(answer) };
        if view.phase.is_none() && view.status != SandboxStatus::Creating {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            let message = format!(
                "{} is still {} after {} s",
                view.id,
                phase_text(&view),
                limits::SETTLE_TIMEOUT.as_secs()
            );
            return Err(
                Failure::refused(message).or(format!("`slipway get {}` shows how it goes on", view.id))
            );
        }
        show(progress, &view);
        if view.progress.is_some() && view.progress != told {
            // It gets on: hostd has its own bound for that.
            told.clone_from(&view.progress);
            deadline = Instant::now() + limits::SETTLE_TIMEOUT;
        }
        sleep(limits::SETTLE_POLL).await;
        let mut patience = Patience::new();
        answer = loop {
            match context.client.send(Ask::get(format!("/v1/sandboxes/{}", view.id))).await {
                Ok(answer) => break answer,
                Err(error) => patience.wait(error).await?,
            }
        };
    }
}

/// Fails when the sandbox went to `error`, and says why.
pub fn must_be_well(view: &SandboxView) -> Result<(), Failure> {
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
    Err(Failure::Told)
}

fn show(progress: &Progress, view: &SandboxView) {
    match &view.progress {
        Some(text) => progress.tell(&plain(text)),
        None => progress.say(phase_text(view)),
    }
}

fn phase_text(view: &SandboxView) -> String {
    view.phase.map_or_else(|| word(&view.status), |phase| word(&phase))
}
