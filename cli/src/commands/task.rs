//! `slipway task`: submits, lists, shows, follows, cancels and reverts tasks, and answers permissions.

use crate::{
    client::ApiRequest,
    commands::logs,
    context::Context,
    failure::{Failure, eprint_line},
    limits,
    output_stream::OutputStream,
    printer::RawFlag,
    progress::Progress,
    retry::Retry,
    signals::Signals,
    task::{
        DiffArgs, FollowEnd, OnInterrupt, RevertArgs, TaskFlags, TaskRef, answer_permission, cancel,
        describe, diff, exit_code, fetch, follow, prompt, revert, style, submit, table, task_id,
    },
};
use clap::{Args, Subcommand};
use protocol::{
    Decision, PermissionAnswer,
    api::{TaskAnswer, TaskCreate},
};
use std::sync::Arc;
use tokio::time::sleep;

const SUBMIT_HELP: &str = "\
A sleeping sandbox is woken. Tasks that are submitted while one runs are queued. With --id the same command may be
repeated: the task runs once.

Examples:
  slipway task submit web \"make the button green\"
  slipway task submit --agent claude --continue web \"now make it blue\"
  id=$(slipway task submit web - -- ./my-agent < prompt.md); slipway task follow web \"$id\"
  slipway task submit --follow --build 'npm test' web \"fix the failing test\" -- ./my-agent";

const FOLLOW_HELP: &str = "\
Shows every event from the first, or after --since, and follows new ones to the end. Ctrl-C leaves; the task keeps
running. Lost connections and restarts of hostd cause neither gaps nor duplicates.

Exit codes: 0 succeeded; that of the agent when it failed; 1 the build failed; 124 timed out; 130 cancelled;
125 slipway, hostd or the sandbox failed.

Examples:
  slipway task follow web 01k9zq0v1m2n3p4q5r6s7t8v9w
  slipway task follow --json web 01k9zq0v1m2n3p4q5r6s7t8v9w | jq .kind";

const DIFF_HELP: &str = "\
From the checkpoint before the task to its end, as recorded then: also of a sandbox that sleeps or is destroyed, which
is not woken. Paths are relative to the app directory.

Examples:
  slipway task diff web 01k9zq0v1m2n3p4q5r6s7t8v9w
  slipway task diff --stat web 01k9zq0v1m2n3p4q5r6s7t8v9w
  slipway task diff web 01k9zq0v1m2n3p4q5r6s7t8v9w src/main.rs
  slipway task diff web 01k9zq0v1m2n3p4q5r6s7t8v9w | git apply";

const REVERT_HELP: &str = "\
Files that were changed or deleted since the checkpoint come back, by this task or anything after it, and files that
were added since are deleted. Ignored files, as the checkpoint's own .gitignore has them, and the app's git repository
stay as they are. What is replaced or deleted is saved first, and files that cannot be saved stay, unless --discard is
given. Not while a task runs; a sleeping sandbox is woken. An interrupted revert is completed by repeating it.

Examples:
  slipway task revert --dry-run web 01k9zq0v1m2n3p4q5r6s7t8v9w
  slipway task revert web 01k9zq0v1m2n3p4q5r6s7t8v9w
  slipway task revert web 01k9zq0v1m2n3p4q5r6s7t8v9w src
  slipway exec web -- sh -c 'git --git-dir ~/.slipway/checkpoints.git show SAVED:src/main.rs'";

