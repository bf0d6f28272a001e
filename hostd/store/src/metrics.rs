//! Metrics of the store: its queue, its commits, the WAL, the event feed, and the ends of execs that it records.

use hostd_metrics::{Counter, Gauge, Histogram, Label, LabeledCounters, Registry};
use protocol::{Exit, api::QuotaResource};

/// Bounds of buckets: seconds of a commit, and jobs in it.
const COMMIT_BUCKETS_S: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];
const BATCH_BUCKETS_JOBS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0];

/// Clones count into the same families.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    pub(super) queued_jobs: Gauge,
    pub(super) commit_duration: Histogram,
    pub(super) commit_jobs: Histogram,
    pub(super) failed_commits: Counter,
    pub(super) wal_bytes: Gauge,
    pub(super) database_bytes: Gauge,
    pub(super) feed_lag_events: Gauge,
    pub(super) feed_subscribers: Gauge,
    pub(super) feed_log_reads: Counter,
    exec_ends: LabeledCounters<ExitKind>,
    quota_refusals: LabeledCounters<QuotaLabel>,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            queued_jobs: Gauge::default(),
            commit_duration: Histogram::new(COMMIT_BUCKETS_S),
            commit_jobs: Histogram::new(BATCH_BUCKETS_JOBS),
            failed_commits: Counter::default(),
            wal_bytes: Gauge::default(),
            database_bytes: Gauge::default(),
            feed_lag_events: Gauge::default(),
            feed_subscribers: Gauge::default(),
            feed_log_reads: Counter::default(),
            exec_ends: LabeledCounters::default(),
            quota_refusals: LabeledCounters::default(),
        }
    }
}

impl StoreMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Writes that wait for the writer of the database";
        registry.register("slipway_store_queued_jobs", help, self.queued_jobs.clone());
        let help = "Duration of a transaction, from its begin until it is on the disk";
        registry.register("slipway_store_commit_duration_seconds", help, self.commit_duration.clone());
        let help = "Writes that shared a transaction";
        registry.register("slipway_store_commit_jobs", help, self.commit_jobs.clone());
        let help = "Transactions that were lost with all their writes";
        registry.register("slipway_store_failed_commits", help, self.failed_commits.clone());
        registry.register("slipway_store_wal_bytes", "Size of the write-ahead log", self.wal_bytes.clone());
        let help = "Size of the database, without its write-ahead log";
        registry.register("slipway_store_database_bytes", help, self.database_bytes.clone());
        let help = "How far the slowest subscriber of the event feed is behind, in sequence numbers";
        registry.register("slipway_store_feed_lag_events", help, self.feed_lag_events.clone());
        let help = "Subscribers of the event feed";
        registry.register("slipway_store_feed_subscribers", help, self.feed_subscribers.clone());
        let help = "Reads of the event log by subscribers that were behind the feed";
        registry.register("slipway_store_feed_log_reads", help, self.feed_log_reads.clone());
        self.exec_ends.register(registry, "slipway_exec_ends", "Execs that ended, by how they ended");
        let help = "Writes that a quota had no room for, by resource";
        self.quota_refusals.register(registry, "slipway_quota_refusals", help);
    }

    pub(super) fn count_quota_refusal(&self, resource: QuotaResource) {
        self.quota_refusals.of(QuotaLabel(resource)).inc();
    }

    pub(super) fn count_exec_ends(&self, ended: EndedExecs) {
        self.exec_ends.of(ended.kind).inc_by(ended.count);
    }
}

/// The resource that a quota had no room of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuotaLabel(QuotaResource);

impl Label for QuotaLabel {
    const NAME: &'static str = "resource";
    const ALL: &'static [Self] = &[
        Self(QuotaResource::Sandboxes),
        Self(QuotaResource::Running),
        Self(QuotaResource::MemoryMb),
        Self(QuotaResource::Cpus),
        Self(QuotaResource::DiskMb),
        Self(QuotaResource::TasksQueued),
        Self(QuotaResource::TasksRunning),
        Self(QuotaResource::EventsMb),
        Self(QuotaResource::PreviewConnections),
    ];

    fn value(self) -> &'static str {
        self.0.as_str()
    }
}

/// Execs whose end was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedExecs {
    pub kind: ExitKind,
    pub count: u64,
}

impl EndedExecs {
    pub(super) fn new(exit: &Exit, count: usize) -> Self {
        Self { kind: ExitKind::of(exit), count: count as u64 }
    }
}

/// How an exec ended, without the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitKind {
    Exited,
    Signalled,
    Oom,
    TimedOut,
    Cancelled,
    SpawnFailed,
    Lost,
}

impl ExitKind {
    fn of(exit: &Exit) -> Self {
        match exit {
            Exit::Exited { .. } => Self::Exited,
            Exit::Signalled { .. } => Self::Signalled,
            Exit::Oom => Self::Oom,
            Exit::TimedOut => Self::TimedOut,
            Exit::Cancelled => Self::Cancelled,
            Exit::SpawnFailed { .. } => Self::SpawnFailed,
            Exit::Lost => Self::Lost,
        }
    }
}

impl Label for ExitKind {
    const NAME: &'static str = "kind";
    const ALL: &'static [Self] = &[
        Self::Exited,
        Self::Signalled,
        Self::Oom,
        Self::TimedOut,
        Self::Cancelled,
        Self::SpawnFailed,
        Self::Lost,
    ];

    /// The word of the API for it.
    fn value(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signalled => "signalled",
            Self::Oom => "oom",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::SpawnFailed => "spawn_failed",
            Self::Lost => "lost",
        }
    }
}
