//! What is delivered, in which order, and how often.

use super::{Endpoint, Fixture, endpoint::Answer, label, webhooks};
use hostd_store::{WebhookState, WebhookUpdate};
use protocol::api::{DeliveryState, WebhookDisabledReason};
use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

#[tokio::test]
async fn events_are_delivered_signed_and_in_the_order_of_their_sandbox() {
    let mut fixture = Fixture::new(3).await;
    fixture.event(1, 0).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(204)).await;
    let (webhook, secret) = fixture.add(&endpoint.url, &["sandbox.*"]).await;
    fixture.start();
    fixture.events(1, 1..=20).await;
    let received = endpoint.until(20).await;
    let expected: Vec<String> = (1..=20).map(|number| format!("1n{number}")).collect();
    assert_eq!(endpoint.labels(), expected, "nothing from before it was made");
    for request in &received {
        assert!(request.is_signed_by(&secret), "{request:?}");
        assert!(!request.is_signed_by("whsec_AAAA"));
        let body = request.body();
        assert_eq!(body["type"], "sandbox.changed");
        assert_eq!(body["timestamp"], body["data"]["time"]);
        assert_eq!(request.id, format!("msg_{}_{}_sandbox-changed", webhook.id, body["data"]["seq"]));
    }
    let rows = fixture.until(&webhook, DeliveryState::Delivered, 20).await;
    assert!(rows.iter().all(|row| row.attempts == 1 && row.last_status == Some(204)));
}

#[tokio::test]
async fn a_failure_holds_back_its_sandbox_alone_and_is_repeated_with_the_same_id() {
    let mut fixture = Fixture::new(20).await;
    // The first delivery of sandbox 1 fails until all of the other sandbox came.
    let others = AtomicU16::new(0);
    let endpoint = Endpoint::start(move |request, _| {
        let of_other = u16::from(request.label().starts_with('2'));
        let seen = others.fetch_add(of_other, Ordering::SeqCst);
        Answer::Status(if request.label() == "1n1" && seen < 3 { 503 } else { 200 })
    })
    .await;
    let (webhook, _) = fixture.add(&endpoint.url, &["*"]).await;
    fixture.start();
    fixture.event(1, 1).await;
    endpoint.until(1).await;
    fixture.events(1, 2..=3).await;
    fixture.events(2, 1..=3).await;
    let rows = fixture.until(&webhook, DeliveryState::Delivered, 6).await;
    let labels = endpoint.labels();
    let of = |prefix: &str| -> Vec<String> {
        labels.iter().filter(|label| label.starts_with(prefix)).cloned().collect()
    };
    assert_eq!(of("2"), ["2n1", "2n2", "2n3"]);
    let mut of_first = of("1");
    let attempts = of_first.len() - 2;
    assert!(attempts > 1);
    of_first.dedup();
    assert_eq!(of_first, ["1n1", "1n2", "1n3"]);
    let received = endpoint.received();
    let repeated: Vec<&str> =
        received.iter().filter(|one| one.label() == "1n1").map(|one| one.id.as_str()).collect();
    assert!(repeated.iter().all(|id| *id == repeated[0]), "{repeated:?}");
    let row = rows.iter().find(|row| row.id == repeated[0]).expect("it is there");
    assert_eq!((row.attempts, row.last_error.as_deref()), (attempts as u64, None));
}

#[tokio::test]
async fn what_is_given_up_unblocks_its_sandbox_and_can_be_delivered_again() {
    let mut fixture = Fixture::new(1).await;
    let status = Arc::new(AtomicU16::new(500));
    let answers = status.clone();
    let endpoint = Endpoint::start(move |request, _| match request.label().as_str() {
        "1n1" | "1n2" => Answer::Status(answers.load(Ordering::SeqCst)),
        _ => Answer::Status(200),
    })
    .await;
    let (webhook, _) = fixture.add(&endpoint.url, &["*"]).await;
    fixture.start();
    fixture.events(1, 1..=3).await;
    endpoint.until(3).await;
    fixture.until(&webhook, DeliveryState::Delivered, 1).await;
    let dead = fixture.deliveries(&webhook, Some(DeliveryState::Dead)).await;
    assert_eq!(dead.len(), 2);
    assert_eq!(dead[0].last_error.as_deref(), Some("status 500: no thanks"), "in one plain line");

    status.store(200, Ordering::SeqCst);
    let one = Some(dead[1].id.clone());
    assert_eq!(fixture.store.redeliver(&webhook.id, one, 9).await.expect("written"), 1);
    fixture.webhooks.notify();
    fixture.until(&webhook, DeliveryState::Delivered, 2).await;
    assert_eq!(fixture.store.redeliver(&webhook.id, None, 9).await.expect("written"), 1, "all that is dead");
    fixture.webhooks.notify();
    fixture.until(&webhook, DeliveryState::Delivered, 3).await;
    assert_eq!(endpoint.labels(), ["1n1", "1n2", "1n3", "1n1", "1n2"]);

    let cursor = fixture.store.rewind_webhook(&webhook.id, 0, 9).await.expect("written");
    assert_eq!(cursor, Some(0));
    fixture.webhooks.notify();
    let received = endpoint.until(10).await;
    let rest: Vec<String> = received[5..].iter().map(|one| one.body()["type"].to_string()).collect();
    // Also what was before the webhook.
    assert_eq!(rest.iter().filter(|kind| kind.contains("sandbox.created")).count(), 2, "{rest:?}");
}

