//! How a command in a sandbox ended: asked for, told, and made an exit code.

use crate::{
    client::{Answer, Ask, Client},
    exit,
    failure::{Failure, eprint_line},
    limits,
    output::Output,
    patience::Patience,
};
use protocol::{Exit, Hint, api::ExecAnswer};
use tokio::time::{Instant, sleep};

/// Says what the exit code alone does not tell. `path` is that of the exec; `interrupted`: by Ctrl-C.
pub async fn conclude(client: &Client, output: Output, path: &str, interrupted: bool) -> Result<u8, Failure> {
    let (answer, ended, hints) = ended(client, path).await?;
    if output.json {
        output.document(&answer.body)?;
    }
    let code = exit::code(&ended, interrupted);
    let hints = hints.iter().filter_map(|hint| exit::hint(hint, code != 0));
    for line in exit::message(&ended).into_iter().chain(hints) {
        eprint_line(&format!("slipway: {line}"));
    }
    Ok(code)
}

/// Asks how it ended. When the sandbox went away under it, that is known only a moment later.
async fn ended(client: &Client, path: &str) -> Result<(Answer, Exit, Vec<Hint>), Failure> {
    let deadline = Instant::now() + limits::END_KNOWN_WITHIN;
    let mut patience = Patience::new();
    loop {
        let answer = match client.send(Ask::get(path)).await {
            Ok(answer) => answer,
            Err(error) => {
                patience.wait(error).await?;
                continue;
            }
        };
        let exec: ExecAnswer = answer.parse()?;
        match exec.exit {
            Some(exit) => return Ok((answer, exit, exec.hints)),
            None if Instant::now() < deadline => sleep(limits::SETTLE_POLL).await,
            None => {
                return Err(Failure::refused(
                    "the sandbox does not run, and how the command ended is not known",
                )
                .or("`slipway start` the sandbox, then `slipway ps` shows it"));
            }
        }
    }
}
