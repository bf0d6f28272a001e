//! What a driver remembers of snapshots: the method of this host, and what is under way.

use super::{
    super::{
        files::{self, failed},
        layout::Layout,
    },
    captured::{BegunCopy, Captured},
    leases::{ExclusiveUse, Leases, WorkspaceLease},
    method::{self, SnapshotMethod, SnapshotMethodSetting},
    record::LayerId,
};
use crate::DriverError;
use protocol::api::{SandboxId, SnapshotId};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub struct Snapshots {
    method: SnapshotMethod,
    rejected: Vec<(SnapshotMethod, String)>,
    begun: Mutex<HashMap<SnapshotId, BegunCopy>>,
    captured: Mutex<HashMap<SnapshotId, Captured>>,
    layer_sizes: Mutex<HashMap<LayerId, u64>>,
    leases: Leases,
}

impl Snapshots {
    /// Makes the directories and probes the file system of the data directory. Blocks for some milliseconds.
    pub fn open(
        layout: &Layout,
        setting: SnapshotMethodSetting,
        idmapped: bool,
    ) -> Result<Self, DriverError> {
        for dir in [
            layout.snapshots(),
            layout.workspace_layers(),
            layout.stack_at(),
            layout.stacks(),
            layout.replaced(),
        ] {
            files::make_dir(&dir, 0o700).map_err(failed("make the directories of snapshots"))?;
        }
        let (method, rejected) = method::choose(setting, |method| method::probe(layout, method, idmapped));
        tracing::debug!(%method, ?rejected, "probed snapshot methods");
        let (begun, captured, layer_sizes) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { method, rejected, begun, captured, layer_sizes, leases: Leases::default() })
    }

    pub fn method(&self) -> SnapshotMethod {
        self.method
    }

    /// Limitations on this host, for people.
    pub fn warnings(&self) -> Vec<String> {
        if self.method != SnapshotMethod::Copy || self.rejected.is_empty() {
            return vec![];
        }
        let why: Vec<&str> = self.rejected.iter().map(|(_, why)| why.as_str()).collect();
        vec![format!("snapshots and forks copy all files of a sandbox ({})", why.join("; "))]
    }

    /// The copies that were begun.
    pub fn begun(&self) -> MutexGuard<'_, HashMap<SnapshotId, BegunCopy>> {
        lock(&self.begun)
    }

    /// The snapshots that are taken and not published.
    pub fn captured(&self) -> MutexGuard<'_, HashMap<SnapshotId, Captured>> {
        lock(&self.captured)
    }

    /// The bytes on disk of the layers that were measured.
    pub fn layer_sizes(&self) -> MutexGuard<'_, HashMap<LayerId, u64>> {
        lock(&self.layer_sizes)
    }

    /// Notes that hostd uses the files of a workspace, until the lease is dropped. Waits while a snapshot takes them.
    pub fn lease(&self, sandbox: &SandboxId) -> WorkspaceLease {
        self.leases.share(sandbox)
    }

    /// Keeps leases of a workspace from being given; `None` where hostd uses it.
    pub fn exclude_leases(&self, sandbox: &SandboxId) -> Option<ExclusiveUse<'_>> {
        self.leases.exclude(sandbox)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves no entry half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
