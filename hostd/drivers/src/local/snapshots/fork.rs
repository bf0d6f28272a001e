//! Workspaces from snapshots: a stack above the layers, a subvolume, or a copy.

use super::{
    super::{
        files,
        layout::StackDir,
        limits::SANDBOX_UID,
        quota::{self, QuotaMeans},
        remove_tree,
        workspace::Workspaces,
    },
    btrfs,
    captured::NewTree,
    excludes::Excludes,
    method::SnapshotMethod,
    mirror::{CopiedBefore, Mirror, TreeKind},
    pins::PinnedLayers,
    record::{LayerId, SnapshotRecord, StackRecord},
    unsynced::Unsynced,
};
use hostd_images::LayerStack;
use protocol::api::{Limits, SandboxId};
use std::{
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, lchown},
    path::{Path, PathBuf},
};

/// Whose ids the files of a stack have where they are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackIds {
    /// The ids on disk.
    OnDisk,
    /// Those from this one on.
    From(u32),
}

impl Workspaces<'_> {
    /// Makes the workspace of a sandbox from a snapshot without a copy; `None` where that is not possible.
    pub(in super::super) fn fork(
        &self,
        sandbox: &SandboxId,
        record: &SnapshotRecord,
        limits: &Limits,
    ) -> io::Result<Option<Unsynced>> {
        let limited_by = limits.disk_mb.and(self.means);
        let volume = limited_by == Some(QuotaMeans::Loop);
        match self.snapshots.method() {
            SnapshotMethod::Overlay if !volume && self.ids.can_stack() => {
                let project_mb = limits.disk_mb.filter(|_| limited_by == Some(QuotaMeans::Project));
                self.fork_stack(sandbox, record, project_mb).map(Some)
            }
            SnapshotMethod::Btrfs if limited_by.is_none() => self.fork_subvolume(sandbox, record),
            SnapshotMethod::Overlay | SnapshotMethod::Btrfs | SnapshotMethod::Copy => Ok(None),
        }
    }

    fn fork_stack(
        &self,
        sandbox: &SandboxId,
        record: &SnapshotRecord,
        project_mb: Option<u64>,
    ) -> io::Result<Unsynced> {
        let layers = PinnedLayers::existing(self.layout, &record.layers)?;
        let stack = self.layout.stack(sandbox);
        // One that lost its record with the power: what the sandbox wrote is there. It was not sealed since, which would
        // have put the record on disk.
        if stack.upper().exists() {
            StackRecord { layers: layers.ids().to_vec(), sealing: None }.write_new(&stack)?;
            return Ok(self.unsynced_stack(sandbox));
        }
        let new = NewTree::reserve(&self.layout.trash(), "stack");
        self.make_stack_at(new.path(), layers.ids(), project_mb)?;
        if let Some(gone) = remove_tree::move_to_trash(stack.path(), &self.layout.trash())? {
            remove_tree::remove_tree(&gone)?;
        }
        std::fs::rename(new.path(), stack.path())?;
        Ok(self.unsynced_stack(sandbox))
    }

    /// What a launch of a sandbox with a stack has to find on disk after a loss of power.
    pub(in super::super) fn unsynced_stack(&self, sandbox: &SandboxId) -> Unsynced {
        Unsynced::stack(&self.layout.stack(sandbox), self.layout.stacks())
    }

    /// Puts all stacks on disk that are still there.
    pub fn sync_stacks(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.layout.stacks())? {
            match Unsynced::stack(&StackDir::at(entry?.path()), self.layout.stacks()).sync() {
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Makes the directory of a stack, which is not on disk yet.
    pub(super) fn make_stack_at(
        &self,
        path: &Path,
        layers: &[LayerId],
        project_mb: Option<u64>,
    ) -> io::Result<()> {
        let stack = StackDir::at(path.to_owned());
        files::make_dir(stack.path(), 0o700)?;
        files::make_dir(&stack.live(), 0o755)?;
        if let Some(disk_mb) = project_mb {
            let _taking = self.quota.taking();
            quota::assign(&stack.live(), disk_mb)?;
        }
        self.make_live(&stack, layers)?;
        StackRecord { layers: layers.to_vec(), sealing: None }.write_new(&stack)
    }

    /// Makes the directories that the overlay writes; the top of a workspace has the attributes of its upper directory.
    pub(super) fn make_live(&self, stack: &StackDir, layers: &[LayerId]) -> io::Result<()> {
        files::make_dir(&stack.live(), 0o755)?;
        files::make_dir(&stack.work(), 0o700)?;
        if stack.upper().exists() {
            return Ok(());
        }
        let topmost = layers.first().map(|layer| std::fs::symlink_metadata(layer.dir(self.layout)));
        let (owner, group, mode) = match topmost.transpose()? {
            Some(meta) => (meta.uid(), meta.gid(), meta.mode() & 0o7777),
            None => (SANDBOX_UID, SANDBOX_UID, 0o750),
        };
        let new = stack.live().join("new-upper");
        files::make_dir(&new, 0o700)?;
        lchown(&new, Some(owner), Some(group))?;
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(new, stack.upper())
    }

    fn fork_subvolume(&self, sandbox: &SandboxId, record: &SnapshotRecord) -> io::Result<Option<Unsynced>> {
        let _pinned = PinnedLayers::existing(self.layout, &record.layers)?;
        let [layer] = &record.layers[..] else { return Ok(None) };
        if !btrfs::is_subvolume(&layer.dir(self.layout)) {
            return Ok(None);
        }
        let workspace = self.layout.workspace(sandbox);
        quota::detach(&workspace)?;
        let new = NewTree::reserve(&self.layout.trash(), "new");
        btrfs::snapshot(&layer.dir(self.layout), new.path())?;
        std::fs::rename(new.path(), workspace)?;
        Ok(Some(Unsynced::name_in(self.layout.workspaces())))
    }

    /// Copies the content of a snapshot into an empty directory.
    pub(in super::super) fn copy_snapshot(&self, record: &SnapshotRecord, to: &Path) -> io::Result<()> {
        let _pinned = PinnedLayers::existing(self.layout, &record.layers)?;
        let excludes = Excludes::default();
        self.with_merged(record, |tree| {
            Mirror::to(to, TreeKind::Visible, &excludes, 0, &mut CopiedBefore::default())?.copy(tree)
        })
    }

    /// Runs work that sees the content of a snapshot at a path.
    pub(super) fn with_merged<T: Send>(
        &self,
        record: &SnapshotRecord,
        work: impl FnOnce(&Path) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let layers = self.layer_dirs(&record.layers);
        LayerStack { layers }.with_merged(&self.layout.stack_at(), work)
    }

    pub(super) fn layer_dirs(&self, layers: &[LayerId]) -> Vec<PathBuf> {
        layers.iter().map(|layer| layer.dir(self.layout)).collect()
    }
}
