//! The means of this host, as the drivers use it: what was chosen, why, and the checks before a workspace is made.

use super::{
    super::layout::Layout,
    choice::{Chosen, QuotaChoice, QuotaMeans, choose},
    probe, volume,
};
use crate::DriverError;
use hostd_core::DiskThresholds;
use nix::sys::statvfs::statvfs;
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The operator's settings.
#[derive(Debug, Clone, Default)]
pub struct QuotaSettings {
    pub choice: QuotaChoice,
    /// Free space that volumes leave to hostd and other sandboxes; a share of the disk unless given.
    pub floor_bytes: Option<u64>,
}

pub struct Quota {
    chosen: Chosen,
    auto: bool,
    mkfs: Option<PathBuf>,
    floor_bytes: u64,
    /// Mounted volumes with the device numbers of their files, so that most uses need not look for their device. Held
    /// while a volume is mounted or unmounted.
    mounts: Mutex<HashMap<SandboxId, u64>>,
    /// Held while the space of a volume, or a project, is taken.
    taking: Mutex<()>,
}

impl Quota {
    /// Probes the file system of the data directory. Blocks for some milliseconds. `no_project` says why the sandboxes
    /// of a driver could evade project quotas.
    pub fn open(layout: &Layout, settings: &QuotaSettings, no_project: Option<&str>) -> Self {
        let (trash, mkfs) = (layout.trash(), volume::find_mkfs());
        let chosen = choose(settings.choice, |means| match (means, no_project) {
            (QuotaMeans::Project, Some(why)) => Err(why.to_owned()),
            (QuotaMeans::Project, None) => probe::project(&trash),
            (QuotaMeans::Loop, _) => probe::volumes(&trash, mkfs.as_deref()),
            (QuotaMeans::Measured, _) => Ok(()),
        });
        let total = statvfs(layout.data()).map_or(0, |disk| disk.blocks() * disk.fragment_size());
        let floor_bytes = DiskThresholds::of(total, settings.floor_bytes).floor_bytes;
        tracing::debug!(?chosen, "probed the means of disk limits");
        let auto = settings.choice == QuotaChoice::Auto;
        Self { chosen, auto, mkfs, floor_bytes, mounts: Mutex::default(), taking: Mutex::default() }
    }

    pub fn means(&self) -> Option<QuotaMeans> {
        self.chosen.means
    }

    pub fn mkfs(&self) -> Option<&Path> {
        self.mkfs.as_deref()
    }

    /// Warnings for operators: limits that the kernel does not keep.
    pub fn warnings(&self) -> Vec<String> {
        let why = || {
            let rejected = self.chosen.rejected.iter().map(|(means, why)| format!("{means}: {why}"));
            rejected.collect::<Vec<_>>().join("; ")
        };
        match self.chosen.means {
            Some(QuotaMeans::Project | QuotaMeans::Loop) => vec![],
            Some(QuotaMeans::Measured) if self.chosen.rejected.is_empty() => vec![],
            Some(QuotaMeans::Measured) => {
                vec![format!("disk limits of sandboxes are measured, not kept by the kernel ({})", why())]
            }
            None => vec![format!("sandboxes with disk_mb are refused ({})", why())],
        }
    }

    /// Whether the operator left the means to hostd.
    pub fn is_auto(&self) -> bool {
        self.auto
    }

    /// Why the means that were tried do not work.
    pub fn rejected(&self) -> String {
        self.chosen.rejected.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Refuses a volume that the disk has no room for, beside what hostd keeps free.
    pub fn check_room(&self, layout: &Layout, disk_mb: u64) -> Result<(), DriverError> {
        // Space that is kept for root is not counted.
        let free = statvfs(layout.data()).map_or(0, |disk| disk.blocks_available() * disk.fragment_size());
        room_for(volume::volume_bytes(disk_mb), free, self.floor_bytes)
    }

    /// The lock under which volumes are mounted and unmounted.
    pub fn mounts(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock under which space and projects are taken.
    pub fn taking(&self) -> MutexGuard<'_, ()> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn room_for(needed: u64, free: u64, floor: u64) -> Result<(), DriverError> {
    if free.saturating_sub(floor) >= needed {
        return Ok(());
    }
    let (needed_mb, free_mb, floor_mb) = (needed.div_ceil(1 << 20), free >> 20, floor.div_ceil(1 << 20));
    Err(DriverError::NoDiskRoom { needed_mb, free_mb, floor_mb })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_leaves_the_floor_free() {
        const MB: u64 = 1 << 20;
        for (needed, free, floor, fits) in [
            (100 * MB, 200 * MB, 100 * MB, true),
            (100 * MB, 200 * MB, 101 * MB, false),
            (0, 0, 0, true),
            (u64::MAX, u64::MAX, 1, false),
            (MB, 10 * MB, 20 * MB, false),
        ] {
            assert_eq!(room_for(needed, free, floor).is_ok(), fits, "{needed} {free} {floor}");
        }
        let error = room_for(100 * MB, 50 * MB, 8 * MB).expect_err("too large").to_string();
        assert!(error.contains("100 MB") && error.contains("50 MB") && error.contains("8 MB"), "{error}");
    }
}
