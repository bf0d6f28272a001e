//! Quotas of tenants and principals: whether what a write adds fits. Pure; the store sums up the use inside the
//! transaction that adds to it.

mod book;
mod exceeded;
mod parse;

pub use book::QuotaBook;
pub use exceeded::QuotaExceeded;
pub use parse::parse_quota;

use crate::State;
use protocol::api::{ApiError, ApiErrorCode, Limits, Quota, QuotaResource, QuotaUse, SandboxStatus};

const MILLI: f64 = 1_000.0;
const MB_BYTES: u64 = 1 << 20;
/// Sandboxes that a refusal names.
pub const HOLDERS_MAX: usize = 10;
/// The largest limit of a count or a size, and of cores.
pub const LIMIT_MAX: u64 = 1 << 53;
pub const CPUS_LIMIT_MAX: f64 = 1e9;

/// What an owner uses. Cores are in thousandths, so that sums are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub sandboxes: u64,
    pub running: u64,
    pub memory_mb: u64,
    pub cpus_milli: u64,
    pub disk: DiskUse,
    pub tasks_queued: u64,
    pub tasks_running: u64,
    /// Events and output, as measured last.
    pub log_bytes: u64,
    pub preview_connections: u64,
}

/// The parts of disk use that belong to an owner. Images have no tenants: they have no part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub workspaces_bytes: u64,
    /// Workspaces that were kept when their sandboxes were destroyed.
    pub kept_workspaces_bytes: u64,
    /// Rows of the database: events, output and changes of tasks.
    pub database_bytes: u64,
    /// The files of snapshots, each counted whole: those that share files do not take less.
    pub snapshots_bytes: u64,
}

impl DiskUse {
    fn plus(&self, other: &Self) -> Self {
        Self {
            workspaces_bytes: self.workspaces_bytes.saturating_add(other.workspaces_bytes),
            kept_workspaces_bytes: self.kept_workspaces_bytes.saturating_add(other.kept_workspaces_bytes),
            database_bytes: self.database_bytes.saturating_add(other.database_bytes),
            snapshots_bytes: self.snapshots_bytes.saturating_add(other.snapshots_bytes),
        }
    }

    pub fn total_bytes(&self) -> u64 {
        let parts = [self.kept_workspaces_bytes, self.database_bytes, self.snapshots_bytes];
        parts.into_iter().fold(self.workspaces_bytes, u64::saturating_add)
    }
}

/// What a write adds to the use of its owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    pub sandboxes: u64,
    pub running: u64,
    pub memory_mb: u64,
    pub cpus_milli: u64,
    pub tasks_queued: u64,
    pub tasks_running: u64,
    /// The write lets files grow, by an unknown size: it is refused when the disk quota is used up.
    pub grows_disk: bool,
}

impl Demand {
    /// A new sandbox, which is launched at once.
    pub fn create(limits: &Limits) -> Self {
        Self { sandboxes: 1, ..Self::launch(limits) }
    }

    /// A sandbox that comes up.
    pub fn launch(limits: &Limits) -> Self {
        let (memory_mb, cpus_milli) = (limits.memory_mb, cpus_milli(limits.cpus));
        Self { running: 1, memory_mb, cpus_milli, grows_disk: true, ..Self::default() }
    }

    /// New limits of a sandbox that is up: only what grows is asked for.
    pub fn resize(before: &Limits, after: &Limits) -> Self {
        let cpus_milli = cpus_milli(after.cpus).saturating_sub(cpus_milli(before.cpus));
        Self { memory_mb: after.memory_mb.saturating_sub(before.memory_mb), cpus_milli, ..Self::default() }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sandboxes: self.sandboxes + other.sandboxes,
            running: self.running + other.running,
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            cpus_milli: self.cpus_milli.saturating_add(other.cpus_milli),
            tasks_queued: self.tasks_queued + other.tasks_queued,
            tasks_running: self.tasks_running + other.tasks_running,
            grows_disk: self.grows_disk || other.grows_disk,
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is asked of a resource, in its unit; `None` where nothing is.
    fn of(&self, resource: QuotaResource) -> Option<u64> {
        let amount = match resource {
            QuotaResource::Sandboxes => self.sandboxes,
            QuotaResource::Running => self.running,
            QuotaResource::MemoryMb => self.memory_mb,
            QuotaResource::Cpus => self.cpus_milli,
            QuotaResource::TasksQueued => self.tasks_queued,
            QuotaResource::TasksRunning => self.tasks_running,
            QuotaResource::DiskMb => return self.grows_disk.then_some(1),
            // Kept by retention, and by the edge.
            QuotaResource::EventsMb | QuotaResource::PreviewConnections => 0,
        };
        (amount > 0).then_some(amount)
    }
}

/// A resource of which there is not enough. Amounts are in the unit of the resource, cores in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    pub resource: QuotaResource,
    pub limit: u64,
    pub used: u64,
    pub requested: u64,
}

/// Whether a sandbox in this state counts as up. It does until it is really down: its processes use memory until then.
pub fn counts_as_up(state: &State) -> bool {
    matches!(state.goal, crate::Goal::Running | crate::Goal::Paused)
        || matches!(state.status, SandboxStatus::Running | SandboxStatus::Paused)
}

