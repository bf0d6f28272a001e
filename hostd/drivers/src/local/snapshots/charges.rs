//! Says for which snapshot or sandbox each layer counts: for one of those that keep it on disk, so that the sum is what
//! all layers take.

use super::{
    super::{disk_usage::tree_bytes, layout::StackDir, workspace::Workspaces},
    record::{LayerId, SnapshotRecord, StackRecord},
};
use protocol::api::{SandboxId, SnapshotId};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    str::FromStr,
};

/// Who keeps a layer. The least counts: a snapshot before a sandbox, and the oldest of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keeper {
    Snapshot(SnapshotId),
    Sandbox(SandboxId),
}

/// The bytes on disk that count for each snapshot, and for each sandbox besides what it has written itself. Those for which
/// none count are here, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerCharges {
    pub snapshots: BTreeMap<SnapshotId, u64>,
    pub sandboxes: BTreeMap<SandboxId, u64>,
}

impl LayerCharges {
    fn add(&mut self, keeper: Keeper, bytes: u64) {
        let sum = match keeper {
            Keeper::Snapshot(snapshot) => self.snapshots.entry(snapshot).or_default(),
            Keeper::Sandbox(sandbox) => self.sandboxes.entry(sandbox).or_default(),
        };
        *sum = sum.saturating_add(bytes);
    }
}

impl Workspaces<'_> {
    /// Counts all layers. Each is measured once: layers never change. Reads all records; takes long where there are new
    /// layers.
    pub fn layer_charges(&self) -> io::Result<LayerCharges> {
        let mut charges = LayerCharges::default();
        let mut keepers = BTreeMap::<LayerId, Keeper>::new();
        let mut keep = |keeper: Keeper, layers: Vec<LayerId>| {
            for layer in layers {
                let first = keepers.entry(layer).or_insert(keeper);
                *first = keeper.min(*first);
            }
        };
        for snapshot in self.recorded_snapshots()? {
            // Its files are not known where the record cannot be read.
            let record = SnapshotRecord::read(self.layout, &snapshot).unwrap_or_default();
            charges.add(Keeper::Snapshot(snapshot), file_bytes(&self.layout.manifest(&snapshot)));
            keep(Keeper::Snapshot(snapshot), record.map_or_else(Vec::new, |record| record.layers));
        }
        let replaced = ids(&self.layout.replaced())?;
        let replaced = replaced.into_iter().map(|id: SandboxId| (id, self.replaced_stack(&id)));
        let stacks = ids(&self.layout.stacks())?.into_iter().map(|id| (id, self.layout.stack(&id)));
        for (sandbox, stack) in stacks.chain(replaced) {
            let record = StackRecord::read(&stack).unwrap_or_default().unwrap_or_default();
            charges.add(Keeper::Sandbox(sandbox), 0);
            keep(Keeper::Sandbox(sandbox), record.layers.into_iter().chain(record.sealing).collect());
        }
        let sizes = self.layer_sizes(keepers.keys())?;
        for (layer, keeper) in &keepers {
            charges.add(*keeper, sizes.get(layer).copied().unwrap_or(0));
        }
        Ok(charges)
    }

    fn replaced_stack(&self, sandbox: &SandboxId) -> StackDir {
        StackDir::at(self.layout.replaced().join(sandbox.as_str()).join("stack"))
    }

    /// Measures the layers that were not measured before, and forgets those that are gone.
    fn layer_sizes<'l>(
        &self,
        layers: impl Iterator<Item = &'l LayerId>,
    ) -> io::Result<HashMap<LayerId, u64>> {
        let mut known = self.snapshots.layer_sizes();
        let before = std::mem::take(&mut *known);
        for layer in layers {
            let bytes = match before.get(layer) {
                Some(bytes) => Some(*bytes),
                None => tree_bytes(&layer.dir(self.layout))?,
            };
            // One that is being sealed is not there yet.
            if let Some(bytes) = bytes {
                known.insert(layer.clone(), bytes);
            }
        }
        Ok(known.clone())
    }
}

fn file_bytes(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).map_or(0, |meta| meta.blocks().saturating_mul(512))
}

fn ids<T: FromStr>(dir: &Path) -> io::Result<Vec<T>> {
    let names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}
