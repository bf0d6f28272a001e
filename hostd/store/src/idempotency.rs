//! `Idempotency-Key`: the first call with a key claims it, later calls get its response.
//!
//! ```text
//!  absent ──begin──▶ claimed ──finish──▶ response stored ──24 h──▶ absent
//!    ▲                  │ ▲
//!    └─────abandon──────┘ └── also after a crash: the next call with the key performs it again
//! ```

use super::{
    columns::{ColumnReader, int},
    error::Result,
    handle::Store,
    limits,
    query::{change, one},
};
use protocol::api::Label;
use rusqlite::{Connection, Row, params};

/// An idempotency key, scoped to one principal and one route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub tenant: Label,
    pub principal: Label,
    pub route: String,
    pub key: String,
}

/// The state of a key when a call presents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdempotencyClaim {
    /// The call has claimed the key: perform it, then finish or abandon the key.
    New,
    /// The call was performed; this was its response.
    Replay { status: u16, body: Vec<u8> },
    /// The key was used with another body.
    Mismatch,
    /// The key was claimed at this time and has no response: hostd died, or could not write. Perform the call
    /// again.
    Unfinished { since_ms: u64 },
}

impl Store {
    pub async fn idempotency_begin(
        &self,
        key: IdempotencyKey,
        body_hash: [u8; 32],
        now_ms: u64,
    ) -> Result<IdempotencyClaim> {
        self.write("idempotency_begin", move |conn| begin(conn, &key, body_hash, now_ms)).await
    }

    /// Stores the response; its retention starts now.
    pub async fn idempotency_finish(
        &self,
        key: IdempotencyKey,
        status: u16,
        body: Vec<u8>,
        now_ms: u64,
    ) -> Result<()> {
        self.write("idempotency_finish", move |conn| {
            let sql = "UPDATE idempotency SET status = ?5, body = ?6, since_ms = ?7
                WHERE tenant = ?1 AND principal = ?2 AND route = ?3 AND key = ?4 AND status IS NULL";
            let IdempotencyKey { tenant, principal, route, key } = &key;
            let values = params![tenant.as_str(), principal.as_str(), route, key, status, body, int(now_ms)];
            change(conn, sql, values, "keep an answer").map(|_| ())
        })
        .await
    }

    /// Releases the key of a call without effect: the next call with it is performed.
    pub async fn idempotency_abandon(&self, key: IdempotencyKey) -> Result<()> {
        self.write("idempotency_abandon", move |conn| {
            let sql = "DELETE FROM idempotency
                WHERE tenant = ?1 AND principal = ?2 AND route = ?3 AND key = ?4 AND status IS NULL";
            let IdempotencyKey { tenant, principal, route, key } = &key;
            let values = params![tenant.as_str(), principal.as_str(), route, key];
            change(conn, sql, values, "drop a key").map(|_| ())
        })
        .await
    }
}

struct StoredResponse {
    body_hash: [u8; 32],
    reply: Option<(u16, Vec<u8>)>,
    since_ms: u64,
}

fn begin(
    conn: &Connection,
    key: &IdempotencyKey,
    body_hash: [u8; 32],
    now_ms: u64,
) -> Result<IdempotencyClaim> {
    let IdempotencyKey { tenant, principal, route, key } = key;
    let key_columns = params![tenant.as_str(), principal.as_str(), route, key];
    let sql = "SELECT * FROM idempotency WHERE tenant = ? AND principal = ? AND route = ? AND key = ?";
    let stored = one(conn, sql, key_columns, parse)?;
    match stored.filter(|stored| now_ms.saturating_sub(stored.since_ms) < limits::IDEMPOTENCY_RETENTION_MS) {
        None => {}
        Some(stored) if stored.body_hash != body_hash => return Ok(IdempotencyClaim::Mismatch),
        Some(StoredResponse { reply: None, since_ms, .. }) => {
            return Ok(IdempotencyClaim::Unfinished { since_ms });
        }
        Some(StoredResponse { reply: Some((status, body)), .. }) => {
            return Ok(IdempotencyClaim::Replay { status, body });
        }
    }
    let sql = "INSERT OR REPLACE INTO idempotency (tenant, principal, route, key, body_hash, since_ms)
        VALUES (?, ?, ?, ?, ?, ?)";
    let values = params![tenant.as_str(), principal.as_str(), route, key, body_hash, int(now_ms)];
    change(conn, sql, values, "claim a key")?;
    Ok(IdempotencyClaim::New)
}

fn parse(row: &Row<'_>) -> Result<StoredResponse> {
    let fields = ColumnReader { row, table: "idempotency", key: "key" };
    let status: Option<u16> = fields.get("status")?;
    let body: Option<Vec<u8>> = fields.get("body")?;
    Ok(StoredResponse {
        body_hash: fields.get("body_hash")?,
        reply: status.map(|status| (status, body.unwrap_or_default())),
        since_ms: fields.number("since_ms")?,
    })
}