#[derive(Debug, Args)]
pub struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// Submit a task to a sandbox, and print its id
    #[command(after_help = SUBMIT_HELP)]
    Submit(Box<SubmitArgs>),
    /// List the tasks of a sandbox, newest first
    #[command(visible_alias = "list")]
    Ls {
        /// Id, prefix of an id, or name
        #[arg(value_name = "SANDBOX")]
        sandbox: String,
    },
    /// Show everything about a task, with its result when it has ended
    #[command(visible_alias = "show")]
    Get(TaskRefArgs),
    /// Show the events of a task to its end, and exit with its code
    #[command(after_help = FOLLOW_HELP)]
    Follow {
        #[command(flatten)]
        task: TaskRefArgs,
        /// Only events after the one with this number (`seq` in the JSON)
        #[arg(long, value_name = "SEQ")]
        since: Option<u64>,
    },
    /// Show the raw output of the agent of a task
    ///
    /// For debugging an agent. Of long output the end is kept. Output of the agent `command` is in the events: see
    /// `slipway task follow`.
    Log {
        #[command(flatten)]
        task: TaskRefArgs,
        /// Follow the output to the end of the agent; reconnects when hostd restarts
        #[arg(long, short)]
        follow: bool,
        /// Start this many lines before the end; default: everything that is kept
        #[arg(long, short = 'n', value_name = "LINES")]
        tail: Option<u64>,
        #[command(flatten)]
        raw: RawFlag,
    },
    /// Show what a task changed, as a unified diff
    #[command(after_help = DIFF_HELP)]
    Diff {
        #[command(flatten)]
        task: TaskRefArgs,
        #[command(flatten)]
        diff: DiffArgs,
    },
    /// Restore the files to the checkpoint before a task
    #[command(after_help = REVERT_HELP)]
    Revert {
        #[command(flatten)]
        task: TaskRefArgs,
        #[command(flatten)]
        revert: RevertArgs,
    },
    /// Allow a permission that the agent of a task asked for
    ///
    /// `slipway task follow` shows open permissions with their ids.
    Allow {
        #[command(flatten)]
        permission: PermissionArgs,
        /// Option to choose, of those that the agent offered; default: its option for "once"
        #[arg(long, value_name = "OPTION")]
        option: Option<String>,
    },
    /// Deny a permission that the agent of a task asked for
    Deny {
        #[command(flatten)]
        permission: PermissionArgs,
    },
    /// Cancel a task, queued or running, with everything it started
    ///
    /// A task that has ended is unchanged. Events and result are kept.
    Cancel {
        #[command(flatten)]
        task: TaskRefArgs,
        /// Wait until it has ended
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Debug, Args)]
struct SubmitArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    task: TaskFlags,
    /// Show its events to its end, and exit with its code
    #[arg(long, short)]
    follow: bool,
    /// Id of the task; an id that was used before shows that task and runs nothing
    #[arg(long, value_name = "TASK")]
    id: Option<String>,
}

#[derive(Debug, Args)]
struct TaskRefArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Id of the task, as `slipway task submit` and `slipway task ls` print it
    #[arg(value_name = "TASK")]
    task: String,
}

#[derive(Debug, Args)]
struct PermissionArgs {
    #[command(flatten)]
    task: TaskRefArgs,
    /// Id of the permission, as shown in the events of the task
    #[arg(value_name = "PERMISSION")]
    permission: String,
}

impl TaskRefArgs {
    async fn find(&self, context: &Context) -> Result<TaskRef, Failure> {
        let id = task_id(Some(&self.task))?;
        Ok(TaskRef { sandbox: context.sandbox(&self.sandbox).await?, id })
    }
}

impl TaskArgs {
    /// Returns whether the exit code is that of the task.
    pub fn follows(&self) -> bool {
        match &self.command {
            TaskCommand::Submit(args) => args.follow,
            TaskCommand::Follow { .. } => true,
            TaskCommand::Ls { .. }
            | TaskCommand::Get(_)
            | TaskCommand::Log { .. }
            | TaskCommand::Diff { .. }
            | TaskCommand::Revert { .. }
            | TaskCommand::Allow { .. }
            | TaskCommand::Deny { .. }
            | TaskCommand::Cancel { .. } => false,
        }
    }
}

