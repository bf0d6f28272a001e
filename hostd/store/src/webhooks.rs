//! Webhooks: endpoints that are told of events, each with its cursor in the event log. Their secrets are sealed before
//! they get here.

use super::{
    columns::{ColumnReader, int, json, word},
    error::{During, Result},
    handle::Store,
    limits,
    log_quota::trimmed_through,
    query::{List, all, change, one},
    task_events::newest_seq,
    webhook_log::filter_of,
};
use protocol::api::{Label, SandboxId, WebhookDisabledReason, WebhookEvents};
use rusqlite::{Connection, Row, params};

/// Webhooks and their deliveries; and of a call in the audit log, what it was and what it was about.
pub(super) const SCHEMA: &str = "
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,               -- '' for all tenants
    principal TEXT NOT NULL,            -- that created it
    project TEXT NOT NULL DEFAULT '',   -- '' for events of all projects
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    sandbox TEXT,
    description TEXT,
    sealed BLOB NOT NULL,               -- its secret, encrypted with a key that is not in here
    sealed_before BLOB,                 -- the secret before that one
    before_until_ms INTEGER,            -- how long that signs too
    disabled_reason TEXT,
    cursor INTEGER NOT NULL,            -- up to this event deliveries were made
    version INTEGER NOT NULL,           -- grows with every change by a caller
    dropped INTEGER NOT NULL DEFAULT 0, -- deliveries that were given up and removed
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    delivered_ms INTEGER,               -- the last success
    failed_ms INTEGER,                  -- the last failure
    failure TEXT
) STRICT;
CREATE INDEX webhooks_tenant ON webhooks (tenant, id);

CREATE TABLE webhook_deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    webhook TEXT NOT NULL REFERENCES webhooks (id),
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    sandbox TEXT NOT NULL,              -- '' for none
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,          -- since when it is tried
    due_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    last_status INTEGER,
    last_error TEXT
) STRICT;
CREATE INDEX webhook_deliveries_lane ON webhook_deliveries (webhook, state, sandbox, seq, number);
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (webhook, state, ended_ms);

-- Up to this number events of tasks of a destroyed sandbox were deleted when their time was over.
ALTER TABLE sandboxes ADD COLUMN expired_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sandboxes_expired ON sandboxes (tenant, expired_seq) WHERE expired_seq > 0;

ALTER TABLE audit ADD COLUMN operation TEXT NOT NULL DEFAULT '';    -- as in the API document
ALTER TABLE audit ADD COLUMN object TEXT NOT NULL DEFAULT '';       -- what it was about, by its id or name
ALTER TABLE audit ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN peer TEXT NOT NULL DEFAULT '';         -- the address that it came from
CREATE INDEX audit_sandbox ON audit (sandbox, number) WHERE sandbox <> '';
";

const WHAT: &str = "write a webhook";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookState {
    Enabled,
    Disabled(WebhookDisabledReason),
}

/// A webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookRow {
    pub id: String,
    /// `None` for all tenants.
    pub tenant: Option<Label>,
    pub created_by: String,
    pub url: String,
    pub events: Vec<WebhookEvents>,
    pub sandbox: Option<SandboxId>,
    pub project: Option<Label>,
    pub description: Option<String>,
    /// The secret, encrypted with the key file.
    pub sealed: Vec<u8>,
    /// The secret before that one, and until when it signs too.
    pub sealed_before: Option<(Vec<u8>, u64)>,
    pub state: WebhookState,
    pub cursor: u64,
    pub version: u64,
    pub dropped: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub delivered_ms: Option<u64>,
    /// When an attempt failed last, and why.
    pub failure: Option<(u64, String)>,
}

/// A webhook to be inserted.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    pub id: String,
    pub tenant: Option<Label>,
    pub created_by: String,
    pub url: String,
    pub events: Vec<WebhookEvents>,
    pub sandbox: Option<SandboxId>,
    pub project: Option<Label>,
    pub description: Option<String>,
    pub sealed: Vec<u8>,
    pub now_ms: u64,
}

/// A change of a webhook; absent fields stay.
#[derive(Debug, Clone, Default)]
pub struct WebhookUpdate {
    pub url: Option<String>,
    pub events: Option<Vec<WebhookEvents>>,
    pub description: Option<String>,
    pub state: Option<WebhookState>,
    /// A new secret, and until when the one before signs too.
    pub secret: Option<(Vec<u8>, u64)>,
}

/// How many deliveries of a webhook wait, and were given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebhookCounts {
    pub waiting: u64,
    pub dead: u64,
}

