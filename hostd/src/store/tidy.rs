//! Takes away what nobody will ask for again. Sandboxes, attempts and events stay.

use super::{error::Result, handle::Store, limits, query::change, row::int};
use rusqlite::params;

/// How many rows went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tidied {
    pub audits: usize,
    pub idempotency: usize,
    pub execs: usize,
    pub tokens: usize,
    pub links: usize,
    pub task_events: usize,
    pub tasks: usize,
}

/// `?1` is the time before which a row is too old, `?2` the most rows at once.
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

const TASK_EVENTS: &str = "DELETE FROM task_events WHERE first IN
    (SELECT task_events.first FROM task_events JOIN sandboxes ON sandboxes.id = task_events.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 LIMIT ?2)";
const TASKS: &str = "DELETE FROM tasks WHERE number IN
    (SELECT number FROM tasks JOIN sandboxes ON sandboxes.id = tasks.sandbox
     WHERE sandboxes.status = 'destroyed' AND sandboxes.updated_ms < ?1 AND tasks.done_seq IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM task_events WHERE task_events.task = tasks.number)
     LIMIT ?2)";

impl Store {
    /// In small writes, so that others get their turn.
    pub async fn tidy(&self, now_ms: u64) -> Result<Tidied> {
        let before = |keep_ms| now_ms.saturating_sub(keep_ms);
        Ok(Tidied {
            audits: self.sweep(AUDITS, before(limits::AUDIT_KEEP_MS), limits::TIDY_MAX_ROWS).await?,
            idempotency: self
                .sweep(IDEMPOTENCY, before(limits::IDEMPOTENCY_KEEP_MS), limits::TIDY_MAX_ROWS)
                .await?,
            execs: self
                .sweep(EXECS, before(limits::EXECS_OF_DESTROYED_KEEP_MS), limits::TIDY_MAX_ROWS)
                .await?,
            tokens: self.sweep(TOKENS, before(limits::DEAD_TOKENS_KEEP_MS), limits::TIDY_MAX_ROWS).await?,
            links: self.sweep(LINKS, before(limits::DEAD_LINKS_KEEP_MS), limits::TIDY_MAX_ROWS).await?,
            // The events go before what they name.
            task_events: self
                .sweep(TASK_EVENTS, before(limits::TASKS_OF_DESTROYED_KEEP_MS), limits::TIDY_MAX_EVENT_ROWS)
                .await?,
            tasks: self
                .sweep(TASKS, before(limits::TASKS_OF_DESTROYED_KEEP_MS), limits::TIDY_MAX_ROWS)
                .await?,
        })
    }

    async fn sweep(&self, sql: &'static str, before_ms: u64, rows: usize) -> Result<usize> {
        let mut gone = 0;
        loop {
            let values = (int(before_ms), rows as i64);
            let swept = self
                .write("tidy", move |conn| {
                    change(conn, sql, params![values.0, values.1], "tidy the database")
                })
                .await?;
            gone += swept;
            if swept < rows {
                return Ok(gone);
            }
        }
    }
}
