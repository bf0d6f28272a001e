//! Snapshots and workspaces of a backup. They are unpacked into a data directory that no hostd serves, as layers. The
//! workspace of a sandbox is made of its layer by the hostd that serves the directory next, in the form that this host
//! has for workspaces.
//!
//! ```text
//! restore: archive ─▶ layer ─▶ restored-workspaces/<sandbox>.json      hostd: layer ─▶ workspace ─▶ the record goes
//! ```

use super::{
    super::{
        super::DriverError,
        files::{self, failed},
        layout::Layout,
        remove_tree,
        trash::NewEntry,
        workspace::{NewWorkspace, Workspaces},
    },
    archive::{ImportSource, unpack_home},
    capture::sync_file_system,
    record::{LayerId, SnapshotRecord, sync_dir},
};
use protocol::api::{SandboxId, SnapshotId};
use std::{
    io::{self, PipeReader},
    path::Path,
};

/// A data directory that is being restored.
pub struct RestoredTrees {
    layout: Layout,
}

impl RestoredTrees {
    /// Makes the directories of layers and records.
    pub fn open(data_dir: &Path) -> Result<Self, DriverError> {
        // All drivers share these directories.
        let layout = Layout::new(data_dir.to_owned(), "oci");
        for dir in
            [layout.trash(), layout.snapshots(), layout.workspace_layers(), layout.restored_workspaces()]
        {
            files::make_dir(&dir, 0o700).map_err(failed("make the directories of snapshots"))?;
        }
        Ok(Self { layout })
    }

    /// Makes a snapshot of an archive that is not trusted.
    pub fn add_snapshot(
        &self,
        snapshot: &SnapshotId,
        archive: PipeReader,
        check_room: &mut (dyn FnMut(u64) -> Result<(), DriverError> + Send),
    ) -> Result<(), DriverError> {
        let record = self.add_layer(ImportSource { archive, check_room })?;
        record.write(&self.layout, snapshot).map_err(failed("write the record of a snapshot"))
    }

    /// Makes the files of a sandbox of an archive that is not trusted.
    pub fn add_workspace(
        &self,
        sandbox: &SandboxId,
        archive: PipeReader,
        check_room: &mut (dyn FnMut(u64) -> Result<(), DriverError> + Send),
    ) -> Result<(), DriverError> {
        let record = self.add_layer(ImportSource { archive, check_room })?;
        let bytes = serde_json::to_vec(&record).map_err(io::Error::other);
        let path = self.layout.restored_workspace(sandbox);
        let written = bytes.and_then(|bytes| files::replace_synced(&path, &bytes, 0o600));
        written.map_err(failed("write the record of a workspace"))
    }

    /// Returns when everything is on disk.
    pub fn sync(&self) -> Result<(), DriverError> {
        let synced = sync_file_system(self.layout.data());
        synced.map_err(failed("write the restored files to disk"))
    }

    fn add_layer(&self, source: ImportSource<'_>) -> Result<SnapshotRecord, DriverError> {
        let entry = NewEntry::reserve(&self.layout.trash(), "layer");
        files::make_dir(entry.path(), 0o750).map_err(failed("unpack the files"))?;
        unpack_home(entry.path(), source)?;
        let layer = LayerId::generate();
        std::fs::rename(entry.path(), layer.dir(&self.layout)).map_err(failed("unpack the files"))?;
        Ok(SnapshotRecord { layers: vec![layer] })
    }
}

impl Workspaces<'_> {
    /// Whether the workspace is still to be made of a backup.
    pub fn is_restored(&self, sandbox: &SandboxId) -> bool {
        self.layout.restored_workspace(sandbox).exists()
    }

    /// Makes the workspace of a backup. It is on disk when this returns.
    pub fn make_restored(&self, sandbox: &SandboxId, new: &NewWorkspace<'_>) -> Result<(), DriverError> {
        self.make(sandbox, new)?.sync().map_err(failed("sync the workspace"))?;
        self.forget_restored(sandbox).map_err(failed("forget that the workspace was restored"))?;
        // A copy leaves its layer without a use.
        self.remove_unreferenced_layers().map(drop).map_err(failed("remove layers that nothing needs"))
    }

    pub fn forget_restored(&self, sandbox: &SandboxId) -> io::Result<()> {
        let path = self.layout.restored_workspace(sandbox);
        if !path.exists() {
            return Ok(());
        }
        files::remove_file(&path)?;
        sync_dir(&self.layout.restored_workspaces())
    }

    /// The sandboxes whose workspace is still to be made of a backup.
    pub(super) fn restored_workspaces(&self) -> io::Result<Vec<SandboxId>> {
        let entries = match std::fs::read_dir(self.layout.restored_workspaces()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let id = |name: String| name.strip_suffix(".json")?.parse().ok();
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().filter_map(id).collect())
    }
}

/// Removes a data directory that a restore began, if there is one.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    remove_tree::remove_tree(dir)
}
