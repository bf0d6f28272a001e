//! What quotas and sandboxes use, for the metrics. Sampled in a task of its own that a scrape starts and does not wait
//! for: a scrape shows what the one before it found, and waits for no database, driver or sandbox.

use super::{Api, limits};
use futures_util::{StreamExt, stream};
use hostd_core::{QuotaBook, Usage, counts_as_up, limit_of};
use hostd_metrics::{
    Collector, Family, FamilyWriter, FloatGauge, Gauge, Registry, SampleKind, set, write_labeled,
    write_number,
};
use hostd_store::{SandboxRecord, StoreError, UseByOwner};
use protocol::api::{Label, QuotaResource, StatsView};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout};
use tracing::warn;

type OneLabel = [(&'static str, &'static str); 1];

const MICRO: f64 = 1e-6;

/// Clones have the same samples.
#[derive(Clone, Debug, Default)]
pub(super) struct UsageMetrics {
    quotas: QuotaGauges,
    sandboxes: Arc<Mutex<SandboxSamples>>,
    sampling: Arc<Mutex<Sampling>>,
}

#[derive(Clone, Debug, Default)]
struct QuotaGauges {
    tenants: Family<OneLabel, Gauge>,
    highest_use: Family<OneLabel, FloatGauge>,
}

/// The sandboxes that have samples, and how many have none because there are too many.
#[derive(Debug, Default)]
struct SandboxSamples {
    sampled: Vec<(String, StatsView)>,
    left_out: usize,
}

#[derive(Debug, Default)]
enum Sampling {
    #[default]
    Never,
    Running,
    /// Not again before this time.
    Rests(Instant),
}

/// Ends the sampling when it is dropped.
struct RunningSample(UsageMetrics);

impl Drop for RunningSample {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_millis(limits::USAGE_SAMPLE_MIN_MS);
        *lock(&self.0.sampling) = Sampling::Rests(until);
    }
}

impl UsageMetrics {
    /// Registers the families; those of single sandboxes only where `sandboxes_max` is not 0.
    pub(super) fn register(&self, registry: &mut Registry, sandboxes_max: usize) {
        for resource in QuotaResource::ALL {
            self.quotas.put(resource, &QuotaUse::default());
        }
        let help = "Tenants whose quota limits the resource";
        registry.register("slipway_quota_tenants", help, self.quotas.tenants.clone());
        let help = "The part of its quota that the tenant uses which uses most of it";
        registry.register("slipway_quota_highest_use_ratio", help, self.quotas.highest_use.clone());
        if sandboxes_max > 0 {
            registry.register_collector(Box::new(self.clone()));
        }
    }

    /// Starts to sample, unless that is under way or was done a moment ago.
    pub(super) fn refresh(&self, api: &Arc<Api>) {
        let mut sampling = lock(&self.sampling);
        let rests = match *sampling {
            Sampling::Never => false,
            Sampling::Running => true,
            Sampling::Rests(until) => Instant::now() < until,
        };
        if rests {
            return;
        }
        *sampling = Sampling::Running;
        drop(sampling);
        let (running, api) = (RunningSample(self.clone()), api.clone());
        api.work.clone().spawn(async move {
            let sample = timeout(Duration::from_millis(limits::USAGE_SAMPLE_MAX_MS), running.0.sample(&api));
            // Safe to cut off: what was found so far stays.
            match api.closing.run_until_cancelled(sample).await {
                None | Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => warn!(%error, "failed to sample the use of quotas"),
                Some(Err(_)) => warn!("sampling the use of quotas and sandboxes took too long"),
            }
        });
    }

    async fn sample(&self, api: &Api) -> Result<(), StoreError> {
        if api.settings.metrics_sandboxes > 0 {
            let samples = sample_sandboxes(api, api.settings.metrics_sandboxes).await;
            *lock(&self.sandboxes) = samples;
        }
        let book = api.store.quota_book().await?;
        let limited = QuotaResource::ALL.into_iter().any(|resource| book.limits_anyone(resource));
        let used = if limited { api.store.use_by_owner(None).await? } else { UseByOwner::default() };
        let connections = |tenant: &Label| api.fleet.preview_connections(tenant, None);
        for (resource, quota_use) in quota_use(&book, &used, connections) {
            self.quotas.put(resource, &quota_use);
        }
        Ok(())
    }
}

