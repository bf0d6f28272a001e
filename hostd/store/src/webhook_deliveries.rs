//! Deliveries of webhooks. Each is a row from the moment its event was read, with its body, in the transaction that moves
//! the cursor: a crash delivers again, and skips nothing.
//!
//! ```text
//!  log ─▶ waiting ─▶ delivered ─▶ (removed)
//!          ▲   └───▶ dead ─▶ (removed, and counted)
//!          └── redeliver ──┘
//! ```
//!
//! Deliveries of one sandbox are sent in the order of their events: only the first that waits is due.

use super::{
    columns::{ColumnReader, int, word},
    error::{During, Result},
    handle::Store,
    limits,
    query::{List, all, change, one},
    webhooks::{count_in, find},
};
use hostd_core::webhook::Head;
use protocol::api::{DeliveryState, Label, WebhookDisabledReason};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

const WHAT: &str = "write a delivery";

/// A delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    pub number: i64,
    pub id: String,
    pub webhook: String,
    pub seq: u64,
    pub kind: String,
    /// Empty for a delivery of no sandbox.
    pub sandbox: String,
    pub body: String,
    pub state: DeliveryState,
    pub attempts: u64,
    /// Since when it is tried.
    pub since_ms: u64,
    pub due_ms: u64,
    pub created_ms: u64,
    pub ended_ms: Option<u64>,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
}

/// A delivery to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    pub id: String,
    pub seq: u64,
    pub kind: &'static str,
    pub sandbox: String,
    pub body: String,
}

/// Events that were read for a webhook, from its cursor on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenEvents {
    pub webhook: String,
    /// Of the row that the events were read for: a caller may have changed it since.
    pub version: u64,
    pub through: u64,
    pub deliveries: Vec<NewDelivery>,
    pub now_ms: u64,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDelivery {
    pub status: Option<u16>,
    pub error: String,
}

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEnd {
    Delivered {
        status: u16,
    },
    Retry {
        failed: FailedDelivery,
        due_ms: u64,
    },
    Dead {
        failed: FailedDelivery,
    },
    /// The endpoint is gone: its webhook is disabled, and the delivery waits.
    Gone {
        failed: FailedDelivery,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub webhook: String,
    pub state: Option<DeliveryState>,
}

/// When rows of a webhook are removed after their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryPruning {
    pub delivered_max: u64,
    pub dead_max: u64,
    pub delivered_keep_ms: u64,
    pub dead_keep_ms: u64,
}

impl Default for DeliveryPruning {
    fn default() -> Self {
        Self {
            delivered_max: limits::WEBHOOK_DELIVERED_MAX,
            dead_max: limits::WEBHOOK_DEAD_MAX,
            delivered_keep_ms: limits::WEBHOOK_DELIVERED_RETENTION_MS,
            dead_keep_ms: limits::WEBHOOK_DEAD_RETENTION_MS,
        }
    }
}

impl Store {
    /// Inserts deliveries and moves the cursor, in one transaction. Returns the first deliveries of their sandboxes, or
    /// `None` where the webhook was changed meanwhile: its events are read again.
    pub async fn take_events(&self, taken: TakenEvents) -> Result<Option<Vec<Head>>> {
        self.write("take_events", move |conn| take(conn, &taken)).await
    }

