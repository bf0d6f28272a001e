//! The shared state of models behind the handle [`Models`]: the catalogue, open grants and budget accounts.

use super::{
    Grant, ModelsError, OpenGrant, Provider,
    budget_accounts::BudgetAccounts,
    call_types::ProviderKey,
    calls_in_flight::{InFlightCall, InFlightCalls, InterruptedCalls},
    catalogue::{Catalogue, ConfiguredProvider},
    grant::GrantState,
    key_problem::KeyProblem,
    limits,
};
use hostd_core::{BudgetBounds, token_hash};
use hostd_store::{
    ProviderRecord, SecretValue, Secrets, Store, StoreError, TaskRecord, token_auth,
    vault::{KeyFile, KeyVault},
};
use protocol::api::{Label, SandboxId};
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tracing::{error, warn};

#[derive(Clone)]
pub struct Models {
    pub(super) service: Arc<ModelService>,
}

pub(super) struct ModelService {
    pub store: Store,
    pub vault: KeyVault,
    pub secrets: Secrets,
    /// Bounds of a task that sets none.
    pub task_bounds: BudgetBounds,
    pub catalogue: RwLock<Arc<Catalogue>>,
    pub accounts: Mutex<BudgetAccounts>,
    /// Notified when a call has ended, and may have released reserved budget.
    pub settled: Notify,
    pub in_flight: Arc<InFlightCalls>,
    shutting_down: AtomicBool,
    /// Open grants, by the sandbox whose agents may use their keys.
    open: Mutex<HashMap<SandboxId, Vec<Arc<GrantState>>>>,
    /// Serialises changes of providers.
    pub changing: tokio::sync::Mutex<()>,
}

impl Models {
    /// Loads providers and budgets from the store. A key that cannot be decrypted is a problem of its
    /// provider only.
    pub async fn load(store: Store, data_dir: &Path, task_bounds: BudgetBounds) -> Result<Self, ModelsError> {
        let vault = KeyVault::new(data_dir, KeyFile::Models);
        let secrets = Secrets::new(store.clone(), data_dir);
        let (in_flight, interrupted_calls) = InFlightCalls::open(data_dir).map_err(ModelsError::InFlight)?;
        let service = ModelService {
            store,
            vault,
            secrets,
            task_bounds,
            catalogue: RwLock::default(),
            accounts: Mutex::default(),
            settled: Notify::new(),
            in_flight,
            shutting_down: AtomicBool::new(false),
            open: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        };
        let models = Self { service: Arc::new(service) };
        models.service.read_providers().await?;
        // Recorded before usage is read, and before any task continues.
        models.service.record_interrupted(interrupted_calls).await;
        let now_ms = now_ms();
        for budget in models.service.store.budgets(now_ms).await? {
            models.service.accounts().set_budget(&budget, now_ms);
        }
        Ok(models)
    }

    /// Reads keys again after a secret was changed: the next call uses the new one.
    pub async fn reload_keys(&self) -> Result<(), ModelsError> {
        let _changing = self.service.changing.lock().await;
        self.service.read_providers().await
    }

    /// Marks the start of the shutdown: calls that end without a response from here on were interrupted by
    /// it.
    pub fn begin_shutdown(&self) {
        self.service.shutting_down.store(true, Ordering::Release);
    }

    /// Returns the grant whose key an agent of this sandbox presents.
    pub fn authenticate(&self, sandbox: &SandboxId, key: &str) -> Option<Arc<Grant>> {
        let hash = token_hash(key);
        let open = self.service.open.lock().expect("no panic while held");
        let grant_state =
            open.get(sandbox)?.iter().find(|grant_state| bool::from(grant_state.key_hash.ct_eq(&hash)))?;
        Some(Arc::new(Grant::new(self.service.clone(), grant_state.clone())))
    }

    /// Makes the key of a task valid until the returned grant is dropped. `nudge` is notified when the task
    /// must end.
    pub fn open_grant(&self, task: &TaskRecord, nudge: Arc<Notify>) -> Option<OpenGrant> {
        let grant_state = Arc::new(GrantState::of(task, nudge)?);
        self.service.accounts().open(grant_state.task, grant_state.terms.bounds, grant_state.used_before);
        let mut open = self.service.open.lock().expect("no panic while held");
        open.entry(grant_state.sandbox).or_default().push(grant_state.clone());
        drop(open);
        Some(OpenGrant { service: self.service.clone(), grant_state })
    }
}

