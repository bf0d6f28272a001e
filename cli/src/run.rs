//! From the command line to an exit code.

use crate::{
    args::{Args, Command},
    commands,
    context::Context,
    exit,
    failure::{Failure, eprint_line},
    output::Output,
    terminal,
};

pub fn run(args: Args) -> u8 {
    let output = Output::new(args.json);
    let Some(command) = args.command else { return first_steps(output) };
    let own_failure = if command.runs_commands() { Some(exit::OWN) } else { None };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprint_line(&format!("slipway: could not start: {error}"));
            return own_failure.unwrap_or(1);
        }
    };
    let ended = runtime.block_on(Box::pin(dispatch(command, output)));
    terminal::end_colours();
    match ended {
        Ok(code) => code,
        Err(failure) => {
            failure.tell(output.json);
            match own_failure {
                Some(own) if !failure.is_broken_pipe() => own,
                _ => failure.exit_code(),
            }
        }
    }
}

/// What one needs first: `slipway` alone is a question, and answered with success.
const FIRST_STEPS: &str = "\
Sandboxes for coding agents and the apps they build. Five commands to begin with:

  slipway up                       start hostd, and get a sandbox called `up`
  slipway run \"PROMPT\"             let an agent do a task in a sandbox of its own
  slipway exec up -- COMMAND       run a command in a sandbox; `slipway sh up` opens a shell
  slipway ls                       list sandboxes, and what listens in them
  slipway rm up                    destroy a sandbox, with its files

`slipway help` shows all commands, `slipway COMMAND --help` one of them; `slipway doctor` says what is missing.
";

fn first_steps(output: Output) -> u8 {
    match output.text(FIRST_STEPS) {
        Ok(()) => 0,
        Err(failure) => failure.exit_code(),
    }
}

async fn dispatch(command: Command, output: Output) -> Result<u8, Failure> {
    // These work without hostd, and where its address is wrong.
    match command {
        Command::Completions(args) => commands::completions::run(&args, output).map(|()| 0),
        Command::Doctor => commands::doctor::run(output).await,
        Command::Cp(args) => Err(commands::cp::run(&args)),
        command => {
            let context = Context::from_environment(output)?;
            serve(&context, command).await
        }
    }
}

async fn serve(context: &Context, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Exec(args) => return commands::exec::run(context, args).await,
        Command::Sh(args) => return commands::sh::run(context, args).await,
        Command::Attach(args) => return commands::attach::run(context, args).await,
        Command::Run(args) => return commands::run::run(context, *args).await,
        Command::Task(args) => return commands::task::run(context, args).await,
        Command::Logs(args) => return commands::logs::run(context, args).await,
        Command::Agents(args) => commands::agents::run(context, args).await,
        Command::Up(args) => commands::up::run(context, args).await,
        Command::Down(args) => commands::down::run(context, args).await,
        Command::Create(args) => commands::create::run(context, args).await,
        Command::Ensure(args) => commands::ensure::run(context, args).await,
        Command::Ls(args) => commands::ls::run(context, args).await,
        Command::Get(args) => commands::get::run(context, args).await,
        Command::Start(args) => {
            commands::lifecycle::run(context, commands::lifecycle::Verb::Start, args).await
        }
        Command::Stop(args) => commands::lifecycle::run(context, commands::lifecycle::Verb::Stop, args).await,
        Command::Pause(args) => {
            commands::lifecycle::run(context, commands::lifecycle::Verb::Pause, args).await
        }
        Command::Resume(args) => {
            commands::lifecycle::run(context, commands::lifecycle::Verb::Resume, args).await
        }
        Command::Recreate(args) => {
            commands::lifecycle::run(context, commands::lifecycle::Verb::Recreate, args).await
        }
        Command::Rm(args) => commands::rm::run(context, args).await,
        Command::Services(args) => commands::services::run(context, args).await,
        Command::Service(args) => commands::service::run(context, args).await,
        Command::Events(args) => commands::events::run(context, args).await,
        Command::Ps(args) => commands::ps::run(context, args).await,
        Command::Ports(args) => commands::ports::run(context, args).await,
        Command::Egress(args) => commands::egress::run(context, args).await,
        Command::PreviewLink(args) => commands::preview_link::run(context, args).await,
        Command::Drivers => commands::drivers::run(context).await,
        Command::Stale => commands::stale::run(context).await,
        Command::Top => commands::top::run(context).await,
        Command::Attempts(args) => commands::attempts::run(context, args).await,
        Command::Image(args) => commands::image::run(context, args).await,
        Command::Model(args) => commands::model::run(context, args).await,
        Command::Models => commands::models::run(context).await,
        Command::Budget(args) => commands::budget::run(context, args).await,
        Command::Token(args) => commands::token::run(context, args).await,
        Command::Version => commands::version::run(context).await,
        Command::Completions(_) | Command::Doctor | Command::Cp(_) => Ok(()),
    }?;
    Ok(0)
}
