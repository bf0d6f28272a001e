//! Rows as values.

use hostd_core::{
    Blueprint, BudgetBounds, Environment, FileLink, GrantTerms, Handle, LinkId, ModelActivity, ModelFailure,
    Preview, Provisioning, Share, Spend, State,
};
use protocol::{
    Cursor, Dialect, ExecId, Exit, FailureReason, Hint, TaskId, TaskPhase, TaskRequest, TaskResult,
    TaskStatus,
    api::{
        AttemptRelation, AttemptState, BudgetPeriod, Label, ModelSpec, Owner, PostMortem, Problem, SandboxId,
        SandboxScope, SecretName, SecretRef, TokenScope,
    },
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    /// The sandbox that took its name: this one is to be destroyed.
    pub replaced_by: Option<SandboxId>,
    pub blueprint: Arc<Blueprint>,
    pub metadata: BTreeMap<String, String>,
    /// Given to processes over the control socket; its values are never shown.
    pub env: Secret<Environment>,
    pub state: State,
    pub provisioning: Provisioning,
    /// How the sandbox died last while it should have run.
    pub post_mortem: Option<Box<PostMortem>>,
    /// The last progress of the running launch. Not stored.
    pub progress: Option<Arc<str>>,
    /// The sandbox lives in another PID namespace than hostd, which leaves it alone. Not stored.
    pub other_pid_namespace: bool,
    /// Number of the newest attempt.
    pub attempt: u32,
    /// Grows with every change of the row, except of `followed`.
    pub generation: u64,
    pub keep_workspace: bool,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub expires_ms: Option<u64>,
    /// The cursor up to which runtimed's event log was imported.
    pub followed: Cursor,
}

/// A value that `Debug` does not print.
#[derive(Clone, Default, PartialEq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A sandbox to be inserted.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub id: SandboxId,
    pub name: String,
    pub owner: Owner,
    pub scope: Option<SandboxScope>,
    pub blueprint: Arc<Blueprint>,
    pub metadata: BTreeMap<String, String>,
    pub env: Secret<Environment>,
    /// The archive of its dotfiles.
    pub dotfiles: Option<Secret<Arc<[u8]>>>,
    pub state: State,
    pub provisioning: Provisioning,
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
    /// How the sandbox that the attempt launched died, if it should have run.
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

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// The row number, which events refer to.
    pub number: i64,
    pub sandbox: SandboxId,
    pub owner: Owner,
    pub id: TaskId,
    pub agent: String,
    /// The principal that submitted it; `None` for a task of an older hostd, or one that was recovered.
    pub created_by: Option<String>,
    pub prompt: String,
    /// The request to runtimed, until runtimed has accepted it.
    pub request: Option<Secret<TaskRequest>>,
    pub request_hash: [u8; 32],
    pub status: TaskStatus,
    pub phase: TaskPhase,
    pub failure_reason: Option<FailureReason>,
    /// runtimed may have the task; it certainly has it when `request` is absent.
    pub taken: bool,
    pub cancelling: bool,
    /// The number of the last imported event.
    pub followed: u64,
    /// The stored bytes of its events.
    pub bytes: u64,
    /// The sequence number of `done` in the event log.
    pub done_seq: Option<u64>,
    pub result: Option<TaskResult>,
    /// The granted models. Lists omit this field and the four after it.
    pub grant: Option<TaskGrant>,
    /// The gateway's observations of the task.
    pub seen: ModelActivity,
    /// Why the task cannot succeed any more.
    pub verdict: Option<ModelFailure>,
    /// Why the sandbox died during the task.
    pub death: Option<String>,
    /// The commit of its checkpoint, as runtimed reported it before the agent began.
    pub checkpoint: Option<String>,
    /// Ids of the permissions that the agent waits for, oldest first.
    pub open_permissions: Vec<String>,
    pub created_ms: u64,
    pub started_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

/// Replaces the hash of a request that was lost; no request has this hash.
pub(super) const HASH_UNKNOWN: [u8; 32] = [0; 32];

impl TaskRecord {
    /// Returns whether the request was lost with a database, and the task was recovered from the sandbox.
    pub fn is_recovered(&self) -> bool {
        self.request_hash == HASH_UNKNOWN
    }

    /// Returns whether the task has begun: its first event only says that it is queued.
    pub fn has_begun(&self) -> bool {
        self.phase != TaskPhase::Queued || self.followed > 1
    }

    /// Returns whether the task was cancelled, or the gateway saw that it cannot succeed.
    pub fn must_end(&self) -> bool {
        self.cancelling || self.verdict.is_some()
    }
}

/// The models that a task may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGrant {
    /// SHA-256 of the key that the agent presents.
    pub key_hash: [u8; 32],
    pub terms: GrantTerms,
}

/// A task to be inserted.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub sandbox: SandboxId,
    pub id: TaskId,
    pub agent: String,
    pub created_by: String,
    pub prompt: String,
    pub request: Secret<TaskRequest>,
    pub request_hash: [u8; 32],
    pub grant: Option<TaskGrant>,
    pub created_ms: u64,
}

/// A task that a sandbox has and the database has not.
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
    /// The row of the task that the event is about.
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
    /// The principal that created the link.
    pub created_by: String,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub revoked_ms: Option<u64>,
}

/// A signed URL of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileLinkRecord {
    pub link: FileLink,
    /// The principal that created the URL.
    pub created_by: String,
    pub created_ms: u64,
    pub revoked_ms: Option<u64>,
}

/// A share of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRecord {
    pub share: Share,
    /// The principal that created or last changed it.
    pub created_by: String,
    pub created_ms: u64,
}

/// A secret of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRecord {
    pub tenant: Label,
    pub name: SecretName,
    /// The value, encrypted with the key file.
    pub sealed: Vec<u8>,
    /// Counts how often the value was set.
    pub version: u64,
    /// The principal that set the value last.
    pub updated_by: String,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub last_used_ms: Option<u64>,
}

/// A mutating or refused API call.
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
    /// The error code, when refused.
    pub code: Option<String>,
    /// The operation, as in the API document; empty where no route matched.
    pub operation: String,
    /// Id or name of what the call was about, or of what it made; and its sandbox. Empty for none.
    pub object: String,
    pub sandbox: String,
    /// The address that the call came from.
    pub peer: String,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRecord {
    /// `None` for a provider of all tenants.
    pub tenant: Option<Label>,
    pub name: String,
    pub dialect: Dialect,
    pub base_url: String,
    /// The key, encrypted with the key file.
    pub sealed: Option<Vec<u8>>,
    /// The secret that is the key, instead of one that is stored here.
    pub key_from: Option<SecretRef>,
    pub models: Vec<ModelSpec>,
    pub default: Option<String>,
    pub created_ms: u64,
}

/// The model budget of a tenant, and its usage since the period began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRecord {
    pub tenant: Label,
    pub bounds: BudgetBounds,
    pub per: BudgetPeriod,
    pub used: Spend,
}
