//! Reads the log of one webhook: events become deliveries, and the cursor moves in the same transaction.

use super::{limits, service::Webhooks};
use hostd_core::{
    rfc3339,
    webhook::{Head, LOG_KINDS, Message, gap_message, message_id, messages},
};
use hostd_store::{EventBatch, NewDelivery, StoreError, TakenEvents, WebhookGap, WebhookRow, frame_data};
use serde_json::Value;

/// How far the log of a webhook was read.
#[derive(Debug, Clone)]
pub struct Position {
    /// The number up to which it was read: the cursor, or beyond it where no event was selected.
    pub read: u64,
    /// When the cursor was written last.
    pub written_ms: u64,
    /// The gap that was recorded last.
    gap_through: u64,
}

/// What one read came to.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// New first deliveries of sandboxes.
    Read { heads: Vec<Head>, gap: bool },
    /// There is nothing more to read.
    End,
    /// Too much waits already.
    Full,
    /// The row was changed meanwhile.
    Stale,
}

impl Position {
    pub fn at(row: &WebhookRow, now_ms: u64) -> Self {
        Self { read: row.cursor, written_ms: now_ms, gap_through: 0 }
    }

    /// Reads the next part of the log.
    pub async fn advance(
        &mut self,
        webhooks: &Webhooks,
        row: &WebhookRow,
    ) -> Result<ReadOutcome, StoreError> {
        let (store, now_ms) = (webhooks.store(), webhooks.now_ms());
        let part = store.webhook_log(row, self.read).await?;
        let gap = part.gap.filter(|gap| gap.through > self.gap_through);
        let mut deliveries: Vec<NewDelivery> =
            gap.iter().map(|gap| gap_delivery(row, *gap, now_ms)).collect();
        for batch in &part.batches {
            deliveries.extend(deliveries_of(row, batch, self.read));
        }
        let through = part.through.max(gap.map_or(0, |gap| gap.through));
        if deliveries.is_empty() && through <= self.read {
            return Ok(ReadOutcome::End);
        }
        let late = now_ms.saturating_sub(self.written_ms) >= limits::CURSOR_WRITTEN_AFTER_MS;
        if deliveries.is_empty() && !late {
            self.read = through;
            return Ok(ReadOutcome::Read { heads: Vec::new(), gap: false });
        }
        if !deliveries.is_empty() && !store.has_room_for_deliveries(&row.id).await? {
            return Ok(ReadOutcome::Full);
        }
        let Some(heads) = self.write(webhooks, row, deliveries, through).await? else {
            return Ok(ReadOutcome::Stale);
        };
        self.gap_through = gap.map_or(self.gap_through, |gap| gap.through);
        Ok(ReadOutcome::Read { heads, gap: gap.is_some() })
    }

    /// Writes the cursor, with the deliveries before it.
    pub async fn write(
        &mut self,
        webhooks: &Webhooks,
        row: &WebhookRow,
        deliveries: Vec<NewDelivery>,
        through: u64,
    ) -> Result<Option<Vec<Head>>, StoreError> {
        let now_ms = webhooks.now_ms();
        let (webhook, version) = (row.id.clone(), row.version);
        let taken = TakenEvents { webhook, version, through, deliveries, now_ms };
        let heads = webhooks.store().take_events(taken).await?;
        if heads.is_some() {
            self.read = through;
            self.written_ms = now_ms;
        }
        Ok(heads)
    }
}

fn gap_delivery(row: &WebhookRow, gap: WebhookGap, now_ms: u64) -> NewDelivery {
    let Message { kind, body } = gap_message(gap.after, gap.through, &rfc3339(now_ms));
    let id = message_id(&row.id, gap.through, kind);
    NewDelivery { id, seq: gap.through, kind, sandbox: String::new(), body }
}

/// Returns the deliveries of the events of a batch after a number.
fn deliveries_of(row: &WebhookRow, batch: &EventBatch, after: u64) -> Vec<NewDelivery> {
    let kinds: Vec<String> = LOG_KINDS.iter().map(|kind| (*kind).to_owned()).collect();
    let frames = batch.select(after, &kinds);
    let events = frame_data(&frames).filter_map(|json| serde_json::from_slice::<Value>(json).ok());
    let each = events.flat_map(|event| {
        let seq = event["seq"].as_u64().unwrap_or(batch.last);
        messages(&event, &row.events).into_iter().map(move |message| (seq, message))
    });
    let sandbox = batch.sandbox.to_string();
    each.map(|(seq, Message { kind, body })| {
        let id = message_id(&row.id, seq, kind);
        NewDelivery { id, seq, kind, sandbox: sandbox.clone(), body }
    })
    .collect()
}
