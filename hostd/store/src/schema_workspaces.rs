//! Migrations about what workspaces are made from, and about the space that they take.

/// Snapshots of workspaces, and which of them the files of a sandbox came from last.
pub(super) const SNAPSHOTS: &str = "
CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    name TEXT,
    sandbox TEXT,                       -- NULL: imported
    parent TEXT,                        -- a snapshot that may be gone
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    excludes TEXT NOT NULL,
    blueprint TEXT NOT NULL,            -- of the sandbox, without its environment
    created_ms INTEGER NOT NULL,
    frozen_ms INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    sha256 TEXT                         -- of the manifest; NULL until it was made
) STRICT;
CREATE INDEX snapshots_list ON snapshots (tenant, principal, id);
CREATE INDEX snapshots_sandbox ON snapshots (sandbox, id);
CREATE INDEX snapshots_use ON snapshots (tenant, principal, bytes);
CREATE INDEX snapshots_unfinished ON snapshots (id) WHERE state <> 'ready' OR sha256 IS NULL;
ALTER TABLE sandboxes ADD COLUMN base_snapshot TEXT;
";

/// How far the provisioning of a sandbox is, and the dotfiles of its spec, which no other column holds.
pub(super) const PROVISIONING: &str = "
ALTER TABLE sandboxes ADD COLUMN provisioning TEXT NOT NULL DEFAULT '{\"done\":0,\"begun\":0,\"running\":false}';
CREATE TABLE dotfiles (
    sandbox TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    archive BLOB NOT NULL
);
";

/// The layers of workspaces that are on disk: each counts for one snapshot, or for one sandbox that no snapshot has them in
/// common with.
pub(super) const LAYER_SIZES: &str = "
ALTER TABLE snapshots ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 0;     -- as measured last
UPDATE snapshots SET disk_bytes = bytes;
ALTER TABLE sandboxes ADD COLUMN layer_bytes INTEGER NOT NULL DEFAULT 0;    -- below what disk_bytes counts
DROP INDEX snapshots_use;
DROP INDEX sandboxes_use;
DROP INDEX sandboxes_kept;
CREATE INDEX snapshots_use ON snapshots (tenant, principal, disk_bytes);
CREATE INDEX sandboxes_use
    ON sandboxes (tenant, principal, goal, status, memory_mb, cpus_milli, disk_bytes, layer_bytes)
    WHERE status <> 'destroyed';
CREATE INDEX sandboxes_kept ON sandboxes (tenant, principal, disk_bytes, layer_bytes)
    WHERE status = 'destroyed' AND keep_workspace = 1;
CREATE INDEX sandboxes_layers ON sandboxes (id) WHERE layer_bytes > 0;
";
