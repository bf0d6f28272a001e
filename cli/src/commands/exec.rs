//! `slipway exec`: runs a command in a sandbox.

use crate::{
    client::ApiRequest,
    context::Context,
    exec_session::ExecSession,
    failure::Failure,
    printer::RawFlag,
    retry::Retry,
    terminal, value_parser,
    viewer::{StartAt, Viewer},
};
use clap::Args;
use protocol::{
    ExecId,
    api::{ExecAnswer, ExecCreate, SandboxId, TtyChoice},
};
use std::{
    io::{IsTerminal as _, stdin},
    sync::Arc,
};

const AFTER_HELP: &str = "\
Standard input is sent when it is a pipe or a file, as in `echo hi | slipway exec ID -- cat`; from a terminal only
with -i. Ctrl-C interrupts the command, a second one cancels it with everything it started, a third one detaches.
With -t keys are sent unchanged; after a new line `~.` detaches and leaves the command running, see `slipway sh`.
On a terminal, without -t, output keeps its colours but other control sequences (titles, cursor, screen, clipboard)
are removed; --raw keeps them. Files and pipes get every byte unchanged.
Command and output continue when hostd restarts, without gaps or duplicates.

Exit codes: that of the command; 128+N when it was killed by signal N; 124 timed out; 125 slipway or hostd failed;
126 the program cannot be run; 127 the program was not found; 137 with a message when the sandbox ran out of memory.

With --json every chunk of output is a line, and the last line is the exec.

Examples:
  slipway exec web -- npm test
  slipway exec -t web -- bash
  tar c src | slipway exec web -- tar x";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ExecArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Send standard input from a terminal too
    #[arg(long, short)]
    interactive: bool,
    /// Run the command on a terminal; implies -i
    #[arg(long, short, conflicts_with = "detach")]
    tty: bool,
    #[command(flatten)]
    raw: RawFlag,
    /// Do not send standard input, for example in loops that read a list
    #[arg(long, short = 'n', conflicts_with_all = ["interactive", "tty"])]
    no_stdin: bool,
    /// Print the id of the exec and leave it running; `slipway attach` shows its output
    #[arg(long, short, conflicts_with = "interactive")]
    detach: bool,
    /// Working directory; relative to the app directory, which is the default
    #[arg(long, short = 'w', value_name = "DIRECTORY")]
    cwd: Option<String>,
    /// Environment variable; NAME alone takes the value from your environment
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = value_parser::env)]
    env: Vec<(String, String)>,
    /// Kill the command, and everything it started, after this time, as in 90s or 15m
    #[arg(long, value_name = "TIME", value_parser = value_parser::seconds)]
    timeout: Option<f64>,
    /// Id of the exec; an id that was used before attaches to that exec and runs nothing
    #[arg(long, value_name = "EXEC")]
    id: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub async fn run(context: &Context, args: ExecArgs) -> Result<u8, Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let wrong = |chosen: &str, error| Failure::Usage(format!("--id {chosen:?}: {error}"));
    let id = match &args.id {
        Some(chosen) => ExecId::parse(chosen).map_err(|error| wrong(chosen, error))?,
        None => new_id(),
    };
    let send_stdin = args.sends_stdin(stdin().is_terminal());
    let (detach, on_terminal, raw, sandbox_name) = (args.detach, args.tty, args.raw, args.sandbox.clone());
    let response = start(context, sandbox, &args.create(id.clone(), send_stdin)).await?;
    if detach {
        context.show_response(&response, |exec: ExecAnswer| Ok(format!("{}\n", exec.id)))?;
        return Ok(0);
    }
    let (client, output) = (Arc::clone(&context.client), context.output);
    let sandbox_path = format!("/v1/sandboxes/{sandbox}");
    if on_terminal && !output.json {
        let (exec, start_at) = (id.to_string(), StartAt::Beginning);
        let viewer = Viewer { client, output, sandbox_path, exec, sandbox_name, start_at, types: send_stdin };
        return viewer.run().await;
    }
    ExecSession { client, output, path: format!("{sandbox_path}/execs/{id}"), send_stdin, raw }.run().await
}

pub fn new_id() -> ExecId {
    let text = ulid::Ulid::generate().to_string().to_ascii_lowercase();
    ExecId::parse(&text).expect("letters and digits are a good id")
}

impl ExecArgs {
    fn sends_stdin(&self, from_terminal: bool) -> bool {
        !self.no_stdin && !self.detach && (self.interactive || self.tty || !from_terminal)
    }

    fn create(self, id: ExecId, stdin_open: bool) -> ExecCreate {
        let inherited = if self.tty { terminal::environment() } else { Vec::new() };
        ExecCreate {
            id: Some(id),
            argv: Some(self.command),
            shell: None,
            cwd: self.cwd,
            env: inherited.into_iter().chain(self.env).collect(),
            stdin: None,
            stdin_open,
            timeout_s: self.timeout,
            tty: self.tty.then(|| TtyChoice::Size(terminal::size())),
            wait: Some(false),
        }
    }
}

/// Starts the exec, with retries; its id makes sure that it runs once.
pub async fn start(
    context: &Context,
    sandbox: SandboxId,
    create: &ExecCreate,
) -> Result<crate::client::ApiResponse, Failure> {
    let request = ApiRequest::post(format!("/v1/sandboxes/{sandbox}/execs"))
        .json(create)
        .timeout(crate::limits::SETTLE_TIMEOUT);
    let mut retry = Retry::new();
    let mut sent_before = false;
    loop {
        match context.client.send(request.clone()).await {
            Ok(response) => return Ok(response),
            // Before the first response an unreachable hostd is not "restarting".
            Err(error @ crate::client::ClientError::NotServing { .. }) if !sent_before => {
                return Err(error.into());
            }
            Err(error) if error.api().is_some() && !sent_before => return Err(error.into()),
            Err(error) => {
                sent_before = true;
                retry.backoff(error).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        exec: ExecArgs,
    }

    #[test]
    fn input_is_passed_on_from_pipes_and_when_asked_for() {
        // Flags, then whether input is sent from a terminal and from a pipe.
        let table = [
            (vec![], (false, true)),
            (vec!["-i"], (true, true)),
            (vec!["-t"], (true, true)),
            (vec!["-n"], (false, false)),
            (vec!["-d"], (false, false)),
        ];
        for (flags, expected) in table {
            let line = TestArgs::parse_from([vec!["exec"], flags.clone(), vec!["web", "--", "cat"]].concat());
            assert_eq!((line.exec.sends_stdin(true), line.exec.sends_stdin(false)), expected, "{flags:?}");
        }
    }

    #[test]
    fn flags_of_the_command_are_its_own() {
        let line = TestArgs::parse_from(["exec", "web", "ls", "-la", "--json"]);
        assert_eq!(line.exec.command, ["ls", "-la", "--json"]);
    }
}
