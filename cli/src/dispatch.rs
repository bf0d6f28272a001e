//! Runs a parsed command line and returns its exit code.

use crate::{
    args::{Args, Command},
    commands::{
        self,
        lifecycle::{self, Verb},
    },
    connection::ConnectionFlags,
    context::Context,
    exit_code,
    failure::{Failure, eprint_line},
    output::Output,
    terminal,
};

pub fn run(args: Args) -> u8 {
    let output = Output::new(args.json);
    let Some(command) = args.command else { return first_steps(output) };
    let own_failure = if command.runs_commands() { Some(exit_code::OWN) } else { None };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprint_line(&format!("slipway: could not start: {error}"));
            return own_failure.unwrap_or(1);
        }
    };
    let ended = runtime.block_on(Box::pin(dispatch(command, output, &args.connection)));
    terminal::reset_colours();
    match ended {
        Ok(code) => code,
        Err(failure) => {
            failure.report(output.json);
            match own_failure {
                Some(own) if !failure.is_broken_pipe() => own,
                _ => failure.exit_code(),
            }
        }
    }
}

/// Printed by `slipway` without a command, which exits 0.
const FIRST_STEPS: &str = "\
Sandboxes for coding agents and the apps they build. Five commands to begin with:

  slipway up                       start hostd, and create a sandbox named `up`
  slipway run \"PROMPT\"             run a task with an agent in a new sandbox
  slipway exec up -- COMMAND       run a command in a sandbox; `slipway sh up` opens a shell
  slipway ls                       list sandboxes and their listening ports
  slipway rm up                    destroy a sandbox, with its files

`slipway help` lists all commands, `slipway COMMAND --help` explains one; `slipway doctor` checks this machine.
";

fn first_steps(output: Output) -> u8 {
    match output.text(FIRST_STEPS) {
        Ok(()) => 0,
        Err(failure) => failure.exit_code(),
    }
}

/// Runs one command and returns its exit code.
///
/// `context` is made inside the arms: `completions`, `man`, `context` and `doctor` must work without hostd, and where
/// SLIPWAY_URL or a context is wrong.
async fn dispatch(command: Command, output: Output, flags: &ConnectionFlags) -> Result<u8, Failure> {
    let context = || Context::open(output, flags);
    match command {
        Command::Acp(args) => commands::acp::run(&context()?, args).await,
        Command::Agents(args) => commands::agents::run(&context()?, args).await.map(success),
        Command::Attach(args) => commands::attach::run(&context()?, args).await,
        Command::Attempts(args) => commands::attempts::run(&context()?, args).await.map(success),
        Command::Audit(args) => commands::audit::run(&context()?, args).await.map(success),
        Command::Backup(args) => commands::backup::run(&context()?, args).await,
        Command::Budget(args) => commands::budget::run(&context()?, args).await.map(success),
        Command::Completions(args) => commands::completions::run(&args, output).map(success),
        Command::Context(args) => commands::context::run(output, flags, args).await.map(success),
        Command::Cp(args) => commands::cp::run(&context()?, args).await,
        Command::Create(args) => commands::create::run(&context()?, args).await.map(success),
        Command::Doctor => commands::doctor::run(output, flags).await,
        Command::Down(args) => commands::down::run(&context()?, args).await.map(success),
        Command::Drivers => commands::drivers::run(&context()?).await.map(success),
        Command::Egress(args) => commands::egress::run(&context()?, args).await.map(success),
        Command::Ensure(args) => commands::ensure::run(&context()?, args).await.map(success),
        Command::Events(args) => commands::events::run(&context()?, args).await.map(success),
        Command::Exec(args) => commands::exec::run(&context()?, args).await,
        Command::Files(args) => commands::files::run(&context()?, args).await,
        Command::Fork(args) => commands::fork::run(&context()?, args).await.map(success),
        Command::Forward(args) => commands::forward::run(&context()?, args).await,
        Command::Get(args) => commands::get::run(&context()?, args).await.map(success),
        Command::Host(args) => commands::host::run(&context()?, args).await,
        Command::Snapshot(args) => commands::snapshot::run(&context()?, args).await.map(success),
        Command::Image(args) => commands::image::run(&context()?, args).await.map(success),
        Command::Limits(args) => commands::limits::run(&context()?, args).await.map(success),
        Command::Logs(args) => commands::logs::run(&context()?, args).await,
        Command::Ls(args) => commands::ls::run(&context()?, args).await.map(success),
        Command::Man(args) => commands::man::run(&args).map(success),
        Command::Mcp(args) => commands::mcp::run(&context()?, args).await.map(success),
        Command::Model(args) => commands::model::run(&context()?, args).await.map(success),
        Command::Models => commands::models::run(&context()?).await.map(success),
        Command::Pause(args) => lifecycle::run(&context()?, Verb::Pause, args).await.map(success),
        Command::Git(args) => commands::git::run(&context()?, args).await.map(success),
        Command::Ports(args) => commands::ports::run(&context()?, args).await.map(success),
        Command::PreviewLink(args) => commands::preview_link::run(&context()?, args).await.map(success),
        Command::Ps(args) => commands::ps::run(&context()?, args).await.map(success),
        Command::Quota(args) => commands::quota::run(&context()?, args).await.map(success),
        Command::Recreate(args) => lifecycle::run(&context()?, Verb::Recreate, args).await.map(success),
        Command::Restore(args) => commands::restore::run(&args, output),
        Command::Resume(args) => lifecycle::run(&context()?, Verb::Resume, args).await.map(success),
        Command::Rm(args) => commands::rm::run(&context()?, args).await.map(success),
        Command::Run(args) => commands::run::run(&context()?, *args).await,
        Command::Secret(args) => commands::secret::run(&context()?, args).await.map(success),
        Command::Service(args) => commands::service::run(&context()?, args).await.map(success),
        Command::Services(args) => commands::services::run(&context()?, args).await.map(success),
        Command::Sh(args) => commands::sh::run(&context()?, args).await,
        Command::Share(args) => commands::share::run(&context()?, args).await.map(success),
        Command::Shares(args) => commands::shares::run(&context()?, args).await.map(success),
        Command::Stale => commands::stale::run(&context()?).await.map(success),
        Command::Start(args) => lifecycle::run(&context()?, Verb::Start, args).await.map(success),
        Command::Stop(args) => lifecycle::run(&context()?, Verb::Stop, args).await.map(success),
        Command::Sync(args) => commands::sync::run(&context()?, args).await,
        Command::Task(args) => commands::task::run(&context()?, args).await,
        Command::Tls(args) => commands::tls::run(args, output).map(success),
        Command::Token(args) => commands::token::run(&context()?, args).await.map(success),
        Command::Top => commands::top::run(&context()?).await.map(success),
        Command::Unshare(args) => commands::unshare::run(&context()?, args).await.map(success),
        Command::Up(args) => commands::up::run(&context()?, args).await.map(success),
        Command::Webhook(args) => commands::webhook::run(&context()?, args).await.map(success),
        Command::Version => commands::version::run(&context()?).await.map(success),
    }
}

fn success((): ()) -> u8 {
    0
}
