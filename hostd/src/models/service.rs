//! The one that everybody asks: which models there are, which keys are good, what is left of budgets.

use super::{
    Grant, ModelsError, OpenGrant, Provider,
    budget_accounts::BudgetAccounts,
    call_types::ProviderKey,
    calls_in_flight::{InFlightCall, InFlightCalls, InterruptedCalls},
    catalogue::{Catalogue, ConfiguredProvider},
    grant::GrantState,
    key_encryption::KeyVault,
};
use crate::{
    core::BudgetBounds,
    store::{ProviderRecord, Store, StoreError, TaskRecord},
    token_auth::token_hash,
};
use protocol::api::SandboxId;
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
    /// Of a task that says nothing else.
    pub task_bounds: BudgetBounds,
    pub catalogue: RwLock<Arc<Catalogue>>,
    pub accounts: Mutex<BudgetAccounts>,
    /// Notified when a call has ended, and may have left something over.
    pub settled: Notify,
    pub in_flight: Arc<InFlightCalls>,
    shutting_down: AtomicBool,
    /// Keys that are good, by the sandbox that may show them.
    open: Mutex<HashMap<SandboxId, Vec<Arc<GrantState>>>>,
    /// One change of providers at a time.
    pub changing: tokio::sync::Mutex<()>,
}

impl Models {
    /// As it was written down. A key that cannot be opened is a problem of its provider only.
    pub async fn load(store: Store, data_dir: &Path, task_bounds: BudgetBounds) -> Result<Self, ModelsError> {
        let vault = KeyVault::new(data_dir);
        let (in_flight, interrupted_calls) = InFlightCalls::open(data_dir).map_err(ModelsError::InFlight)?;
        let service = ModelService {
            store,
            vault,
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
        // Before sums are read, and before any task goes on.
        models.service.record_interrupted(interrupted_calls).await;
        let now_ms = now_ms();
        for budget in models.service.store.budgets(now_ms).await? {
            models.service.accounts().set_budget(&budget, now_ms);
        }
        Ok(models)
    }

    /// hostd goes: calls that end from here on without an answer were cut off by that.
    pub fn begin_shutdown(&self) {
        self.service.shutting_down.store(true, Ordering::Release);
    }

    /// Who shows this key at the door of this sandbox.
    pub fn authenticate(&self, sandbox: &SandboxId, key: &str) -> Option<Arc<Grant>> {
        let hash = token_hash(key);
        let open = self.service.open.lock().expect("no panic while held");
        let grant_state =
            open.get(sandbox)?.iter().find(|grant_state| bool::from(grant_state.key_hash.ct_eq(&hash)))?;
        Some(Arc::new(Grant::new(self.service.clone(), grant_state.clone())))
    }

    /// From now on the key of this task is good, until what is returned is dropped. `nudge` is told when the task
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

    /// Calls whose end the hostd before this one did not hear. One that cannot be written down stays for the next.
    async fn record_interrupted(&self, calls: InterruptedCalls) {
        for (slot, call) in calls {
            let task = call.task;
            if let Err(error) = self.record_interrupted_call(call).await {
                error!(task, %error, "a call that was cut off could not be written down");
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
        let providers = records.into_iter().map(|record| self.configured_provider(record)).collect();
        *self.catalogue.write().expect("no panic while held") = Arc::new(Catalogue { providers });
        Ok(())
    }

    fn configured_provider(&self, record: ProviderRecord) -> ConfiguredProvider {
        let opened = record.sealed.as_ref().map(|sealed| self.vault.open(&key_context(&record), sealed));
        let (key, problem) = match opened.transpose() {
            Ok(key) => (key.map(ProviderKey), None),
            Err(error) => {
                warn!(provider = record.name, %error, "the key of a provider of models cannot be used");
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

/// Additional data of the encryption: nobody can put a sealed key into the row of another provider.
pub(super) fn key_context(record: &ProviderRecord) -> String {
    let tenant = record.tenant.as_ref().map_or("", |tenant| tenant.as_str());
    format!("model provider {tenant}\n{}", record.name)
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
