//! The event log as a webhook reads it: what comes after its cursor, and whether something is missing there.

use super::{
    error::{During, Result},
    event_log::{self, EventBatch},
    events::EventFilter,
    handle::Store,
    query::one,
    webhooks::{WebhookRow, deleted_through},
};
use protocol::api::{Label, SandboxId};
use rusqlite::{Connection, Row, params};
use std::collections::{HashMap, hash_map::Entry};

/// Events that were deleted before they were read: after one number, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookGap {
    pub after: u64,
    pub through: u64,
}

/// A part of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookLogPart {
    pub gap: Option<WebhookGap>,
    /// Of sandboxes that the webhook selects; kinds are not selected yet. Some begin before the cursor.
    pub batches: Vec<EventBatch>,
    /// The number up to which the log was read.
    pub through: u64,
}

impl Store {
    /// Reads the log of a webhook after a number, up to the limit of one read.
    pub async fn webhook_log(&self, row: &WebhookRow, after: u64) -> Result<WebhookLogPart> {
        let row = row.clone();
        self.read(move |conn| read(conn, &row, after)).await
    }
}

pub(super) fn filter_of(row: &WebhookRow) -> EventFilter {
    EventFilter { tenant: row.tenant.clone(), sandbox: row.sandbox, ..EventFilter::default() }
}

fn read(conn: &Connection, row: &WebhookRow, after: u64) -> Result<WebhookLogPart> {
    // One snapshot: events that are deleted between the two reads must not be missed in both.
    let moment = conn.unchecked_transaction().during("read the log")?;
    let gap = deleted_through(&moment, row, after)?.map(|through| WebhookGap { after, through });
    let part = event_log::read_at(&moment, &filter_of(row), after)?;
    let mut batches = part.batches;
    if let Some(project) = &row.project {
        let mut of = HashMap::new();
        for batch in &batches {
            if let Entry::Vacant(unknown) = of.entry(batch.sandbox) {
                unknown.insert(is_of_project(&moment, &batch.sandbox, project)?);
            }
        }
        batches.retain(|batch| of.get(&batch.sandbox).copied().unwrap_or(false));
    }
    Ok(WebhookLogPart { gap, batches, through: part.through })
}

fn is_of_project(conn: &Connection, sandbox: &SandboxId, project: &Label) -> Result<bool> {
    let sql = "SELECT 1 FROM sandboxes WHERE id = ? AND project = ?";
    let found = |_: &Row<'_>| Ok(true);
    Ok(one(conn, sql, params![sandbox.as_str(), project.as_str()], found)?.unwrap_or(false))
}
