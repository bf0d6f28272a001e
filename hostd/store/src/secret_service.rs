//! Secrets of tenants: sealed at rest, resolved by reference when they are used, in clear only in memory.
//!
//! ```text
//!  PUT /v1/secrets ─▶ Secrets::put ─▶ vault.seal ─▶ table `secrets`
//!  SecretRef ───────▶ Secrets::resolve ─▶ row ─▶ vault.open ─▶ SecretValue
//! ```

use super::{
    NewSecret, SecretRecord, SecretValue, Store, StoreError, limits,
    vault::{KeyFile, KeyVault, VaultError},
};
use protocol::api::{Label, SecretName, SecretRef};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretError {
    #[error("there is no secret {name} in tenant {tenant}: set it with `slipway secret set {name}`")]
    Missing { tenant: Label, name: SecretName },
    #[error("the secret {name} of tenant {tenant} cannot be used: {source}")]
    Sealed { tenant: Label, name: SecretName, source: VaultError },
    #[error("could not seal the secret: {0}")]
    Seal(#[source] VaultError),
    #[error(
        "a tenant has at most {} secrets; remove some that are not needed",
        limits::SECRETS_OF_TENANT_MAX
    )]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Clones are handles to the same secrets.
#[derive(Clone)]
pub struct Secrets {
    store: Store,
    vault: KeyVault,
    /// When the last use of each was recorded: not for every call of a busy minute.
    noted: Arc<Mutex<HashMap<(Label, SecretName), u64>>>,
}

impl Secrets {
    pub fn new(store: Store, data_dir: &Path) -> Self {
        Self { store, vault: KeyVault::new(data_dir, KeyFile::Secrets), noted: Arc::default() }
    }

    /// Sets the value of a secret; it is in force for the next use.
    pub async fn put(&self, secret: SecretWrite<'_>) -> Result<SecretRecord, SecretError> {
        let SecretWrite { tenant, name, value, updated_by, now_ms } = secret;
        let sealed = self.vault.seal(&context(tenant, name), value).map_err(SecretError::Seal)?;
        let new = NewSecret { tenant: tenant.clone(), name: name.clone(), sealed, updated_by, now_ms };
        self.store.put_secret(new).await?.ok_or(SecretError::TooMany)
    }

    /// Returns why the value of a secret cannot be used, if it cannot.
    pub fn problem(&self, record: &SecretRecord) -> Option<SecretError> {
        self.open(record).err()
    }

    /// Returns the value of a secret of this tenant.
    pub async fn resolve(&self, tenant: &Label, reference: &SecretRef) -> Result<SecretValue, SecretError> {
        let found = self.store.secret(tenant, reference.name()).await?;
        let missing = || SecretError::Missing { tenant: tenant.clone(), name: reference.name().clone() };
        self.open(&found.ok_or_else(missing)?)
    }

    fn open(&self, record: &SecretRecord) -> Result<SecretValue, SecretError> {
        let SecretRecord { tenant, name, sealed, .. } = record;
        self.vault.open(&context(tenant, name), sealed).map_err(|source| SecretError::Sealed {
            tenant: tenant.clone(),
            name: name.clone(),
            source,
        })
    }

    /// Records that a secret was used, to the minute.
    pub fn note_use(&self, tenant: &Label, reference: &SecretRef, now_ms: u64) {
        let key = (tenant.clone(), reference.name().clone());
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(&key).is_some_and(|at_ms| now_ms < at_ms.saturating_add(limits::SECRET_USE_EVERY_MS)) {
            return;
        }
        if noted.len() >= limits::SECRET_USES_NOTED_MAX {
            noted.clear();
        }
        noted.insert(key, now_ms);
        drop(noted);
        self.store.note_secret_use(tenant, reference.name(), now_ms);
    }
}

/// A value to be set.
pub struct SecretWrite<'a> {
    pub tenant: &'a Label,
    pub name: &'a SecretName,
    pub value: &'a str,
    /// The principal of the caller.
    pub updated_by: String,
    pub now_ms: u64,
}

/// Returns the associated data of a sealed value: it cannot be moved to the row of another secret.
fn context(tenant: &Label, name: &SecretName) -> String {
    format!("secret {tenant}\n{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{empty, label};
    use std::fs;

    fn write<'a>(tenant: &'a Label, name: &'a SecretName, value: &'a str) -> SecretWrite<'a> {
        SecretWrite { tenant, name, value, updated_by: "ann".to_owned(), now_ms: 7 }
    }

    fn reference(name: &str) -> SecretRef {
        format!("secret:{name}").parse().expect("a reference")
    }

    #[tokio::test]
    async fn a_secret_is_found_by_its_tenant_only_and_the_newest_value_counts() {
        let (dir, store) = empty();
        let secrets = Secrets::new(store.clone(), dir.path());
        let (acme, other, name) = (label("acme"), label("other"), reference("key").name().clone());
        let first = secrets.put(write(&acme, &name, "first-value")).await.expect("set");
        let second = secrets.put(write(&acme, &name, "second-value")).await.expect("set");
        assert_eq!((first.version, second.version), (1, 2));
        let found = secrets.resolve(&acme, &reference("key")).await.expect("there");
        assert_eq!(found.as_str(), "second-value");
        let foreign = secrets.resolve(&other, &reference("key")).await;
        assert!(matches!(foreign, Err(SecretError::Missing { .. })), "{foreign:?}");
        let error = foreign.expect_err("missing").to_string();
        assert_eq!(error, "there is no secret key in tenant other: set it with `slipway secret set key`");

        // The row of one tenant does not open as that of another.
        let moved = SecretRecord { tenant: other.clone(), ..second };
        assert!(matches!(secrets.problem(&moved), Some(SecretError::Sealed { .. })));
        fs::remove_file(dir.path().join("secrets.key")).expect("removed");
        let lost = secrets.resolve(&acme, &reference("key")).await;
        let lost = lost.expect_err("the key file is gone").to_string();
        assert!(lost.contains("secrets.key is gone from the data directory"), "{lost}");
        assert!(store.remove_secret(&acme, &name).await.expect("removed"));
        assert!(!store.remove_secret(&acme, &name).await.expect("none"));
    }

    #[tokio::test]
    async fn a_use_is_recorded_once_a_minute_and_secrets_are_limited() {
        let (dir, store) = empty();
        let secrets = Secrets::new(store.clone(), dir.path());
        let (acme, used) = (label("acme"), reference("s0"));
        for number in 0..limits::SECRETS_OF_TENANT_MAX {
            let name = SecretName::parse(&format!("s{number}")).expect("a name");
            secrets.put(write(&acme, &name, "value")).await.expect("set");
        }
        let more = secrets.put(write(&acme, reference("more").name(), "value")).await;
        assert!(matches!(more, Err(SecretError::TooMany)), "{more:?}");
        secrets.put(write(&acme, used.name(), "other")).await.expect("a change is no new one");
        for (now_ms, recorded) in [(1_000, 1_000), (60_999, 1_000), (61_000, 61_000)] {
            secrets.note_use(&acme, &used, now_ms);
            // A write behind it in the queue.
            secrets.put(write(&acme, used.name(), "other")).await.expect("set");
            let record = store.secret(&acme, used.name()).await.expect("read").expect("there");
            assert_eq!(record.last_used_ms, Some(recorded), "at {now_ms}");
        }
        let page =
            store.secrets(Some(&acme), Some((acme.clone(), used.name().clone())), 3).await.expect("a page");
        let names: Vec<&str> = page.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["s1", "s10", "s100"]);
    }
}
