//! The one that everybody asks: which models there are, which keys are good, what is left of budgets.

use super::{
    Grant, ModelsError, OpenGrant, Provider,
    accounts::Accounts,
    catalogue::{Catalogue, Known},
    grant::Pledge,
    seal::Vault,
    under_way::{Begun, Left, UnderWay},
    words::ProviderKey,
};
use crate::{
    core::Bounds,
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
    pub(super) desk: Arc<Desk>,
}

pub(super) struct Desk {
    pub store: Store,
    pub vault: Vault,
    /// Of a task that says nothing else.
    pub task_bounds: Bounds,
    pub catalogue: RwLock<Arc<Catalogue>>,
    pub accounts: Mutex<Accounts>,
    /// Told when a call has ended, and may have left something over.
    pub settled: Notify,
    pub under_way: Arc<UnderWay>,
    leaving: AtomicBool,
    /// Keys that are good, by the sandbox that may show them.
    open: Mutex<HashMap<SandboxId, Vec<Arc<Pledge>>>>,
    /// One change of providers at a time.
    pub changing: tokio::sync::Mutex<()>,
}

impl Models {
    /// As it was written down. A key that cannot be opened is a problem of its provider only.
    pub async fn load(store: Store, data_dir: &Path, task_bounds: Bounds) -> Result<Self, ModelsError> {
        let vault = Vault::new(data_dir);
        let (under_way, cut_off) = UnderWay::open(data_dir).map_err(ModelsError::UnderWay)?;
        let desk = Desk {
            store,
            vault,
            task_bounds,
            catalogue: RwLock::default(),
            accounts: Mutex::default(),
            settled: Notify::new(),
            under_way,
            leaving: AtomicBool::new(false),
            open: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        };
        let models = Self { desk: Arc::new(desk) };
        models.desk.read_providers().await?;
        // Before sums are read, and before any task goes on.
        models.desk.tell_cut_off(cut_off).await;
        let now_ms = now_ms();
        for budget in models.desk.store.budgets(now_ms).await? {
            models.desk.accounts().set_budget(&budget, now_ms);
        }
        Ok(models)
    }

    /// hostd goes: calls that end from here on without an answer were cut off by that.
    pub fn leave(&self) {
        self.desk.leaving.store(true, Ordering::Release);
    }

    /// Who shows this key at the door of this sandbox.
    pub fn claim(&self, sandbox: &SandboxId, key: &str) -> Option<Arc<Grant>> {
        let hash = token_hash(key);
        let open = self.desk.open.lock().expect("no panic while held");
        let pledge = open.get(sandbox)?.iter().find(|pledge| bool::from(pledge.key_hash.ct_eq(&hash)))?;
        Some(Arc::new(Grant::new(self.desk.clone(), pledge.clone())))
    }

    /// From now on the key of this task is good, until what is returned is dropped. `nudge` is told when the task
    /// must end.
    pub fn open(&self, task: &TaskRecord, nudge: Arc<Notify>) -> Option<OpenGrant> {
        let pledge = Arc::new(Pledge::of(task, nudge)?);
        self.desk.accounts().open(pledge.task, pledge.terms.bounds, pledge.used_before);
        let mut open = self.desk.open.lock().expect("no panic while held");
        open.entry(pledge.sandbox).or_default().push(pledge.clone());
        drop(open);
        Some(OpenGrant { desk: self.desk.clone(), pledge })
    }
}

impl Desk {
    pub fn accounts(&self) -> std::sync::MutexGuard<'_, Accounts> {
        self.accounts.lock().expect("no panic while held")
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().expect("no panic while held").clone()
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Calls whose end the hostd before this one did not hear. One that cannot be written down stays for the next.
    async fn tell_cut_off(&self, calls: Left) {
        for (slot, begun) in calls {
            let task = begun.task;
            if let Err(error) = self.tell_one(begun).await {
                error!(task, %error, "a call that was cut off could not be written down");
                slot.keep();
            }
        }
    }

    async fn tell_one(&self, begun: Begun) -> Result<(), StoreError> {
        let task = self.store.task_by_number(begun.task).await?;
        match task.and_then(|task| task.grant).is_some_and(|grant| grant.key_hash == begun.key_hash) {
            true => self.store.call_ended(begun.unheard(now_ms())).written().await,
            false => Ok(()),
        }
    }

    pub fn close(&self, pledge: &Arc<Pledge>) {
        let mut open = self.open.lock().expect("no panic while held");
        if let Some(of_sandbox) = open.get_mut(&pledge.sandbox) {
            of_sandbox.retain(|other| !Arc::ptr_eq(other, pledge));
            if of_sandbox.is_empty() {
                open.remove(&pledge.sandbox);
            }
        }
        drop(open);
        self.accounts().close(pledge.task);
    }

    pub async fn read_providers(&self) -> Result<(), ModelsError> {
        let records = self.store.providers().await?;
        let known = records.into_iter().map(|record| self.know(record)).collect();
        *self.catalogue.write().expect("no panic while held") = Arc::new(Catalogue { known });
        Ok(())
    }

    fn know(&self, record: ProviderRecord) -> Known {
        let opened = record.sealed.as_ref().map(|sealed| self.vault.open(&about(&record), sealed));
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
        Known { record, provider: Arc::new(provider), problem }
    }
}

/// Whose key it is: nobody can put a sealed key into the row of another provider.
pub(super) fn about(record: &ProviderRecord) -> String {
    let tenant = record.tenant.as_ref().map_or("", |tenant| tenant.as_str());
    format!("model provider {tenant}\n{}", record.name)
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
