//! A sandbox as clients of OpenSandbox have it. Pure.

use protocol::api::{Phase, SandboxStatus, SandboxView};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The metadata that keeps the entrypoint of a sandbox, for its view alone.
pub const ENTRYPOINT: &str = "opensandbox-entrypoint";
/// What the client sends where a sandbox has nothing to run: it keeps a container alive, and a sandbox lives anyway.
pub const IDLE_ENTRYPOINT: [&str; 3] = ["tail", "-f", "/dev/null"];

/// Returns the state, and whether the sandbox counts as there.
pub fn state(view: &SandboxView) -> &'static str {
    match (view.status, view.phase) {
        (_, Some(Phase::Stopping | Phase::Destroying)) => "Stopping",
        (_, Some(Phase::Pausing)) => "Pausing",
        (SandboxStatus::Paused | SandboxStatus::Stopped, Some(Phase::Resuming | Phase::Starting)) => {
            "Resuming"
        }
        (SandboxStatus::Creating, _) => "Pending",
        (SandboxStatus::Running, _) => "Running",
        (SandboxStatus::Paused | SandboxStatus::Stopped, _) => "Paused",
        (SandboxStatus::Error, _) => "Failed",
        (SandboxStatus::Destroyed, _) => "Terminated",
    }
}

pub fn sandbox(view: &SandboxView) -> Value {
    let mut status = json!({"state": state(view), "lastTransitionAt": view.updated_at});
    if let Some(problem) = &view.problem {
        status["reason"] = serde_json::to_value(problem.code).unwrap_or_default();
        status["message"] = json!(problem.message);
    }
    let mut sandbox = Map::new();
    let fields = [
        ("id", json!(view.id)),
        ("status", status),
        ("image", json!({"uri": view.image})),
        ("entrypoint", json!(entrypoint(view))),
        ("metadata", json!(metadata(view))),
        ("createdAt", json!(view.created_at)),
    ];
    sandbox.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    if let Some(expires_at) = &view.expires_at {
        sandbox.insert("expiresAt".to_owned(), json!(expires_at));
    }
    Value::Object(sandbox)
}

/// The metadata of the client.
pub fn metadata(view: &SandboxView) -> BTreeMap<&str, &str> {
    let own = view.metadata.iter().filter(|(name, _)| *name != ENTRYPOINT);
    own.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn entrypoint(view: &SandboxView) -> Vec<String> {
    let kept = view.metadata.get(ENTRYPOINT).and_then(|text| serde_json::from_str(text).ok());
    kept.unwrap_or_else(|| IDLE_ENTRYPOINT.map(str::to_owned).into())
}
