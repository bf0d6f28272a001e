//! The end of an exec: fetches its exit status, prints what the exit code does not say, and returns the code.

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

/// Prints messages and hints about the end of the exec at `path` and returns the exit code. `interrupted`: by Ctrl-C.
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

/// Fetches the exit status. When the sandbox died during the exec, hostd knows it only a moment later.
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
                return Err(Failure::new(
                    "the sandbox is not running, and the exit status of the command is unknown",
                )
                .hint("start the sandbox with `slipway start`, then run `slipway ps`"));
            }
        }
    }
}
