//! Webhooks and their deliveries: the cursor moves with the rows, lanes are bounded, and what is deleted is counted.

use super::{empty, id, insert, label, lines, new_sandbox, new_task, with_one};
use crate::{
    DeliveryEnd, DeliveryFilter, DeliveryPruning, DeliveryRow, FailedDelivery, NewDelivery, NewWebhook,
    Store, TakenEvents, TaskBegun, WebhookCounts, WebhookRow, WebhookState, WebhookUpdate, limits,
};
use hostd_core::{Goal, TaskEnding, Transition, webhook::Head};
use protocol::api::{DeliveryState, Label, WebhookDisabledReason};
use serde_json::json;

fn new_webhook(webhook: &str, tenant: Option<Label>) -> NewWebhook {
    NewWebhook {
        id: webhook.to_owned(),
        tenant,
        created_by: "ann".to_owned(),
        url: "https://hooks.example/".to_owned(),
        events: vec!["*".parse().unwrap()],
        sandbox: None,
        project: None,
        description: None,
        sealed: vec![1],
        now_ms: 1,
    }
}

async fn webhook(store: &Store) -> WebhookRow {
    store.insert_webhook(new_webhook("w", Some(label("acme")))).await.unwrap().unwrap()
}

fn delivery(seq: u64, sandbox: &str) -> NewDelivery {
    let (id, body) = (format!("m{seq}"), "{}".to_owned());
    NewDelivery { id, seq, kind: "sandbox.changed", sandbox: sandbox.to_owned(), body }
}

async fn take(store: &Store, row: &WebhookRow, deliveries: Vec<NewDelivery>) -> Option<Vec<Head>> {
    let through = deliveries.last().map_or(0, |last| last.seq);
    let (webhook, version) = (row.id.clone(), row.version);
    store.take_events(TakenEvents { webhook, version, through, deliveries, now_ms: 10 }).await.unwrap()
}

async fn rows(store: &Store, state: DeliveryState) -> Vec<DeliveryRow> {
    let filter = DeliveryFilter { webhook: "w".to_owned(), state: Some(state) };
    store.deliveries(filter, None, 1_000).await.unwrap()
}

fn failed() -> FailedDelivery {
    FailedDelivery { status: Some(500), error: "status 500".to_owned() }
}

fn numbers(heads: &[Head]) -> Vec<(String, i64)> {
    let mut all: Vec<_> = heads.iter().map(|head| (head.lane.clone(), head.number)).collect();
    all.sort();
    all
}

#[tokio::test]
async fn deliveries_and_cursor_are_written_together_and_the_first_of_each_sandbox_is_known() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    let heads = take(&store, &row, vec![delivery(1, "a"), delivery(2, "b"), delivery(3, "a")]).await.unwrap();
    let first = [("a".to_owned(), 1), ("b".to_owned(), 2)];
    assert_eq!(numbers(&heads), first);
    assert_eq!(numbers(&store.delivery_heads("w").await.unwrap()), first);
    assert_eq!(store.webhook("w").await.unwrap().unwrap().cursor, 3);

    let next = store.end_delivery(1, DeliveryEnd::Delivered { status: 200 }, 20).await.unwrap();
    assert_eq!(next, Some(Head { lane: "a".to_owned(), number: 3, due_ms: 10 }));
    let retry = DeliveryEnd::Retry { failed: failed(), due_ms: 99 };
    let again = store.end_delivery(3, retry, 21).await.unwrap();
    assert_eq!(again, Some(Head { lane: "a".to_owned(), number: 3, due_ms: 99 }));
    assert_eq!(store.end_delivery(3, DeliveryEnd::Dead { failed: failed() }, 22).await.unwrap(), None);
    assert_eq!(store.webhook_counts("w").await.unwrap(), WebhookCounts { waiting: 1, dead: 1 });
    let row = store.webhook("w").await.unwrap().unwrap();
    assert_eq!((row.delivered_ms, row.failure), (Some(20), Some((22, "status 500".to_owned()))));
}

