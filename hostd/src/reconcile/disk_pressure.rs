//! Reacts to a disk that fills up: below the floor nothing new is begun and one sandbox at a time may wake so that
//! files are deleted in it; when the disk is full, the sandbox that grows fastest is evicted.

use super::{
    Fleet, FleetError,
    actor::{CommandReply, SandboxActor},
    disk_limits::DiskLimitWatches,
    fleet::Inner,
    sandbox_command::EvictionCause,
};
use hostd_core::{
    Growth, fastest_growing,
    limits::{DISK_POLL_LOW_MS, DISK_POLL_MS, GROWTH_WINDOW_MS, MEASURE_PAUSE_FACTOR},
};
use hostd_drivers::control::Control;
use hostd_store::{SandboxRecord, StoreError, disk_space::DiskState};
use protocol::api::{DiskLevel, Problem, ProblemCode, SandboxId};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

/// Sizes of workspaces since the disk is low, the newest measure last.
type History = VecDeque<(Instant, HashMap<SandboxId, u64>)>;

/// The sandbox that may be up to free space, while the disk is low.
#[derive(Default)]
pub(super) struct CleanupSandbox(Mutex<Option<SandboxId>>);

impl Inner {
    /// Refuses to wake a sandbox below the floor, except one at a time, to delete files in it.
    pub(super) fn check_room_to_wake(&self, id: &SandboxId) -> Result<(), FleetError> {
        let disk = self.disk.state();
        let mut cleanup_sandbox = self.cleanup_sandbox.0.lock().expect("no panic while held");
        match disk.level {
            DiskLevel::Ok => *cleanup_sandbox = None,
            DiskLevel::Low | DiskLevel::Full => {
                if cleanup_sandbox.is_some_and(|other| other != *id && self.is_wanted_up(&other)) {
                    return Err(FleetError::DiskFull(disk));
                }
                *cleanup_sandbox = Some(*id);
            }
        }
        Ok(())
    }
}

impl SandboxActor {
    /// Refuses a launch where the disk has no room for another sandbox that is up.
    pub(super) fn check_room_to_launch(&self) -> Result<(), FleetError> {
        let record = self.record();
        if record.state.is_wanted_up() { Ok(()) } else { self.fleet.check_room_to_wake(&record.id) }
    }

    /// Tries again on the space that the first try made hostd release. Where that is not enough for a row, the
    /// sandbox is destroyed first, which frees some.
    pub(super) async fn destroy_on_full_disk(&mut self, keep_workspace: bool) -> CommandReply {
        match self.destroy(keep_workspace).await {
            Err(FleetError::Store(StoreError::Full)) => {
                self.destroy_before_record(keep_workspace).await;
                self.destroy(keep_workspace).await
            }
            reply => reply,
        }
    }

    /// Destroys the sandbox before that is recorded, as nothing else does: a hostd that dies in between leaves a
    /// record of a sandbox that is gone.
    async fn destroy_before_record(&mut self, keep_workspace: bool) {
        warn!(sandbox = %self.id(), "disk full: destroying a sandbox before recording it");
        let within = Duration::from_millis(self.fleet.timing.down_ms);
        match timeout(within, self.driver.destroy(&self.id(), keep_workspace)).await {
            Ok(Ok(())) => self.disconnect(),
            Ok(Err(error)) => {
                warn!(sandbox = %self.id(), %error, "failed to destroy a sandbox on a full disk");
            }
            Err(_) => warn!(sandbox = %self.id(), "failed to destroy a sandbox on a full disk in time"),
        }
    }
}

impl Fleet {
    /// Refuses to create a sandbox or an image below the floor.
    pub fn check_disk_room(&self) -> Result<(), FleetError> {
        let disk = self.disk().state();
        match disk.level {
            DiskLevel::Ok => Ok(()),
            DiskLevel::Low | DiskLevel::Full => Err(FleetError::DiskFull(disk)),
        }
    }

    /// Wakes a sandbox for a task or a page, which is refused below the floor.
    pub async fn wake_for_work(&self, id: &SandboxId) -> Result<(Arc<SandboxRecord>, Control), FleetError> {
        if !self.record(id).await?.state.is_wanted_up() {
            self.check_disk_room()?;
        }
        self.wake(id).await
    }

