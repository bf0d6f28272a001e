//! Puts the content of a snapshot in the place of a workspace. The old one is backed up until the new one is known to
//! run, and comes back otherwise.
//!
//! ```text
//! <data>/replaced/<sandbox>/{workspace,stack,volume}   the backup
//! <data>/replaced/<sandbox>/complete                   all of it is here: what is in its place is new
//! <data>/replaced/<sandbox>/kept                       was `complete`: the new one stays, and the backup goes
//! ```

use super::{
    super::{
        super::DriverError,
        files::{self, failed},
        layout::StackDir,
        quota, remove_tree,
        seed::SeedSource,
        workspace::{NewWorkspace, Workspaces},
    },
    btrfs,
    capture::sync_file_system,
    pins::{PinnedLayers, lock_removal},
    record::{SnapshotRecord, sync_dir},
    tree_limit::deleted,
};
use protocol::api::{Limits, SandboxId};
use std::{
    io,
    path::{Path, PathBuf},
};

const BACKUP_COMPLETE: &str = "complete";
const BACKUP_KEPT: &str = "kept";

/// How far the replacement of a workspace is, by its backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackupState {
    None,
    /// Some of the workspace may be in its place still.
    Partial,
    Complete,
    /// It never comes back.
    Kept,
}

/// How a replacement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacementOutcome {
    /// The new workspace stays, and the backup goes.
    KeepNew,
    /// The backup comes back, and the new workspace goes.
    RollBack,
}