    /// Returns whether a webhook has room for more deliveries.
    pub async fn has_room_for_deliveries(&self, webhook: &str) -> Result<bool> {
        let webhook = webhook.to_owned();
        self.read(move |conn| {
            let sql = "SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM webhook_deliveries
                WHERE webhook = ? AND state = 'waiting'";
            let waiting: (i64, i64) = conn
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    statement.query_row(params![webhook], |row| Ok((row.get(0)?, row.get(1)?)))
                })
                .during("count deliveries")?;
            Ok(waiting.0.unsigned_abs() < limits::WEBHOOK_WAITING_MAX
                && waiting.1.unsigned_abs() < limits::WEBHOOK_WAITING_MAX_BYTES)
        })
        .await
    }

    /// Returns the first waiting delivery of each sandbox.
    pub async fn delivery_heads(&self, webhook: &str) -> Result<Vec<Head>> {
        let webhook = webhook.to_owned();
        self.read(move |conn| {
            let sql = "SELECT * FROM webhook_deliveries first WHERE webhook = ?1 AND state = 'waiting' AND NOT EXISTS
                (SELECT 1 FROM webhook_deliveries earlier WHERE earlier.webhook = ?1 AND earlier.state = 'waiting'
                 AND earlier.sandbox = first.sandbox AND (earlier.seq, earlier.number) < (first.seq, first.number))";
            all(conn, sql, params![webhook], parse_head)
        })
        .await
    }

    pub async fn delivery(&self, number: i64) -> Result<Option<DeliveryRow>> {
        let sql = "SELECT * FROM webhook_deliveries WHERE number = ?";
        self.read(move |conn| one(conn, sql, params![number], parse)).await
    }

    /// Records the end of an attempt. Returns the first delivery of the sandbox now.
    pub async fn end_delivery(&self, number: i64, end: DeliveryEnd, now_ms: u64) -> Result<Option<Head>> {
        self.write("end_delivery", move |conn| end_delivery(conn, number, &end, now_ms)).await
    }

    /// Returns deliveries newest first; `after` is the number of the last one of the previous page.
    pub async fn deliveries(
        &self,
        filter: DeliveryFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM webhook_deliveries");
            wanted.and_if("webhook = ?", Some(filter.webhook));
            let state = filter.state.map(|state| word(&state, "the state")).transpose()?;
            wanted.and_if("state = ?", state);
            wanted.and_if("number < ?", after.map(int));
            wanted.run(conn, "number DESC", limit, parse)
        })
        .await
    }

    /// Lets one delivery, or all that were given up, wait for an attempt. Returns how many.
    pub async fn redeliver(&self, webhook: &str, delivery: Option<String>, now_ms: u64) -> Result<u64> {
        let webhook = webhook.to_owned();
        self.write("redeliver", move |conn| {
            let which = if delivery.is_some() { "id = ?3" } else { "state = 'dead' AND ?3 IS NULL" };
            let sql = format!(
                "UPDATE webhook_deliveries SET state = 'waiting', attempts = 0, since_ms = ?2, due_ms = ?2, ended_ms = NULL
                WHERE webhook = ?1 AND {which}"
            );
            let changed = change(conn, &sql, params![webhook, int(now_ms), delivery], WHAT)?;
            let sql = "UPDATE webhooks SET version = version + 1 WHERE id = ?";
            change(conn, sql, params![webhook], WHAT)?;
            Ok(changed as u64)
        })
        .await
    }

    /// Removes deliveries that ended too long ago, and the oldest beyond their number. Returns how many of those had been
    /// given up.
    pub async fn prune_deliveries(
        &self,
        webhook: &str,
        pruning: DeliveryPruning,
        now_ms: u64,
    ) -> Result<u64> {
        let webhook = webhook.to_owned();
        self.write("prune_deliveries", move |conn| prune(conn, &webhook, &pruning, now_ms)).await
    }
}

fn take(conn: &Connection, taken: &TakenEvents) -> Result<Option<Vec<Head>>> {
    let Some(row) = find(conn, &taken.webhook)?.filter(|row| row.version == taken.version) else {
        return Ok(None);
    };
    let sql = "UPDATE webhooks SET cursor = max(cursor, ?2) WHERE id = ?1";
    change(conn, sql, params![row.id, int(taken.through)], WHAT)?;
    let tenant = row.tenant.as_ref().map_or("", Label::as_str);
    // A row that exists is one of an event after a cursor that was set back.
    let sql = "INSERT INTO webhook_deliveries (id, webhook, tenant, seq, kind, sandbox, body, state, attempts, since_ms,
            due_ms, created_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'waiting', 0, ?8, ?8, ?8)
        ON CONFLICT (id) DO UPDATE SET state = 'waiting', attempts = 0, since_ms = ?8, due_ms = ?8, ended_ms = NULL
            WHERE state <> 'waiting'";
    let mut lanes = BTreeSet::new();
    for new in &taken.deliveries {
        let now_ms = int(taken.now_ms);
        let values = params![new.id, row.id, tenant, int(new.seq), new.kind, new.sandbox, new.body, now_ms];
        change(conn, sql, values, WHAT)?;
        lanes.insert(new.sandbox.as_str());
    }
    let mut heads = Vec::new();
    for lane in lanes {
        give_up_beyond(conn, &row.id, lane, taken.now_ms)?;
        heads.extend(head_of(conn, &row.id, lane)?);
    }
    Ok(Some(heads))
}