pub async fn run(context: &Context, args: TaskArgs) -> Result<u8, Failure> {
    match args.command {
        TaskCommand::Submit(args) => submit_task(context, *args).await,
        TaskCommand::Ls { sandbox } => list(context, &sandbox).await.map(|()| 0),
        TaskCommand::Get(args) => {
            let task = args.find(context).await?;
            let format = |task: TaskAnswer| Ok(describe(&task, style(context.output)));
            context.show(ApiRequest::get(task.path()), format).await.map(|()| 0)
        }
        TaskCommand::Follow { task, since } => follow_task(context, &task.find(context).await?, since).await,
        TaskCommand::Log { task, follow, tail, raw } => {
            let path = format!("{}/log", task.find(context).await?.path());
            let follow = OutputStream::new(Arc::clone(&context.client), &path, follow, tail);
            logs::print(context, follow, raw).await
        }
        TaskCommand::Diff { task, diff: args } => {
            diff(context, &task.find(context).await?, &args, style(context.output)).await.map(|()| 0)
        }
        TaskCommand::Revert { task, revert: args } => {
            revert(context, &task.find(context).await?, &args, style(context.output)).await.map(|()| 0)
        }
        TaskCommand::Allow { permission, option } => {
            decide(context, permission, PermissionAnswer { decision: Decision::Allow, option }).await
        }
        TaskCommand::Deny { permission } => {
            decide(context, permission, PermissionAnswer { decision: Decision::Deny, option: None }).await
        }
        TaskCommand::Cancel { task, wait } => {
            cancel_task(context, &task.find(context).await?, wait).await.map(|()| 0)
        }
    }
}

async fn decide(context: &Context, args: PermissionArgs, decided: PermissionAnswer) -> Result<u8, Failure> {
    let task = args.task.find(context).await?;
    answer_permission(&context.client, &task, &args.permission, &decided).await.map(|()| 0)
}

async fn submit_task(context: &Context, mut args: SubmitArgs) -> Result<u8, Failure> {
    let prompt = prompt(args.task.prompt.take().as_deref(), args.task.command.is_empty())?;
    let create: TaskCreate = args.task.create(task_id(args.id.as_deref())?, prompt)?;
    let sandbox = context.sandbox(&args.sandbox).await?;
    let (task, response) = submit(context, sandbox, &create).await?;
    if args.follow {
        if !context.output.json {
            eprint_line(&format!("slipway: task {}", task.id));
        }
        return follow_task(context, &task, None).await;
    }
    context.show_response(&response, |task: TaskAnswer| Ok(format!("{}\n", task.id)))?;
    Ok(0)
}

async fn list(context: &Context, sandbox: &str) -> Result<(), Failure> {
    let id = context.sandbox(sandbox).await?;
    let output = context.output;
    let request = ApiRequest::get(format!("/v1/sandboxes/{id}/tasks")).long_pages();
    context.show_list(request, |tasks: Vec<TaskAnswer>| table(&tasks, output)).await
}

async fn follow_task(context: &Context, task: &TaskRef, since: Option<u64>) -> Result<u8, Failure> {
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("listen for signals", error))?;
    match follow(context, task, since, OnInterrupt::Leave, &mut signals).await? {
        FollowEnd::Ended(result) => Ok(exit_code(&result)),
        FollowEnd::Left(code) => Ok(code),
    }
}

async fn cancel_task(context: &Context, task: &TaskRef, wait: bool) -> Result<(), Failure> {
    let mut response = cancel(context, task).await?;
    let progress = Progress::timed(context.output, "cancelling");
    let mut retry = Retry::new();
    let ended = loop {
        let seen: TaskAnswer = response.parse()?;
        if seen.status.is_final() || !wait {
            break seen;
        }
        sleep(limits::TASK_POLL).await;
        response = match fetch(context, task).await {
            Ok((_, response)) => response,
            Err(Failure::Client(error)) => {
                retry.backoff(error).await?;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        retry.reset();
    };
    drop(progress);
    if context.output.json {
        return context.output.document(&response.body);
    }
    let how = if ended.status.is_final() {
        crate::text::wire_name(&ended.status)
    } else {
        "is being cancelled".to_owned()
    };
    context.output.line(&format!("{} {how}", ended.id))
}
