//! Backups of a host.

use super::{SandboxId, SnapshotId};
use serde::{Deserialize, Serialize};

/// The trailer with the [`BackupSummary`], for clients that say `TE: trailers`.
pub const BACKUP_TRAILER: &str = "slipway-backup";
/// Length of a passphrase.
pub const PASSPHRASE_MIN_BYTES: usize = 8;
pub const PASSPHRASE_MAX_BYTES: usize = 1024;
/// Keys that one backup is encrypted to.
pub const RECIPIENTS_MAX: usize = 32;
/// Sandboxes that one request names.
pub const BACKUP_SANDBOXES_MAX: usize = 1_000;

/// The backup to make: `POST /v1/host/backup`. It is encrypted with the passphrase, or to the recipients.
// Not `Debug`: it holds the passphrase.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BackupCreate {
    /// 8 to 1024 bytes. Only who knows it can restore the backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
    /// Public keys of age, `age1…`. Only who has the key of one of them can restore the backup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Whose files are in the backup.
    #[serde(skip_serializing_if = "BackupWorkspaces::is_all")]
    pub workspaces: BackupWorkspaces,
    /// The sandboxes, with `workspaces: some`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandboxes: Vec<SandboxId>,
    /// Whether the files of all snapshots are in the backup.
    pub snapshots: bool,
}

/// Whose files are in a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackupWorkspaces {
    /// Those of every sandbox that is not destroyed.
    #[default]
    All,
    None,
    /// Those of the sandboxes that are named.
    Some,
}

impl BackupWorkspaces {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// What a backup holds: in the trailer of its response, and at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// Sandboxes whose files are in it.
    pub sandboxes: Vec<SandboxId>,
    pub snapshots: Vec<SnapshotId>,
    /// What should be in it, and is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<BackupSkipped>,
}

/// Files that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSkipped {
    /// The sandbox or the snapshot.
    pub id: String,
    pub why: String,
}

/// How the response of a backup ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupEnd {
    /// It is whole.
    Done { sandboxes: usize, snapshots: usize, skipped: Vec<BackupSkipped> },
    /// It was given up: what was received is of no use.
    Failed { message: String },
}
