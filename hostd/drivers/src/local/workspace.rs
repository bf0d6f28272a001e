//! The workspace of a sandbox: created, reached, emptied and removed. A plain directory, or a volume that is mounted
//! when it is used.
//!
//! Every step may have been cut off before: a new workspace is made in the trash and renamed, and one that goes is
//! renamed into the trash first.

use super::{
    super::{DiskUsage, DriverError},
    blueprint_checks::refused,
    disk_usage,
    files::{self, errno, failed},
    layout::Layout,
    limits::SANDBOX_UID,
    quota::{self, Quota, QuotaMeans},
    remove_tree,
    seed::{self, SeedSource},
    snapshots::{self, ReplacementOutcome, SnapshotMethod, Snapshots, StackIds, Unsynced},
    trash::NewEntry,
};
use nix::{
    fcntl::OFlag,
    sys::{stat::Mode, statvfs::fstatvfs},
};
use protocol::api::{Limits, SandboxId};
use std::{
    collections::HashMap,
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt, PermissionsExt, lchown},
    },
    path::{Path, PathBuf},
};

/// A workspace that may have to be made.
pub struct NewWorkspace<'a> {
    pub limits: &'a Limits,
    /// Finds its first content; asked only when it is made.
    pub seed: &'a dyn Fn() -> Result<Option<SeedSource>, DriverError>,
}

/// The workspaces of a driver.
#[derive(Clone, Copy)]
pub struct Workspaces<'a> {
    pub layout: &'a Layout,
    pub quota: &'a Quota,
    /// How the limits of new ones are kept.
    pub means: Option<QuotaMeans>,
    pub snapshots: &'a Snapshots,
    /// The ids of the sandboxes.
    pub ids: &'a dyn WorkspaceIds,
}

/// Says whose ids the files of a stack have.
pub trait WorkspaceIds {
    /// Whether a workspace may become a stack.
    fn can_stack(&self) -> bool;
    /// Those of a sandbox; `None` where they are not known.
    fn stack_ids(&self, sandbox: &SandboxId) -> Option<StackIds>;
}

