//! The public API, version 1: request and response bodies between clients and hostd, one file per resource. Shared by
//! hostd and the `slipway` command. Doc comments here become the descriptions of the OpenAPI document.
//!
//! A field of a sandbox spec is added to [`SandboxSpec`] in `sandbox.rs`. Unlike the protocol between hostd and
//! runtimed, unknown fields are refused by name.

mod acp;
mod agent;
mod audit;
mod backup;
mod capacity;
mod error;
mod event;
mod exec;
mod files;
mod fingerprint;
mod git;
mod host;
mod id;
mod image;
mod model;
mod network;
mod not_found;
mod owner;
mod preview;
mod quota;
mod sandbox;
mod secret;
mod setup;
mod share;
mod snapshot;
mod task;
mod task_changes;
mod task_revert;
mod terminal;
mod token;
mod ttl;
mod tunnel;
mod webhook;

pub use acp::{ACP_MESSAGE_MAX_BYTES, ACP_SUBPROTOCOL};
pub use agent::{AgentView, WarmAnswer, WarmCreate};
pub use audit::AuditView;
pub use backup::{
    BACKUP_SANDBOXES_MAX, BACKUP_TRAILER, BackupCreate, BackupEnd, BackupSkipped, BackupSummary,
    BackupWorkspaces, PASSPHRASE_MAX_BYTES, PASSPHRASE_MIN_BYTES, RECIPIENTS_MAX,
};
pub use capacity::{
    CapacityDetail, LeftoverKind, LimitsChange, MemoryLevel, PressureView, ReapItem, ReapReport, SandboxCost,
    StatsView,
};
pub use error::{ApiError, ApiErrorBody, ApiErrorCode, ApiErrorDetail};
pub use event::{
    AttemptEventData, DotfilesEventData, EgressEventData, GapEventData, GitEventData, SandboxEventData,
    SetupEventData,
};
pub use exec::{ExecAnswer, ExecCreate, TtyChoice};
pub use files::{
    ContentEncoding, FileChangeView, FileLinkCreate, FileLinkCreated, FileLinkMethod, FileLinkView, FilePage,
    FileView, FilesWritten, SearchMatchView, SearchView, SkippedView, UnpackView, WriteFile, WriteFiles,
};
pub use fingerprint::{BadFingerprint, CertificateFingerprint};
pub use git::{
    GIT_AUTHOR_MAX_BYTES, GIT_LOG_MAX, GIT_MESSAGE_MAX_BYTES, GIT_PATH_MAX_BYTES, GIT_PATHS_MAX, GitAuth,
    GitAuthor, GitBranchCreate, GitBranchView, GitCommitCreate, GitCommitView, GitDiff, GitFetch, GitFetched,
    GitFile, GitFileState, GitLog, GitPush, GitPushed, GitReason, GitRemoteBranch, GitStatus,
};
pub use host::{
    Capabilities, DOCKER_SOCKET, DiskLevel, DriverView, HostView, PODMAN_SOCKET, StaleList, StaleView,
    Unasked,
};
pub use id::{BadId, SandboxId, SnapshotId};
pub use image::{
    DefaultImage, Image, ImageCollection, ImageDetails, ImagePull, ImagePullCreate, ImagePullState,
    ImageSource,
};
pub use model::{
    BudgetPeriod, BudgetSpec, BudgetUse, BudgetView, ModelPrice, ModelSpec, ModelView, ProviderSpec,
    ProviderView, TaskBudget,
};
pub use network::{
    EgressProfile, EgressProfileView, EgressRules, EgressView, Network, NetworkRules, NetworkSpec,
};
pub use not_found::{Missing, MissingKind};
pub use owner::{Label, Owner, SandboxScope, ScopeKind};
pub use preview::{PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView};
pub use quota::{
    OwnQuota, Quota, QuotaDetail, QuotaHolder, QuotaResource, QuotaScope, QuotaSource, QuotaUse, QuotaView,
};
pub use sandbox::{
    ActivityView, AttemptRelation, AttemptState, AttemptView, DeathCause, EnsureAnswer, EventView,
    IdlePolicy, Limits, LimitsSpec, Page, Phase, PortView, PostMortem, PreviewHeaders, Problem, ProblemCode,
    SandboxSpec, SandboxStatus, SandboxView, Seed, SleepsTo, Visibility,
};
pub use secret::{
    BadSecretName, BadSecretRef, SECRET_NAME_MAX_BYTES, SECRET_VALUE_MAX_BYTES, SecretName, SecretRef,
    SecretSpec, SecretView,
};
pub use setup::{
    DotfilesInstall, DotfilesSpec, FailedStep, SetupSpec, SetupStepSpec, SetupView, SourceAuth, SourceSpec,
};
pub use share::{ShareAccess, ShareSpec, ShareView, SharedView};
pub use snapshot::{
    DifferenceKind, SnapshotContent, SnapshotCreate, SnapshotDifference, SnapshotFork, SnapshotRestore,
    SnapshotState, SnapshotVerification, SnapshotView,
};
pub use task::{TaskAnswer, TaskCreate, TaskEventView};
pub use task_changes::{ChangesState, FileDiffView, TaskChangesView};
pub use task_revert::{RevertCounts, RevertedFile, TaskRevert, TaskRevertView};
pub use terminal::{SUBPROTOCOL, TOKEN_SUBPROTOCOL, TerminalText, VIEWER_MESSAGE_MAX_BYTES, ViewerText};
pub use token::{IdentityView, TokenCreate, TokenCreated, TokenScope, TokenView};
pub use ttl::{OnTtl, TtlChange};
pub use tunnel::{TUNNEL_MESSAGE_MAX_BYTES, TUNNEL_SUBPROTOCOL};
pub use webhook::{
    BadWebhookEvents, DeliveryState, DeliveryView, RedeliverRequest, Redelivered,
    WEBHOOK_DESCRIPTION_MAX_CHARS, WEBHOOK_EVENTS_MAX, WEBHOOK_TYPES, WEBHOOK_URL_MAX_BYTES, WebhookChange,
    WebhookCreate, WebhookCreated, WebhookDisabledReason, WebhookEvents, WebhookFailure, WebhookStatus,
    WebhookTest, WebhookView,
};
