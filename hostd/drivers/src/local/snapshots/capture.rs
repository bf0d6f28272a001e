//! Takes snapshots.
//!
//! ```text
//! at rest   seal (`seal.rs`), or as a sandbox that runs
//! running   copy ─▶ (frozen:) copy what changed since ─▶ (thawed:) publish
//! ```
//!
//! What takes long is copied before: a capture that would copy everything asks for another preparation instead.

use super::{
    super::{
        super::DriverError,
        files::{self, errno, failed},
        limits::SANDBOX_UID,
        workspace::Workspaces,
    },
    btrfs,
    captured::{BegunCopy, Captured, CopiedTree, NewTree},
    copy_room::CopyRoom,
    excludes::Excludes,
    method::SnapshotMethod,
    mirror::{CopiedBefore, Mirror, TreeKind},
    pins::PinnedLayers,
    record::LayerId,
    stack::LAYERS_MAX,
};
use crate::snapshot_driver::{CaptureOutcome, CopyExtent};
use nix::{
    fcntl::OFlag,
    sys::stat::Mode,
    time::{ClockId, clock_gettime},
    unistd::syncfs,
};
use protocol::api::{SandboxId, SnapshotId};
use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Changes of this much time before the first copy count as later: clocks of file systems are coarse.
const CLOCK_MARGIN_NS: i64 = 100_000_000;
/// A larger change of the clock's offset means that it was set.
const CLOCK_SET_MS: i128 = 20;

/// A snapshot to take.
#[derive(Debug, Clone, Copy)]
pub struct CaptureRequest<'a> {
    pub sandbox: &'a SandboxId,
    pub snapshot: &'a SnapshotId,
    pub excludes: &'a Excludes,
    /// Asked while files are copied.
    pub room: &'a CopyRoom,
}

/// What a copy takes, and from where.
struct CopySource {
    from: PathBuf,
    kind: TreeKind,
    first_id: u32,
    lowers: Vec<LayerId>,
    tree: CopiedTree,
}

