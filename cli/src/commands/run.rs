//! `slipway run`: creates a sandbox, runs a task in it, and destroys the sandbox.

use crate::{
    context::Context,
    failure::{Failure, eprint_line},
    run_sandbox::RunSandbox,
    sandbox_flags::SandboxFlags,
    signals::{Signals, WaitOutcome},
    task::{FollowEnd, OnInterrupt, TaskFlags, exit_code, follow, preflight, prompt, submit, task_id},
};
use clap::Args;
use protocol::api::{SandboxSpec, TaskCreate};

const AFTER_HELP: &str = "\
The agent is that of --agent, or the default of `slipway agents`; its model is that of --model, or the default of
`slipway models`. Add a model provider with `slipway model add`. On a terminal, permissions (--ask) are prompted for;
otherwise answer them with `slipway task allow`.

A sandbox is created, the task runs in it while its events are shown, the result is printed, and the sandbox is
destroyed. With --keep it stays and its previews are printed; with --sandbox an existing one is used, woken if it
sleeps, and left as it is.

Ctrl-C cancels the task and waits for its end; pressed again, it leaves, and prints how to follow the task. Task and
events continue when hostd restarts, without gaps or duplicates.

Exit codes: 0 the task succeeded; that of the agent when it failed (128+N when it was killed by signal N); 1 the build
failed; 124 timed out; 130 cancelled; 125 slipway, hostd or the sandbox failed.

With --json every event is a line of JSON as sent by hostd, and nothing else is on standard output; the last one is
`done` and carries the result.

Examples:
  slipway run --keep \"make a small Vite app that shows the time, on port 3000\"
  slipway run --agent claude --model MODEL --ask \"find out why the tests fail\"
  slipway run --sandbox web --continue \"now write a test for it\"
  slipway run \"say hello\" -- sh -c 'echo \"$SLIPWAY_PROMPT\"; cat > prompt.txt'
  slipway run --sandbox web --build 'npm run build' \"make the button green\" -- ./my-agent
  slipway run --keep --port 3000 --timeout 15m --agent NAME - < prompt.md
  slipway run --json \"list the files\" -- ls -la | jq -r 'select(.kind == \"message\").text'";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    #[command(flatten)]
    task: TaskFlags,
    /// Existing sandbox to use, by id, prefix of an id, or name; it is left as it is afterwards
    #[arg(long, short, value_name = "SANDBOX", conflicts_with_all = [
        "keep", "name", "image", "driver", "ports", "memory", "cpus", "pids", "disk", "network", "allow", "deny", "public", "ttl", "on_ttl",
        "metadata", "project", "services",
    ])]
    sandbox: Option<String>,
    /// Keep the created sandbox, however the task ends
    #[arg(long, short)]
    keep: bool,
    #[command(flatten, next_help_heading = "Flags of the created sandbox")]
    sandbox_flags: SandboxFlags,
}

pub async fn run(context: &Context, mut args: RunArgs) -> Result<u8, Failure> {
    let needed = args.task.command.is_empty();
    let prompt = prompt(args.task.prompt.take().as_deref(), needed)?;
    let create = args.task.create(task_id(None)?, prompt)?;
    preflight(context, &create).await?;
    // Before the create: from here on Ctrl-C must not leave a sandbox behind.
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("listen for signals", error))?;
    let sandbox = match &args.sandbox {
        Some(text) => RunSandbox::existing(context.sandbox(text).await?),
        None => {
            let spec = args.sandbox_flags.apply_to(SandboxSpec::default());
            match RunSandbox::create(context, &spec, args.keep, &mut signals).await? {
                Ok(made) => made,
                Err(code) => return Ok(code),
            }
        }
    };
    in_sandbox(context, sandbox, &create, &mut signals).await
}

/// Runs the task and releases the sandbox however the task ended, except when the user leaves the task running.
async fn in_sandbox(
    context: &Context,
    sandbox: RunSandbox,
    create: &TaskCreate,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let first = "slipway: cancelling the task when it is submitted; Ctrl-C again leaves";
    let waited = signals.wait_interruptible(submit(context, sandbox.id, create), || eprint_line(first)).await;
    let (task, pressed) = match waited {
        WaitOutcome::Done { value: Ok((task, _)), pressed } => (task, pressed),
        WaitOutcome::Done { value: Err(failure), .. } => {
            sandbox.release(context, signals).await;
            return Err(failure);
        }
        WaitOutcome::Left(code) => {
            sandbox.report_left_running();
            return Ok(code);
        }
    };
    let on_interrupt = if pressed { OnInterrupt::CancelAlready } else { OnInterrupt::CancelTask };
    match follow(context, &task, None, on_interrupt, signals).await {
        Ok(FollowEnd::Ended(result)) => {
            sandbox.release(context, signals).await;
            Ok(exit_code(&result))
        }
        Ok(FollowEnd::Left(code)) => {
            sandbox.report_left_running();
            Ok(code)
        }
        Err(failure) if failure.is_broken_pipe() => {
            sandbox.release(context, signals).await;
            Err(failure)
        }
        // The task may still run: print how to follow it again.
        Err(failure) => {
            eprint_line(&format!(
                "slipway: lost the connection to the task; follow it again with `{}`",
                task.follow_command()
            ));
            sandbox.report_left_running();
            Err(failure)
        }
    }
}