/// Returns the first resource of which the quota has not enough left for the demand.
pub fn check_quota(quota: &Quota, used: &Usage, demand: &Demand) -> Result<(), Shortage> {
    for resource in QuotaResource::ALL {
        let (Some(limit), Some(requested)) = (limit_of(quota, resource), demand.of(resource)) else {
            continue;
        };
        let used = used.of(resource);
        if used.saturating_add(requested) > limit {
            return Err(Shortage { resource, limit, used, requested });
        }
    }
    Ok(())
}

/// Whether the quota limits something that the demand asks for.
pub fn binds(quota: &Quota, demand: &Demand) -> bool {
    let binding = |resource| limit_of(quota, resource).is_some() && demand.of(resource).is_some();
    QuotaResource::ALL.into_iter().any(binding)
}

/// Returns the limit of a resource in its unit, cores in thousandths.
pub fn limit_of(quota: &Quota, resource: QuotaResource) -> Option<u64> {
    match resource {
        QuotaResource::Sandboxes => quota.sandboxes,
        QuotaResource::Running => quota.running,
        QuotaResource::MemoryMb => quota.memory_mb,
        QuotaResource::Cpus => quota.cpus.map(cpus_milli),
        QuotaResource::DiskMb => quota.disk_mb,
        QuotaResource::TasksQueued => quota.tasks_queued,
        QuotaResource::TasksRunning => quota.tasks_running,
        QuotaResource::EventsMb => quota.events_mb,
        QuotaResource::PreviewConnections => quota.preview_connections,
    }
}

/// Thousandths of a core, rounded up: no sandbox uses nothing.
pub fn cpus_milli(cpus: f64) -> u64 {
    (cpus * MILLI).ceil() as u64
}

impl Usage {
    /// Returns the use of a resource in its unit. Part of a megabyte counts as one.
    pub fn of(&self, resource: QuotaResource) -> u64 {
        match resource {
            QuotaResource::Sandboxes => self.sandboxes,
            QuotaResource::Running => self.running,
            QuotaResource::MemoryMb => self.memory_mb,
            QuotaResource::Cpus => self.cpus_milli,
            QuotaResource::DiskMb => self.disk.total_bytes().div_ceil(MB_BYTES),
            QuotaResource::TasksQueued => self.tasks_queued,
            QuotaResource::TasksRunning => self.tasks_running,
            QuotaResource::EventsMb => self.log_bytes.div_ceil(MB_BYTES),
            QuotaResource::PreviewConnections => self.preview_connections,
        }
    }

    /// Returns the use without what `freed` holds, which the same write frees.
    pub fn without(&self, freed: &Demand) -> Self {
        Self {
            sandboxes: self.sandboxes.saturating_sub(freed.sandboxes),
            running: self.running.saturating_sub(freed.running),
            memory_mb: self.memory_mb.saturating_sub(freed.memory_mb),
            cpus_milli: self.cpus_milli.saturating_sub(freed.cpus_milli),
            tasks_queued: self.tasks_queued.saturating_sub(freed.tasks_queued),
            tasks_running: self.tasks_running.saturating_sub(freed.tasks_running),
            ..*self
        }
    }

    /// Returns the use of both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sandboxes: self.sandboxes + other.sandboxes,
            running: self.running + other.running,
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            cpus_milli: self.cpus_milli.saturating_add(other.cpus_milli),
            disk: self.disk.plus(&other.disk),
            tasks_queued: self.tasks_queued + other.tasks_queued,
            tasks_running: self.tasks_running + other.tasks_running,
            log_bytes: self.log_bytes.saturating_add(other.log_bytes),
            preview_connections: self.preview_connections + other.preview_connections,
        }
    }

    /// Returns the use as the API shows it. Disk and log are measured only where a quota needs them.
    pub fn view(&self, disk_measured: bool, log_measured: bool) -> QuotaUse {
        QuotaUse {
            sandboxes: self.sandboxes,
            running: self.running,
            memory_mb: self.memory_mb,
            cpus: self.cpus_milli as f64 / MILLI,
            disk_mb: disk_measured.then(|| self.of(QuotaResource::DiskMb)),
            tasks_queued: self.tasks_queued,
            tasks_running: self.tasks_running,
            events_mb: log_measured.then(|| self.of(QuotaResource::EventsMb)),
            preview_connections: self.preview_connections,
        }
    }
}

/// Checks the limits of a quota that a caller sets.
pub fn validate_quota(quota: &Quota) -> Result<(), ApiError> {
    let invalid = |field: &str, message: String| {
        Err(ApiError::new(ApiErrorCode::InvalidRequest, format!("{field} {message}"))
            .with(|detail| detail.field = Some(field.to_owned())))
    };
    if quota.cpus.is_some_and(|cpus| !(0.0..=CPUS_LIMIT_MAX).contains(&cpus)) {
        return invalid("cpus", format!("must be from 0 to {CPUS_LIMIT_MAX}"));
    }
    let too_large = |resource: &QuotaResource| {
        *resource != QuotaResource::Cpus && limit_of(quota, *resource).is_some_and(|limit| limit > LIMIT_MAX)
    };
    match QuotaResource::ALL.into_iter().find(too_large) {
        Some(resource) => invalid(resource.as_str(), format!("must be from 0 to {LIMIT_MAX}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
