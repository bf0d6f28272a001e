//! The handle to webhooks: what the API uses. Rows are changed here; the worker learns that they were.

use super::{
    client::{EndpointClient, SignedMessage},
    limits,
    metrics::WebhookMetrics,
    worker::Worker,
};
use hostd_core::{
    rfc3339,
    webhook::{Endpoint, RetryPolicy, SigningKey, WebhookAnswer, test_message},
};
use hostd_store::{
    Clock, NewWebhook, Store, StoreError, WebhookRow, WebhookUpdate,
    identity_files::random,
    vault::{KeyFile, KeyVault, VaultError},
};
use protocol::api::{Label, WebhookTest};
use std::{path::PathBuf, sync::Arc, time::Instant};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

/// What webhooks are made of.
pub struct WebhookParts {
    pub store: Store,
    pub clock: Clock,
    pub data_dir: PathBuf,
    pub client: EndpointClient,
    /// Attempts of one delivery.
    pub attempts_max: u64,
}

/// Clones are handles to the same webhooks.
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Clock,
    vault: KeyVault,
    client: EndpointClient,
    policy: RetryPolicy,
    changed: Notify,
    tests: Semaphore,
    metrics: WebhookMetrics,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretProblem {
    #[error("the secret of the webhook could not be sealed: {0}")]
    Seal(#[source] VaultError),
    #[error("the secret of the webhook cannot be used: {0}; or rotate it")]
    Open(#[source] VaultError),
    #[error("there is no randomness for a secret: {0}")]
    Random(#[source] std::io::Error),
    #[error("the secret of the webhook is damaged: rotate it")]
    Damaged,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Webhooks {
    pub fn new(parts: WebhookParts) -> Self {
        let WebhookParts { store, clock, data_dir, client, attempts_max } = parts;
        let inner = Inner {
            store,
            clock,
            vault: KeyVault::new(&data_dir, KeyFile::Secrets),
            client,
            policy: RetryPolicy { attempts_max, age_max_ms: limits::AGE_MAX_MS },
            changed: Notify::new(),
            tests: Semaphore::new(limits::TESTS_MAX),
            metrics: WebhookMetrics::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Delivers until hostd ends.
    pub async fn run(&self, closing: CancellationToken) {
        Worker::new(self.clone()).run(closing).await;
    }

    pub fn metrics(&self) -> &WebhookMetrics {
        &self.inner.metrics
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.inner.clock.now_ms()
    }

    pub(super) fn client(&self) -> &EndpointClient {
        &self.inner.client
    }

    pub(super) fn policy(&self) -> &RetryPolicy {
        &self.inner.policy
    }

    /// Ends when a row was changed since.
    pub(super) async fn changed(&self) {
        self.inner.changed.notified().await;
    }

    /// Lets the worker read the rows again. Call it after each change.
    pub fn notify(&self) {
        self.inner.changed.notify_one();
    }

    /// Makes a webhook with a new secret, which is returned once. `None` where there are too many.
    pub async fn create(
        &self,
        new: impl FnOnce(String, Vec<u8>) -> NewWebhook + Send,
        tenant: Option<&Label>,
    ) -> Result<Option<(WebhookRow, String)>, SecretProblem> {
        let id = crate::api::new_id();
        let (secret, sealed) = self.new_secret(&id, tenant)?;
        let made = self.inner.store.insert_webhook(new(id, sealed)).await?;
        self.notify();
        Ok(made.map(|row| (row, secret)))
    }

    /// Gives a webhook a new secret; the one before signs too, for a while.
    pub async fn rotate(&self, row: &WebhookRow) -> Result<Option<(WebhookRow, String)>, SecretProblem> {
        let (secret, sealed) = self.new_secret(&row.id, row.tenant.as_ref())?;
        let now_ms = self.now_ms();
        let until_ms = now_ms.saturating_add(limits::SECRET_OVERLAP_MS);
        let update = WebhookUpdate { secret: Some((sealed, until_ms)), ..WebhookUpdate::default() };
        let updated = self.inner.store.update_webhook(&row.id, update, now_ms).await?;
        self.notify();
        Ok(updated.map(|row| (row, secret)))
    }

    fn new_secret(&self, id: &str, tenant: Option<&Label>) -> Result<(String, Vec<u8>), SecretProblem> {
        let secret = SigningKey::new(random().map_err(SecretProblem::Random)?).secret();
        let sealed = self.inner.vault.seal(&context(id, tenant), &secret).map_err(SecretProblem::Seal)?;
        Ok((secret, sealed))
    }

    /// Returns the keys that sign now: the newest first.
    pub(super) fn keys(&self, row: &WebhookRow, now_ms: u64) -> Result<Vec<SigningKey>, SecretProblem> {
        let context = context(&row.id, row.tenant.as_ref());
        let before = row.sealed_before.as_ref().filter(|(_, until_ms)| now_ms < *until_ms);
        let sealed = std::iter::once(&row.sealed).chain(before.map(|(sealed, _)| sealed));
        let open = |sealed: &Vec<u8>| {
            let secret = self.inner.vault.open(&context, sealed).map_err(SecretProblem::Open)?;
            SigningKey::parse(secret.as_str()).ok_or(SecretProblem::Damaged)
        };
        sealed.map(open).collect()
    }

    /// Sends a test at once. `None` while too many are being sent.
    pub async fn test(&self, row: &WebhookRow) -> Option<WebhookTest> {
        let _permit = self.inner.tests.try_acquire().ok()?;
        let (started, now_ms) = (Instant::now(), self.now_ms());
        let id = format!("msg_{}_test_{}", row.id, crate::api::new_id());
        let message = test_message(&row.id, &rfc3339(now_ms));
        let exchange = async {
            let endpoint = Endpoint::parse(&row.url).map_err(|error| error.to_string())?;
            let keys = self.keys(row, now_ms).map_err(|error| error.to_string())?;
            let message =
                SignedMessage { id: &id, timestamp_s: now_ms / 1_000, body: &message.body, keys: &keys };
            Ok(self.inner.client.send(&endpoint, message).await)
        };
        let (answer, error) = match exchange.await {
            Ok(exchange) => (exchange.answer, exchange.error),
            Err(error) => (WebhookAnswer::None, Some(error)),
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(WebhookTest { id, delivered: answer.is_success(), status: answer.status(), error, duration_ms })
    }
}

/// The associated data of a sealed secret: it cannot be moved to the row of another webhook.
fn context(id: &str, tenant: Option<&Label>) -> String {
    format!("webhook {}\n{id}", tenant.map_or("", Label::as_str))
}
