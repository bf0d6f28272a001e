//! The tool that reads logs: of services, commands and tasks.

use super::{
    args::{NameText, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{ToolAnswer, ToolFailure, done},
};
use crate::{
    ApiClient, ApiFailure,
    mcp::{address::Address, call::Call, limits, lines::Lines},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    Method,
    header::{ACCEPT, HeaderValue},
};
use protocol::{Chunk, Encoding, ExecId, ServiceName, TaskId, api::SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub fn tools() -> Vec<ToolEntry> {
    vec![ToolEntry::new(LOGS, Effect::Reads, logs)]
}

const LOGS: Words = Words {
    name: "logs",
    title: "Read a log",
    description: "Reads the log of one thing in a sandbox: of a service (its names are in get_sandbox), of a command \
        (exec_id), or what the agent of a task printed. Returns the last lines; with after, what came after that cursor, so \
        that a running command can be read piece by piece.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Name of a service.
    #[schemars(with = "Option<NameText>")]
    service: Option<ServiceName>,
    /// Id of a command, from exec.
    #[schemars(with = "Option<NameText>")]
    exec_id: Option<ExecId>,
    /// Id of a task, from run_task.
    #[schemars(with = "Option<NameText>")]
    task: Option<TaskId>,
    /// How many lines from the end; default 100.
    #[schemars(range(min = 1, max = 2_000))]
    tail_lines: Option<u32>,
    /// `cursor` of an earlier result: only what came after it.
    after: Option<u64>,
}

/// A part of a log.
pub struct LogPart {
    pub text: String,
    /// Where it ends.
    pub cursor: u64,
    /// Whether nothing will follow it.
    pub ended: bool,
    /// Whether there is more already.
    pub more: bool,
}

async fn logs(call: Call, args: LogArgs) -> ToolAnswer {
    let top = format!("/v1/sandboxes/{}", args.sandbox);
    let path = match (&args.service, &args.exec_id, &args.task) {
        (Some(service), None, None) => format!("{top}/services/{service}/logs"),
        (None, Some(exec), None) => format!("{top}/execs/{exec}/output"),
        (None, None, Some(task)) => format!("{top}/tasks/{task}/log"),
        _ => return Err(ToolFailure::invalid("give one of service, exec_id and task")),
    };
    let address = match args.after {
        Some(after) => Address::new(path).query("after", &after.to_string()),
        None => {
            let lines = args.tail_lines.unwrap_or(limits::LOG_LINES).clamp(1, 2_000);
            Address::new(path).query("tail", &lines.to_string())
        }
    };
    let part = read(&call, address, limits::LOG_MAX_BYTES).await?;
    let mut shown = if part.text.is_empty() { "nothing".to_owned() } else { part.text.clone() };
    if part.more || !part.ended {
        let line = if shown.ends_with('\n') { "" } else { "\n" };
        let why = if part.more { "more" } else { "still running" };
        shown.push_str(&format!("{line}[{why}: go on with after = {}]", part.cursor));
    }
    let LogPart { text, cursor, ended, more } = part;
    Ok(done(shown, json!({"output": text, "cursor": cursor, "ended": ended, "more": more})))
}

/// Reads a log from the position that the address says, up to a size.
pub async fn read(call: &Call, address: Address, max_bytes: usize) -> Result<LogPart, ApiFailure> {
    let mut request = ApiClient::request(Method::GET, &address.build());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/x-ndjson"));
    let response = call.api.send(request).await?;
    let mut lines = Lines::new(response.into_body());
    let mut bytes = Vec::new();
    let mut part = LogPart { text: String::new(), cursor: 0, ended: false, more: false };
    while let Ok(line) = lines.next().await {
        match serde_json::from_slice::<Chunk>(&line) {
            Ok(Chunk::Output { cursor, payload, .. }) => {
                part.cursor = cursor;
                match payload.encoding {
                    Encoding::Utf8 => bytes.extend_from_slice(payload.data.as_bytes()),
                    Encoding::Base64 => {
                        bytes.extend(BASE64_STANDARD.decode(payload.data).unwrap_or_default());
                    }
                }
                if bytes.len() >= max_bytes {
                    part.more = true;
                    break;
                }
            }
            Ok(Chunk::Gap { cursor, lost }) => {
                part.cursor = cursor;
                bytes.extend(format!("\n[{lost} bytes of output are lost]\n").bytes());
            }
            Ok(Chunk::End { cursor, ended }) => {
                (part.cursor, part.ended) = (cursor, ended);
                break;
            }
            Err(_) => break,
        }
    }
    part.text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(part)
}