impl ModelService {
    pub fn accounts(&self) -> std::sync::MutexGuard<'_, BudgetAccounts> {
        self.accounts.lock().expect("no panic while held")
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().expect("no panic while held").clone()
    }

    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// Records the end of calls that an earlier hostd left. A call that cannot be recorded stays for the next
    /// hostd.
    async fn record_interrupted(&self, calls: InterruptedCalls) {
        for (slot, call) in calls {
            let task = call.task;
            if let Err(error) = self.record_interrupted_call(call).await {
                error!(task, %error, "failed to record an interrupted model call");
                slot.keep();
            }
        }
    }

    async fn record_interrupted_call(&self, call: InFlightCall) -> Result<(), StoreError> {
        let task = self.store.task_by_number(call.task).await?;
        match task.and_then(|task| task.grant).is_some_and(|grant| grant.key_hash == call.key_hash) {
            true => self.store.call_ended(call.interrupted_end(now_ms())).written().await,
            false => Ok(()),
        }
    }

    pub fn close(&self, grant_state: &Arc<GrantState>) {
        let mut open = self.open.lock().expect("no panic while held");
        if let Some(of_sandbox) = open.get_mut(&grant_state.sandbox) {
            of_sandbox.retain(|other| !Arc::ptr_eq(other, grant_state));
            if of_sandbox.is_empty() {
                open.remove(&grant_state.sandbox);
            }
        }
        drop(open);
        self.accounts().close(grant_state.task);
    }

    pub async fn read_providers(&self) -> Result<(), ModelsError> {
        let records = self.store.providers().await?;
        let mut providers = Vec::new();
        for record in records {
            providers.push(self.configured_provider(record).await);
        }
        *self.catalogue.write().expect("no panic while held") = Arc::new(Catalogue { providers });
        Ok(())
    }

    /// Returns the key of a provider, of its own or of the secret that it refers to.
    pub async fn key_of(&self, record: &ProviderRecord) -> Result<Option<SecretValue>, KeyProblem> {
        if let Some(reference) = &record.key_from {
            let value = self.secrets.resolve(&secrets_tenant(record), reference).await?;
            let fits = limits::is_key(value.as_str());
            return if fits {
                Ok(Some(value))
            } else {
                Err(KeyProblem::Unfit { reference: reference.clone() })
            };
        }
        let opened = record.sealed.as_ref().map(|sealed| self.vault.open(&key_context(record), sealed));
        Ok(opened.transpose()?)
    }

    /// Records the use of the secret that is the key of a provider.
    pub fn note_key_use(&self, record: &ProviderRecord) {
        if let Some(reference) = &record.key_from {
            self.secrets.note_use(&secrets_tenant(record), reference, now_ms());
        }
    }

    async fn configured_provider(&self, record: ProviderRecord) -> ConfiguredProvider {
        let (key, problem) = match self.key_of(&record).await {
            Ok(key) => (key.map(ProviderKey), None),
            Err(error) => {
                warn!(provider = record.name, %error, "the key of a model provider cannot be used");
                (None, Some(error))
            }
        };
        let provider = Provider {
            name: record.name.clone(),
            dialect: record.dialect,
            base_url: record.base_url.clone(),
            key,
        };
        ConfiguredProvider { record, provider: Arc::new(provider), problem }
    }
}

/// Returns the associated data of a provider's encrypted key: it cannot be moved to the row of another
/// provider.
pub(super) fn key_context(record: &ProviderRecord) -> String {
    let tenant = record.tenant.as_ref().map_or("", |tenant| tenant.as_str());
    format!("model provider {tenant}\n{}", record.name)
}

/// Returns the tenant whose secrets a provider may refer to: for a provider of all tenants, that of the operator.
fn secrets_tenant(record: &ProviderRecord) -> Label {
    record.tenant.clone().unwrap_or_else(|| token_auth::operator(String::new()).tenant)
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
