//! The schema as numbered migrations. A released migration is never changed: a change is a new migration.
//!
//! Every table has tenant, principal and project, with '' for none. Times are milliseconds since the Unix
//! epoch; enums are spelled as in the API; other structures are JSON.

use super::{
    client_records,
    error::OpenError,
    schema_workspaces::{LAYER_SIZES, PROVISIONING, SNAPSHOTS},
    webhooks,
};
use rusqlite::{Connection, TransactionBehavior};

/// Migration n brings a database from `user_version` n-1 to n.
pub(super) const MIGRATIONS: &[&str] = &[
    FIRST,
    TASKS,
    PREVIEW_LINKS,
    DOZING,
    MODELS,
    EGRESS,
    POST_MORTEMS,
    OPEN_PERMISSIONS,
    FILE_LINKS,
    TASK_CHANGES,
    SHARES,
    SECRETS,
    QUOTAS,
    SANDBOX_NAMES,
    LOG_TRIMMING,
    SNAPSHOTS,
    PROVISIONING,
    client_records::SCHEMA,
    LAYER_SIZES,
    webhooks::SCHEMA,
    HISTORY,
];

const FIRST: &str = "
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    scope_kind TEXT,
    scope_key TEXT NOT NULL DEFAULT '', -- not NULL: a unique index takes two NULLs for different
    blueprint TEXT NOT NULL,
    metadata TEXT NOT NULL,
    env TEXT NOT NULL,                  -- secret
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT,
    deadline_ms INTEGER,
    renewal TEXT,
    problem TEXT,
    attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    keep_workspace INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    followed_epoch INTEGER NOT NULL,
    followed_seq INTEGER NOT NULL
) STRICT;
-- The one thing that makes a scope exclusive.
CREATE UNIQUE INDEX sandboxes_scope ON sandboxes (tenant, principal, project, scope_kind, scope_key)
    WHERE scope_kind IS NOT NULL AND status <> 'destroyed';
CREATE INDEX sandboxes_live ON sandboxes (id) WHERE status <> 'destroyed';
CREATE INDEX sandboxes_status ON sandboxes (status);
CREATE INDEX sandboxes_owner ON sandboxes (tenant, principal, id);

CREATE TABLE attempts (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    relation TEXT NOT NULL,
    state TEXT NOT NULL,
    blueprint TEXT NOT NULL,
    handle TEXT,
    problem TEXT,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    PRIMARY KEY (sandbox, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- a number never comes back
    time_ms INTEGER NOT NULL,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    kind TEXT NOT NULL,
    origin_epoch INTEGER,
    origin_seq INTEGER,
    data TEXT NOT NULL
) STRICT;
-- What comes from a runtimed is taken over once.
CREATE UNIQUE INDEX events_origin ON events (sandbox, origin_epoch, origin_seq)
    WHERE origin_epoch IS NOT NULL;
CREATE INDEX events_sandbox ON events (sandbox, seq);
CREATE INDEX events_tenant ON events (tenant, seq);

CREATE TABLE execs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    argv TEXT NOT NULL,
    cwd TEXT NOT NULL,
    tty INTEGER NOT NULL,
    request_hash BLOB NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    exit TEXT,
    hints TEXT NOT NULL,
    UNIQUE (sandbox, id)
) STRICT;
CREATE INDEX execs_list ON execs (sandbox, number);
CREATE INDEX execs_open ON execs (sandbox) WHERE ended_ms IS NULL;

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    scope TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER
) STRICT;
CREATE INDEX tokens_tenant ON tokens (tenant, id);

CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ms INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    via TEXT NOT NULL,
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT
) STRICT;
CREATE INDEX audit_time ON audit (time_ms);
CREATE INDEX audit_tenant ON audit (tenant, number);

CREATE TABLE idempotency (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    status INTEGER, -- NULL while the first call is under way
    body BLOB,
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_time ON idempotency (since_ms);
";

/// Task events are stored as SSE frames, many in one row; their sequence numbers come from those of `events`.
const TASKS: &str = "
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    prompt TEXT NOT NULL,
    request TEXT,               -- secret; gone when runtimed has it
    request_hash BLOB NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    failure_reason TEXT,
    taken INTEGER NOT NULL,     -- runtimed has it
    cancelling INTEGER NOT NULL,
    followed INTEGER NOT NULL,  -- the last of its events that was taken over
    bytes INTEGER NOT NULL,     -- of its events
    done_seq INTEGER,           -- the number of `done` in the log
    result TEXT,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    UNIQUE (sandbox, id)
) STRICT;
CREATE INDEX tasks_list ON tasks (sandbox, number);
CREATE INDEX tasks_open ON tasks (sandbox) WHERE done_seq IS NULL;