impl Collector for UsageMetrics {
    fn encode(&self, mut writer: FamilyWriter<'_>) -> fmt::Result {
        let samples = lock(&self.sandboxes);
        let of = |number: fn(&StatsView) -> f64| -> Vec<_> {
            samples.sampled.iter().map(|(id, stats)| (id.clone(), number(stats))).collect()
        };
        for (name, help, kind, numbers) in [
            (
                "slipway_sandbox_cpu_seconds",
                "CPU time of a sandbox that is up",
                SampleKind::Counter,
                of(|stats| stats.cpu_usage_us as f64 * MICRO),
            ),
            (
                "slipway_sandbox_memory_bytes",
                "Memory of a sandbox that is up, with its caches",
                SampleKind::Gauge,
                of(|stats| stats.memory_bytes as f64),
            ),
            (
                "slipway_sandbox_memory_limit_bytes",
                "The most memory that a sandbox may use",
                SampleKind::Gauge,
                of(|stats| stats.memory_limit_bytes as f64),
            ),
        ] {
            write_labeled(&mut writer, (name, help), kind, ("sandbox", &numbers))?;
        }
        let help = "Sandboxes that are up and have no samples, because there are more than metrics_sandboxes";
        let left_out = ("slipway_sandbox_samples_left_out", help);
        write_number(&mut writer, left_out, SampleKind::Gauge, samples.left_out as f64)
    }
}

/// Samples the sandboxes that are up, the oldest first, so that a sandbox does not come and go with what it uses.
async fn sample_sandboxes(api: &Api, max: usize) -> SandboxSamples {
    let mut up: Vec<Arc<SandboxRecord>> = api.fleet.records();
    up.retain(|record| counts_as_up(&record.state));
    up.sort_by_key(|record| record.id);
    let left_out = up.len().saturating_sub(max);
    up.truncate(max);
    let sampled = up.into_iter().map(|record| async move {
        let stats = api.fleet.driver_of(&record).stats(&record.id).await.ok()?;
        Some((record.id.to_string(), stats))
    });
    let sampled: Vec<_> = stream::iter(sampled).buffered(limits::COSTS_AT_ONCE).collect().await;
    SandboxSamples { sampled: sampled.into_iter().flatten().collect(), left_out }
}

/// What tenants use of their quotas of one resource.
#[derive(Debug, Default, PartialEq)]
struct QuotaUse {
    tenants: u64,
    highest: f64,
}

impl QuotaGauges {
    fn put(&self, resource: QuotaResource, quota_use: &QuotaUse) {
        let labels = [("resource", resource.as_str())];
        set(&self.tenants.get_or_create(&labels), quota_use.tenants);
        self.highest_use.get_or_create(&labels).set(quota_use.highest);
    }
}

fn quota_use(
    book: &QuotaBook,
    used: &UseByOwner,
    connections: impl Fn(&Label) -> u64,
) -> Vec<(QuotaResource, QuotaUse)> {
    let mut by_tenant: BTreeMap<&Label, Usage> =
        book.tenants.keys().map(|tenant| (tenant, Usage::default())).collect();
    for ((tenant, _), usage) in used {
        let sum = by_tenant.entry(tenant).or_default();
        *sum = sum.plus(usage);
    }
    for (tenant, usage) in &mut by_tenant {
        usage.preview_connections = connections(tenant);
    }
    let of = |resource| {
        let limited = by_tenant.iter().filter_map(|(tenant, usage)| {
            let limit = limit_of(&book.of_tenant(tenant).0, resource)?;
            Some(ratio(usage.of(resource), limit))
        });
        limited.fold(QuotaUse::default(), |sum, ratio| QuotaUse {
            tenants: sum.tenants + 1,
            highest: sum.highest.max(ratio),
        })
    };
    QuotaResource::ALL.into_iter().map(|resource| (resource, of(resource))).collect()
}

/// A quota of nothing is used up by anything.
fn ratio(used: u64, limit: u64) -> f64 {
    match (used, limit) {
        (0, 0) => 0.0,
        (_, 0) => 1.0,
        (used, limit) => used as f64 / limit as f64,
    }
}

/// Locks a mutex. A panic elsewhere leaves no state of this module half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::Quota;

    fn label(text: &str) -> Label {
        Label::parse(text).expect("a label")
    }

    #[test]
    fn the_fullest_tenant_is_shown_and_who_has_no_quota_is_not() {
        let sandboxes = |sandboxes| Quota { sandboxes: Some(sandboxes), ..Quota::default() };
        let book = QuotaBook {
            tenants: [(label("a"), sandboxes(10)), (label("b"), sandboxes(4)), (label("c"), sandboxes(0))]
                .into(),
            ..QuotaBook::default()
        };
        let uses = |sandboxes| Usage { sandboxes, ..Usage::default() };
        let used: UseByOwner = [
            ((label("a"), label("ann")), uses(3)),
            ((label("a"), label("abe")), uses(2)),
            ((label("b"), label("bob")), uses(3)),
            ((label("free"), label("fay")), uses(1_000)),
        ]
        .into();
        let found: BTreeMap<_, _> =
            quota_use(&book, &used, |_| 0).into_iter().map(|(key, value)| (key.as_str(), value)).collect();
        assert_eq!(found["sandboxes"], QuotaUse { tenants: 3, highest: 0.75 });
        assert_eq!(found["memory_mb"], QuotaUse::default());
        for (used, limit, expected) in [(0, 0, 0.0), (1, 0, 1.0), (3, 2, 1.5)] {
            assert_eq!(ratio(used, limit), expected);
        }
    }
}
