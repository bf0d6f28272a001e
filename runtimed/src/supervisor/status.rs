//! The status of the sandbox, and the measurements behind it.

use super::command::OwnStatus;
use super::handle::SharedState;
use super::main_loop::Supervisor;
use crate::core::activity::{Now, Tracker};
use crate::limits::DISK_WALK_KEEP_MS;
use crate::sys::clock::{monotonic_ms, wall_ms};
use crate::sys::disk::Walk;
use crate::sys::{cgroup, procfs};
use protocol::{ExecView, Reason, Status, WorkspaceUse};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Measurements that take time or need history.
pub struct StatusSampler {
    boot_ms: u64,
    activity: Tracker,
    shared: Arc<SharedState>,
    workspace: WorkspaceUse,
    workspace_until: u64,
    walk: Option<Walk>,
}

impl StatusSampler {
    pub fn new(shared: Arc<SharedState>) -> Self {
        let activity = Tracker::new(now());
        let workspace = WorkspaceUse::default();
        Self { boot_ms: wall_ms(), activity, shared, workspace, workspace_until: 0, walk: None }
    }

    /// Continues a count of the workspace, if one is running; pends otherwise. Yields between slices so that
    /// other tasks run.
    pub async fn walk(&mut self) {
        let Some(walk) = &mut self.walk else { return std::future::pending().await };
        tokio::task::yield_now().await;
        if walk.slice() {
            self.workspace = walk.result(wall_ms());
            self.workspace_until = monotonic_ms() + DISK_WALK_KEEP_MS;
            self.walk = None;
        }
    }

    /// The size of the workspace as last counted; begins a new count when that is old.
    fn workspace(&mut self, root: &Path, identity: crate::sys::fs_identity::Identity) -> WorkspaceUse {
        if self.walk.is_none() && monotonic_ms() >= self.workspace_until {
            let mut walk = Walk::start(root, identity);
            // The first slice runs at once: a small workspace is then counted in this very response.
            if walk.slice() {
                self.workspace = walk.result(wall_ms());
                self.workspace_until = monotonic_ms() + DISK_WALK_KEEP_MS;
            } else {
                if self.workspace.measured_ms == 0 {
                    self.workspace = WorkspaceUse { partial: true, ..walk.result(wall_ms()) };
                }
                self.walk = Some(walk);
            }
        }
        self.workspace.clone()
    }
}

impl Supervisor {
    pub(super) fn status(&mut self) -> Status {
        let config = Arc::clone(&self.context.config);
        let cgroup = cgroup::read(&self.context.cgroup);
        if let Some(used_us) = cgroup.cpu_usage_us {
            self.status_sampler.activity.cpu(used_us, monotonic_ms());
        }
        // A child that just ended is reaped now, although its SIGCHLD is still pending.
        self.reap();
        let counts = procfs::count();
        let reasons = self.reasons();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid1: nix::unistd::getpid().as_raw() == 1,
            boot_ms: self.status_sampler.boot_ms,
            epoch: self.context.events.epoch(),
            services: self.service_views(),
            manifest_error: self.services.manifest_error.clone(),
            warnings: self.warnings(),
            execs: self.live_execs(),
            ports: procfs::listening(config.identity()),
            cgroup,
            processes: counts.processes.saturating_sub(self.context.jobs.spare_count()),
            zombies: counts.zombies,
            runtimed_rss_bytes: procfs::rss_bytes(),
            workspace: self.status_sampler.workspace(&config.home, config.identity()),
            holds: self.holds.views(),
            activity: self.status_sampler.activity.update(reasons, now()),
        }
    }

    pub(super) fn own_status(&mut self) -> OwnStatus {
        let reasons = self.reasons();
        OwnStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_ms: self.status_sampler.boot_ms,
            services: self.service_views(),
            holds: self.holds.views(),
            activity: self.status_sampler.activity.update(reasons, now()),
        }
    }

    /// Records a change of activity when it happens, so that "idle since" does not depend on when callers
    /// ask.
    pub(super) fn note_activity(&mut self) {
        let reasons = self.reasons();
        self.status_sampler.activity.update(reasons, now());
    }

    fn live_execs(&self) -> Vec<ExecView> {
        // A shim exits a moment after it reported the end of an exec that left nothing.
        let live = self.execs.live().filter(|exec| exec.has_processes());
        live.map(|exec| exec.view(exec.job().and_then(|job| self.context.jobs.shim(job)))).collect()
    }

    fn reasons(&self) -> Vec<Reason> {
        let running = self.execs.live().filter(|exec| exec.end().is_none());
        let execs = running.map(|exec| Reason::Exec { exec: exec.start.id.clone() });
        let tasks = self.tasks.live().map(|task| Reason::Task { task: task.clone() });
        let reverted = self.revert.iter().map(|pending| Reason::Task { task: pending.task.clone() });
        let tasks = tasks.chain(reverted);
        let holds = self.holds.views().into_iter().map(|hold| Reason::Hold { hold: hold.name });
        let starting = self.services.iter().filter(|service| service.is_starting_up());
        let services = starting.map(|service| Reason::ServiceStarting { service: service.spec.name.clone() });
        let count = |n: u32, reason: fn(u32) -> Reason| (n > 0).then(|| reason(n));
        let viewers = self.status_sampler.shared.viewers.load(Ordering::Relaxed);
        let tunnels = self.status_sampler.shared.tunnels.load(Ordering::Relaxed);
        execs
            .chain(tasks)
            .chain(holds)
            .chain(services)
            .chain(count(viewers, |count| Reason::Viewers { count }))
            .chain(count(tunnels, |count| Reason::Tunnels { count }))
            .chain(count(self.file_verbs.busy_count(), |count| Reason::Files { count }))
            .collect()
    }
}

fn now() -> Now {
    Now { wall_ms: wall_ms(), monotonic_ms: monotonic_ms() }
}
