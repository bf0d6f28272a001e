//! `slipway sh`: a login shell in a sandbox.

use super::exec;
use crate::{
    context::Context,
    exec_session::ExecSession,
    failure::Failure,
    printer::RawFlag,
    terminal, value_parser,
    viewer::{StartAt, Viewer},
};
use clap::Args;
use protocol::{
    ExecId,
    api::{ExecCreate, TtyChoice},
};
use std::{
    io::{IsTerminal as _, stdin},
    sync::Arc,
};

const AFTER_HELP: &str = "\
On a terminal it works like ssh: full-screen programs, Ctrl-C and window sizes are supported. After a new line `~.`
detaches and the shell keeps running, `slipway attach` reattaches; `~?` lists the escape keys. Shell and connection
also continue when hostd restarts.

From a pipe the shell reads its commands without a terminal: `echo 'npm test' | slipway sh web`.

The exit code is that of the shell; for others see `slipway exec --help`.";

/// Starts bash where the image has it, else sh.
const LOGIN_SHELL: &str = "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ShArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Directory to start in; relative to the app directory, which is the default
    #[arg(long, short = 'w', value_name = "DIRECTORY")]
    cwd: Option<String>,
    /// Environment variable; NAME alone takes the value from your environment
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = value_parser::env)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    raw: RawFlag,
    /// Another program than bash or sh, with its arguments
    #[arg(last = true, value_name = "SHELL")]
    shell: Vec<String>,
}

pub async fn run(context: &Context, args: ShArgs) -> Result<u8, Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let id = exec::new_id();
    let on_terminal = stdin().is_terminal() && !context.output.json;
    let (raw, name) = (args.raw, args.sandbox.clone());
    exec::start(context, sandbox, &args.create(id.clone(), on_terminal)).await?;
    let (client, output) = (Arc::clone(&context.client), context.output);
    let sandbox_path = format!("/v1/sandboxes/{sandbox}");
    if on_terminal {
        let (exec, sandbox_name) = (id.to_string(), name);
        let start_at = StartAt::Beginning;
        return Viewer { client, output, sandbox_path, exec, sandbox_name, start_at, types: true }
            .run()
            .await;
    }
    ExecSession { client, output, path: format!("{sandbox_path}/execs/{id}"), send_stdin: true, raw }
        .run()
        .await
}

impl ShArgs {
    fn create(self, id: ExecId, on_terminal: bool) -> ExecCreate {
        let chosen = !self.shell.is_empty();
        let inherited = if on_terminal { terminal::environment() } else { Vec::new() };
        ExecCreate {
            id: Some(id),
            shell: (!chosen).then(|| LOGIN_SHELL.to_owned()),
            argv: chosen.then_some(self.shell),
            cwd: self.cwd,
            env: inherited.into_iter().chain(self.env).collect(),
            stdin_open: true,
            tty: on_terminal.then(|| TtyChoice::Size(terminal::size())),
            wait: Some(false),
            ..ExecCreate::default()
        }
    }
}
