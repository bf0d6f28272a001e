//! Mounts the stacks of sandboxes, and says which workspaces are stacks.

use super::{
    super::{files::errno, quota, workspace::Workspaces},
    fork::StackIds,
    record::StackRecord,
    stack::Stack,
};
use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};
use protocol::api::SandboxId;
use std::{collections::HashMap, io, os::unix::fs::MetadataExt};

impl Workspaces<'_> {
    /// Whether the workspace is a stack. A record that cannot be read counts: the mount says what is wrong with it.
    pub fn has_stack(&self, sandbox: &SandboxId) -> bool {
        self.read_stack(sandbox).map_or(true, |stack| stack.is_some())
    }

    /// The layers of a workspace, after a seal that may have been cut off; `None` where it is no stack.
    pub(super) fn read_stack(&self, sandbox: &SandboxId) -> io::Result<Option<StackRecord>> {
        let Some(record) = StackRecord::read(&self.layout.stack(sandbox))? else { return Ok(None) };
        let settled = record.settled(|layer| layer.dir(self.layout).exists());
        // A first seal that was cut off before its rename: the workspace is plain still.
        Ok((!settled.layers.is_empty()).then_some(settled))
    }

    /// Mounts the stack of a sandbox, unless it is mounted; says whether there is one.
    pub(in super::super) fn mount_stack(&self, sandbox: &SandboxId) -> io::Result<bool> {
        // Held while the record is read: a seal changes it with the mounts held.
        let mut mounts = self.quota.mounts();
        let Some(record) = self.read_stack(sandbox)? else { return Ok(false) };
        let (stack, at) = (self.layout.stack(sandbox), self.layout.workspace(sandbox));
        if quota::is_mount_point(&at)? {
            return Ok(true);
        }
        let ids = self
            .stack_ids(sandbox)
            .ok_or_else(|| io::Error::other("the ids of the sandbox are not known"))?;
        self.make_live(&stack, &record.layers)?;
        quota::make_mount_point(&at)?;
        let first_id = match ids {
            StackIds::OnDisk => None,
            StackIds::From(first) => Some(first),
        };
        let layers = self.layer_dirs(&record.layers);
        Stack { dir: &stack, layers: &layers, first_id, scratch: &self.layout.stack_at() }.mount(&at)?;
        mounts.insert(*sandbox, std::fs::symlink_metadata(&at)?.dev());
        Ok(true)
    }

    /// Unmounts the stack of a sandbox that does not run; says whether it is unmounted: one in use stays. `mounts` is
    /// [`Quota::mounts`](quota::Quota::mounts), which the caller holds until it changed the stack.
    pub(super) fn unmount_stack(
        &self,
        mounts: &mut HashMap<SandboxId, u64>,
        sandbox: &SandboxId,
    ) -> io::Result<bool> {
        let at = self.layout.workspace(sandbox);
        if !quota::is_mount_point(&at)? {
            return Ok(true);
        }
        match umount2(&at, MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {
                mounts.remove(sandbox);
                Ok(true)
            }
            Err(Errno::EBUSY) => Ok(false),
            Err(error) => Err(errno(error)),
        }
    }
}
