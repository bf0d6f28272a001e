//! The settings of a session, kept in the metadata of its sandbox: a restart of hostd loses none, and they end with the
//! sandbox.

use super::{limits, rpc::RpcError, session_id::SessionId};
use crate::ApiClient;
use hostd_net::keyed_locks::KeyedLocks;
use hyper::Method;
use protocol::{
    Decision, Permissions,
    api::{SandboxId, SandboxView},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Actions that an agent may take without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everything: the sandbox is the bound.
    #[default]
    Auto,
    /// The editor is asked.
    Ask,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRecord {
    /// The directory of the editor, which is on another machine.
    pub cwd: String,
    /// Directory of the agent in the sandbox; absent: that of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    pub agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub mode: Mode,
    /// Rules in place of those of the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Program and arguments of the agent `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Whether the session made its sandbox, which then ends with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owns_sandbox: bool,
    /// Time to live of that sandbox, renewed by every prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

impl Mode {
    pub const ALL: [Self; 2] = [Self::Auto, Self::Ask];

    pub fn id(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
        }
    }

    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }
}

impl SessionRecord {
    /// The permissions of its tasks; absent: everything is allowed.
    pub fn task_permissions(&self) -> Option<Permissions> {
        let ask = || Permissions { default: Decision::Ask, rules: Vec::new() };
        match self.mode {
            Mode::Auto => None,
            Mode::Ask => Some(self.permissions.clone().unwrap_or_else(ask)),
        }
    }
}

/// Reads the records of a sandbox.
pub fn of_sandbox(sandbox: &SandboxView) -> impl Iterator<Item = (SessionId, SessionRecord)> {
    sandbox.metadata.iter().filter_map(|(key, value)| {
        Some((SessionId::of_metadata(sandbox.id, key)?, serde_json::from_str(value).ok()?))
    })
}

pub async fn sandbox(api: &ApiClient, id: SandboxId) -> Result<SandboxView, RpcError> {
    Ok(api.get(&format!("/v1/sandboxes/{id}")).await?)
}

/// Reads the record of a session, with its sandbox.
pub async fn load(api: &ApiClient, id: &SessionId) -> Result<(SandboxView, SessionRecord), RpcError> {
    let sandbox = sandbox(api, id.sandbox).await?;
    let record = of_sandbox(&sandbox).find(|(found, _)| found == id).map(|(_, record)| record);
    Ok((sandbox, record.ok_or_else(RpcError::no_session)?))
}

/// Stores the record of a session; `None` removes it. Metadata are replaced as a whole, so one change is made at a time.
pub async fn store(
    api: &ApiClient,
    locks: &KeyedLocks<SandboxId>,
    id: &SessionId,
    record: Option<&SessionRecord>,
) -> Result<SandboxView, RpcError> {
    let _lock = locks.lock(id.sandbox).await;
    let sandbox = sandbox(api, id.sandbox).await?;
    let mut metadata: BTreeMap<String, String> = sandbox.metadata.clone();
    match record {
        None => drop(metadata.remove(&id.metadata_key())),
        Some(record) => drop(metadata.insert(id.metadata_key(), text(record))),
    }
    if of_sandbox(&sandbox).count() >= limits::SESSIONS_OF_SANDBOX_MAX
        && metadata.len() > sandbox.metadata.len()
    {
        let most = limits::SESSIONS_OF_SANDBOX_MAX;
        let message = format!("the sandbox has {most} sessions, the most it may have; delete one");
        return Err(RpcError::invalid("sandbox", message));
    }
    if metadata == sandbox.metadata {
        return Ok(sandbox);
    }
    let body: Value = json!({ "metadata": metadata });
    Ok(api.json(Method::PATCH, &format!("/v1/sandboxes/{}", id.sandbox), Some(&body)).await?)
}

pub fn text(record: &SessionRecord) -> String {
    serde_json::to_string(record).expect("only text keys")
}
