//! The memory that is left for sandboxes, sampled from the kernel, and the sandboxes admitted to it.
//!
//! What is available is the least of the host's `MemAvailable` and of what every limited control group above the
//! sandboxes has left: an operator may limit `slipway-<instance>`, and hostd may run in a container. Decisions are in
//! `core::memory_pressure` and `core::memory_admission`.
//!
//! A handle: clones share everything. Must not wait.

use crate::local::cgroup::{Hierarchies, LimitedGroup};
use hostd_core::{
    Admissions, Headroom, MemoryCondition, MemorySample, MemoryStalls, MemoryThresholds, expected_need,
};
use protocol::api::{CapacityDetail, MemoryLevel, SandboxId};
use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tracing::{info, warn};

/// Has the limit that hostd gave the control group of all sandboxes.
const LIMIT_FILE: &str = "memory-limit";
/// Sandboxes whose memory at their last stop is remembered.
const LAST_USED_MAX: usize = 8_192;

/// How memory is kept, as configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemorySettings {
    /// `None`: a share of the memory.
    pub reserve_bytes: Option<u64>,
    /// The least that a sandbox is expected to need.
    pub admission_bytes: u64,
    /// The most that all sandboxes together may use.
    pub total_bytes: Option<u64>,
}

/// The state of memory, as the API shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryState {
    pub level: MemoryLevel,
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// Below this creates and wakes are refused.
    pub reserve_bytes: u64,
    /// Admitted a moment ago, and not in use yet.
    pub admitted_bytes: u64,
    /// The limit of all sandboxes together, if there is one.
    pub limit_bytes: Option<u64>,
    pub stalls: Option<MemoryStalls>,
}

/// Reads a sample, and the limit of all sandboxes.
type Sampler = dyn Fn() -> (MemorySample, Option<u64>) + Send + Sync;

#[derive(Clone)]
pub struct HostMemory {
    inner: Arc<HostMemoryInner>,
}

struct HostMemoryInner {
    sampler: Box<Sampler>,
    settings: MemorySettings,
    started: Instant,
    tracker: Mutex<Tracker>,
    /// Refused creates and wakes.
    refusals: AtomicU64,
    /// Memory of sandboxes outside the group of all sandboxes, as the watch of memory last counted it.
    counted_bytes: Arc<AtomicU64>,
}

#[derive(Default)]
struct Tracker {
    condition: MemoryCondition,
    admissions: Admissions<SandboxId>,
    /// What each sandbox used when it was last stopped.
    last_used: HashMap<SandboxId, u64>,
}

impl HostMemory {
    /// Finds the control groups above the sandboxes of this instance, and limits all sandboxes together if that is
    /// configured.
    pub fn open(data: &Path, instance: &str, settings: MemorySettings) -> Self {
        let groups = match Hierarchies::discover(instance) {
            Ok(found) => found.above_sandboxes(),
            Err(error) => {
                warn!(%error, "no control groups: only the memory of the host is looked at");
                Vec::new()
            }
        };
        if let Some(all) = groups.first()
            && let Err(error) = limit_all(all, &data.join(LIMIT_FILE), settings.total_bytes)
        {
            warn!(%error, "failed to limit the control group of all sandboxes: their memory is only counted");
        }
        let counted_bytes = Arc::new(AtomicU64::new(0));
        let (counted, total) = (counted_bytes.clone(), settings.total_bytes);
        let sampler = move || sample(&groups, total, counted.load(Ordering::Relaxed));
        Self::new(Box::new(sampler), settings, counted_bytes)
    }

    /// Samples what a test says.
    #[cfg(any(test, feature = "test-support"))]
    pub fn of_samples(
        sampler: impl Fn() -> MemorySample + Send + Sync + 'static,
        settings: MemorySettings,
    ) -> Self {
        Self::new(Box::new(move || (sampler(), None)), settings, Arc::default())
    }

    /// A host with all the memory that a test may want.
    #[cfg(any(test, feature = "test-support"))]
    pub fn plenty() -> Self {
        let bytes = 1 << 50;
        let sample = MemorySample { total_bytes: bytes, available_bytes: bytes, stalls: None };
        Self::of_samples(move || sample, MemorySettings::default())
    }

