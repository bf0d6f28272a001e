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

impl Store {
    /// In small writes, so that others get their turn.
    pub async fn tidy(&self, now_ms: u64) -> Result<Tidied> {
        let before = |keep_ms| now_ms.saturating_sub(keep_ms);
        Ok(Tidied {
            audits: self.sweep(AUDITS, before(limits::AUDIT_KEEP_MS)).await?,
            idempotency: self.sweep(IDEMPOTENCY, before(limits::IDEMPOTENCY_KEEP_MS)).await?,
            execs: self.sweep(EXECS, before(limits::EXECS_OF_DESTROYED_KEEP_MS)).await?,
            tokens: self.sweep(TOKENS, before(limits::DEAD_TOKENS_KEEP_MS)).await?,
        })
    }

    async fn sweep(&self, sql: &'static str, before_ms: u64) -> Result<usize> {
        let mut gone = 0;
        loop {
            let values = (int(before_ms), limits::TIDY_MAX_ROWS as i64);
            let swept = self
                .write("tidy", move |conn| {
                    change(conn, sql, params![values.0, values.1], "tidy the database")
                })
                .await?;
            gone += swept;
            if swept < limits::TIDY_MAX_ROWS {
                return Ok(gone);
            }
        }
    }
}
