//! The egress of one sandbox while its door is open: the rules in force, the bytes used, and its limits.

use super::{
    connection_pool::ServerConnectionPool,
    host_addresses::HostAddresses,
    limits,
    metrics::EgressMetrics,
    profiles::{Profiles, ProfilesByName},
    recorder::{ByteMeter, EgressRecorder},
    tracked_connection::Direction,
};
use hostd_core::{
    Blueprint, RateLimiter,
    egress::{
        DEFAULT_PROFILE, Decision, Destination, EventCounts, EventKey, Exceptions, Layer, Policy, RuleSet,
    },
};
use hostd_store::{SandboxRecord, StoreError};
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

pub struct SandboxEgress {
    record: watch::Receiver<Arc<SandboxRecord>>,
    profiles: Profiles,
    exceptions: Arc<Exceptions>,
    host_addresses: Arc<HostAddresses>,
    recorder: EgressRecorder,
    metrics: EgressMetrics,
    connections: Arc<Semaphore>,
    pool: ServerConnectionPool,
    since: Instant,
    allowance: Mutex<RateLimiter>,
    compiled: Mutex<Option<Compiled>>,
    /// Bytes sent and received, and their quota.
    used: AtomicU64,
    max: AtomicU64,
    meter: ByteMeter,
    /// Set once `used` includes what the store has; nothing is admitted before.
    loaded: OnceCell<()>,
}

/// The policy compiled from a blueprint and profiles, valid while these are the current ones.
struct Compiled {
    blueprint: Arc<Blueprint>,
    profiles: Arc<ProfilesByName>,
    policy: Arc<Policy>,
}

/// The parts that all sandboxes share.
pub struct SandboxEgressParts {
    pub profiles: Profiles,
    pub exceptions: Arc<Exceptions>,
    pub host_addresses: Arc<HostAddresses>,
    pub recorder: EgressRecorder,
    pub metrics: EgressMetrics,
}

impl SandboxEgress {
    pub fn new(record: watch::Receiver<Arc<SandboxRecord>>, parts: SandboxEgressParts) -> Self {
        let SandboxEgressParts { profiles, exceptions, host_addresses, recorder, metrics } = parts;
        let meter = recorder.meter(record.borrow().id);
        Self {
            record,
            meter,
            profiles,
            exceptions,
            host_addresses,
            recorder,
            metrics,
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
            pool: ServerConnectionPool::default(),
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

    /// Takes one request from the rate limit. Returns whether the limit is exceeded.
    pub fn is_rate_limited(&self) -> bool {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        !self.allowance.lock().unwrap_or_else(PoisonError::into_inner).try_acquire(now_ms)
    }

    pub fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    /// Idle connections to `http://` servers.
    pub fn pool(&self) -> &ServerConnectionPool {
        &self.pool
    }

    /// Whether no connection is open, and all that were open are recorded.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.connections.available_permits() == limits::CONNECTIONS_MAX
    }

    pub async fn load(&self) -> Result<(), StoreError> {
        let load = async || {
            let used = self.recorder.used_bytes(&self.id()).await?;
            self.used.fetch_add(used, Ordering::Relaxed);
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// The quota, if it is used up.
    pub fn exceeded_quota(&self) -> Option<u64> {
        let max = self.max_bytes();
        (self.used.load(Ordering::Relaxed) >= max).then_some(max)
    }

    pub fn max_bytes(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    pub fn metrics(&self) -> &EgressMetrics {
        &self.metrics
    }

    /// Counts bytes. Returns whether the quota still holds.
    pub fn count_bytes(&self, direction: Direction, bytes: u64) -> bool {
        self.metrics.bytes(direction).inc_by(bytes);
        self.meter.add(bytes);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        used <= self.max_bytes()
    }

    pub fn decide(&self, destination: &Destination, address: IpAddr) -> Decision {
        let host_addresses = self.host_addresses.contains(address).unwrap_or_else(|error| {
            // Deny rather than reach the host: the address may belong to it.
            error!(%error, "failed to list the addresses of this host");
            true
        });
        self.policy().decide(destination, address, host_addresses)
    }

    /// The rules in force now.
    pub fn policy(&self) -> Arc<Policy> {
        let (record, profiles) = (self.record(), self.profiles.all());
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.as_ref()
            && Arc::ptr_eq(&known.blueprint, &record.blueprint)
            && Arc::ptr_eq(&known.profiles, &profiles)
        {
            return known.policy.clone();
        }
        let rules = &record.blueprint.egress;
        let max = rules.max_mb.map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20));
        self.max.store(max, Ordering::Relaxed);
        let policy =
            Arc::new(Policy { layers: layers(&record, &profiles), exceptions: self.exceptions.clone() });
        *compiled = Some(Compiled { blueprint: record.blueprint.clone(), profiles, policy: policy.clone() });
        policy
    }

    pub fn rule_changes(&self) -> RuleChanges {
        RuleChanges { record: self.record.clone(), profiles: self.profiles.subscribe() }
    }

    pub fn record_event(&self, key: EventKey, counts: EventCounts) {
        self.recorder.record(key, counts);
    }
}

/// The layers of rules: profile `default`, the profile that the sandbox names, its own rules.
fn layers(record: &SandboxRecord, profiles: &ProfilesByName) -> Vec<Layer> {
    let rules = &record.blueprint.egress;
    let named = rules.profile.as_deref().filter(|name| *name != DEFAULT_PROFILE);
    let profile = |name: &str| Layer {
        profile: Some(name.to_owned()),
        rules: profiles.get(name).and_then(|profile| profile.rules.clone()),
    };
    let mut layers: Vec<Layer> = [DEFAULT_PROFILE].into_iter().chain(named).map(profile).collect();
    // The rules parsed when they were stored. Rules that do not parse any more allow nothing.
    let host_addresses = RuleSet::parse(&rules.allow, &rules.deny).ok().map(Arc::new);
    layers.push(Layer { profile: None, rules: host_addresses });
    layers
}

/// Waits for changes of the rules.
pub struct RuleChanges {
    record: watch::Receiver<Arc<SandboxRecord>>,
    profiles: watch::Receiver<Arc<ProfilesByName>>,
}

impl RuleChanges {
    pub async fn next(&mut self) {
        let changed = async {
            tokio::select! {
                // Cancelling either arm loses nothing: both only wait.
                changed = self.record.changed() => changed.is_ok(),
                changed = self.profiles.changed() => changed.is_ok(),
            }
        };
        if !changed.await {
            // The sender is gone, so the rules do not change any more; the door closes too.
            pending::<()>().await;
        }
    }
}
