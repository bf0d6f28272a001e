//! Sandboxes as E2B's SDKs read them.

use super::{call::Call, error::E2bError, limits};
use crate::e2b::{
    envd_token,
    record::{self, AtTimeout, E2bRecord},
    traffic_token,
};
use hostd_core::{Previews, rfc3339};
use protocol::api::{Phase, SandboxStatus, SandboxView};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The version whose features envd has.
const ENVD_VERSION: &str = "0.6.4";
/// The client, which E2B's SDKs only pass on.
const CLIENT: &str = "slipway";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    Running,
    Paused,
    /// Not in any list.
    Gone,
}

/// A sandbox that was created or connected to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectedSandbox {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    alias: String,
    envd_version: &'static str,
    envd_access_token: String,
    traffic_access_token: String,
    domain: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    #[serde(rename = "templateID")]
    pub template: String,
    #[serde(rename = "sandboxID")]
    pub id: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    alias: String,
    pub started_at: String,
    end_at: String,
    cpu_count: u64,
    #[serde(rename = "memoryMB")]
    memory_mb: u64,
    /// 0: without a limit.
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u64,
    pub state: SandboxState,
    envd_version: &'static str,
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    #[serde(flatten)]
    listed: ListedSandbox,
    domain: String,
    allow_internet_access: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Value>,
    lifecycle: Lifecycle,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_mode: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    auto_resume: bool,
    on_timeout: &'static str,
}

/// The state to E2B: it knows no sandbox that is stopped or failed; each can be resumed.
pub fn state(view: &SandboxView) -> SandboxState {
    match view.phase {
        Some(Phase::Destroying) => return SandboxState::Gone,
        Some(Phase::Pausing | Phase::Stopping) => return SandboxState::Paused,
        Some(Phase::Queued | Phase::Building | Phase::Provisioning | Phase::Starting | Phase::Resuming) => {
            return SandboxState::Running;
        }
        None => {}
    }
    match view.status {
        SandboxStatus::Creating | SandboxStatus::Running => SandboxState::Running,
        SandboxStatus::Paused | SandboxStatus::Stopped | SandboxStatus::Error => SandboxState::Paused,
        SandboxStatus::Destroyed => SandboxState::Gone,
    }
}

/// The template as asked for; of a sandbox that was not made through E2B, its image.
pub fn template(view: &SandboxView, record: &E2bRecord) -> String {
    if record.is_made_by_e2b() { record.template.clone() } else { view.image.clone() }
}

/// The sandbox with its tokens, which stand for the caller.
pub async fn connected(call: &Call, view: &SandboxView) -> Result<ConnectedSandbox, E2bError> {
    let parts = &call.clients.parts;
    let holder = call.holder().await?;
    let record = record::hand_out(&call.clients, &view.id, &holder).await?;
    let template = template(view, &record);
    Ok(ConnectedSandbox {
        alias: template.clone(),
        template,
        id: view.id.to_string(),
        client: CLIENT,
        envd_version: ENVD_VERSION,
        envd_access_token: envd_token::mint(&parts.key, &view.id, &record, &holder),
        traffic_access_token: traffic_token::mint(&parts.key, &view.id, &holder),
        domain: domain(&parts.previews),
    })
}

pub fn listed(view: &SandboxView, record: &E2bRecord, now_ms: u64) -> ListedSandbox {
    let (state, template) = (state(view), template(view, record));
    let endless = || match state {
        SandboxState::Running => rfc3339(now_ms + limits::ENDLESS_S * 1_000),
        SandboxState::Paused | SandboxState::Gone => view.updated_at.clone(),
    };
    ListedSandbox {
        alias: template.clone(),
        template,
        id: view.id.to_string(),
        client: CLIENT,
        started_at: view.created_at.clone(),
        end_at: view.expires_at.clone().unwrap_or_else(endless),
        cpu_count: cpu_count(view),
        memory_mb: view.limits.memory_mb,
        disk_size_mb: view.limits.disk_mb.unwrap_or_default(),
        state,
        envd_version: ENVD_VERSION,
        metadata: view.metadata.clone(),
    }
}