    fn new(sampler: Box<Sampler>, settings: MemorySettings, counted_bytes: Arc<AtomicU64>) -> Self {
        let inner = HostMemoryInner {
            sampler,
            settings,
            started: Instant::now(),
            tracker: Mutex::default(),
            refusals: AtomicU64::new(0),
            counted_bytes,
        };
        let memory = Self { inner: Arc::new(inner) };
        memory.state();
        memory
    }

    /// Samples memory, which takes microseconds.
    pub fn state(&self) -> MemoryState {
        let mut tracker = self.tracker();
        self.sampled(&mut tracker)
    }

    /// Admits a sandbox with this memory limit that is to be brought up. Admitted once, it stays so until it is up or
    /// down.
    pub fn admit(&self, sandbox: SandboxId, limit_bytes: u64) -> Result<(), CapacityDetail> {
        let mut tracker = self.tracker();
        let state = self.sampled(&mut tracker);
        let floor = self.inner.settings.admission_bytes;
        let needed = expected_need(limit_bytes, floor, tracker.last_used.get(&sandbox).copied());
        let room = Headroom {
            level: state.level,
            available_bytes: state.available_bytes,
            reserve_bytes: state.reserve_bytes,
        };
        let admitted = tracker.admissions.admit(sandbox, needed, &room, self.now_ms());
        if admitted.is_err() {
            self.inner.refusals.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// The sandbox is up: what it needs shows in the numbers of the kernel soon.
    pub fn launched(&self, sandbox: &SandboxId) {
        let now_ms = self.now_ms();
        self.tracker().admissions.launched(sandbox, now_ms);
    }

    /// The sandbox is not to be up any more.
    pub fn release(&self, sandbox: &SandboxId) {
        self.tracker().admissions.release(sandbox);
    }

    /// Remembers what a sandbox used, for when it is woken again.
    pub fn remember_use(&self, sandbox: SandboxId, bytes: u64) {
        let mut tracker = self.tracker();
        if tracker.last_used.len() < LAST_USED_MAX || tracker.last_used.contains_key(&sandbox) {
            tracker.last_used.insert(sandbox, bytes);
        }
    }

    pub fn forget(&self, sandbox: &SandboxId) {
        let mut tracker = self.tracker();
        tracker.admissions.release(sandbox);
        tracker.last_used.remove(sandbox);
    }

    /// Whether sandboxes outside the group of all sandboxes have to be counted.
    pub fn counts_all(&self) -> bool {
        self.inner.settings.total_bytes.is_some()
    }

    pub fn set_counted(&self, bytes: u64) {
        self.inner.counted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Refused creates and wakes since hostd started.
    pub fn refusals(&self) -> u64 {
        self.inner.refusals.load(Ordering::Relaxed)
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.inner.tracker.lock().expect("no panic while held")
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sampled(&self, tracker: &mut Tracker) -> MemoryState {
        let (sample, limit_bytes) = (self.inner.sampler)();
        let thresholds = MemoryThresholds { reserve_bytes: self.inner.settings.reserve_bytes };
        let reserve_bytes = thresholds.reserve_bytes(sample.total_bytes);
        let before = tracker.condition;
        tracker.condition = thresholds.condition(before, &sample);
        let level = tracker.condition.level;
        if level != before.level {
            log_level_change(level, sample.available_bytes, reserve_bytes);
        }
        MemoryState {
            level,
            total_bytes: sample.total_bytes,
            available_bytes: sample.available_bytes,
            reserve_bytes,
            admitted_bytes: tracker.admissions.admitted_bytes(self.now_ms()),
            limit_bytes,
            stalls: sample.stalls,
        }
    }
}

/// Limits the group of all sandboxes, or takes back the limit that an earlier hostd gave it: the group outlives hostd,
/// and an operator may have limited it too.
fn limit_all(all: &LimitedGroup, record: &Path, total_bytes: Option<u64>) -> io::Result<()> {
    if let Some(bytes) = total_bytes {
        std::fs::write(record, bytes.to_string())?;
        return all.limit(Some(bytes));
    }
    let Ok(recorded) = std::fs::read_to_string(record) else { return Ok(()) };
    let in_force = all.memory().map(|memory| memory.limit_bytes);
    if in_force.is_some() && in_force == recorded.trim().parse().ok() {
        all.limit(None)?;
    }
    std::fs::remove_file(record)
}

fn log_level_change(level: MemoryLevel, available_bytes: u64, reserve_bytes: u64) {
    match level {
        MemoryLevel::Ok => info!(available_bytes, reserve_bytes, "memory is sufficient again"),
        MemoryLevel::Tight => {
            warn!(available_bytes, reserve_bytes, "memory tight: creates and wakes are refused");
        }
        MemoryLevel::Critical => {
            warn!(available_bytes, reserve_bytes, "memory critical: idle sandboxes are stopped");
        }
    }
}

/// The least of what the host and every limited group have left. `counted_bytes` of the total are used outside the
/// first group, which is that of all sandboxes.
fn sample(
    groups: &[LimitedGroup],
    total_bytes: Option<u64>,
    counted_bytes: u64,
) -> (MemorySample, Option<u64>) {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let pressure = std::fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
    let mut sample = MemorySample {
        total_bytes: kib(&meminfo, "MemTotal:"),
        // A kernel that does not say is not taken for full.
        available_bytes: kib_of(&meminfo, "MemAvailable:").unwrap_or(u64::MAX),
        stalls: MemoryStalls::parse(&pressure),
    };
    let mut limit_bytes = None;
    for (place, group) in groups.iter().enumerate() {
        let Some(memory) = group.memory() else { continue };
        let elsewhere = if place == 0 && total_bytes.is_some() { counted_bytes } else { 0 };
        let available_bytes = memory.available_bytes.saturating_sub(elsewhere);
        if available_bytes < sample.available_bytes {
            sample.available_bytes = available_bytes;
            sample.stalls = group.stalls().or(sample.stalls);
        }
        sample.total_bytes = sample.total_bytes.min(memory.limit_bytes);
        limit_bytes =
            Some(limit_bytes.map_or(memory.limit_bytes, |bytes: u64| bytes.min(memory.limit_bytes)));
    }
    (sample, limit_bytes)
}

/// A line of /proc/meminfo, in bytes; zero where there is none.
pub fn kib(meminfo: &str, name: &str) -> u64 {
    kib_of(meminfo, name).unwrap_or(0)
}

fn kib_of(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24662264 kB\nMemFree:  1 kB\n";
        assert_eq!(kib(text, "MemTotal:"), 24_662_264 * 1024);
        assert_eq!(kib_of(text, "MemAvailable:"), None);
    }

    #[test]
    fn this_host_has_memory() {
        let (sample, _) = sample(&[], None, 0);
        assert!(sample.total_bytes > 0 && sample.available_bytes <= sample.total_bytes, "{sample:?}");
    }

    #[test]
    fn what_a_sandbox_used_last_is_what_it_needs_next() {
        const MB: u64 = 1 << 20;
        let sample = MemorySample { total_bytes: 1000 * MB, available_bytes: 400 * MB, stalls: None };
        let settings = MemorySettings {
            reserve_bytes: Some(100 * MB),
            admission_bytes: 32 * MB,
            ..MemorySettings::default()
        };
        let memory = HostMemory::of_samples(move || sample, settings);
        let id = |last: char| format!("01jb9xyzabcdefghjkmnpqrst{last}").parse::<SandboxId>().expect("an id");
        memory.remember_use(id('1'), 250 * MB);
        assert_eq!(memory.admit(id('1'), 512 * MB), Ok(()));
        assert_eq!(memory.state().admitted_bytes, 250 * MB);
        assert_eq!(memory.admit(id('2'), 512 * MB), Ok(()));
        let refused = memory.admit(id('3'), 512 * MB).expect_err("there is no room");
        assert_eq!((refused.needed_bytes, refused.admitted_bytes), (32 * MB, 282 * MB));
        assert_eq!(memory.refusals(), 1);
        memory.release(&id('1'));
        assert_eq!(memory.admit(id('3'), 512 * MB), Ok(()));
    }
}
