//! The store: the only crate that opens `<data>/slipway.db`. Beside it: the key files of the data directory, the
//! space on its disk, and the clock that rows are stamped with.
//!
//! ```text
//!  callers ──job──▶ bounded queue ──▶ writer thread: BEGIN, one SAVEPOINT a job, COMMIT, then the replies
//!     │                                                                   └──▶ event feed ──▶ subscribers
//!     └───read────▶ a few read-only connections
//! ```
//!
//! An acknowledged write is on the disk. Decisions are made in `core`; the store only records them, a
//! transition and its event in one transaction. **Invariant:** no value of a sandbox's environment is in an
//! event, an attempt or a log line.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod access_watch;
mod attempts;
mod audits;
mod backup;
mod client_records;
mod clock;
mod columns;
mod connection;
pub mod disk_space;
mod egress;
mod error;
mod event_feed;
mod event_log;
mod events;
mod exec_exits;
mod execs;
pub mod failpoint;
mod file_links;
#[cfg(any(test, feature = "test-support"))]
pub mod fixture;
mod handle;
mod history;
mod idempotency;
pub mod identity_files;
pub mod limits;
mod log_quota;
mod metrics;
mod model_budgets;
mod model_calls;
mod model_providers;
mod nocow;
mod preview_links;
mod provisioning;
mod query;
mod quota_use;
mod quotas;
mod reader;
mod records;
mod repair;
mod restored;
mod retention;
mod sandbox_row;
mod sandboxes;
mod schema;
mod schema_workspaces;
mod secret_service;
mod secret_value;
mod secrets;
mod share_index;
mod shares;
mod snapshots;
mod task_changes;
mod task_events;
mod tasks;
#[cfg(test)]
mod tests;
pub mod token_auth;
mod tokens;
mod transitions;
mod vacuum;
pub mod vault;
mod wal;
mod wal_checkpointer;
mod webhook_deliveries;
mod webhook_log;
mod webhooks;
mod writer;

pub use audits::{AuditFilter, AuditOutcome};
pub use client_records::ClientRecordChange;
pub use clock::Clock;
pub use egress::EgressFact;
pub use error::{OpenError, StoreError};
pub use event_feed::{Subscription, Topic};
pub use event_log::{EventBatch, LogPart, frame_data};
pub use events::EventFilter;
pub use execs::{ExecBegun, ExecEnd};
pub use handle::{QueuedWrite, Store};
pub use history::{HistoryPolicy, TrimmedHistory};
pub use idempotency::{IdempotencyClaim, IdempotencyKey};
pub use log_quota::LogOwner;
pub use metrics::StoreMetrics;
pub use model_budgets::period;
pub use model_calls::CallEnd;
pub use preview_links::LinkMade;
pub use provisioning::{StepCommand, StepEnd};
pub use quotas::UseByOwner;
pub use records::{
    AttemptRecord, AuditRecord, BudgetRecord, EventRecord, ExecRecord, FileLinkRecord, FoundTask, LinkRecord,
    NewSandbox, NewTask, ProviderRecord, SandboxRecord, Secret, SecretRecord, ShareRecord, TaskGrant,
    TaskRecord, TokenRecord,
};
pub use repair::{RepairOutcome, repair};
pub use restored::{RestoreOptions, RestoredRows, prepare_restored};
pub use retention::ExpiredRows;
pub use sandboxes::{Replacement, SandboxFilter, SharedFilter};
pub use schema::newest_version as newest_schema_version;
pub use secret_service::{SecretError, SecretWrite, Secrets};
pub use secret_value::SecretValue;
pub use secrets::NewSecret;
pub use share_index::ShareIndex;
pub use shares::{ShareChange, ShareMade};
pub use snapshots::{NewSnapshot, SnapshotFilter, SnapshotMade, SnapshotRetention, SnapshotRow};
pub use task_changes::ChangedFiles;
pub use tasks::TaskBegun;
pub use transitions::SandboxUpdate;
pub use webhook_deliveries::{
    DeliveryEnd, DeliveryFilter, DeliveryPruning, DeliveryRow, FailedDelivery, NewDelivery, TakenEvents,
};
pub use webhook_log::{WebhookGap, WebhookLogPart};
pub use webhooks::{NewWebhook, WebhookCounts, WebhookRow, WebhookState, WebhookUpdate};
