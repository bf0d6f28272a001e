//! Snapshots at rest: the workspace itself becomes a layer, and a stack with too many layers becomes one with a single
//! layer.
//!
//! ```text
//! seal      (no leases, no mounts:) unmount ─▶ name the new layer in the stack ─▶ rename ─▶ name it in its place
//! flatten   (no leases:) the last copy ─▶ (no mounts:) unmount ─▶ exchange the stacks
//! ```
//!
//! Nobody mounts the stack between its unmount and its new record: a mount with the old record would go on writing what
//! is sealed.

use super::{
    super::{
        files::{self, errno},
        layout::StackDir,
        quota,
        workspace::Workspaces,
    },
    capture::{first_id_of, sync_file_system},
    captured::{Captured, NewTree},
    method::SnapshotMethod,
    pins::PinnedLayers,
    record::{LayerId, StackRecord, sync_dir},
    stack::LAYERS_MAX,
    unsynced::Unsynced,
};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use protocol::api::SandboxId;
use std::io;

impl Workspaces<'_> {
    /// Makes a layer of the workspace itself, in no time. `None` where it has to be copied.
    pub(super) fn seal(&self, sandbox: &SandboxId) -> io::Result<Option<Captured>> {
        let stack = self.read_stack(sandbox)?;
        if !self.can_seal(sandbox, stack.as_ref())? {
            return Ok(None);
        }
        let lowers = stack.as_ref().map_or(&[][..], |stack| &stack.layers);
        let lowers = PinnedLayers::existing(self.layout, lowers)?;
        let Some(_exclusive) = self.snapshots.exclude_leases(sandbox) else { return Ok(None) };
        sync_file_system(&self.layout.stacks())?;
        let mut mounts = self.quota.mounts();
        if !self.unmount_stack(&mut mounts, sandbox)? {
            return Ok(None);
        }
        if let Some(stack) = &stack {
            // Made by the next mount otherwise, and a seal before that would find no directory to rename.
            self.make_live(&self.layout.stack(sandbox), &stack.layers)?;
        }
        let (layer, pinned) = PinnedLayers::new_layer();
        self.rename_to_layer(sandbox, stack, &layer)?;
        drop(mounts);
        Ok(Some(Captured::Sealed { layers: pinned.above(lowers) }))
    }

    fn can_seal(&self, sandbox: &SandboxId, stack: Option<&StackRecord>) -> io::Result<bool> {
        if self.snapshots.method() != SnapshotMethod::Overlay
            || !self.ids.can_stack()
            || self.has_volume(sandbox)
            || self.has_project(sandbox)
        {
            return Ok(false);
        }
        match stack {
            Some(stack) => Ok(stack.layers.len() < LAYERS_MAX),
            None => Ok(first_id_of(&self.layout.workspace(sandbox))? == 0),
        }
    }

    /// Whether a project of quotas limits the workspace. It would stay with the files that are sealed.
    fn has_project(&self, sandbox: &SandboxId) -> bool {
        quota::tagged_project(&self.layout.workspace(sandbox)).is_some()
            || quota::tagged_project(&self.layout.stack(sandbox).live()).is_some()
    }

    /// Renames what differs from the lower layers, or the plain workspace. What cannot be renamed stays what it was.
    fn rename_to_layer(
        &self,
        sandbox: &SandboxId,
        old: Option<StackRecord>,
        layer: &LayerId,
    ) -> io::Result<()> {
        let stack = self.layout.stack(sandbox);
        let top = if old.is_some() { stack.upper() } else { self.layout.workspace(sandbox) };
        let lowers = old.as_ref().map_or_else(Vec::new, |old| old.layers.clone());
        files::make_dir(stack.path(), 0o700)?;
        let sealing = StackRecord { layers: lowers, sealing: Some(layer.clone()) };
        let written = sealing.write(&stack);
        if let Err(error) = written.and_then(|()| std::fs::rename(&top, layer.dir(self.layout))) {
            let undone = match old {
                Some(old) => old.write(&stack),
                None => files::remove_file(&stack.record()).and_then(|()| std::fs::remove_dir(stack.path())),
            };
            if let Err(error) = undone {
                // Read as the old record while its layer is not there.
                tracing::warn!(%sandbox, %error, "failed to remove the record of a seal that failed");
            }
            return Err(error);
        }
        sync_dir(&self.layout.workspace_layers())?;
        sealing.settled(|_| true).write(&stack)
    }

    /// Whether the workspace is a stack with too many layers, and may become another one.
    pub(super) fn can_flatten(&self, sandbox: &SandboxId) -> io::Result<bool> {
        let stack = self.read_stack(sandbox)?;
        Ok(stack.is_some_and(|stack| stack.layers.len() >= LAYERS_MAX) && !self.has_project(sandbox))
    }

    /// Makes a layer of a copy of the whole workspace, and a stack of that layer alone in the place of one with too many.
    /// The caller keeps leases from being given since before the copy was finished.
    pub(super) fn flatten(&self, sandbox: &SandboxId, tree: &NewTree) -> io::Result<Captured> {
        let layers = self.publish_layer(tree.path())?;
        let new = NewTree::reserve(&self.layout.trash(), "stack");
        self.make_stack_at(new.path(), layers.ids(), None)?;
        Unsynced::stack(&StackDir::at(new.path().to_owned()), self.layout.trash()).sync()?;
        let mut mounts = self.quota.mounts();
        // In use: it is made less deep by a later snapshot.
        if self.unmount_stack(&mut mounts, sandbox)? {
            let old = self.layout.stack(sandbox);
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, new.path(), AT_FDCWD, old.path(), flags).map_err(errno)?;
            sync_dir(&self.layout.stacks())?;
        }
        drop(mounts);
        Ok(Captured::Sealed { layers })
    }
}
