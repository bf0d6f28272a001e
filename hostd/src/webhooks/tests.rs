//! The worker against endpoints of this process, by real connections on loopback.

mod delivering;
mod endpoint;
mod reading;
mod refusals;

use super::{EndpointClient, WebhookParts, Webhooks};
use endpoint::Endpoint;
use hostd_core::egress::Exceptions;
use hostd_net::outbound::{DnsResolver, OutboundConnector};
use hostd_store::{
    Clock, DeliveryFilter, DeliveryRow, NewWebhook, Store, WebhookRow,
    fixture::{empty, id, insert, label, new_sandbox},
};
use protocol::api::{DeliveryState, Label, SandboxId};
use serde_json::json;
use std::time::Duration;
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine; nothing waits for it unless a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

struct Fixture {
    dir: TempDir,
    store: Store,
    webhooks: Webhooks,
    worker: Option<JoinHandle<()>>,
}

impl Fixture {
    /// With two sandboxes of the tenant `acme`, and attempts of one delivery.
    async fn new(attempts_max: u64) -> Self {
        let (dir, store) = empty();
        for number in [1, 2] {
            insert(&store, new_sandbox(number, None)).await;
        }
        let webhooks = webhooks(&store, &dir, attempts_max, &["127.0.0.1"]);
        Self { dir, store, webhooks, worker: None }
    }

    fn start(&mut self) {
        let webhooks = self.webhooks.clone();
        let run = async move { webhooks.run(CancellationToken::new()).await };
        self.worker = Some(tokio::spawn(run));
    }

    /// Ends the worker wherever it is, as a kill does, and starts another one.
    async fn crash(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.abort();
            let _ = worker.await;
        }
        self.start();
    }

    async fn add(&self, url: &str, events: &[&str]) -> (WebhookRow, String) {
        self.add_for(Some(label("acme")), url, events).await
    }

    async fn add_for(&self, tenant: Option<Label>, url: &str, events: &[&str]) -> (WebhookRow, String) {
        let events = events.iter().map(|text| text.parse().expect("a pattern")).collect();
        let (of, url) = (tenant.clone(), url.to_owned());
        let new = |id, sealed| NewWebhook {
            id,
            tenant: of,
            created_by: "ann".to_owned(),
            url,
            events,
            sandbox: None,
            project: None,
            description: None,
            sealed,
            now_ms: 1,
        };
        self.webhooks.create(new, tenant.as_ref()).await.expect("created").expect("not too many")
    }

    async fn event(&self, sandbox: u64, number: u64) {
        let data = json!({"fields": [format!("n{number}")]});
        let now_ms = Clock::new().now_ms();
        self.store.record_event(&id(sandbox), "sandbox.changed", data, now_ms).await.expect("recorded");
    }

    async fn events(&self, sandbox: u64, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.event(sandbox, number).await;
        }
    }

    async fn deliveries(&self, webhook: &WebhookRow, state: Option<DeliveryState>) -> Vec<DeliveryRow> {
        let filter = DeliveryFilter { webhook: webhook.id.clone(), state };
        self.store.deliveries(filter, None, 1_000).await.expect("read")
    }

    /// Waits until so many deliveries of a webhook are in a state.
    async fn until(&self, webhook: &WebhookRow, state: DeliveryState, count: usize) -> Vec<DeliveryRow> {
        let waiting = async {
            loop {
                let rows = self.deliveries(webhook, Some(state)).await;
                if rows.len() >= count {
                    return rows;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("deliveries get there")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            worker.abort();
        }
    }
}

fn webhooks(store: &Store, dir: &TempDir, attempts_max: u64, allowed: &[&str]) -> Webhooks {
    let allowed: Vec<String> = allowed.iter().map(|text| (*text).to_owned()).collect();
    let resolver = DnsResolver::fixed(|name| match name {
        "local.test" => vec!["127.0.0.1".parse().expect("an address")],
        _ => Vec::new(),
    });
    let connector = OutboundConnector::with_resolver(resolver);
    Webhooks::new(WebhookParts {
        store: store.clone(),
        clock: Clock::new(),
        data_dir: dir.path().to_owned(),
        client: EndpointClient::new(connector, Exceptions::parse(&allowed).expect("good rules")),
        attempts_max,
    })
}

fn sandbox(number: u64) -> SandboxId {
    id(number)
}