    /// Watches the disk until hostd ends.
    pub async fn watch_disk(&self) {
        let (mut history, mut watches) = (History::default(), DiskLimitWatches::new());
        loop {
            let (room, begun) = (self.disk().clone(), Instant::now());
            // Blocking: it may write, and the disk may be slow.
            let level = spawn_blocking(move || room.refresh()).await.map_or(DiskLevel::Ok, |disk| disk.level);
            let pause_ms = match level {
                DiskLevel::Ok => {
                    history.clear();
                    DISK_POLL_MS
                }
                DiskLevel::Low | DiskLevel::Full => {
                    self.measure(&mut history).await;
                    DISK_POLL_LOW_MS
                }
            };
            if level == DiskLevel::Full {
                self.evict_fastest_growing(&mut history).await;
            }
            self.enforce_disk_limits(&mut watches).await;
            // Large workspaces take long to measure: measuring gets a part of the time only.
            sleep(Duration::from_millis(pause_ms).max(begun.elapsed() * MEASURE_PAUSE_FACTOR)).await;
        }
    }

    /// Measures the workspaces of sandboxes that are up.
    async fn measure(&self, history: &mut History) {
        let mut sizes = HashMap::new();
        // A sandbox in another PID namespace cannot be stopped from here.
        for record in self.all_up().into_iter().filter(|record| !record.other_pid_namespace) {
            let sandbox = record.id;
            match self.driver_of(&record).workspace_bytes(&sandbox).await {
                Ok(bytes) => sizes.extend(bytes.map(|bytes| (sandbox, bytes))),
                // Files come and go while they are counted.
                Err(error) => debug!(%sandbox, %error, "failed to measure a workspace"),
            }
        }
        push_measure(history, Instant::now(), sizes);
    }

    /// Evicts the sandbox that has grown most within the window. Another one only if it grows from now on.
    async fn evict_fastest_growing(&self, history: &mut History) {
        let Some(growth) = fastest_growing(&growths(history)) else { return };
        let (sandbox, grown_bytes) = (growth.sandbox, growth.grown_bytes());
        warn!(%sandbox, grown_bytes, "disk full: evicting the sandbox that grows fastest");
        history.clear();
        self.evict(&sandbox, EvictionCause::Grew { grown_bytes }).await;
    }
}

/// Adds a measure and drops those before the window, except the newest of them: growth needs two measures, however
/// far apart they are.
fn push_measure(history: &mut History, now: Instant, sizes: HashMap<SandboxId, u64>) {
    let window = Duration::from_millis(GROWTH_WINDOW_MS);
    while history.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= window) {
        history.pop_front();
    }
    history.push_back((now, sizes));
}

/// The growth of each workspace from its first to its last measure.
fn growths(history: &History) -> Vec<Growth<SandboxId>> {
    let Some((_, last)) = history.back() else { return Vec::new() };
    let growth = |(sandbox, now_bytes): (&SandboxId, &u64)| {
        let before_bytes = history.iter().find_map(|(_, sizes)| sizes.get(sandbox).copied())?;
        Some(Growth { sandbox: *sandbox, before_bytes, now_bytes: *now_bytes })
    };
    last.iter().filter_map(growth).collect()
}

/// The problem of an evicted sandbox.
pub(super) fn eviction_problem(grown_bytes: u64, disk: &DiskState) -> Problem {
    let (free, grown) = (disk.free_bytes >> 20, grown_bytes >> 20);
    let message = format!(
        "hostd stopped it: the data disk is full ({free} MB free), and its files grew by {grown} MB in a moment; \
         start it to delete some of them, or destroy it"
    );
    Problem { code: ProblemCode::DiskFull, message, output: Vec::new(), step: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_however_long_a_measure_takes() {
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        for between_ms in [GROWTH_WINDOW_MS / 40, GROWTH_WINDOW_MS, 10 * GROWTH_WINDOW_MS] {
            let (mut history, mut now) = (History::default(), Instant::now());
            for measure in 1..=100_u64 {
                push_measure(&mut history, now, HashMap::from([(sandbox, measure << 20)]));
                now += Duration::from_millis(between_ms);
                let grown = growths(&history).first().map(Growth::grown_bytes);
                assert_eq!(grown > Some(0), measure > 1, "{between_ms} ms between, measure {measure}");
            }
            assert!(history.len() <= 42, "{} measures are kept", history.len());
        }
    }
}
