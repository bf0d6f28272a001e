//! Retention: deletes rows past their retention time. `history` deletes events, tasks and sandboxes.

use super::{columns::int, error::Result, handle::Store, limits, query::change};
use rusqlite::params;

/// The number of deleted rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpiredRows {
    pub audits: usize,
    pub idempotency: usize,
    pub execs: usize,
    pub tokens: usize,
    pub links: usize,
    pub file_links: usize,
    pub task_events: usize,
    pub task_changes: usize,
    pub tasks: usize,
    pub client_records: usize,
}

/// `?1` is the time before which a row is expired, `?2` the most rows at once.
const AUDITS: &str = "DELETE FROM audit WHERE number IN
    (SELECT number FROM audit WHERE time_ms < ?1 LIMIT ?2)";
const IDEMPOTENCY: &str = "DELETE FROM idempotency WHERE (tenant, principal, route, key) IN
    (SELECT tenant, principal, route, key FROM idempotency WHERE since_ms < ?1 LIMIT ?2)";
const EXECS: &str = "DELETE FROM execs WHERE number IN
    (SELECT number FROM execs JOIN sandboxes ON sandboxes.id = execs.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 AND execs.ended_ms IS NOT NULL
     LIMIT ?2)";
const TOKENS: &str = "DELETE FROM tokens WHERE id IN
    (SELECT id FROM tokens WHERE revoked_ms < ?1 OR expires_ms < ?1 LIMIT ?2)";
const LINKS: &str = "DELETE FROM preview_links WHERE id IN
    (SELECT preview_links.id FROM preview_links JOIN sandboxes ON sandboxes.id = preview_links.sandbox
     WHERE preview_links.expires_ms < ?1
        OR (sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1)
     LIMIT ?2)";
const FILE_LINKS: &str = "DELETE FROM file_links WHERE id IN
    (SELECT file_links.id FROM file_links JOIN sandboxes ON sandboxes.id = file_links.sandbox
     WHERE file_links.expires_ms < ?1
        OR (sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1)
     LIMIT ?2)";

/// Records what the next statement deletes, in one or more batches.
const EXPIRED_TASK_EVENTS: &str = "UPDATE sandboxes SET expired_seq = max(expired_seq,
        (SELECT max(last) FROM task_events WHERE task_events.sandbox = sandboxes.id))
    WHERE status = 'destroyed' AND updated_ms < ?1
    AND EXISTS (SELECT 1 FROM task_events WHERE task_events.sandbox = sandboxes.id)";
const TASK_EVENTS: &str = "DELETE FROM task_events WHERE first IN
    (SELECT task_events.first FROM task_events JOIN sandboxes ON sandboxes.id = task_events.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 LIMIT ?2)";
const TASK_CHANGE_FILES: &str = "DELETE FROM task_change_files WHERE number IN
    (SELECT task_change_files.number FROM task_change_files
     JOIN tasks ON tasks.number = task_change_files.task JOIN sandboxes ON sandboxes.id = tasks.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 LIMIT ?2)";
const TASK_CHANGES: &str = "DELETE FROM task_changes WHERE task IN
    (SELECT task FROM task_changes
     JOIN tasks ON tasks.number = task_changes.task JOIN sandboxes ON sandboxes.id = tasks.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1
     AND NOT EXISTS (SELECT 1 FROM task_change_files WHERE task_change_files.task = task_changes.task)
     LIMIT ?2)";
const TASKS: &str = "DELETE FROM tasks WHERE number IN
    (SELECT number FROM tasks JOIN sandboxes ON sandboxes.id = tasks.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 AND tasks.done_seq IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM task_events WHERE task_events.task = tasks.number)
     AND NOT EXISTS (SELECT 1 FROM task_changes WHERE task_changes.task = tasks.number)
     LIMIT ?2)";

const CLIENT_RECORDS: &str = "DELETE FROM client_records WHERE (sandbox, protocol) IN
    (SELECT client_records.sandbox, protocol FROM client_records
     JOIN sandboxes ON sandboxes.id = client_records.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 LIMIT ?2)";

impl Store {
    /// Deletes expired rows in small jobs, so that other jobs run in between. `audit_keep_ms` is how long the audit log is
    /// kept, and the tokens that it names; `None` for ever.
    pub async fn delete_expired(&self, now_ms: u64, audit_keep_ms: Option<u64>) -> Result<ExpiredRows> {
        let audit_keep_ms = audit_keep_ms.unwrap_or(u64::MAX);
        let before = |keep_ms| now_ms.saturating_sub(keep_ms);
        Ok(ExpiredRows {
            audits: self
                .delete_in_batches(AUDITS, before(audit_keep_ms), limits::RETENTION_BATCH_MAX_ROWS)
                .await?,
            idempotency: self
                .delete_in_batches(
                    IDEMPOTENCY,
                    before(limits::IDEMPOTENCY_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
            execs: self
                .delete_in_batches(
                    EXECS,
                    before(limits::EXECS_OF_DESTROYED_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
            tokens: self
                .delete_in_batches(TOKENS, before(audit_keep_ms), limits::RETENTION_BATCH_MAX_ROWS)
                .await?,
            links: self
                .delete_in_batches(
                    LINKS,
                    before(limits::DEAD_LINKS_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
            file_links: self
                .delete_in_batches(
                    FILE_LINKS,
                    before(limits::DEAD_LINKS_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
            // Events reference tasks, so they are deleted first.
            task_events: self.delete_task_events(before(limits::TASKS_OF_DESTROYED_RETENTION_MS)).await?,
            task_changes: self.delete_task_changes(before(limits::TASKS_OF_DESTROYED_RETENTION_MS)).await?,
            tasks: self
                .delete_in_batches(
                    TASKS,
                    before(limits::TASKS_OF_DESTROYED_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
            client_records: self
                .delete_in_batches(
                    CLIENT_RECORDS,
                    before(limits::CLIENT_RECORDS_OF_DESTROYED_RETENTION_MS),
                    limits::RETENTION_BATCH_MAX_ROWS,
                )
                .await?,
        })
    }

    async fn delete_task_events(&self, before_ms: u64) -> Result<usize> {
        self.write("expire_task_events", move |conn| {
            change(conn, EXPIRED_TASK_EVENTS, params![int(before_ms)], "record expired events")
        })
        .await?;
        self.delete_in_batches(TASK_EVENTS, before_ms, limits::RETENTION_BATCH_MAX_EVENT_ROWS).await
    }

    /// Deletes what tasks changed: files before their list. Returns the number of lists.
    async fn delete_task_changes(&self, before_ms: u64) -> Result<usize> {
        let (files, lists) = (limits::RETENTION_BATCH_MAX_EVENT_ROWS, limits::RETENTION_BATCH_MAX_ROWS);
        self.delete_in_batches(TASK_CHANGE_FILES, before_ms, files).await?;
        self.delete_in_batches(TASK_CHANGES, before_ms, lists).await
    }

    pub(super) async fn delete_in_batches(
        &self,
        sql: &'static str,
        before_ms: u64,
        rows: usize,
    ) -> Result<usize> {
        let mut deleted = 0;
        loop {
            let values = (int(before_ms), rows as i64);
            let batch = self
                .write("delete_expired", move |conn| {
                    change(conn, sql, params![values.0, values.1], "tidy the database")
                })
                .await?;
            deleted += batch;
            if batch < rows {
                return Ok(deleted);
            }
        }
    }
}
