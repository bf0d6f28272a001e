//! What one sandbox has of the way out, as long as its door is open: the rules in force, what it spent, and how
//! much it may do at once.

use super::{
    limits,
    lines::Lines,
    own::Own,
    profiles::{All, Profiles},
    tell::{Meter, Teller},
};
use crate::{
    core::{
        Blueprint, RateLimiter,
        egress::{Asked, DEFAULT_PROFILE, Exceptions, Key, Layer, More, Policy, RuleSet, Verdict},
    },
    store::{SandboxRecord, StoreError},
};
use protocol::api::SandboxId;
use std::{
    future::pending,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tracing::error;

pub struct Passage {
    record: watch::Receiver<Arc<SandboxRecord>>,
    profiles: Profiles,
    exceptions: Arc<Exceptions>,
    own: Arc<Own>,
    teller: Teller,
    connections: Arc<Semaphore>,
    lines: Lines,
    since: Instant,
    allowance: Mutex<RateLimiter>,
    compiled: Mutex<Option<Compiled>>,
    /// Sent and received, and the most there may be.
    used: AtomicU64,
    max: AtomicU64,
    meter: Meter,
    /// Filled in from the store before anything is let through.
    loaded: OnceCell<()>,
}

/// Rules as they were when these were the newest.
struct Compiled {
    of: Arc<Blueprint>,
    beside: Arc<All>,
    policy: Arc<Policy>,
}

/// What all passages share.
pub struct PassageParts {
    pub profiles: Profiles,
    pub exceptions: Arc<Exceptions>,
    pub own: Arc<Own>,
    pub teller: Teller,
}

impl Passage {
    pub fn new(record: watch::Receiver<Arc<SandboxRecord>>, parts: PassageParts) -> Self {
        let PassageParts { profiles, exceptions, own, teller } = parts;
        let meter = teller.meter(record.borrow().id);
        Self {
            record,
            meter,
            profiles,
            exceptions,
            own,
            teller,
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
            lines: Lines::default(),
            since: Instant::now(),
            allowance: Mutex::new(RateLimiter::new(limits::REQUESTS, 0)),
            compiled: Mutex::default(),
            used: AtomicU64::new(0),
            max: AtomicU64::new(u64::MAX),
            loaded: OnceCell::new(),
        }
    }

    pub fn record(&self) -> Arc<SandboxRecord> {
        self.record.borrow().clone()
    }

    pub fn id(&self) -> SandboxId {
        self.record.borrow().id
    }

    /// Whether it asks too often.
    pub fn is_hasty(&self) -> bool {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        !self.allowance.lock().unwrap_or_else(PoisonError::into_inner).try_acquire(now_ms)
    }

    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    /// Connections to servers of `http://` that wait for another request.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Nothing is under way, and all that was is told.
    #[cfg(test)]
    pub fn is_quiet(&self) -> bool {
        self.connections.available_permits() == limits::CONNECTIONS_MAX
    }

    pub async fn load(&self) -> Result<(), StoreError> {
        let load = async || {
            let used = self.teller.used_bytes(&self.id()).await?;
            self.used.fetch_add(used, Ordering::Relaxed);
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// The limit, when there is nothing left of it.
    pub fn is_spent(&self) -> Option<u64> {
        let max = self.max_bytes();
        (self.used.load(Ordering::Relaxed) >= max).then_some(max)
    }

    pub fn max_bytes(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Whether there was that much left.
    pub fn spend(&self, bytes: u64) -> bool {
        self.meter.add(bytes);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        used <= self.max_bytes()
    }

    pub fn judge(&self, asked: &Asked, address: IpAddr) -> Verdict {
        let own = self.own.has(address).unwrap_or_else(|error| {
            // Whatever it is, it may be ours.
            error!(%error, "could not list the addresses of this host");
            true
        });
        self.policy().judge(asked, address, own)
    }

    /// The rules in force now.
    pub fn policy(&self) -> Arc<Policy> {
        let (record, profiles) = (self.record(), self.profiles.all());
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.as_ref()
            && Arc::ptr_eq(&known.of, &record.blueprint)
            && Arc::ptr_eq(&known.beside, &profiles)
        {
            return known.policy.clone();
        }
        let rules = &record.blueprint.egress;
        let max = rules.max_mb.map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20));
        self.max.store(max, Ordering::Relaxed);
        let policy =
            Arc::new(Policy { layers: layers(&record, &profiles), exceptions: self.exceptions.clone() });
        *compiled = Some(Compiled { of: record.blueprint.clone(), beside: profiles, policy: policy.clone() });
        policy
    }

    pub fn changes(&self) -> Changes {
        Changes { record: self.record.clone(), profiles: self.profiles.subscribe() }
    }

    pub fn tell(&self, key: Key, more: More) {
        self.teller.note(key, more);
    }
}

/// `default`, the profile that is named, the sandbox's own.
fn layers(record: &SandboxRecord, profiles: &All) -> Vec<Layer> {
    let rules = &record.blueprint.egress;
    let named = rules.profile.as_deref().filter(|name| *name != DEFAULT_PROFILE);
    let profile = |name: &str| Layer {
        profile: Some(name.to_owned()),
        rules: profiles.get(name).and_then(|profile| profile.rules.clone()),
    };
    let mut layers: Vec<Layer> = [DEFAULT_PROFILE].into_iter().chain(named).map(profile).collect();
    // They were parsed when they were written. What cannot be read any more allows nothing.
    let own = RuleSet::parse(&rules.allow, &rules.deny).ok().map(Arc::new);
    layers.push(Layer { profile: None, rules: own });
    layers
}

/// Whether the rules may have changed.
pub struct Changes {
    record: watch::Receiver<Arc<SandboxRecord>>,
    profiles: watch::Receiver<Arc<All>>,
}

impl Changes {
    pub async fn next(&mut self) {
        let changed = async {
            tokio::select! {
                // Both only wait.
                changed = self.record.changed() => changed.is_ok(),
                changed = self.profiles.changed() => changed.is_ok(),
            }
        };
        if !changed.await {
            // Nobody changes anything any more; the door closes too.
            pending::<()>().await;
        }
    }
}
