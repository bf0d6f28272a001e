//! Egress profiles: named rules of the host's administrator, stored in the database and kept parsed in
//! memory.

use super::limits::PROFILES_MAX;
use hostd_core::egress::{DEFAULT_PROFILE, RuleSet, built_in_rules};
use hostd_store::{Store, StoreError};
use protocol::api::{EgressProfile, EgressProfileView};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{Mutex, watch};
use tracing::error;

/// All profiles. Cheap to clone.
#[derive(Clone)]
pub struct Profiles {
    store: Store,
    published: Arc<watch::Sender<Arc<ProfilesByName>>>,
    /// Serializes changes, so that the published state is the one stored last.
    changing: Arc<Mutex<()>>,
}

/// Profiles by name. Always contains `default`.
pub type ProfilesByName = BTreeMap<String, Profile>;

#[derive(Clone)]
pub struct Profile {
    pub written: EgressProfile,
    /// None where a newer hostd wrote rules that this one cannot parse; nothing is allowed then.
    pub rules: Option<Arc<RuleSet>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    #[error("there are {PROFILES_MAX} profiles; remove one first")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Profiles {
    pub async fn load(store: Store) -> Result<Self, StoreError> {
        let all = read(&store).await?;
        Ok(Self { store, published: Arc::new(watch::Sender::new(Arc::new(all))), changing: Arc::default() })
    }

    pub fn all(&self) -> Arc<ProfilesByName> {
        self.published.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<ProfilesByName>> {
        self.published.subscribe()
    }

    pub fn views(&self) -> Vec<EgressProfileView> {
        self.all().iter().map(|(name, profile)| view(name, &profile.written)).collect()
    }

    pub fn get(&self, name: &str) -> Option<EgressProfileView> {
        self.all().get(name).map(|profile| view(name, &profile.written))
    }

    /// Stores a profile. The caller has checked that its rules parse.
    pub async fn put(&self, name: &str, profile: EgressProfile, now_ms: u64) -> Result<(), ProfilesError> {
        let _changing = self.changing.lock().await;
        if !self.all().contains_key(name) && self.all().len() >= PROFILES_MAX {
            return Err(ProfilesError::TooMany);
        }
        self.store.put_egress_profile(name, profile, now_ms).await?;
        self.publish().await
    }

    /// Removes a profile, or the changes of `default`. Returns whether there was one.
    pub async fn remove(&self, name: &str) -> Result<bool, ProfilesError> {
        let _changing = self.changing.lock().await;
        let there = self.store.remove_egress_profile(name).await?;
        self.publish().await?;
        Ok(there)
    }

    async fn publish(&self) -> Result<(), ProfilesError> {
        self.published.send_replace(Arc::new(read(&self.store).await?));
        Ok(())
    }
}

async fn read(store: &Store) -> Result<ProfilesByName, StoreError> {
    let parsed = |(name, written): (String, EgressProfile)| {
        let rules = RuleSet::parse(&written.allow, &written.deny).map(Arc::new);
        let rules =
            rules.inspect_err(|error| error!(profile = name, %error, "failed to parse egress profile")).ok();
        (name, Profile { written, rules })
    };
    let mut all: ProfilesByName = store.egress_profiles().await?.into_iter().map(parsed).collect();
    all.entry(DEFAULT_PROFILE.to_owned()).or_insert_with(|| {
        let rules = built_in_rules();
        let deny = rules.deny.iter().map(ToString::to_string).collect();
        Profile { written: EgressProfile { allow: vec![], deny }, rules: Some(Arc::new(rules)) }
    });
    Ok(all)
}

fn view(name: &str, profile: &EgressProfile) -> EgressProfileView {
    let EgressProfile { allow, deny } = profile.clone();
    EgressProfileView { name: name.to_owned(), allow, deny }
}