impl Workspaces<'_> {
    /// Copies what can be copied while the sandbox goes on. Only shortens [`Self::capture`].
    pub fn prepare_capture(&self, request: &CaptureRequest<'_>) -> Result<(), DriverError> {
        let take = || failed("copy the workspace");
        // A seal by another snapshot would take the files away.
        let _lease = self.snapshots.lease(request.sandbox);
        let outdated = self.snapshots.begun().remove(request.snapshot);
        drop(outdated);
        if self.is_btrfs_capture(request) {
            return sync_file_system(&self.layout.workspace(request.sandbox)).map_err(take());
        }
        let begun = self.begin_copy(request).map_err(take())?;
        self.snapshots.begun().insert(*request.snapshot, begun);
        Ok(())
    }

    /// Captures the workspace. Nothing in the sandbox runs meanwhile: it is frozen, or stopped (`at_rest`).
    pub fn capture(
        &self,
        request: &CaptureRequest<'_>,
        at_rest: bool,
        extent: CopyExtent,
    ) -> Result<CaptureOutcome, DriverError> {
        match self.capture_best(request, at_rest, extent).map_err(failed("take a snapshot"))? {
            Some(captured) => {
                self.snapshots.captured().insert(*request.snapshot, captured);
                Ok(CaptureOutcome::Captured)
            }
            None => Ok(CaptureOutcome::PrepareAgain),
        }
    }

    /// `None` where more would have to be copied than `extent` allows.
    fn capture_best(
        &self,
        request: &CaptureRequest<'_>,
        at_rest: bool,
        extent: CopyExtent,
    ) -> io::Result<Option<Captured>> {
        if self.is_btrfs_capture(request) {
            let tree = NewTree::reserve(&self.layout.trash(), "layer");
            btrfs::snapshot(&self.layout.workspace(request.sandbox), tree.path())?;
            return Ok(Some(Captured::Tree { tree, lowers: PinnedLayers::default() }));
        }
        if at_rest && request.excludes.is_empty() {
            if let Some(sealed) = self.seal(request.sandbox)? {
                return Ok(Some(sealed));
            }
            if self.can_flatten(request.sandbox)?
                && let Some(_exclusive) = self.snapshots.exclude_leases(request.sandbox)
            {
                // No file is written between the last copy and the exchange.
                let Some((tree, _)) = self.copy_rest(request, extent)? else { return Ok(None) };
                return self.flatten(request.sandbox, &tree).map(Some);
            }
        }
        Ok(self.copy_rest(request, extent)?.map(|(tree, lowers)| Captured::Tree { tree, lowers }))
    }

    fn is_btrfs_capture(&self, request: &CaptureRequest<'_>) -> bool {
        let workspace = self.layout.workspace(request.sandbox);
        self.snapshots.method() == SnapshotMethod::Btrfs
            && request.excludes.is_empty()
            && btrfs::is_subvolume(&workspace)
            // The kernel leaves them out. Where it does not say, everything is copied.
            && matches!(btrfs::has_nested(&workspace), Ok(false))
    }

    fn begin_copy(&self, request: &CaptureRequest<'_>) -> io::Result<BegunCopy> {
        let tree = NewTree::reserve(&self.layout.trash(), "layer");
        match self.snapshots.method() {
            // Forks of it take no time.
            SnapshotMethod::Btrfs => btrfs::create(tree.path())?,
            SnapshotMethod::Overlay | SnapshotMethod::Copy => files::make_dir(tree.path(), 0o700)?,
        }
        let made = std::fs::symlink_metadata(tree.path())?;
        let (seconds, nanoseconds) = (made.ctime(), made.ctime_nsec() - CLOCK_MARGIN_NS);
        let since = (seconds - i64::from(nanoseconds < 0), nanoseconds.rem_euclid(1_000_000_000));
        let clock_offset_ms = clock_offset_ms()?;
        let CopySource { from, kind, first_id, lowers, tree: of } = self.copy_source(request)?;
        let lowers = PinnedLayers::existing(self.layout, &lowers)?;
        // A page of these files that is written again after this changes the time of its file.
        sync_file_system(&from)?;
        let mut before = CopiedBefore::default();
        let mirror = Mirror::to(tree.path(), kind, request.excludes, first_id, &mut before)?;
        mirror.within(request.room).of_changing_tree().copy(&from)?;
        before.set_since(since);
        Ok(BegunCopy { tree, before, of, lowers, clock_offset_ms })
    }

    /// Copies what has changed since the copy began, or everything; `None` where `extent` does not allow that.
    fn copy_rest(
        &self,
        request: &CaptureRequest<'_>,
        extent: CopyExtent,
    ) -> io::Result<Option<(NewTree, PinnedLayers)>> {
        let source = self.copy_source(request)?;
        let usable = self.take_usable_copy(request.snapshot, &source)?;
        let mut begun = match (usable, extent) {
            (Some(begun), CopyExtent::Changes | CopyExtent::Everything) => begun,
            (None, CopyExtent::Everything) => self.begin_copy(request)?,
            (None, CopyExtent::Changes) => return Ok(None),
        };
        let CopySource { from, kind, first_id, lowers: _, tree: _ } = source;
        let mirror = Mirror::to(begun.tree.path(), kind, request.excludes, first_id, &mut begun.before)?;
        mirror.within(request.room).copy(&from)?;
        Ok(Some((begun.tree, begun.lowers)))
    }

    /// Takes the copy that was begun. One that is of no use stays: its removal takes too long for now.
    fn take_usable_copy(&self, snapshot: &SnapshotId, source: &CopySource) -> io::Result<Option<BegunCopy>> {
        let clock_offset_ms = clock_offset_ms()?;
        let mut begun = self.snapshots.begun();
        let is_usable = begun.get(snapshot).is_some_and(|begun| {
            begun.of == source.tree
                && begun.lowers.ids() == source.lowers
                && (begun.clock_offset_ms - clock_offset_ms).abs() <= CLOCK_SET_MS
        });
        Ok(if is_usable { begun.remove(snapshot) } else { None })
    }

    fn copy_source(&self, request: &CaptureRequest<'_>) -> io::Result<CopySource> {
        let (workspace, volume) =
            (self.layout.workspace(request.sandbox), self.layout.volume(request.sandbox));
        self.mount(request.sandbox).map_err(io::Error::other)?;
        let (stack, upper) = (self.read_stack(request.sandbox)?, self.layout.stack(request.sandbox).upper());
        // What is on the disk: what is mounted has the same numbers after it was mounted again.
        let tree = CopiedTree::at(match &stack {
            Some(_) => &upper,
            None if self.has_volume(request.sandbox) => &volume,
            None => &workspace,
        })?;
        if request.excludes.is_empty()
            && let Some(stack) = stack
            && stack.layers.len() < LAYERS_MAX
        {
            return Ok(CopySource {
                from: upper,
                kind: TreeKind::Upper,
                first_id: 0,
                lowers: stack.layers,
                tree,
            });
        }
        let first_id = first_id_of(&workspace)?;
        Ok(CopySource { from: workspace, kind: TreeKind::Visible, first_id, lowers: vec![], tree })
    }
}

/// The first id of the host that files on disk have; 0 where they have the ids of the sandbox.
pub(super) fn first_id_of(workspace: &Path) -> io::Result<u32> {
    let uid = std::fs::symlink_metadata(workspace)?.uid();
    uid.checked_sub(SANDBOX_UID)
        .ok_or_else(|| io::Error::other(format!("workspace owner uid {uid} is not the sandbox's uid")))
}

/// Writes the file system of a path to disk.
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let dir = nix::fcntl::open(path, flags, Mode::empty()).map_err(errno)?;
    syncfs(dir).map_err(errno)
}

fn clock_offset_ms() -> io::Result<i128> {
    let ms = |clock| -> io::Result<i128> {
        let time = clock_gettime(clock).map_err(errno)?;
        Ok(i128::from(time.tv_sec()) * 1000 + i128::from(time.tv_nsec() / 1_000_000))
    };
    Ok(ms(ClockId::CLOCK_REALTIME)? - ms(ClockId::CLOCK_BOOTTIME)?)
}
