//! Rows as values.

use crate::{
    core::{
        Blueprint, BudgetBounds, Environment, GrantTerms, LinkId, ModelActivity, ModelFailure, Preview,
        Spend, State,
    },
    driver::Handle,
};
use protocol::{
    Cursor, Dialect, ExecId, Exit, FailureReason, Hint, TaskId, TaskPhase, TaskRequest, TaskResult,
    TaskStatus,
    api::{
        AttemptRelation, AttemptState, BudgetPeriod, Label, ModelSpec, Owner, PostMortem, Problem, SandboxId,
        SandboxScope, TokenScope,
    },
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
    /// How it ended last while it should have run.
    pub post_mortem: Option<Box<PostMortem>>,
    /// What the launch that is under way told last. Not written down.
    pub progress: Option<Arc<str>>,
    /// It lives in another PID namespace than hostd, which leaves it alone. Not written down.
    pub other_pid_namespace: bool,
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
    /// How what it brought up ended, if it should have run.
    pub post_mortem: Option<Box<PostMortem>>,
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
    /// What it may use of models; not in lists, nor what comes next.
    pub grant: Option<TaskGrant>,
    /// What the gateway saw of it.
    pub seen: ModelActivity,
    /// Why it cannot succeed any more.
    pub verdict: Option<ModelFailure>,
    /// Why the sandbox ended under it.
    pub death: Option<String>,
    /// Ids of the permissions that its agent waits for, the oldest first.
    pub open_permissions: Vec<String>,
    pub created_ms: u64,
    pub started_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

/// In the place of the hash of a request that nobody knows any more: no request has it.
pub(super) const HASH_UNKNOWN: [u8; 32] = [0; 32];

impl TaskRecord {
    /// What was asked for was lost with a database; what became of it was taken over from the sandbox.
    pub fn is_recovered(&self) -> bool {
        self.request_hash == HASH_UNKNOWN
    }

    /// Its turn has come: the first event only says that it waits for that.
    pub fn has_begun(&self) -> bool {
        self.phase != TaskPhase::Queued || self.followed > 1
    }

    /// Somebody asked for its end, or the gateway saw that it cannot succeed.
    pub fn must_end(&self) -> bool {
        self.cancelling || self.verdict.is_some()
    }
}

/// What a task was granted of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGrant {
    /// SHA-256 of the key that its agent shows.
    pub key_hash: [u8; 32],
    pub terms: GrantTerms,
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
    pub grant: Option<TaskGrant>,
    pub created_ms: u64,
}

/// A task that a sandbox knows of and the database does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTask {
    pub id: TaskId,
    pub agent: String,
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
    /// The row of a task that it is about.
    pub task: Option<i64>,
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

/// Who provides models.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRecord {
    /// None: for all tenants.
    pub tenant: Option<Label>,
    pub name: String,
    pub dialect: Dialect,
    pub base_url: String,
    /// Its key, as only the key file opens it.
    pub sealed: Option<Vec<u8>>,
    pub models: Vec<ModelSpec>,
    pub default: Option<String>,
    pub created_ms: u64,
}

/// What a tenant may use of models, and what it did since the period began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRecord {
    pub tenant: Label,
    pub bounds: BudgetBounds,
    pub per: BudgetPeriod,
    pub used: Spend,
}
