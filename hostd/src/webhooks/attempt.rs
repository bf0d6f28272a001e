//! One attempt: reads the delivery, signs and sends it, and records the end. It may be cut off anywhere: then it is made
//! again.

use super::{client::SignedMessage, limits, metrics::AttemptOutcome, service::Webhooks};
use hostd_core::webhook::{Endpoint, Head, Pick, Tries, Verdict, WebhookAnswer, decide};
use hostd_metrics::GaugeGuard;
use hostd_store::{DeliveryEnd, DeliveryRow, FailedDelivery, StoreError, WebhookRow, identity_files::random};
use protocol::{api::DeliveryState, sanitize::one_line};
use std::sync::Arc;
use tracing::{info, warn};

/// How an attempt ended.
#[derive(Debug)]
pub struct AttemptEnded {
    pub pick: Pick,
    pub next: NextDelivery,
}

/// What follows in the lane of an attempt.
#[derive(Debug)]
pub enum NextDelivery {
    Known(Option<Head>),
    /// The rows are to be read again: the webhook was disabled, or the delivery is not as it was.
    Reload,
    /// The end could not be recorded.
    Unwritten(StoreError),
}

pub async fn attempt(webhooks: Webhooks, row: Arc<WebhookRow>, pick: Pick) -> AttemptEnded {
    let _counted = GaugeGuard::new(&webhooks.metrics().in_flight);
    let next = match webhooks.store().delivery(pick.number).await {
        Ok(Some(delivery)) if delivery.state == DeliveryState::Waiting => {
            deliver(&webhooks, &row, &delivery).await
        }
        Ok(_) => NextDelivery::Reload,
        Err(error) => NextDelivery::Unwritten(error),
    };
    AttemptEnded { pick, next }
}

async fn deliver(webhooks: &Webhooks, row: &WebhookRow, delivery: &DeliveryRow) -> NextDelivery {
    let (answer, error) = send(webhooks, row, delivery).await;
    let now_ms = webhooks.now_ms();
    let tries = Tries { attempts: delivery.attempts + 1, since_ms: delivery.since_ms };
    let jitter = random().map_or(now_ms, u64::from_ne_bytes);
    let verdict = decide(answer, tries, now_ms, jitter, webhooks.policy());
    let failed = || {
        let error = error.clone().unwrap_or_else(|| "it failed".to_owned());
        FailedDelivery { status: answer.status(), error: one_line(&error, limits::ERROR_MAX_CHARS) }
    };
    let (end, outcome) = match verdict {
        Verdict::Delivered => {
            (DeliveryEnd::Delivered { status: answer.status().unwrap_or(200) }, AttemptOutcome::Delivered)
        }
        Verdict::Retry { wait_ms } => {
            let due_ms = now_ms.saturating_add(wait_ms);
            (DeliveryEnd::Retry { failed: failed(), due_ms }, AttemptOutcome::Failed)
        }
        Verdict::Dead => {
            let (webhook, id) = (&row.id, &delivery.id);
            warn!(webhook, delivery = id, error = failed().error, "webhook delivery given up");
            (DeliveryEnd::Dead { failed: failed() }, AttemptOutcome::GaveUp)
        }
        Verdict::Gone => {
            info!(webhook = row.id, "webhook disabled: its endpoint answered 410");
            (DeliveryEnd::Gone { failed: failed() }, AttemptOutcome::Gone)
        }
    };
    webhooks.metrics().attempts.of(outcome).inc();
    match webhooks.store().end_delivery(delivery.number, end, now_ms).await {
        Ok(_) if verdict == Verdict::Gone => NextDelivery::Reload,
        Ok(next) => NextDelivery::Known(next),
        Err(error) => NextDelivery::Unwritten(error),
    }
}

async fn send(
    webhooks: &Webhooks,
    row: &WebhookRow,
    delivery: &DeliveryRow,
) -> (WebhookAnswer, Option<String>) {
    let now_ms = webhooks.now_ms();
    let endpoint = match Endpoint::parse(&row.url) {
        Ok(endpoint) => endpoint,
        Err(error) => return (WebhookAnswer::None, Some(format!("the URL {error}"))),
    };
    let keys = match webhooks.keys(row, now_ms) {
        Ok(keys) => keys,
        Err(error) => return (WebhookAnswer::None, Some(error.to_string())),
    };
    let (id, body) = (&delivery.id, &delivery.body);
    let message = SignedMessage { id, timestamp_s: now_ms / 1_000, body, keys: &keys };
    let exchange = webhooks.client().send(&endpoint, message).await;
    (exchange.answer, exchange.error)
}