impl Workspaces<'_> {
    /// Backs up the workspace of a stopped sandbox and makes one from a snapshot. An earlier replacement that did not end
    /// is ended first: what the sandbox has now is what is backed up.
    pub fn replace(
        &self,
        sandbox: &SandboxId,
        record: &SnapshotRecord,
        limits: &Limits,
    ) -> Result<(), DriverError> {
        // A snapshot that was removed is found out while the files are still there.
        let _pinned = PinnedLayers::existing(self.layout, &record.layers).map_err(|_missing| deleted())?;
        match self.backup_state(sandbox) {
            BackupState::Complete if !self.has_workspace(sandbox) => {}
            BackupState::Complete | BackupState::Kept => {
                self.finish_replacement(sandbox, ReplacementOutcome::KeepNew)?;
            }
            BackupState::None | BackupState::Partial => {}
        }
        let seed = || Ok(Some(SeedSource::Snapshot(record.clone())));
        let backed_up = self.back_up_workspace(sandbox).map_err(failed("back up the workspace"));
        let made = backed_up.and_then(|()| self.make(sandbox, &NewWorkspace { limits, seed: &seed }));
        // The old files may be removed as soon as this returns.
        let synced = made.and_then(|unsynced| unsynced.sync().map_err(failed("sync the workspace")));
        if synced.is_err() {
            self.finish_replacement(sandbox, ReplacementOutcome::RollBack)?;
        }
        synced
    }

    fn back_up_workspace(&self, sandbox: &SandboxId) -> io::Result<()> {
        let backup = self.backup(sandbox);
        if self.backup_state(sandbox) == BackupState::Complete {
            return Ok(());
        }
        quota::flush(&self.layout.workspace(sandbox))?;
        files::make_dir(&backup, 0o700)?;
        // Nobody mounts the workspace again before all of it is moved.
        let mut mounts = self.quota.mounts();
        mounts.remove(sandbox);
        quota::detach(&self.layout.workspace(sandbox))?;
        for (place, kept) in self.parts(sandbox) {
            rename_if_there(&place, &kept)?;
        }
        std::fs::write(backup.join(BACKUP_COMPLETE), "")?;
        sync_moved(&backup)
    }

    /// Ends a replacement. A no-op where there is none. A backup that is not complete comes back in any case, and one that
    /// nothing took the place of. Where the new workspace was to be kept once, a loss of power or an error since then
    /// does not bring the old one back.
    pub fn finish_replacement(
        &self,
        sandbox: &SandboxId,
        outcome: ReplacementOutcome,
    ) -> Result<(), DriverError> {
        let finish = || failed("finish the restore");
        let ended = match (self.backup_state(sandbox), outcome) {
            (BackupState::None, _) => Ok(()),
            (BackupState::Kept, _) => self.remove_backup(sandbox),
            (BackupState::Complete, ReplacementOutcome::KeepNew) if self.has_workspace(sandbox) => {
                self.keep_new(sandbox)
            }
            (BackupState::Complete | BackupState::Partial, _) => self.roll_back(sandbox),
        };
        ended.map_err(finish())
    }

    /// Removes the backup. It is on disk that it goes before any of it does.
    fn keep_new(&self, sandbox: &SandboxId) -> io::Result<()> {
        let backup = self.backup(sandbox);
        std::fs::rename(backup.join(BACKUP_COMPLETE), backup.join(BACKUP_KEPT))?;
        sync_moved(&backup)?;
        self.remove_backup(sandbox)
    }

    fn roll_back(&self, sandbox: &SandboxId) -> io::Result<()> {
        let backup = self.backup(sandbox);
        if self.backup_state(sandbox) == BackupState::Complete {
            self.remove_current(sandbox)?;
            files::remove_file(&backup.join(BACKUP_COMPLETE))?;
        }
        let _not_mounted = self.quota.mounts();
        // A removal of layers could see the record of a stack in neither place.
        let _none_goes = lock_removal();
        for (place, kept) in self.parts(sandbox) {
            rename_if_there(&kept, &place)?;
        }
        std::fs::remove_dir(&backup)
    }

    /// Removes the backup of a sandbox, if it has one.
    pub(in super::super) fn remove_backup(&self, sandbox: &SandboxId) -> io::Result<()> {
        let (backup, trash) = (self.backup(sandbox), self.layout.trash());
        let live = StackDir::at(backup.join("stack")).live();
        let project =
            quota::tagged_project(&backup.join("workspace")).or_else(|| quota::tagged_project(&live));
        let Some(gone) = remove_tree::move_to_trash(&backup, &trash)? else { return Ok(()) };
        sync_moved(&self.layout.replaced())?;
        self.discard(&gone);
        self.remove_unreferenced_layers()?;
        project.map_or(Ok(()), |project| quota::release(&trash, project))
    }

    /// The sandboxes whose restore did not end.
    pub fn replacements(&self) -> io::Result<Vec<SandboxId>> {
        let names = std::fs::read_dir(self.layout.replaced())?;
        let ids = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(ids.filter(|id| self.owns(id)).collect())
    }

    /// Whether a replacement is one of this driver: all share the directory.
    fn owns(&self, sandbox: &SandboxId) -> bool {
        self.layout.sandbox(sandbox).path().exists()
    }

    fn backup_state(&self, sandbox: &SandboxId) -> BackupState {
        let backup = self.backup(sandbox);
        if backup.join(BACKUP_KEPT).exists() {
            BackupState::Kept
        } else if backup.join(BACKUP_COMPLETE).exists() {
            BackupState::Complete
        } else if backup.exists() {
            BackupState::Partial
        } else {
            BackupState::None
        }
    }

    fn backup(&self, sandbox: &SandboxId) -> PathBuf {
        self.layout.replaced().join(sandbox.as_str())
    }

    /// The parts of a workspace, and where each is kept.
    fn parts(&self, sandbox: &SandboxId) -> [(PathBuf, PathBuf); 3] {
        let backup = self.backup(sandbox);
        [
            (self.layout.workspace(sandbox), backup.join("workspace")),
            (self.layout.stack(sandbox).path().to_owned(), backup.join("stack")),
            (self.layout.volume(sandbox), backup.join("volume.ext4")),
        ]
    }
}

/// Writes the names in a directory, from or to which workspaces are moved, to disk. On btrfs with all of the file system:
/// where a directory is synced alone and a subvolume is moved out of it soon, the kernel cannot replay its log after a
/// loss of power, and does not mount the file system.
fn sync_moved(dir: &Path) -> io::Result<()> {
    if btrfs::is_btrfs(dir) { sync_file_system(dir) } else { sync_dir(dir) }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}