CREATE TABLE task_events (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    task INTEGER NOT NULL REFERENCES tasks (number),
    sandbox TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    ends INTEGER NOT NULL,      -- the last of them is `done`
    frames BLOB NOT NULL
) STRICT;
CREATE INDEX task_events_task ON task_events (task, first);
CREATE INDEX task_events_sandbox ON task_events (sandbox, first);
CREATE INDEX task_events_tenant ON task_events (tenant, first);

INSERT INTO sqlite_sequence (name, seq)
    SELECT 'events', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'events');
";

const PREVIEW_LINKS: &str = "
CREATE TABLE preview_links (
    id TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    port INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;
CREATE INDEX preview_links_list ON preview_links (sandbox, id);
CREATE INDEX preview_links_end ON preview_links (expires_ms);
";

/// Idle pauses, as opposed to pauses that a caller requested.
const DOZING: &str = "ALTER TABLE sandboxes ADD COLUMN dozing INTEGER NOT NULL DEFAULT 0";

/// Model providers and usage. A provider with the tenant '' serves all tenants.
const MODELS: &str = "
CREATE TABLE model_providers (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    dialect TEXT NOT NULL,
    base_url TEXT NOT NULL,
    sealed BLOB,                -- its key, encrypted with one that is not in here
    models TEXT NOT NULL,
    default_model TEXT,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;

CREATE TABLE model_budgets (
    tenant TEXT PRIMARY KEY,
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    bounds TEXT NOT NULL,
    per TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- All that the tasks of a tenant used on a day of UTC.
CREATE TABLE model_usage (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    day TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micro_usd INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;

ALTER TABLE tasks ADD COLUMN model_key_hash BLOB;   -- of the key its agent shows
ALTER TABLE tasks ADD COLUMN model_terms TEXT;      -- what it may use
ALTER TABLE tasks ADD COLUMN model_seen TEXT;       -- what the gateway saw of it
ALTER TABLE tasks ADD COLUMN model_verdict TEXT;    -- why it cannot succeed any more
";

/// Egress profiles and byte counts. An event may be about a task without being an event of its agent.
const EGRESS: &str = "
CREATE TABLE egress_profiles (
    tenant TEXT NOT NULL DEFAULT '', -- they are the host's
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    name TEXT PRIMARY KEY,
    rules TEXT NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT;
ALTER TABLE sandboxes ADD COLUMN egress_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN task INTEGER;
CREATE INDEX events_task ON events (task, seq) WHERE task IS NOT NULL;
";

/// Post-mortems of sandboxes that should have run, and of the tasks in them.
const POST_MORTEMS: &str = "
ALTER TABLE sandboxes ADD COLUMN post_mortem TEXT;
ALTER TABLE attempts ADD COLUMN post_mortem TEXT;
ALTER TABLE tasks ADD COLUMN death TEXT;            -- why the sandbox ended under it, in a sentence
";

/// Ids of the permissions that the agent of a task waits for; NULL for none.
const OPEN_PERMISSIONS: &str = "ALTER TABLE tasks ADD COLUMN open_permissions TEXT";

/// Signed URLs of files. A path is percent-encoded.
const FILE_LINKS: &str = "
CREATE TABLE file_links (
    id TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    max_bytes INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;
CREATE INDEX file_links_list ON file_links (sandbox, id);
CREATE INDEX file_links_end ON file_links (expires_ms);
";

/// What tasks changed. The checkpoint is the one that runtimed reported before the agent began.
const TASK_CHANGES: &str = "
ALTER TABLE tasks ADD COLUMN checkpoint TEXT;
CREATE TABLE task_changes (
    task INTEGER PRIMARY KEY REFERENCES tasks (number),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE TABLE task_change_files (
    number INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES task_changes (task),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    position INTEGER NOT NULL,  -- in the list, from 1
    path BLOB NOT NULL,
    change TEXT NOT NULL,
    added_lines INTEGER,
    deleted_lines INTEGER,
    is_binary INTEGER NOT NULL,
    diff BLOB,                  -- whole, or none
    UNIQUE (task, position)
) STRICT;
CREATE INDEX task_change_files_path ON task_change_files (task, path);
";

/// Shares of sandboxes, and who submitted a task: no longer always the owner of its sandbox.
const SHARES: &str = "
CREATE TABLE shares (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    grantee TEXT NOT NULL,      -- a principal; '' for the whole tenant
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    access TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox, grantee)
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_grantee ON shares (tenant, grantee, sandbox);
ALTER TABLE tasks ADD COLUMN created_by TEXT;
";

/// Secrets of tenants. The key of a model provider may be a reference to one.
const SECRETS: &str = "
CREATE TABLE secrets (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,       -- the value, encrypted with a key that is not in here
    version INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    last_used_ms INTEGER,
    PRIMARY KEY (tenant, name)
) STRICT;
ALTER TABLE model_providers ADD COLUMN key_from TEXT;
";

/// Quotas, and the columns and indexes that sum up the use of an owner.
const QUOTAS: &str = "
CREATE TABLE quotas (
    tenant TEXT NOT NULL,       -- '' for the defaults of the configuration
    principal TEXT NOT NULL,    -- '' for the tenant as a whole; with the tenant '', '*' for every principal
    project TEXT NOT NULL DEFAULT '',
    quota TEXT NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;

-- Bytes in this database that belong to a principal, as measured last.
CREATE TABLE log_sizes (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    log_bytes INTEGER NOT NULL,         -- events and output of tasks
    changes_bytes INTEGER NOT NULL,     -- what tasks changed
    PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;

ALTER TABLE sandboxes ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN cpus_milli INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 0; -- as measured last
UPDATE sandboxes SET memory_mb = coalesce(json_extract(blueprint, '$.limits.memory_mb'), 0),
    cpus_milli = CAST(round(coalesce(json_extract(blueprint, '$.limits.cpus'), 0) * 1000 + 0.4999) AS INTEGER);
CREATE INDEX sandboxes_use ON sandboxes (tenant, principal, goal, status, memory_mb, cpus_milli, disk_bytes)
    WHERE status <> 'destroyed';
CREATE INDEX sandboxes_kept ON sandboxes (tenant, principal, disk_bytes)
    WHERE status = 'destroyed' AND keep_workspace = 1;
CREATE INDEX tasks_use ON tasks (tenant, principal, taken, sandbox, done_seq) WHERE done_seq IS NULL;
CREATE INDEX task_changes_tenant ON task_changes (tenant);
CREATE INDEX task_change_files_tenant ON task_change_files (tenant);
";

/// Names are unique among the living sandboxes of an owner. Of those that shared one, the newest keeps it. A suffix
/// that is random, and not only that of the id, cannot have been taken on purpose.
const SANDBOX_NAMES: &str = "
ALTER TABLE sandboxes ADD COLUMN replaced_by TEXT;  -- the sandbox that took its name
CREATE INDEX sandboxes_name_before ON sandboxes (tenant, principal, project, name, id) WHERE goal <> 'destroyed';
UPDATE sandboxes SET name = substr(name, 1, 111) || '-' || substr(id, 19) WHERE goal <> 'destroyed' AND EXISTS
    (SELECT 1 FROM sandboxes newer WHERE newer.tenant = sandboxes.tenant AND newer.principal = sandboxes.principal
     AND newer.project = sandboxes.project AND newer.name = sandboxes.name AND newer.goal <> 'destroyed'
     AND newer.id > sandboxes.id);
UPDATE sandboxes SET name = substr(name, 1, 87) || '-' || lower(hex(randomblob(16))) WHERE goal <> 'destroyed' AND EXISTS
    (SELECT 1 FROM sandboxes newer WHERE newer.tenant = sandboxes.tenant AND newer.principal = sandboxes.principal
     AND newer.project = sandboxes.project AND newer.name = sandboxes.name AND newer.goal <> 'destroyed'
     AND newer.id > sandboxes.id);
DROP INDEX sandboxes_name_before;
CREATE UNIQUE INDEX sandboxes_name ON sandboxes (tenant, principal, project, name)
    WHERE goal <> 'destroyed' AND replaced_by IS NULL;
";

/// Deleted history: up to which number events of a sandbox or a task are gone, and up to which cursor of runtimed.
const LOG_TRIMMING: &str = "
ALTER TABLE sandboxes ADD COLUMN trimmed_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN trimmed_origin_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN trimmed_origin_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN trimmed_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sandboxes_trimmed ON sandboxes (tenant, trimmed_seq) WHERE trimmed_seq > 0;
";

/// Up to which number events are gone of sandboxes whose rows are deleted, too; and which events are old.
const HISTORY: &str = "
CREATE TABLE trimmed_history (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    trimmed_seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_time ON events (time_ms);
";

/// Returns the newest schema version this hostd knows.
pub fn newest_version() -> u32 {
    u32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

pub(super) fn stored_version(conn: &Connection) -> Result<u32, OpenError> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| OpenError::sqlite("read the version of the database", source))
}

/// Migrates the schema, one transaction per migration.
pub(super) fn migrate(conn: &mut Connection, from: u32) -> Result<(), OpenError> {
    let failed = |source| OpenError::sqlite("bring the database up to date", source);
    for (step, number) in MIGRATIONS.iter().zip(1_u32..).filter(|(_, number)| *number > from) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        tx.execute_batch(step).map_err(failed)?;
        tx.pragma_update(None, "user_version", number).map_err(failed)?;
        tx.commit().map_err(failed)?;
    }
    Ok(())
}