#[tokio::test]
async fn an_endpoint_that_is_gone_disables_its_webhook_until_it_is_enabled() {
    let mut fixture = Fixture::new(3).await;
    let status = Arc::new(AtomicU16::new(410));
    let answers = status.clone();
    let endpoint = Endpoint::start(move |_, _| Answer::Status(answers.load(Ordering::SeqCst))).await;
    let (webhook, _) = fixture.add(&endpoint.url, &["*"]).await;
    // Its end shows that the worker goes on.
    let other = Endpoint::start(|_, _| Answer::Status(200)).await;
    let (other_webhook, _) = fixture.add(&other.url, &["*"]).await;
    fixture.start();
    fixture.event(1, 1).await;
    endpoint.until(1).await;
    let gone = WebhookState::Disabled(WebhookDisabledReason::Gone);
    while fixture.store.webhook(&webhook.id).await.expect("read").expect("there").state != gone {
        tokio::task::yield_now().await;
    }
    fixture.events(1, 2..=3).await;
    fixture.until(&other_webhook, DeliveryState::Delivered, 3).await;
    assert_eq!(endpoint.received().len(), 1);

    status.store(200, Ordering::SeqCst);
    let enable = WebhookUpdate { state: Some(WebhookState::Enabled), ..WebhookUpdate::default() };
    fixture.store.update_webhook(&webhook.id, enable, 5).await.expect("written");
    fixture.webhooks.notify();
    endpoint.until(4).await;
    assert_eq!(endpoint.labels(), ["1n1", "1n1", "1n2", "1n3"]);
}

#[tokio::test]
async fn a_crash_delivers_again_and_skips_nothing() {
    let mut fixture = Fixture::new(3).await;
    // The first four never get an answer.
    let endpoint =
        Endpoint::start(|_, before| if before < 4 { Answer::Hang } else { Answer::Status(200) }).await;
    let (webhook, _) = fixture.add(&endpoint.url, &["*"]).await;
    fixture.start();
    for crashes in 1..=4_u64 {
        fixture.events(1, [crashes]).await;
        endpoint.until(usize::try_from(crashes).expect("few")).await;
        fixture.crash().await;
    }
    fixture.until(&webhook, DeliveryState::Delivered, 4).await;
    let labels = endpoint.labels();
    assert_eq!(labels[labels.len() - 4..], ["1n1", "1n2", "1n3", "1n4"], "{labels:?}");
    assert_eq!(labels[..4], ["1n1", "1n1", "1n1", "1n1"], "the first one held back the others");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_delays_no_other() {
    let mut fixture = Fixture::new(3).await;
    let silent = Endpoint::start(|_, _| Answer::Hang).await;
    let quick = Endpoint::start(|_, _| Answer::Status(200)).await;
    for _ in 0..8 {
        fixture.add(&silent.url, &["*"]).await;
    }
    let (webhook, _) = fixture.add_for(None, &quick.url, &["*"]).await;
    fixture.start();
    fixture.events(1, 1..=10).await;
    fixture.events(2, 1..=10).await;
    fixture.until(&webhook, DeliveryState::Delivered, 20).await;
    // Sixteen of the tenant at once: one of each sandbox and webhook.
    silent.until(16).await;
    assert_eq!(silent.received().len(), 16);
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_one_before() {
    let mut fixture = Fixture::new(3).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(200)).await;
    let (webhook, old) = fixture.add(&endpoint.url, &["*"]).await;
    let (rotated, new) = fixture.webhooks.rotate(&webhook).await.expect("rotated").expect("there");
    assert!(old != new && rotated.sealed != webhook.sealed);
    fixture.start();
    fixture.event(1, 1).await;
    let received = endpoint.until(1).await;
    assert!(received[0].is_signed_by(&old) && received[0].is_signed_by(&new), "{received:?}");
    assert_eq!(received[0].signature.split(' ').count(), 2);
    // Sealed, and not for another webhook.
    let other = hostd_store::WebhookRow { id: "other".to_owned(), ..rotated };
    assert!(fixture.webhooks.keys(&other, 0).is_err());
    // With another key file nothing can be signed, which the row says.
    std::fs::remove_file(fixture.dir.path().join("secrets.key")).expect("removed");
    fixture.webhooks = webhooks(&fixture.store, &fixture.dir, 1, &["127.0.0.1"]);
    fixture.crash().await;
    fixture.event(1, 2).await;
    let dead = fixture.until(&webhook, DeliveryState::Dead, 1).await;
    assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("rotate it")), "{dead:?}");
}

#[tokio::test]
async fn a_test_is_sent_at_once_and_not_recorded() {
    let fixture = Fixture::new(3).await;
    let endpoint = Endpoint::start(|_, before| Answer::Status(if before == 0 { 200 } else { 500 })).await;
    let (webhook, secret) = fixture.add_for(Some(label("acme")), &endpoint.url, &["task.*"]).await;
    let good = fixture.webhooks.test(&webhook).await.expect("not busy");
    assert_eq!((good.delivered, good.status, good.error), (true, Some(200), None));
    let bad = fixture.webhooks.test(&webhook).await.expect("not busy");
    assert_eq!((bad.delivered, bad.status), (false, Some(500)));
    assert_eq!(bad.error.as_deref(), Some("status 500: no thanks"));
    let received = endpoint.until(2).await;
    assert!(received[0].is_signed_by(&secret) && received[0].body()["type"] == "webhook.test");
    assert_eq!(fixture.deliveries(&webhook, None).await, []);
}
