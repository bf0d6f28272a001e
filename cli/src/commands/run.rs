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
Who does it is the agent of --agent, or the default of `slipway agents`, with the model of --model, or the default
of `slipway models`; `slipway model add` tells Slipway about a provider. On a terminal what needs a permission (--ask)
is asked for; elsewhere `slipway task allow` answers.

A sandbox is made, the agent does the task in it while its events are shown, the result is printed, and the
sandbox is destroyed. With --keep it stays and its previews are printed; with --sandbox an existing one is used,
woken if it sleeps, and left as it is.

Ctrl-C cancels the task and waits for its end; pressed again, it leaves, and says how to come back. The task goes
on when hostd restarts, and so do its events here: nothing is lost, nothing comes twice.

Exit codes: 0 the task succeeded; the agent's own when it failed (128+N when signal N ended it); 1 when the build
failed; 124 timed out; 130 cancelled; 125 slipway, hostd or the sandbox failed.

With --json every event is a line of JSON as hostd sent it, and nothing else is on standard output; the last one is
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
    /// Sandbox to do it in, by id, beginning of an id, or name; it is left as it is afterwards
    #[arg(long, short, value_name = "SANDBOX", conflicts_with_all = [
        "keep", "name", "image", "driver", "ports", "memory", "cpus", "pids", "disk", "network", "allow", "deny", "public", "ttl",
        "metadata", "project", "services",
    ])]
    sandbox: Option<String>,
    /// Keep the sandbox that is made, whatever becomes of the task
    #[arg(long, short)]
    keep: bool,
    #[command(flatten, next_help_heading = "The sandbox that is made")]
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