#[tokio::test]
async fn events_read_for_a_row_that_was_changed_are_not_written() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    let events = Some(vec!["task.*".parse().unwrap()]);
    let changed = store.update_webhook("w", WebhookUpdate { events, ..WebhookUpdate::default() }, 2).await;
    let changed = changed.unwrap().unwrap();
    assert_eq!(take(&store, &row, vec![delivery(1, "a")]).await, None);
    assert_eq!((rows(&store, DeliveryState::Waiting).await.len(), changed.cursor), (0, 0));
    assert!(take(&store, &changed, vec![delivery(1, "a")]).await.is_some());
    assert_eq!(store.rewind_webhook("w", 0, 3).await.unwrap(), Some(0));
    assert_eq!(store.rewind_webhook("none", 0, 3).await.unwrap(), None);
    // What was read for the cursor before does not move it.
    assert_eq!(take(&store, &changed, vec![delivery(2, "a")]).await, None);
    let rewound = store.webhook("w").await.unwrap().unwrap();
    store.end_delivery(1, DeliveryEnd::Delivered { status: 200 }, 4).await.unwrap();
    take(&store, &rewound, vec![delivery(1, "a")]).await.unwrap();
    let waiting = rows(&store, DeliveryState::Waiting).await;
    assert_eq!(
        (waiting.len(), waiting[0].number, waiting[0].attempts),
        (1, 1, 0),
        "the same row waits again"
    );
}

#[tokio::test]
async fn a_sandbox_that_fails_gives_up_its_oldest_beyond_a_number_and_others_none() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    let most = limits::WEBHOOK_WAITING_OF_SANDBOX_MAX;
    take(&store, &row, (1..=most + 2).map(|seq| delivery(seq, "a")).collect()).await.unwrap();
    assert_eq!(rows(&store, DeliveryState::Dead).await.len(), 0, "none failed yet");
    let retry = DeliveryEnd::Retry { failed: failed(), due_ms: 99 };
    store.end_delivery(1, retry, 21).await.unwrap();
    let heads = take(&store, &row, vec![delivery(most + 3, "a"), delivery(most + 4, "b")]).await.unwrap();
    let dead: Vec<u64> = rows(&store, DeliveryState::Dead).await.iter().map(|row| row.seq).collect();
    assert_eq!(dead, [3, 2, 1]);
    assert_eq!(numbers(&heads)[0], ("a".to_owned(), 4));
    // Its request was in flight, and succeeded.
    store.end_delivery(1, DeliveryEnd::Delivered { status: 200 }, 22).await.unwrap();
    assert_eq!(rows(&store, DeliveryState::Delivered).await.len(), 1);
    assert_eq!(rows(&store, DeliveryState::Dead).await.len(), 2);
}

#[tokio::test]
async fn what_waits_is_bounded_by_number_and_bytes() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    assert!(store.has_room_for_deliveries("w").await.unwrap());
    let body = "x".repeat(usize::try_from(limits::WEBHOOK_WAITING_MAX_BYTES).unwrap());
    take(&store, &row, vec![NewDelivery { body, ..delivery(1, "a") }]).await.unwrap();
    assert!(!store.has_room_for_deliveries("w").await.unwrap());
    store.end_delivery(1, DeliveryEnd::Delivered { status: 200 }, 4).await.unwrap();
    assert!(store.has_room_for_deliveries("w").await.unwrap());
    take(&store, &row, (2..limits::WEBHOOK_WAITING_MAX + 2).map(|seq| delivery(seq, "a")).collect()).await;
    assert!(!store.has_room_for_deliveries("w").await.unwrap());
}

