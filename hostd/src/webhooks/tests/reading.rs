//! Which events a webhook is told of, and what it is told of events that are gone.

use super::{Endpoint, Fixture, endpoint::Answer, label, sandbox};
use hostd_store::{
    LogOwner, NewSandbox, NewWebhook,
    fixture::{id, insert, new_sandbox, owner},
};
use protocol::api::{DeliveryState, Owner};

#[tokio::test]
async fn a_webhook_is_told_of_its_tenant_alone_and_the_operator_of_all() {
    let mut fixture = Fixture::new(3).await;
    let other = Owner { tenant: label("other"), ..owner() };
    insert(&fixture.store, NewSandbox { id: id(3), owner: other, ..new_sandbox(3, None) }).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(200)).await;
    let endpoints = [endpoint, Endpoint::start(|_, _| Answer::Status(200)).await];
    let (of_other, _) = fixture.add_for(Some(label("other")), &endpoints[0].url, &["*"]).await;
    let (of_all, _) = fixture.add_for(None, &endpoints[1].url, &["*"]).await;
    fixture.start();
    fixture.event(1, 1).await;
    fixture.event(3, 1).await;
    fixture.until(&of_other, DeliveryState::Delivered, 1).await;
    fixture.until(&of_all, DeliveryState::Delivered, 2).await;
    assert_eq!(endpoints[0].labels(), ["3n1"]);
    let mut all = endpoints[1].labels();
    all.sort();
    assert_eq!(all, ["1n1", "3n1"]);
}

#[tokio::test]
async fn events_are_selected_by_sandbox_project_and_type() {
    let mut fixture = Fixture::new(3).await;
    let shop = Owner { project: label("shop"), ..owner() };
    insert(&fixture.store, NewSandbox { id: id(3), owner: shop, ..new_sandbox(3, None) }).await;
    let endpoints = [
        Endpoint::start(|_, _| Answer::Status(200)).await,
        Endpoint::start(|_, _| Answer::Status(200)).await,
        Endpoint::start(|_, _| Answer::Status(200)).await,
    ];
    let all = || vec!["*".parse().expect("a pattern")];
    let new = |webhook: &str, url: &str| NewWebhook {
        id: webhook.to_owned(),
        tenant: Some(label("acme")),
        created_by: "ann".to_owned(),
        url: url.to_owned(),
        events: all(),
        sandbox: None,
        project: None,
        description: None,
        sealed: Vec::new(),
        now_ms: 1,
    };
    let made = [
        NewWebhook { sandbox: Some(sandbox(2)), ..new("w1", &endpoints[0].url) },
        NewWebhook { project: Some(label("shop")), ..new("w2", &endpoints[1].url) },
        NewWebhook { events: vec!["exec.*".parse().expect("a pattern")], ..new("w3", &endpoints[2].url) },
    ];
    let tenant = label("acme");
    for webhook in made {
        // Each with a secret of its own.
        let with = |id, sealed| NewWebhook { id, sealed, ..webhook };
        fixture.webhooks.create(with, Some(&tenant)).await.expect("created").expect("not too many");
    }
    fixture.start();
    for number in [1, 2, 3] {
        fixture.event(number, number).await;
    }
    let exec = serde_json::json!({"exec": "e", "exit": {"kind": "exited", "code": 0}});
    fixture.store.record_event(&id(1), "exec.ended", exec, 5).await.expect("recorded");
    for endpoint in &endpoints {
        endpoint.until(1).await;
    }
    assert_eq!(
        (endpoints[0].labels(), endpoints[1].labels()),
        (vec!["2n2".to_owned()], vec!["3n3".to_owned()])
    );
    assert_eq!(endpoints[2].received()[0].body()["type"], "exec.ended");
}

#[tokio::test]
async fn events_that_were_deleted_before_they_were_read_are_a_gap() {
    let mut fixture = Fixture::new(3).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(200)).await;
    let (webhook, _) = fixture.add(&endpoint.url, &["task.*", "sandbox.*"]).await;
    fixture.events(1, 1..=4).await;
    let acme = LogOwner { tenant: label("acme"), principal: None };
    fixture.store.trim_log(&acme, u64::MAX).await.expect("trimmed");
    fixture.event(1, 5).await;
    fixture.start();
    let rows = fixture.until(&webhook, DeliveryState::Delivered, 2).await;
    let gap = rows.iter().find(|row| row.kind == "webhook.gap").expect("a gap");
    let received = endpoint.received();
    let told = received.iter().find(|one| one.id == gap.id).expect("delivered").body();
    assert_eq!(told["data"]["after"], webhook.cursor);
    let through = told["data"]["through"].as_u64().expect("a number");
    assert!(through > webhook.cursor, "{told}");
    let last = received.iter().map(|one| one.body()["data"]["seq"].as_u64().unwrap_or(0)).max();
    assert!(last > Some(through), "and what is left follows");
    assert_eq!(rows.iter().filter(|row| row.kind == "webhook.gap").count(), 1, "once");
}

#[tokio::test]
async fn a_selected_event_is_found_behind_many_that_are_not() {
    let mut fixture = Fixture::new(3).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(200)).await;
    let (webhook, _) = fixture.add(&endpoint.url, &["exec.*"]).await;
    // More than one read of the log returns.
    futures_util::future::join_all((1..=1_040).map(|number| fixture.event(1, number))).await;
    let exec = serde_json::json!({"exec": "e", "exit": {"kind": "oom"}});
    fixture.store.record_event(&id(1), "exec.ended", exec, 5).await.expect("recorded");
    fixture.start();
    fixture.until(&webhook, DeliveryState::Delivered, 1).await;
    assert_eq!(endpoint.received().len(), 1);
    let read = fixture.store.webhook(&webhook.id).await.expect("read").expect("there").cursor;
    assert_eq!(read, *fixture.store.head().borrow());
}
