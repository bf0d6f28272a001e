//! Snapshots of the files of a sandbox.

use super::{IdlePolicy, NetworkSpec, OnTtl, Owner, SandboxId, SnapshotId, Visibility};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The snapshot to take: `POST /v1/sandboxes/{id}/snapshots`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotCreate {
    /// For people. A snapshot with a name is kept until it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is left out: names at any depth, as in `node_modules`, or paths from the home directory. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SnapshotState {
    /// Being taken.
    Creating,
    /// It can be restored and forked.
    Ready,
    /// Being removed.
    Deleting,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotView {
    pub id: SnapshotId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sandbox that it was taken of; absent for one that was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// The snapshot that the files of that sandbox came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotId>,
    pub owner: Owner,
    pub state: SnapshotState,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
    pub created_at: String,
    /// For how long the processes of the sandbox stood still while it was taken.
    pub frozen_ms: u64,
    /// Absent until all files are hashed, soon after the snapshot was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<SnapshotContent>,
}

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotContent {
    pub files: u64,
    pub bytes: u64,
    /// Hash of the manifest, which has the hash of each file.
    pub sha256: String,
}

/// The sandbox to make from a snapshot: `POST /v1/snapshots/{snapshot}/fork`. Image, limits, ports and services are those
/// of the sandbox that the snapshot was taken of, and so are network, idle policy and visibility where they are not given;
/// its environment, tokens, shares and holds are not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotFork {
    /// Default: derived from the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Environment variables of the new sandbox.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub env: crate::EnvMap,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Remaining lifetime, as in `2h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// What happens at the end of `ttl`; default: destroyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_ttl: Option<OnTtl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_policy: Option<IdlePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
}

/// Where a snapshot is restored: `POST /v1/snapshots/{snapshot}/restore`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotRestore {
    /// The sandbox whose files are replaced. Default: the one that the snapshot was taken of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
}

/// Whether a snapshot is what it was when it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotVerification {
    pub intact: bool,
    /// As found.
    pub content: SnapshotContent,
    /// The first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<SnapshotDifference>,
    pub differences_total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotDifference {
    /// From the home directory.
    pub path: String,
    pub kind: DifferenceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    Missing,
    Added,
    Changed,
}
