//! How a command in a sandbox ended: asked for, told, and made an exit code.

use crate::{
    client::{ApiRequest, ApiResponse, Client},
    exit_code,
    failure::{Failure, eprint_line},
    limits,
    output::Output,
    retry::Retry,
};
use protocol::{Exit, Hint, api::ExecAnswer};
use tokio::time::{Instant, sleep};

/// Says what the exit code alone does not tell. `path` is that of the exec; `interrupted`: by Ctrl-C.
pub async fn report_exit(
    client: &Client,
    output: Output,
    path: &str,
    interrupted: bool,
) -> Result<u8, Failure> {
    let (response, ended, hints) = fetch_exit(client, path).await?;
    if output.json {
        output.document(&response.body)?;
    }
    let code = exit_code::code(&ended, interrupted);
    let hints = hints.iter().filter_map(|hint| exit_code::hint(hint, code != 0));
    for line in exit_code::message(&ended).into_iter().chain(hints) {
        eprint_line(&format!("slipway: {line}"));
    }
    Ok(code)
}

/// Asks how it ended. When the sandbox went away under it, that is known only a moment later.
async fn fetch_exit(client: &Client, path: &str) -> Result<(ApiResponse, Exit, Vec<Hint>), Failure> {
    let deadline = Instant::now() + limits::EXIT_KNOWN_WITHIN;
    let mut retry = Retry::new();
    loop {
        let response = match client.send(ApiRequest::get(path)).await {
            Ok(response) => response,
            Err(error) => {
                retry.backoff(error).await?;
                continue;
            }
        };
        let exec: ExecAnswer = response.parse()?;
        match exec.exit {
            Some(exit) => return Ok((response, exit, exec.hints)),
            None if Instant::now() < deadline => sleep(limits::SETTLE_POLL).await,
            None => {
                return Err(Failure::new("the sandbox does not run, and how the command ended is not known")
                    .hint("`slipway start` the sandbox, then `slipway ps` shows it"));
            }
        }
    }
}
