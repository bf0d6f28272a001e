//! Tools: the life of sandboxes.

use super::{
    args::{DurationText, SandboxArgs, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{Outcome, ToolAnswer, ToolFailure, document, done, result},
};
use crate::{
    ApiClient, ApiFailure,
    mcp::{address::Address, call::Call, event_id::Work},
};
use axum::body::Body;
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::{
    EnvMap,
    api::{ApiErrorCode, LimitsSpec, Page, SandboxId, SandboxSpec, SandboxStatus, SandboxView},
};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(CREATE, Effect::Adds, create),
        ToolEntry::new(LIST, Effect::Reads, list),
        ToolEntry::new(GET, Effect::Reads, get),
        ToolEntry::new(STOP, Effect::Adds, stop),
        ToolEntry::new(RESUME, Effect::Adds, resume),
        ToolEntry::new(DESTROY, Effect::Changes, destroy),
    ]
}

const CREATE: Words = Words {
    name: "create_sandbox",
    title: "Create a sandbox",
    description: "Creates a sandbox, an isolated Linux machine with its own files and processes, and waits until it runs. \
        Returns its id, which all other tools need, and the preview URLs of its ports. All arguments are optional.",
};
const LIST: Words = Words {
    name: "list_sandboxes",
    title: "List sandboxes",
    description: "Lists sandboxes, newest first, with id, name, status and ports. Use it to find a sandbox of an earlier \
        conversation.",
};
const GET: Words = Words {
    name: "get_sandbox",
    title: "Show a sandbox",
    description: "Returns status, limits, ports, previews and services of a sandbox; what is wrong where its status is \
        `error`; and how it died, where it did.",
};
const STOP: Words = Words {
    name: "stop_sandbox",
    title: "Stop a sandbox",
    description: "Stops a sandbox: its processes end and its memory is freed, its files are kept. The next use of it, or \
        resume_sandbox, starts it again.",
};
const RESUME: Words = Words {
    name: "resume_sandbox",
    title: "Start a stopped sandbox",
    description: "Starts a sandbox that is stopped or paused, with its files, and waits until it runs. Tools that need a \
        running sandbox do so by themselves.",
};
const DESTROY: Words = Words {
    name: "destroy_sandbox",
    title: "Destroy a sandbox",
    description: "Destroys a sandbox with its files. This cannot be undone; snapshots of it are kept.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArgs {
    /// Name for people, at most one living sandbox has it.
    #[schemars(length(min = 1, max = 100))]
    name: Option<String>,
    /// Image: `host` for the programs of this machine, an imported name, or a reference such as `python:3.13`.
    #[schemars(length(min = 1, max = 512))]
    image: Option<String>,
    /// Ports of web servers that will listen in it.
    #[serde(default)]
    #[schemars(length(max = 64), inner(range(min = 1)))]
    ports: Vec<u16>,
    /// Environment variables of all its processes.
    #[serde(default)]
    env: EnvMap,
    /// Memory in MB.
    #[schemars(range(min = 16, max = 1_048_576))]
    memory_mb: Option<u64>,
    /// CPU cores, as in 0.5 or 2.
    #[schemars(range(min = 0.05, max = 1024.0))]
    cpus: Option<f64>,
    /// Space for its files in MB.
    #[schemars(range(min = 16, max = 16_777_216))]
    disk_mb: Option<u64>,
    /// Time after which it is destroyed, as in `90m` or `4h`; without it, it stays.
    #[schemars(with = "Option<DurationText>")]
    ttl: Option<String>,
    /// Key-value pairs to find it by.
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

async fn create(call: Call, args: CreateArgs) -> ToolAnswer {
    let limits = LimitsSpec { memory_mb: args.memory_mb, cpus: args.cpus, disk_mb: args.disk_mb, pids: None };
    let spec = SandboxSpec {
        name: args.name,
        image: args.image,
        ports: args.ports,
        env: args.env,
        limits,
        ttl: args.ttl,
        metadata: args.metadata,
        ..SandboxSpec::default()
    };
    let sandbox: SandboxView = post_once(&call, "/v1/sandboxes?wait=0", &spec).await?;
    Ok(Outcome::Follow(Work::Sandbox(sandbox.id), 0))
}

/// Makes a call that creates something once, also when the request of the client is repeated.
pub(super) async fn post_once<B: Serialize, T: DeserializeOwned>(
    call: &Call,
    path: &str,
    body: &B,
) -> Result<T, ToolFailure> {
    let text = serde_json::to_vec(body).map_err(|error| ToolFailure::invalid(error.to_string()))?;
    let mut request = ApiClient::request(Method::POST, path);
    *request.body_mut() = Body::from(text);
    let key = HeaderValue::try_from(call.work_id()).expect("base64 is visible ASCII");
    request.headers_mut().insert(IDEMPOTENCY_KEY, key);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(call.api.send_json(request).await?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// Only sandboxes with this status.
    status: Option<StatusArg>,
    /// Only sandboxes of this project.
    #[schemars(length(min = 1, max = 128))]
    project: Option<String>,
    /// How many to return; default 20.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
    /// `next` of the page before.
    #[schemars(with = "Option<UlidText>")]
    after: Option<SandboxId>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StatusArg {
    Creating,
    Running,
    Paused,
    Stopped,
    Error,
    Destroyed,
}

async fn list(call: Call, args: ListArgs) -> ToolAnswer {
    let status = args.status.and_then(|status| serde_json::to_value(status).ok());
    let address = Address::new("/v1/sandboxes")
        .query("limit", &args.limit.unwrap_or(20).clamp(1, 200).to_string())
        .query_if("status", status.as_ref().and_then(Value::as_str))
        .query_if("project", args.project)
        .query_if("after", args.after);
    let page: Page<SandboxView> = call.api.get(&address.build()).await?;
    let line = |sandbox: &SandboxView| {
        let ports: Vec<String> = sandbox.ports.iter().map(u16::to_string).collect();
        let ports = if ports.is_empty() { String::new() } else { format!(" ports {}", ports.join(", ")) };
        format!("{} {} {}{ports}", sandbox.id, sandbox.name, status_text(sandbox))
    };
    let mut lines: Vec<String> = page.items.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("no sandboxes".to_owned());
    }
    if let Some(next) = &page.next {
        lines.push(format!("[more: call again with after = {next}]"));
    }
    Ok(done(lines.join("\n"), json!({"items": page.items, "next": page.next})))
}

fn status_text(sandbox: &SandboxView) -> String {
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let status = serde_json::to_value(sandbox.status).map(word).unwrap_or_default();
    match sandbox.phase.and_then(|phase| serde_json::to_value(phase).ok()) {
        Some(phase) => format!("{status} ({})", word(phase)),
        None => status,
    }
}

async fn get(call: Call, args: SandboxArgs) -> ToolAnswer {
    document(&call.api.get::<SandboxView>(&format!("/v1/sandboxes/{}", args.sandbox)).await?)
}

async fn stop(call: Call, args: SandboxArgs) -> ToolAnswer {
    change(&call, &args.sandbox, "stop").await
}

async fn resume(call: Call, args: SandboxArgs) -> ToolAnswer {
    change(&call, &args.sandbox, "start").await
}

/// The number of an event after which those of an operation come that is begun now: what happened to the sandbox before is
/// no progress of it.
async fn newest_event(call: &Call) -> Result<u64, ToolFailure> {
    let newest = call.clients.parts.store.newest(0).await;
    Ok(newest.map_err(|error| ApiFailure::new(ApiErrorCode::Internal, error.to_string()))?)
}

/// Begins an operation, whose end is followed.
async fn change(call: &Call, id: &SandboxId, verb: &str) -> ToolAnswer {
    let before = newest_event(call).await?;
    let path = format!("/v1/sandboxes/{id}/{verb}?wait=0");
    let sandbox: SandboxView = call.api.json(Method::POST, &path, None::<&()>).await?;
    Ok(Outcome::Follow(Work::Sandbox(sandbox.id), before))
}

async fn destroy(call: Call, args: SandboxArgs) -> ToolAnswer {
    let before = newest_event(&call).await?;
    let path = format!("/v1/sandboxes/{}?wait=0&workspace=remove", args.sandbox);
    let sandbox: SandboxView = call.api.json(Method::DELETE, &path, None::<&()>).await?;
    Ok(Outcome::Follow(Work::Sandbox(sandbox.id), before))
}

/// The result of an operation on a sandbox, which is over.
pub fn sandbox_result(sandbox: &SandboxView) -> CallToolResult {
    let structure = serde_json::to_value(sandbox).unwrap_or_default();
    let mut text = format!("sandbox {} ({}) is {}", sandbox.id, sandbox.name, status_text(sandbox));
    for (port, url) in &sandbox.previews {
        text.push_str(&format!("\nport {port}: {url}"));
    }
    let problem = sandbox.problem.as_ref();
    if let Some(problem) = problem {
        text.push_str(&format!("\n{}", problem.message));
        for line in &problem.output {
            text.push_str(&format!("\n  {line}"));
        }
    }
    let is_error = sandbox.status == SandboxStatus::Error;
    result(text, structure, is_error)
}