pub fn detail(call: &Call, view: &SandboxView, record: &E2bRecord) -> SandboxDetail {
    let listed = listed(view, record, call.now_ms());
    let pause_mode = match (listed.state, view.status) {
        (SandboxState::Paused, SandboxStatus::Paused) => Some("full"),
        (SandboxState::Paused, _) => Some("filesystem"),
        (SandboxState::Running | SandboxState::Gone, _) => None,
    };
    let on_timeout = match record.at_timeout {
        AtTimeout::Kill => "kill",
        AtTimeout::Pause | AtTimeout::PauseFiles => "pause",
    };
    SandboxDetail {
        listed,
        domain: domain(&call.clients.parts.previews),
        allow_internet_access: record.allow_internet_access,
        network: record.network.clone(),
        lifecycle: Lifecycle { auto_resume: record.auto_resume, on_timeout },
        pause_mode: pause_mode.filter(|_| view.phase.is_none()),
    }
}

/// Whole cores, at least one.
pub fn cpu_count(view: &SandboxView) -> u64 {
    (1_u32..1_024).find(|count| f64::from(*count) >= view.limits.cpus).map_or(1_024, u64::from)
}

/// Previews are at `<port>-<id>.<domain>`.
fn domain(previews: &Previews) -> String {
    match previews.port == previews.scheme.port() {
        true => previews.domain.clone(),
        false => format!("{}:{}", previews.domain, previews.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(status: &str, phase: Option<&str>) -> SandboxView {
        let mut text = json!({
            "id": "01jb9xyzabcdefghjkmnpqrstv", "name": "n", "tenant": "t", "principal": "p", "project": "d",
            "status": status, "driver": "oci", "image": "host", "ports": [], "previews": {},
            "limits": {"memory_mb": 512, "cpus": 1.5, "pids": 10}, "network": "proxy", "idle_policy": "sleep",
            "visibility": "private", "env": [], "services": [], "metadata": {}, "attempt": 1,
            "created_at": "2026-01-31T10:00:00.000Z", "updated_at": "2026-01-31T11:00:00.000Z",
        });
        if let Some(phase) = phase {
            text["phase"] = json!(phase);
        }
        serde_json::from_value(text).expect("a view")
    }

    #[test]
    fn each_state_is_one_that_e2b_has() {
        let table = [
            ("creating", Some("provisioning"), SandboxState::Running),
            ("running", None, SandboxState::Running),
            ("running", Some("pausing"), SandboxState::Paused),
            ("paused", None, SandboxState::Paused),
            ("paused", Some("resuming"), SandboxState::Running),
            ("stopped", None, SandboxState::Paused),
            ("stopped", Some("starting"), SandboxState::Running),
            ("error", None, SandboxState::Paused),
            ("running", Some("destroying"), SandboxState::Gone),
            ("destroyed", None, SandboxState::Gone),
        ];
        for (status, phase, expected) in table {
            assert_eq!(state(&view(status, phase)), expected, "{status} {phase:?}");
        }
    }

    #[test]
    fn a_sandbox_made_otherwise_has_defaults() {
        let listed = listed(&view("running", None), &E2bRecord::default(), 0);
        let text = serde_json::to_value(&listed).expect("JSON");
        let expected = json!({
            "templateID": "host", "sandboxID": "01jb9xyzabcdefghjkmnpqrstv", "clientID": "slipway",
            "alias": "host", "startedAt": "2026-01-31T10:00:00.000Z", "endAt": "1971-01-01T00:00:00.000Z",
            "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 0, "state": "running", "envdVersion": "0.6.4",
            "metadata": {},
        });
        assert_eq!(text, expected);
    }
}
