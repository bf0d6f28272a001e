//! Tools for coding tasks, which an agent in the sandbox carries out.

use super::{
    args::{NameText, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{Outcome, ToolAnswer, ToolFailure, done, middle_cut, result},
};
use crate::mcp::{address::Address, call::Call, cancel::cancel_path, event_id::Work, limits};
use protocol::{
    Encoding, Payload, TaskId, TaskStatus,
    api::{Page, SandboxId, TaskAnswer, TaskCreate},
};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(RUN, Effect::Changes, run),
        ToolEntry::new(WATCH, Effect::Reads, watch),
        ToolEntry::new(GET, Effect::Reads, get),
        ToolEntry::new(LIST, Effect::Reads, list),
        ToolEntry::new(CANCEL, Effect::Changes, cancel),
    ]
}

const RUN: Words = Words {
    name: "run_task",
    title: "Run a coding task",
    description: "Gives a coding job to an agent in a sandbox and waits for its result: status, last message, changed files \
        and build. What the agent does meanwhile comes as progress. With background: true it returns at once with the id of \
        the task; watch_task or get_task follow it. agent `command` runs any program with the prompt on its standard input.",
};
const WATCH: Words = Words {
    name: "watch_task",
    title: "Watch a task",
    description: "Waits for the result of a task that runs, with its progress.",
};
const GET: Words = Words {
    name: "get_task",
    title: "Show a task",
    description: "Returns the status of a task, and its result where it has ended, without waiting.",
};
const LIST: Words = Words {
    name: "list_tasks",
    title: "List tasks",
    description: "Lists the tasks of a sandbox, newest first.",
};
const CANCEL: Words = Words {
    name: "cancel_task",
    title: "Cancel a task",
    description: "Ends a task that is queued or runs. Files that it changed stay changed.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Instructions for the agent, with everything it needs to know.
    #[schemars(length(min = 1, max = 100_000))]
    prompt: String,
    /// Agent; default: the one that the operator chose.
    #[schemars(length(min = 1, max = 64))]
    agent: Option<String>,
    /// Model; default: the one that the operator chose.
    #[schemars(length(min = 1, max = 200))]
    model: Option<String>,
    /// Program and arguments, for the agent `command`.
    #[schemars(length(max = 256))]
    command: Option<Vec<String>>,
    /// Whether the agent goes on with its last session in this sandbox.
    #[serde(default)]
    continue_session: bool,
    /// Seconds after which it is ended; default one hour.
    #[schemars(range(min = 1.0, max = 86_400.0))]
    timeout_s: Option<f64>,
    /// Whether to return at once.
    #[serde(default)]
    background: bool,
}

async fn run(call: Call, args: RunArgs) -> ToolAnswer {
    let work = call.work_id();
    let id = TaskId::parse(&work).map_err(|error| ToolFailure::invalid(error.to_string()))?;
    let create = TaskCreate {
        id: Some(id),
        prompt: args.prompt,
        agent: args.agent,
        model: args.model,
        command: args.command,
        continues: args.continue_session.then_some(true),
        timeout_s: args.timeout_s,
        ..TaskCreate::default()
    };
    let path = format!("/v1/sandboxes/{}/tasks", args.sandbox);
    let starting = call.clients.mcp.starting.begin(&work);
    let task: TaskAnswer = call.api.post(&path, &create).await?;
    if starting.finish() {
        cancel_path(&call.api, &format!("{path}/{}", task.id)).await;
    }
    if args.background {
        let text = format!("task {} is {}; watch_task waits for its result", task.id, word(task.status));
        return Ok(done(text, json!({"id": task.id, "sandbox_id": task.sandbox_id, "status": task.status})));
    }
    Ok(Outcome::Follow(Work::Task(args.sandbox, task.id), 0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Id of the task, from run_task or list_tasks.
    #[schemars(with = "NameText")]
    task: TaskId,
}

impl TaskArgs {
    fn path(&self) -> String {
        format!("/v1/sandboxes/{}/tasks/{}", self.sandbox, self.task)
    }
}

async fn watch(call: Call, args: TaskArgs) -> ToolAnswer {
    // An unknown task is told at once.
    let task: TaskAnswer = call.api.get(&args.path()).await?;
    Ok(Outcome::Follow(Work::Task(args.sandbox, task.id), 0))
}

async fn get(call: Call, args: TaskArgs) -> ToolAnswer {
    let task: TaskAnswer = call.api.get(&args.path()).await?;
    let mut result = task_result(&task);
    // The look succeeded, whatever became of the task.
    result.is_error = Some(false);
    Ok(Outcome::Done(Box::new(result)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// How many to return; default 20.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// `next` of the page before.
    #[schemars(with = "Option<NameText>")]
    after: Option<TaskId>,
}

async fn list(call: Call, args: ListArgs) -> ToolAnswer {
    let address = Address::new(format!("/v1/sandboxes/{}/tasks", args.sandbox))
        .query("limit", &args.limit.unwrap_or(20).clamp(1, 100).to_string())
        .query_if("after", args.after);
    let page: Page<TaskAnswer> = call.api.get(&address.build()).await?;
    let line = |task: &TaskAnswer| {
        let prompt: String = task.prompt.chars().take(100).collect();
        format!("{} {} {}", task.id, word(task.status), prompt.replace('\n', " "))
    };
    let mut lines: Vec<String> = page.items.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("no tasks".to_owned());
    }
    Ok(done(lines.join("\n"), json!({"items": page.items, "next": page.next})))
}

async fn cancel(call: Call, args: TaskArgs) -> ToolAnswer {
    let task: TaskAnswer = call.api.post(&format!("{}/cancel", args.path()), &json!({})).await?;
    let text = format!(
        "task {} is {}",
        task.id,
        if task.cancelling { "being cancelled" } else { word(task.status) }
    );
    Ok(done(text, json!({"id": task.id, "status": task.status, "cancelling": task.cancelling})))
}

/// The result of a task, or how far it is.
pub fn task_result(task: &TaskAnswer) -> CallToolResult {
    let mut lines = vec![format!("task {} {}", task.id, word(task.status))];
    if let Some(found) = &task.result {
        lines.extend(found.message.clone());
        lines.extend(found.final_message.as_ref().map(plain));
        if let Some(changes) = &found.files_changed {
            let (added, modified, deleted) = (changes.added, changes.modified, changes.deleted);
            lines.push(format!("files: {added} added, {modified} modified, {deleted} deleted"));
            lines.extend(changes.files.iter().take(50).map(|file| format!("  {}", plain(&file.path))));
        }
        lines.extend(found.build.output.as_ref().map(|output| format!("build failed:\n{}", plain(output))));
        lines.extend(
            found.agent_stderr.as_ref().map(|output| format!("the agent printed:\n{}", plain(output))),
        );
    }
    let text = middle_cut(&lines.join("\n"), limits::OUTPUT_MAX_CHARS).0;
    let structure = serde_json::to_value(task).unwrap_or(Value::Null);
    let is_error = match task.status {
        TaskStatus::Failed | TaskStatus::Cancelled => true,
        TaskStatus::Queued | TaskStatus::Running | TaskStatus::Succeeded => false,
    };
    result(text, structure, is_error)
}

fn plain(payload: &Payload) -> String {
    match payload.encoding {
        Encoding::Utf8 => payload.data.clone(),
        Encoding::Base64 => format!("[base64] {}", payload.data),
    }
}

fn word(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Queued => "queued",
        TaskStatus::Running => "running",
        TaskStatus::Succeeded => "succeeded",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
    }
}
