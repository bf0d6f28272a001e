//! Tasks whose agent is `agents/acp.py`: a small one of ours that speaks the Agent Client Protocol and does what
//! its prompt says.

use crate::Sandbox;
use anyhow::{Context, Result, ensure};
use protocol::{Stream, TaskEvent, TaskFact};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const SCRIPT: &str = include_str!("../agents/acp.py");

/// The agent, put into the home of the sandbox, with further fields.
pub fn agent(sandbox: &Sandbox, words: &[&str], fields: Value) -> Result<Value> {
    let path = sandbox.home().join("acp.py");
    std::fs::write(&path, SCRIPT)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
    let mut argv = vec![json!("python3"), json!(path)];
    argv.extend(words.iter().map(|word| json!(word)));
    let agent = json!({"kind": "acp", "name": "fake", "argv": argv});
    Ok(with(agent, fields))
}

/// A task for it that consists of these steps.
pub fn task(id: &str, agent: &Value, steps: &Value, fields: Value) -> Value {
    let prompt = steps.to_string();
    with(json!({"id": id, "prompt": prompt, "agent": agent, "health_timeout_ms": 0}), fields)
}

fn with(mut value: Value, fields: Value) -> Value {
    if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
        value.extend(fields);
    }
    value
}

/// Every message that agents of this sandbox got.
pub fn heard(sandbox: &Sandbox) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(sandbox.home().join("acp.log")).context("no agent heard anything")?;
    text.lines().map(|line| serde_json::from_str(line).context("a line that is no message")).collect()
}

/// The methods among them.
pub fn methods(sandbox: &Sandbox) -> Result<Vec<String>> {
    let method = |message: &Value| message["method"].as_str().map(str::to_owned);
    Ok(heard(sandbox)?.iter().filter_map(method).collect())
}

/// The parameters of the one message with this method.
pub fn heard_once(sandbox: &Sandbox, method: &str) -> Result<Value> {
    let mut found: Vec<Value> = heard(sandbox)?;
    found.retain(|message| message["method"] == method);
    ensure!(found.len() == 1, "{method} was heard {} times", found.len());
    Ok(found.remove(0)["params"].take())
}

/// Returns the agent's messages, joined.
pub fn words(events: &[TaskEvent]) -> String {
    let text = |event: &TaskEvent| match &event.fact {
        TaskFact::Message(text) if text.partial => Some(text.text.clone()),
        TaskFact::Message(text) => Some(format!("{}\n", text.text)),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

/// Returns the text of `log` events on one stream.
pub fn logs(events: &[TaskEvent], of: Stream) -> Vec<String> {
    let text = |event: &TaskEvent| match &event.fact {
        TaskFact::Log { stream, text, .. } if *stream == of => Some(text.text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}