/// Gives up the oldest deliveries of a sandbox beyond their number, if the first of them fails. Where it does not, they
/// are sent soon.
fn give_up_beyond(conn: &Connection, webhook: &str, lane: &str, now_ms: u64) -> Result<()> {
    let sql =
        "SELECT count(*) FROM webhook_deliveries WHERE webhook = ? AND state = 'waiting' AND sandbox = ?";
    let waiting: i64 = conn
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(params![webhook, lane], |row| row.get(0)))
        .during(WHAT)?;
    let excess = waiting.unsigned_abs().saturating_sub(limits::WEBHOOK_WAITING_OF_SANDBOX_MAX);
    let sql =
        "SELECT attempts FROM webhook_deliveries WHERE webhook = ? AND state = 'waiting' AND sandbox = ?
        ORDER BY seq, number LIMIT 1";
    let attempts = |row: &Row<'_>| row.get::<_, i64>(0).during(WHAT);
    let fails = one(conn, sql, params![webhook, lane], attempts)?.is_some_and(|attempts| attempts > 0);
    if excess == 0 || !fails {
        return Ok(());
    }
    let sql = "UPDATE webhook_deliveries SET state = 'dead', ended_ms = ?3,
            last_error = coalesce(last_error, 'too many deliveries of its sandbox waited behind one that failed')
        WHERE number IN (SELECT number FROM webhook_deliveries WHERE webhook = ?1 AND state = 'waiting' AND sandbox = ?2
            ORDER BY seq, number LIMIT ?4)";
    change(conn, sql, params![webhook, lane, int(now_ms), int(excess)], WHAT).map(drop)
}

fn head_of(conn: &Connection, webhook: &str, lane: &str) -> Result<Option<Head>> {
    let sql = "SELECT * FROM webhook_deliveries WHERE webhook = ? AND state = 'waiting' AND sandbox = ?
        ORDER BY seq, number LIMIT 1";
    one(conn, sql, params![webhook, lane], parse_head)
}