impl Store {
    /// Inserts a webhook that is told of every event after this moment. `None` when there are too many.
    pub async fn insert_webhook(&self, new: NewWebhook) -> Result<Option<WebhookRow>> {
        self.write("insert_webhook", move |conn| insert(conn, &new)).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Option<WebhookRow>> {
        let id = id.to_owned();
        self.read(move |conn| find(conn, &id)).await
    }

    /// Returns webhooks newest first, of one tenant or of all; `after` is the last one of the previous page.
    pub async fn webhooks(
        &self,
        tenant: Option<&Label>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<WebhookRow>> {
        let tenant = tenant.cloned();
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM webhooks");
            wanted.and_if("tenant = ?", tenant.map(String::from));
            wanted.and_if("id < ?", after);
            wanted.run(conn, "id DESC", limit, parse)
        })
        .await
    }

    /// Returns all webhooks that are enabled.
    pub async fn enabled_webhooks(&self) -> Result<Vec<WebhookRow>> {
        let sql = "SELECT * FROM webhooks WHERE disabled_reason IS NULL ORDER BY id";
        self.read(move |conn| all(conn, sql, [], parse)).await
    }

    pub async fn webhook_counts(&self, id: &str) -> Result<WebhookCounts> {
        let id = id.to_owned();
        self.read(move |conn| {
            let waiting = count_in(conn, &id, "waiting")?;
            Ok(WebhookCounts { waiting, dead: count_in(conn, &id, "dead")? })
        })
        .await
    }

    /// Changes a webhook. Where it is enabled again, what waits is tried anew, without the time in between.
    pub async fn update_webhook(
        &self,
        id: &str,
        update: WebhookUpdate,
        now_ms: u64,
    ) -> Result<Option<WebhookRow>> {
        let id = id.to_owned();
        let secret = update.secret.is_some();
        let updated =
            self.write("update_webhook", move |conn| change_row(conn, &id, &update, now_ms)).await?;
        if secret {
            // The secret before the last one was overwritten.
            self.secrets_overwritten().notify_one();
        }
        Ok(updated)
    }

    /// Removes a webhook and its deliveries; returns whether it existed.
    pub async fn remove_webhook(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        let removed = self
            .write("remove_webhook", move |conn| {
                change(conn, "DELETE FROM webhook_deliveries WHERE webhook = ?", params![id], WHAT)?;
                Ok(change(conn, "DELETE FROM webhooks WHERE id = ?", params![id], WHAT)? > 0)
            })
            .await?;
        self.secrets_overwritten().notify_one();
        Ok(removed)
    }

    /// Sets the cursor of a webhook back, so that the events after it are delivered again. Returns the cursor.
    pub async fn rewind_webhook(&self, id: &str, since: u64, now_ms: u64) -> Result<Option<u64>> {
        let id = id.to_owned();
        self.write("rewind_webhook", move |conn| {
            let sql = "UPDATE webhooks SET cursor = min(cursor, ?2), version = version + 1, updated_ms = ?3
                WHERE id = ?1";
            change(conn, sql, params![id, int(since), int(now_ms)], WHAT)?;
            Ok(find(conn, &id)?.map(|row| row.cursor))
        })
        .await
    }
}

fn insert(conn: &Connection, new: &NewWebhook) -> Result<Option<WebhookRow>> {
    let tenant = new.tenant.as_ref().map_or("", Label::as_str);
    let count = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> Result<u64> {
        let number: i64 = conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(values, |row| row.get(0)))
            .during(WHAT)?;
        Ok(number.unsigned_abs())
    };
    if count("SELECT count(*) FROM webhooks WHERE tenant = ?", &[&tenant])? >= limits::WEBHOOKS_OF_TENANT_MAX
        || count("SELECT count(*) FROM webhooks", &[])? >= limits::WEBHOOKS_MAX
    {
        return Ok(None);
    }
    let sql =
        "INSERT INTO webhooks (id, tenant, principal, project, url, events, sandbox, description, sealed,
            cursor, version, created_ms, updated_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)";
    let values = params![
        new.id,
        tenant,
        new.created_by,
        new.project.as_ref().map_or("", Label::as_str),
        new.url,
        json(&new.events, "the events")?,
        new.sandbox.as_ref().map(SandboxId::as_str),
        new.description,
        new.sealed,
        int(newest_seq(conn)?),
        int(new.now_ms),
        int(new.now_ms),
    ];
    change(conn, sql, values, WHAT)?;
    find(conn, &new.id)
}