impl Workspaces<'_> {
    pub(super) fn stack_ids(&self, sandbox: &SandboxId) -> Option<StackIds> {
        self.ids.stack_ids(sandbox)
    }

    /// Refuses a disk limit where none can be kept.
    pub fn check(&self, limits: &Limits) -> Result<(), DriverError> {
        if limits.disk_mb.is_none() || self.means.is_some() {
            return Ok(());
        }
        let message = format!("this host cannot limit the disk of a sandbox: {}", self.quota.rejected());
        Err(refused("limits.disk_mb", message, &[]))
    }

    /// Refuses a workspace for which the disk has no room.
    pub fn check_room(&self, disk_mb: u64) -> Result<(), DriverError> {
        match self.means {
            Some(QuotaMeans::Loop) => self.quota.check_room(self.layout, disk_mb),
            Some(QuotaMeans::Project | QuotaMeans::Measured) | None => Ok(()),
        }
    }

    /// Creates the workspace with its first directories, atomically, and mounts a volume. An existing one is left as
    /// it is. Returns what has to be on disk before the sandbox counts as launched.
    pub fn make(&self, sandbox: &SandboxId, new: &NewWorkspace<'_>) -> Result<Unsynced, DriverError> {
        if self.mount(sandbox)? || self.is_plain(sandbox) {
            let stacked = self.has_stack(sandbox);
            return Ok(if stacked { self.unsynced_stack(sandbox) } else { Unsynced::default() });
        }
        let seed = (new.seed)()?;
        if let Some(SeedSource::Snapshot(record)) = &seed {
            let forked = self.fork(sandbox, record, new.limits);
            if let Some(unsynced) = forked.map_err(failed("make the workspace of a snapshot"))? {
                return self.mount(sandbox).map(|_| unsynced);
            }
        }
        let temporary = NewEntry::reserve(&self.layout.trash(), "new");
        let made = self.make_at(temporary.path(), sandbox, new.limits, seed.as_ref());
        if made.is_err() {
            self.discard(temporary.path());
            self.discard(&volume_of(temporary.path()));
        }
        made.map(|()| Unsynced::default())
    }

    fn make_at(
        &self,
        temporary: &Path,
        sandbox: &SandboxId,
        limits: &Limits,
        seed: Option<&SeedSource>,
    ) -> Result<(), DriverError> {
        self.make_top(temporary, limits).map_err(failed("make the workspace"))?;
        match (limits.disk_mb, self.means) {
            (Some(disk_mb), Some(QuotaMeans::Loop)) => {
                self.fill(temporary, limits, seed)?;
                self.make_volume(temporary, sandbox, disk_mb)?;
                self.discard(temporary);
                self.mount(sandbox).map(drop)
            }
            (Some(disk_mb), Some(QuotaMeans::Project)) => {
                let taking = self.quota.taking();
                quota::assign(temporary, disk_mb).map_err(failed("limit the workspace"))?;
                drop(taking);
                self.fill(temporary, limits, seed)?;
                self.publish(temporary, sandbox, seed)
            }
            (None, _) | (_, Some(QuotaMeans::Measured) | None) => {
                self.fill(temporary, limits, seed)?;
                self.publish(temporary, sandbox, seed)
            }
        }
    }

    /// Makes the new top directory; a subvolume, where snapshots are made of them.
    fn make_top(&self, temporary: &Path, limits: &Limits) -> io::Result<()> {
        if self.snapshots.method() == SnapshotMethod::Btrfs
            && limits.disk_mb.and(self.means) != Some(QuotaMeans::Loop)
        {
            snapshots::make_subvolume(temporary)?;
            return std::fs::set_permissions(temporary, std::fs::Permissions::from_mode(0o750));
        }
        files::make_dir(temporary, 0o750)
    }

    /// Writes the seed and makes the first directories below the top, all of them the sandbox user's.
    fn fill(&self, top: &Path, limits: &Limits, seed: Option<&SeedSource>) -> Result<(), DriverError> {
        let write = || failed("write the seed of the workspace");
        match seed {
            Some(SeedSource::Snapshot(record)) => return self.copy_snapshot(record, top).map_err(write()),
            Some(source) => seed::write(source, top, limits.disk_mb).map_err(write())?,
            None => {}
        }
        make_first_dirs(top).map_err(failed("make the workspace"))
    }

    fn publish(
        &self,
        temporary: &Path,
        sandbox: &SandboxId,
        seed: Option<&SeedSource>,
    ) -> Result<(), DriverError> {
        let make = || failed("make the workspace");
        let workspace = self.layout.workspace(sandbox);
        // The files of a restore replace others, which are removed soon: these are on disk before.
        let is_restored = matches!(seed, Some(SeedSource::Snapshot(_)));
        if is_restored {
            snapshots::sync_file_system(temporary).map_err(make())?;
        }
        // Left by a volume that is gone.
        quota::detach(&workspace).map_err(make())?;
        std::fs::rename(temporary, workspace).map_err(make())?;
        if is_restored {
            snapshots::sync_dir(&self.layout.workspaces()).map_err(make())?;
        }
        Ok(())
    }

    fn make_volume(&self, content: &Path, sandbox: &SandboxId, disk_mb: u64) -> Result<(), DriverError> {
        let make = || failed("make the volume of the workspace");
        let missing = || make()(io::Error::new(io::ErrorKind::NotFound, "mkfs.ext4 is missing"));
        let mkfs = self.quota.mkfs().ok_or_else(missing)?;
        let temporary = volume_of(content);
        let taking = self.quota.taking();
        self.check_room(disk_mb)?;
        let image = quota::allocate(&temporary, quota::volume_bytes(disk_mb)).map_err(make())?;
        drop(taking);
        quota::format(mkfs, &temporary, &image, content).map_err(make())?;
        files::make_dir(&self.layout.volumes(), 0o700).map_err(make())?;
        std::fs::rename(&temporary, self.layout.volume(sandbox)).map_err(make())
    }

    /// Whether a plain directory exists; the mount point of a volume is none.
    fn is_plain(&self, sandbox: &SandboxId) -> bool {
        let meta = std::fs::symlink_metadata(self.layout.workspace(sandbox));
        meta.is_ok_and(|meta| meta.is_dir() && meta.uid() != 0)
    }

    /// Whether the sandbox has files, of whatever form.
    pub(super) fn has_workspace(&self, sandbox: &SandboxId) -> bool {
        self.is_mounted(sandbox) || self.is_plain(sandbox)
    }

    pub(super) fn has_volume(&self, sandbox: &SandboxId) -> bool {
        self.layout.volume(sandbox).exists()
    }

    /// Mounts the volume or the stack of a sandbox, unless it is mounted; says whether there is one.
    pub fn mount(&self, sandbox: &SandboxId) -> Result<bool, DriverError> {
        if self.has_stack(sandbox) {
            return self.mount_stack(sandbox).map_err(failed("mount the layers of the workspace"));
        }
        if !self.has_volume(sandbox) {
            return Ok(false);
        }
        let (volume, at) = (self.layout.volume(sandbox), self.layout.workspace(sandbox));
        let mut mounts = self.quota.mounts();
        let mounted = std::fs::symlink_metadata(&at).ok().map(|meta| meta.dev());
        if mounted.is_some() && mounted == mounts.get(sandbox).copied() {
            return Ok(true);
        }
        let device = quota::mount(&volume, &at).map_err(failed("mount the volume of the workspace"))?;
        mounts.insert(*sandbox, device);
        Ok(true)
    }

    /// Whether hostd mounts the workspace.
    pub fn is_mounted(&self, sandbox: &SandboxId) -> bool {
        self.has_volume(sandbox) || self.has_stack(sandbox)
    }

    /// Unmounts the volume or stack of a sandbox that does not run. One that is in use stays mounted.
    pub fn unmount(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        if !self.is_mounted(sandbox) {
            return Ok(());
        }
        quota::flush(&self.layout.workspace(sandbox)).map_err(failed("sync the volume of the workspace"))?;
        let mut mounts = self.quota.mounts();
        mounts.remove(sandbox);
        quota::unmount(&self.layout.workspace(sandbox)).map_err(failed("unmount the volume of the workspace"))
    }

    /// Opens the top directory as a path descriptor, which keeps a volume mounted.
    pub fn open(&self, sandbox: &SandboxId) -> Result<OwnedFd, DriverError> {
        self.mount(sandbox)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        nix::fcntl::open(&self.layout.workspace(sandbox), flags, Mode::empty())
            .map_err(|error| failed("open the workspace")(errno(error)))
    }

    /// Removes workspace and sandbox directory. The workspace goes first: while the badge exists, the rest can be
    /// found again.
    pub fn remove_files(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        let remove = || failed("remove the sandbox");
        if keep_workspace {
            self.finish_replacement(sandbox, ReplacementOutcome::KeepNew)?;
            quota::flush(&self.layout.workspace(sandbox)).map_err(remove())?;
            let mut mounts = self.quota.mounts();
            self.take_down(&mut mounts, sandbox).map_err(remove())?;
        } else {
            self.remove(sandbox).map_err(remove())?;
        }
        let gone = remove_tree::move_to_trash(self.layout.sandbox(sandbox).path(), &self.layout.trash());
        gone.map_err(remove())?.map_or(Ok(()), |gone| remove_tree::remove_tree(&gone)).map_err(remove())
    }

    /// Removes the files of a sandbox, also those that a restore has backed up.
    pub fn remove(&self, sandbox: &SandboxId) -> io::Result<()> {
        self.remove_backup(sandbox)?;
        self.remove_current(sandbox)
    }

    /// Removes the files that a sandbox has now.
    pub(super) fn remove_current(&self, sandbox: &SandboxId) -> io::Result<()> {
        let trash = self.layout.trash();
        self.forget_restored(sandbox)?;
        quota::flush(&self.layout.workspace(sandbox))?;
        let mut mounts = self.quota.mounts();
        let volume = remove_tree::move_to_trash(&self.layout.volume(sandbox), &trash)?;
        self.take_down(&mut mounts, sandbox)?;
        let workspace = self.layout.workspace(sandbox);
        let stack = self.layout.stack(sandbox);
        let project = quota::tagged_project(&workspace).or_else(|| quota::tagged_project(&stack.live()));
        let workspace = remove_tree::move_to_trash(&workspace, &trash)?;
        let stack = remove_tree::move_to_trash(stack.path(), &trash)?;
        // Only now: a request for files would mount again what is still in its place.
        drop(mounts);
        let has_layers = stack.is_some();
        for gone in volume.into_iter().chain(workspace).chain(stack) {
            remove_tree::remove_tree(&gone)?;
        }
        if has_layers {
            self.remove_unreferenced_layers()?;
        }
        project.map_or(Ok(()), |project| quota::release(&trash, project))
    }

    /// Unmounts whatever is mounted at the workspace, also when it is in use: the sandbox is dead.
    fn take_down(&self, mounts: &mut HashMap<SandboxId, u64>, sandbox: &SandboxId) -> io::Result<()> {
        mounts.remove(sandbox);
        quota::detach(&self.layout.workspace(sandbox))
    }

    /// The space that the workspace takes on the host's disk; `None` where there is none.
    pub fn bytes(&self, sandbox: &SandboxId) -> io::Result<Option<u64>> {
        match std::fs::symlink_metadata(self.layout.volume(sandbox)) {
            Ok(meta) => Ok(Some(meta.blocks() * 512)),
            Err(_) => disk_usage::tree_bytes(&self.tree_of(sandbox)),
        }
    }

    /// The directory that grows with the workspace: of a stack, what differs from its layers.
    fn tree_of(&self, sandbox: &SandboxId) -> PathBuf {
        match self.has_stack(sandbox) {
            true => self.layout.stack(sandbox).live(),
            false => self.layout.workspace(sandbox),
        }
    }

    /// Whether only measuring keeps the limit of a workspace.
    pub fn is_measured(&self, sandbox: &SandboxId) -> bool {
        !self.has_volume(sandbox) && quota::tagged_project(&self.tree_of(sandbox)).is_none()
    }

    /// How much of its limit a workspace uses. Walks all files where it has to be measured.
    pub fn usage(&self, sandbox: &SandboxId, top: &OwnedFd, disk_mb: u64) -> Result<DiskUsage, DriverError> {
        let measure = || failed("measure the workspace");
        let workspace = self.tree_of(sandbox);
        let used_bytes = if self.has_volume(sandbox) {
            let disk = fstatvfs(top).map_err(|error| measure()(errno(error)))?;
            (disk.blocks() - disk.blocks_free()) * disk.fragment_size()
        } else if let Some(project) = quota::tagged_project(&workspace) {
            quota::project_usage(&workspace, project).map_err(measure())?
        } else {
            disk_usage::tree_bytes(&workspace).map_err(measure())?.unwrap_or(0)
        };
        Ok(DiskUsage { used_bytes, limit_bytes: disk_mb.saturating_mul(1 << 20) })
    }

    /// Removes what a failed attempt made; what is left goes when hostd starts again.
    pub(super) fn discard(&self, path: &Path) {
        if let Err(error) = remove_tree::remove_tree(path) {
            tracing::warn!(path = %path.display(), %error, "failed to remove a directory in the trash");
        }
    }
}

/// The volume that is made from a new directory in the trash.
fn volume_of(content: &Path) -> PathBuf {
    content.with_extension("ext4")
}

fn make_first_dirs(top: &Path) -> io::Result<()> {
    for path in [top.join("workspace"), top.join("workspace/app")] {
        // A seed may have a link, or a file, in its place: then that is what the sandbox has.
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if !meta.is_dir() => break,
            Ok(_) => {}
            Err(_) => files::make_dir(&path, 0o755)?,
        }
    }
    seed::give_to_user(top)?;
    lchown(top, Some(SANDBOX_UID), Some(SANDBOX_UID))
}
