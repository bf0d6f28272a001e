//! Removes snapshots, and the layers that nothing names any more.

use super::{
    super::{
        super::DriverError,
        files::{self, failed},
        layout::StackDir,
        remove_tree,
        workspace::Workspaces,
    },
    btrfs,
    pins::{lock_removal, pinned_layers},
    record::{LayerId, SnapshotRecord, StackRecord, sync_dir},
};
use protocol::api::SnapshotId;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

impl Workspaces<'_> {
    /// Removes a snapshot; its layers stay while others use them.
    pub fn remove_snapshot(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let remove = || failed("remove the snapshot");
        files::remove_file(&self.layout.snapshot(snapshot)).map_err(remove())?;
        files::remove_file(&self.layout.manifest(snapshot)).map_err(remove())?;
        sync_dir(&self.layout.snapshots()).map_err(remove())?;
        self.remove_unreferenced_layers().map(drop).map_err(remove())
    }

    /// The snapshots of which there is anything on disk.
    pub fn recorded_snapshots(&self) -> io::Result<Vec<SnapshotId>> {
        let names = names(&self.layout.snapshots())?;
        let ids = names.iter().filter_map(|name| {
            name.strip_suffix(".json").or_else(|| name.strip_suffix(".manifest"))?.parse().ok()
        });
        Ok(ids.collect::<BTreeSet<SnapshotId>>().into_iter().collect())
    }

    /// Removes the layers that no snapshot and no stack names, and nothing uses. Returns their number. While a record
    /// cannot be read, every layer stays.
    pub fn remove_unreferenced_layers(&self) -> io::Result<usize> {
        let gone = {
            let _none_is_pinned = lock_removal();
            let found = names(&self.layout.workspace_layers())?;
            // A layer is pinned until a record names it: so they are looked up in this order.
            let pinned = pinned_layers();
            let Some(named) = self.named_layers()? else { return Ok(0) };
            let layers = found.iter().filter_map(|name| LayerId::parse(name));
            let unreferenced = layers.filter(|layer| !pinned.contains(layer) && !named.contains(layer));
            let gone = unreferenced
                .map(|layer| remove_tree::move_to_trash(&layer.dir(self.layout), &self.layout.trash()));
            gone.collect::<io::Result<Vec<_>>>()?
        };
        gone.iter().flatten().try_for_each(|path| btrfs::remove(path))?;
        Ok(gone.len())
    }

    /// The layers that records name; `None` where a record cannot be read.
    fn named_layers(&self) -> io::Result<Option<BTreeSet<LayerId>>> {
        let mut named = BTreeSet::new();
        for name in names(&self.layout.snapshots())? {
            let Some(snapshot) = name.strip_suffix(".json").and_then(|id| id.parse().ok()) else { continue };
            match SnapshotRecord::read(self.layout, &snapshot) {
                Ok(record) => named.extend(record.into_iter().flat_map(|record| record.layers)),
                Err(error) => {
                    tracing::warn!(%snapshot, %error, "no layers are removed: the record of a snapshot cannot be read");
                    return Ok(None);
                }
            }
        }
        for sandbox in self.restored_workspaces()? {
            match SnapshotRecord::read_restored(self.layout, &sandbox) {
                Ok(record) => named.extend(record.into_iter().flat_map(|record| record.layers)),
                Err(error) => {
                    tracing::warn!(%sandbox, %error, "no layers are removed: the record of a restored workspace cannot be read");
                    return Ok(None);
                }
            }
        }
        // In this order: a restore moves stacks from the first directory to the second.
        let stacks = names(&self.layout.stacks())?.into_iter().map(|name| self.layout.stacks().join(name));
        let stacks: Vec<PathBuf> = stacks.collect();
        for dir in &stacks {
            let Some(layers) = layers_of(dir) else { return Ok(None) };
            named.extend(layers);
        }
        for name in names(&self.layout.replaced())? {
            let Some(layers) = layers_of(&self.layout.replaced().join(name).join("stack")) else {
                return Ok(None);
            };
            named.extend(layers);
        }
        Ok(Some(named))
    }
}

/// The layers of a stack, if there is one; `None` where its record cannot be read.
fn layers_of(dir: &Path) -> Option<Vec<LayerId>> {
    match StackRecord::read(&StackDir::at(dir.to_owned())) {
        Ok(record) => Some(
            record.map_or_else(Vec::new, |record| record.layers.into_iter().chain(record.sealing).collect()),
        ),
        Err(error) => {
            tracing::warn!(stack = %dir.display(), %error, "no layers are removed: the record of a stack cannot be read");
            None
        }
    }
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