fn change_row(
    conn: &Connection,
    id: &str,
    update: &WebhookUpdate,
    now_ms: u64,
) -> Result<Option<WebhookRow>> {
    let Some(row) = find(conn, id)? else { return Ok(None) };
    let state = update.state.unwrap_or(row.state);
    if state == WebhookState::Enabled && row.state != WebhookState::Enabled {
        let sql = "UPDATE webhook_deliveries SET attempts = 0, since_ms = ?2, due_ms = ?2
            WHERE webhook = ?1 AND state = 'waiting'";
        change(conn, sql, params![id, int(now_ms)], WHAT)?;
    }
    let disabled = match state {
        WebhookState::Enabled => None,
        WebhookState::Disabled(reason) => Some(word(&reason, "the reason")?),
    };
    let (sealed, before) = match &update.secret {
        Some((sealed, until_ms)) => (sealed.clone(), Some((row.sealed, *until_ms))),
        None => (row.sealed, row.sealed_before),
    };
    let sql =
        "UPDATE webhooks SET url = ?2, events = ?3, description = ?4, disabled_reason = ?5, sealed = ?6,
            sealed_before = ?7, before_until_ms = ?8, version = version + 1, updated_ms = ?9
        WHERE id = ?1";
    let values = params![
        id,
        update.url.as_ref().unwrap_or(&row.url),
        json(update.events.as_ref().unwrap_or(&row.events), "the events")?,
        update.description.as_ref().or(row.description.as_ref()),
        disabled,
        sealed,
        before.as_ref().map(|(sealed, _)| sealed),
        before.as_ref().map(|(_, until_ms)| int(*until_ms)),
        int(now_ms),
    ];
    change(conn, sql, values, WHAT)?;
    find(conn, id)
}

pub(super) fn find(conn: &Connection, id: &str) -> Result<Option<WebhookRow>> {
    one(conn, "SELECT * FROM webhooks WHERE id = ?", params![id], parse)
}

pub(super) fn count_in(conn: &Connection, webhook: &str, state: &str) -> Result<u64> {
    let sql = "SELECT count(*) FROM webhook_deliveries WHERE webhook = ? AND state = ?";
    let number: i64 = conn
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(params![webhook, state], |row| row.get(0)))
        .during("count deliveries")?;
    Ok(number.unsigned_abs())
}

/// Returns up to which event, after the cursor, events that a webhook may be told of were deleted.
pub(super) fn deleted_through(conn: &Connection, row: &WebhookRow, after: u64) -> Result<Option<u64>> {
    let through = trimmed_through(conn, &filter_of(row))?.max(expired_through(conn, row)?);
    Ok((through > after).then_some(through))
}

/// Returns up to which event the retention of tasks deleted events.
fn expired_through(conn: &Connection, row: &WebhookRow) -> Result<u64> {
    let mut sql = "SELECT max(expired_seq) FROM sandboxes WHERE expired_seq > 0".to_owned();
    let mut values: Vec<&str> = Vec::new();
    if let Some(tenant) = &row.tenant {
        sql.push_str(" AND tenant = ?");
        values.push(tenant.as_str());
    }
    if let Some(sandbox) = &row.sandbox {
        sql.push_str(" AND id = ?");
        values.push(sandbox.as_str());
    }
    let number = |row: &Row<'_>| {
        let through: Option<i64> = row.get(0).during("read what was deleted")?;
        Ok(through.unwrap_or(0).unsigned_abs())
    };
    Ok(one(conn, &sql, rusqlite::params_from_iter(values), number)?.unwrap_or(0))
}

fn parse(row: &Row<'_>) -> Result<WebhookRow> {
    let fields = ColumnReader { row, table: "webhooks", key: "id" };
    let label = |column| -> Result<Option<Label>> {
        let text: String = fields.get(column)?;
        if text.is_empty() { Ok(None) } else { fields.parsed(column).map(Some) }
    };
    let disabled: Option<WebhookDisabledReason> = fields.maybe_parsed("disabled_reason")?;
    let before: Option<Vec<u8>> = fields.get("sealed_before")?;
    let failure: Option<String> = fields.get("failure")?;
    Ok(WebhookRow {
        id: fields.get("id")?,
        tenant: label("tenant")?,
        created_by: fields.get("principal")?,
        url: fields.get("url")?,
        events: fields.json("events")?,
        sandbox: fields.maybe_parsed("sandbox")?,
        project: label("project")?,
        description: fields.get("description")?,
        sealed: fields.get("sealed")?,
        sealed_before: before.zip(fields.maybe_number("before_until_ms")?),
        state: disabled.map_or(WebhookState::Enabled, WebhookState::Disabled),
        cursor: fields.number("cursor")?,
        version: fields.number("version")?,
        dropped: fields.number("dropped")?,
        created_ms: fields.number("created_ms")?,
        updated_ms: fields.number("updated_ms")?,
        delivered_ms: fields.maybe_number("delivered_ms")?,
        failure: fields.maybe_number("failed_ms")?.zip(failure),
    })
}