#[tokio::test]
async fn ended_deliveries_are_removed_by_age_and_number_and_those_given_up_are_counted() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    take(&store, &row, (1..=9).map(|seq| delivery(seq, "a")).collect()).await.unwrap();
    for number in 1..=4 {
        store
            .end_delivery(number, DeliveryEnd::Delivered { status: 200 }, 100 + number.unsigned_abs())
            .await
            .unwrap();
    }
    for number in 5..=8 {
        let end = DeliveryEnd::Dead { failed: failed() };
        store.end_delivery(number, end, 100 + number.unsigned_abs()).await.unwrap();
    }
    let pruning = DeliveryPruning { delivered_max: 2, dead_max: 2, delivered_keep_ms: 50, dead_keep_ms: 50 };
    assert_eq!(store.prune_deliveries("w", pruning, 110).await.unwrap(), 2);
    let left = |rows: Vec<DeliveryRow>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(left(rows(&store, DeliveryState::Delivered).await), [4, 3]);
    assert_eq!(left(rows(&store, DeliveryState::Dead).await), [8, 7]);
    assert_eq!(store.prune_deliveries("w", pruning, 158).await.unwrap(), 1);
    assert_eq!(left(rows(&store, DeliveryState::Delivered).await), [0; 0]);
    assert_eq!(left(rows(&store, DeliveryState::Waiting).await), [9], "what waits stays");
    assert_eq!(store.webhook("w").await.unwrap().unwrap().dropped, 3);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_disables_and_enabling_begins_anew() {
    let (_dir, store) = empty();
    let row = webhook(&store).await;
    take(&store, &row, vec![delivery(1, "a")]).await.unwrap();
    store.end_delivery(1, DeliveryEnd::Gone { failed: failed() }, 20).await.unwrap();
    let disabled = store.webhook("w").await.unwrap().unwrap();
    assert_eq!(disabled.state, WebhookState::Disabled(WebhookDisabledReason::Gone));
    assert_eq!(store.enabled_webhooks().await.unwrap(), []);
    let enable = WebhookUpdate { state: Some(WebhookState::Enabled), ..WebhookUpdate::default() };
    store.update_webhook("w", enable, 500).await.unwrap();
    let waiting = rows(&store, DeliveryState::Waiting).await;
    assert_eq!((waiting[0].attempts, waiting[0].since_ms, waiting[0].due_ms), (0, 500, 500));
    assert!(store.remove_webhook("w").await.unwrap());
    assert!(!store.remove_webhook("w").await.unwrap());
    assert_eq!(rows(&store, DeliveryState::Waiting).await, []);
    assert_eq!(store.end_delivery(1, DeliveryEnd::Delivered { status: 200 }, 4).await.unwrap(), None);
}

#[tokio::test]
async fn webhooks_of_a_tenant_are_limited_and_listed_newest_first() {
    let (_dir, store) = empty();
    for number in 0..limits::WEBHOOKS_OF_TENANT_MAX {
        store
            .insert_webhook(new_webhook(&format!("a{number:02}"), Some(label("acme"))))
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(store.insert_webhook(new_webhook("more", Some(label("acme")))).await.unwrap(), None);
    store.insert_webhook(new_webhook("b", None)).await.unwrap().expect("those of the operator are others");
    let page = store.webhooks(Some(&label("acme")), Some("a03".to_owned()), 2).await.unwrap();
    assert_eq!(page.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a02", "a01"]);
    assert_eq!(store.webhooks(None, None, 1).await.unwrap()[0].tenant, None);
}

#[tokio::test]
async fn events_that_retention_deletes_behind_the_cursor_are_a_gap() {
    let (_dir, store, _) = with_one().await;
    insert(&store, new_sandbox(2, None)).await;
    let row = webhook(&store).await;
    store.record_event(&id(2), "sandbox.changed", json!({}), 5).await.unwrap();
    assert_eq!(store.webhook_log(&row, row.cursor).await.unwrap().gap, None);
    let TaskBegun::New(task) = store.begin_task(new_task("t1")).await.unwrap() else { panic!("not new") };
    store.append_task(task.number, lines(1..=2)).await.unwrap();
    store.conclude_task(task.number, TaskEnding::Lost, 5).await.unwrap();
    for transition in [Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, Transition::Reached] {
        store.transition_sandbox(&id(1), transition, 3).await.unwrap();
    }
    let later = limits::TASKS_OF_DESTROYED_RETENTION_MS + 8;
    store.delete_expired(later, None).await.unwrap();
    let part = store.webhook_log(&row, row.cursor).await.unwrap();
    let gap = part.gap.expect("a gap");
    assert_eq!(gap.after, row.cursor);
    assert_eq!(store.webhook_log(&row, gap.through).await.unwrap().gap, None);
}
