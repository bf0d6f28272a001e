//! Rows as values.

use crate::{
    core::{Blueprint, Environment, LinkId, Preview, State},
    driver::Handle,
};
use protocol::{
    Cursor, ExecId, Exit, FailureReason, Hint, TaskId, TaskPhase, TaskRequest, TaskResult, TaskStatus,
    api::{AttemptRelation, AttemptState, Label, Owner, Problem, SandboxId, SandboxScope, TokenScope},
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A sandbox, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    pub blueprint: Arc<Blueprint>,
    pub metadata: BTreeMap<String, String>,
    /// Given to processes over the control socket; shown to nobody.
    pub env: Secret<Environment>,
    pub state: State,
    /// Number of the newest attempt.
    pub attempt: u32,
    /// Grows with every change of the row, except of `followed`.
    pub generation: u64,
    pub keep_workspace: bool,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub expires_ms: Option<u64>,
    /// How far runtimed's event log was taken over.
    pub followed: Cursor,
}

/// A value that does not print.
#[derive(Clone, Default, PartialEq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A sandbox to be written for the first time.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub id: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    pub blueprint: Arc<Blueprint>,
    pub metadata: BTreeMap<String, String>,
    pub env: Secret<Environment>,
    pub state: State,
    pub created_ms: u64,
    pub expires_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    pub attempt: u32,
    pub relation: AttemptRelation,
    pub state: AttemptState,
    pub blueprint: Arc<Blueprint>,
    pub handle: Option<Handle>,
    pub problem: Option<Problem>,
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExecRecord {
    pub sandbox: SandboxId,
    pub id: ExecId,
    pub argv: Vec<String>,
    pub cwd: String,
    pub tty: bool,
    /// SHA-256 of the request, to tell a repetition from a conflict.
    pub request_hash: [u8; 32],
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    pub exit: Option<Exit>,
    pub hints: Vec<Hint>,
}

/// A task, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// Its row: what its events name.
    pub number: i64,
    pub sandbox: SandboxId,
    pub owner: Owner,
    pub id: TaskId,
    pub agent: String,
    pub prompt: String,
    /// What runtimed is told, until it has it.
    pub request: Option<Secret<TaskRequest>>,
    pub request_hash: [u8; 32],
    pub status: TaskStatus,
    pub phase: TaskPhase,
    pub failure_reason: Option<FailureReason>,
    /// runtimed may have it; it has it for certain when `request` is gone.
    pub taken: bool,
    pub cancelling: bool,
    /// The last of its events that was taken over.
    pub followed: u64,
    /// What its events take.
    pub bytes: u64,
    /// Where `done` stands in the log.
    pub done_seq: Option<u64>,
    pub result: Option<TaskResult>,
    pub created_ms: u64,
    pub started_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

/// A task to be written for the first time.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub sandbox: SandboxId,
    pub id: TaskId,
    pub agent: String,
    pub prompt: String,
    pub request: Secret<TaskRequest>,
    pub request_hash: [u8; 32],
    pub created_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    pub seq: u64,
    pub time_ms: u64,
    pub sandbox: SandboxId,
    pub owner: Owner,
    pub kind: String,
    pub origin: Option<Cursor>,
    pub data: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TokenRecord {
    pub id: String,
    pub tenant: Label,
    pub principal: Label,
    pub scope: TokenScope,
    pub created_ms: u64,
    pub expires_ms: Option<u64>,
    pub revoked_ms: Option<u64>,
}

/// A link to a private preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRecord {
    pub id: LinkId,
    pub preview: Preview,
    /// The principal.
    pub created_by: String,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub revoked_ms: Option<u64>,
}

/// One mutating or refused call.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub time_ms: u64,
    pub tenant: String,
    pub principal: String,
    pub via: String,
    pub request_id: String,
    pub method: String,
    pub path: String,
    pub status: u16,
    /// The error's code, when refused.
    pub code: Option<String>,
}