fn end_delivery(conn: &Connection, number: i64, end: &DeliveryEnd, now_ms: u64) -> Result<Option<Head>> {
    let sql = "SELECT * FROM webhook_deliveries WHERE number = ?";
    let Some(row) = one(conn, sql, params![number], parse)? else { return Ok(None) };
    let (state, due_ms, failed) = match end {
        DeliveryEnd::Delivered { .. } => (DeliveryState::Delivered, row.due_ms, None),
        // Given up meanwhile, because too many waited behind it.
        DeliveryEnd::Retry { due_ms, failed } if row.state == DeliveryState::Waiting => {
            (DeliveryState::Waiting, *due_ms, Some(failed))
        }
        DeliveryEnd::Retry { failed, .. } => (row.state, row.due_ms, Some(failed)),
        DeliveryEnd::Dead { failed } => (DeliveryState::Dead, row.due_ms, Some(failed)),
        DeliveryEnd::Gone { failed } => (row.state, row.due_ms, Some(failed)),
    };
    let status = match end {
        DeliveryEnd::Delivered { status } => Some(*status),
        DeliveryEnd::Retry { .. } | DeliveryEnd::Dead { .. } | DeliveryEnd::Gone { .. } => {
            failed.and_then(|failed| failed.status)
        }
    };
    let ended_ms = (state != DeliveryState::Waiting).then(|| row.ended_ms.unwrap_or(now_ms));
    let sql = "UPDATE webhook_deliveries SET state = ?2, attempts = attempts + 1, due_ms = ?3, ended_ms = ?4,
            last_status = ?5, last_error = ?6
        WHERE number = ?1";
    let values = params![
        number,
        word(&state, "the state")?,
        int(due_ms),
        ended_ms.map(int),
        status,
        failed.map(|failed| &failed.error),
    ];
    change(conn, sql, values, WHAT)?;
    match failed {
        None => {
            let sql = "UPDATE webhooks SET delivered_ms = ?2 WHERE id = ?1";
            change(conn, sql, params![row.webhook, int(now_ms)], WHAT)?;
        }
        Some(failed) => {
            let sql = "UPDATE webhooks SET failed_ms = ?2, failure = ?3 WHERE id = ?1";
            change(conn, sql, params![row.webhook, int(now_ms), failed.error], WHAT)?;
        }
    }
    if matches!(end, DeliveryEnd::Gone { .. }) {
        let sql =
            "UPDATE webhooks SET disabled_reason = coalesce(disabled_reason, ?2), version = version + 1,
                updated_ms = ?3
            WHERE id = ?1";
        let reason = word(&WebhookDisabledReason::Gone, "the reason")?;
        change(conn, sql, params![row.webhook, reason, int(now_ms)], WHAT)?;
    }
    head_of(conn, &row.webhook, &row.sandbox)
}

fn prune(conn: &Connection, webhook: &str, pruning: &DeliveryPruning, now_ms: u64) -> Result<u64> {
    let old = "DELETE FROM webhook_deliveries WHERE webhook = ? AND state = ? AND ended_ms < ?";
    let beyond = "DELETE FROM webhook_deliveries WHERE number IN
        (SELECT number FROM webhook_deliveries WHERE webhook = ? AND state = ? ORDER BY ended_ms, number LIMIT ?)";
    let mut dropped = 0;
    for (state, most, keep_ms) in [
        ("delivered", pruning.delivered_max, pruning.delivered_keep_ms),
        ("dead", pruning.dead_max, pruning.dead_keep_ms),
    ] {
        let mut removed =
            change(conn, old, params![webhook, state, int(now_ms.saturating_sub(keep_ms))], WHAT)?;
        let excess = count_in(conn, webhook, state)?.saturating_sub(most);
        if excess > 0 {
            removed += change(conn, beyond, params![webhook, state, int(excess)], WHAT)?;
        }
        if state == "dead" {
            dropped = removed as u64;
        }
    }
    if dropped > 0 {
        let sql = "UPDATE webhooks SET dropped = dropped + ?2 WHERE id = ?1";
        change(conn, sql, params![webhook, int(dropped)], WHAT)?;
    }
    Ok(dropped)
}

fn parse_head(row: &Row<'_>) -> Result<Head> {
    let fields = ColumnReader { row, table: "webhook_deliveries", key: "number" };
    Ok(Head { lane: fields.get("sandbox")?, number: fields.get("number")?, due_ms: fields.number("due_ms")? })
}

fn parse(row: &Row<'_>) -> Result<DeliveryRow> {
    let fields = ColumnReader { row, table: "webhook_deliveries", key: "number" };
    Ok(DeliveryRow {
        number: fields.get("number")?,
        id: fields.get("id")?,
        webhook: fields.get("webhook")?,
        seq: fields.number("seq")?,
        kind: fields.get("kind")?,
        sandbox: fields.get("sandbox")?,
        body: fields.get("body")?,
        state: fields.parsed("state")?,
        attempts: fields.number("attempts")?,
        since_ms: fields.number("since_ms")?,
        due_ms: fields.number("due_ms")?,
        created_ms: fields.number("created_ms")?,
        ended_ms: fields.maybe_number("ended_ms")?,
        last_status: fields.get("last_status")?,
        last_error: fields.get("last_error")?,
    })
}
