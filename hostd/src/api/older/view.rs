//! A sandbox as the older routes show it.

use super::request::{PROJECT, USER, WORKSPACE};
use hostd_core::rfc3339;
use hostd_store::SandboxRecord;
use protocol::{
    Status,
    api::{IdlePolicy, SandboxId, SandboxStatus, Visibility},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The hold that a keepalive takes. Not the hold of `/v1`, which lasts a moment.
pub const HOLD: &str = "keepalive-until";

#[derive(Debug, Serialize, ToSchema)]
pub struct OlderRow {
    pub id: SandboxId,
    /// creating, running, stopped or error; a paused sandbox is shown as stopped.
    pub status: &'static str,
    pub image: String,
    /// Always empty, as are all fields that would expose the host.
    pub workspace_img: &'static str,
    pub workspace_mnt: &'static str,
    pub container_id: &'static str,
    pub cgroup_path: &'static str,
    pub container_ip: &'static str,
    pub memory_high: String,
    pub error_message: String,
    pub ports: Vec<u16>,
    pub created_at: String,
    pub updated_at: String,
    /// Seconds since the Unix epoch, as the next ones.
    pub last_active_at: u64,
    pub stopped_at: Option<u64>,
    /// Set for a running sandbox, and only in the view of a single one.
    pub keepalive_until: Option<u64>,
    pub external_user_id: String,
    pub external_project_id: String,
    pub external_workspace_id: String,
    pub visibility: Visibility,
    pub idle_policy: IdlePolicy,
}

/// `GET /sandboxes`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
pub struct OlderRows(pub Vec<OlderRow>);

/// `GET /sandbox/{id}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OlderSandbox {
    pub row: OlderRow,
    /// Null unless the sandbox runs.
    pub live_state: Option<OlderLive>,
    /// The status of PID 1, if it responds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct OlderLive {
    pub running: bool,
    pub paused: bool,
}

pub fn row(record: &SandboxRecord) -> OlderRow {
    let blueprint = &record.blueprint;
    let external = |name: &str| record.metadata.get(name).cloned().unwrap_or_default();
    let status = status_text(record.state.status);
    OlderRow {
        id: record.id,
        status,
        image: blueprint.image.clone(),
        workspace_img: "",
        workspace_mnt: "",
        container_id: "",
        cgroup_path: "",
        container_ip: "",
        memory_high: size(blueprint.limits.memory_mb),
        error_message: record.state.problem.as_ref().map(|each| each.message.clone()).unwrap_or_default(),
        ports: blueprint.ports.clone(),
        created_at: rfc3339(record.created_ms),
        updated_at: rfc3339(record.updated_ms),
        last_active_at: record.updated_ms / 1000,
        stopped_at: (status == "stopped").then_some(record.updated_ms / 1000),
        keepalive_until: None,
        external_user_id: external(USER),
        external_project_id: external(PROJECT),
        external_workspace_id: external(WORKSPACE),
        visibility: blueprint.visibility.unwrap_or_default(),
        idle_policy: blueprint.idle_policy,
    }
}

/// Adds the status that PID 1 reported, if it responded.
pub fn sandbox(record: &SandboxRecord, reported: Option<&Status>) -> OlderSandbox {
    let mut row = row(record);
    if let Some(status) = reported {
        row.last_active_at =
            if status.activity.busy { status_time(record, status) } else { status.activity.since_ms / 1000 };
        let hold = status.holds.iter().find(|hold| hold.name.as_str() == HOLD);
        row.keepalive_until = hold.map(|hold| hold.expires_ms / 1000);
    }
    let live_state = match record.state.status {
        SandboxStatus::Running => Some(OlderLive { running: true, paused: false }),
        SandboxStatus::Paused => Some(OlderLive { running: true, paused: true }),
        SandboxStatus::Creating
        | SandboxStatus::Stopped
        | SandboxStatus::Error
        | SandboxStatus::Destroyed => None,
    };
    let runtime = reported.and_then(|status| serde_json::to_value(status).ok());
    OlderSandbox { row, live_state, runtime }
}

/// The last activity of a busy sandbox: since it is busy, or its last update if that is later.
fn status_time(record: &SandboxRecord, status: &Status) -> u64 {
    record.updated_ms.max(status.activity.since_ms) / 1000
}

fn status_text(status: SandboxStatus) -> &'static str {
    match status {
        SandboxStatus::Creating => "creating",
        SandboxStatus::Running => "running",
        SandboxStatus::Paused | SandboxStatus::Stopped => "stopped",
        SandboxStatus::Error => "error",
        SandboxStatus::Destroyed => "destroyed",
    }
}

fn size(mb: u64) -> String {
    if mb.is_multiple_of(1024) { format!("{}G", mb / 1024) } else { format!("{mb}M") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        assert_eq!((size(4096), size(1536)), ("4G".to_owned(), "1536M".to_owned()));
    }
}
