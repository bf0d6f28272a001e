//! Checks that a container got the volume of its workspace. An engine in a mount namespace of its own may not see what
//! hostd mounts: it would bind the empty directory below, which has no limit.

use super::super::{container_paths::HOME, driver::DockerInner};
use crate::{
    DriverError,
    local::{
        blueprint_checks::refused,
        files::{self, failed},
        init::Init,
        init_exit::terminate_init,
        limits::KERNEL_FILE_MAX_BYTES,
        local_driver::LocalDriver,
    },
};
use nix::sys::stat::{major, minor};
use protocol::api::{Limits, SandboxId};
use std::{os::unix::fs::MetadataExt, sync::atomic::Ordering};

/// Why volumes are not used, for people.
pub const VOLUMES_HIDDEN: &str = "the container engine does not see the volumes that hostd mounts: run both in one \
                                  mount namespace, or start hostd with SLIPWAY_QUOTA=measured";

impl DockerInner {
    /// Refuses a disk limit where none can be kept.
    pub(super) fn check_disk_limit(&self, limits: &Limits) -> Result<(), DriverError> {
        if limits.disk_mb.is_some() && self.disk_means().is_none() && self.quota.means().is_some() {
            return Err(refused("limits.disk_mb", VOLUMES_HIDDEN.to_owned(), &[]));
        }
        self.workspaces().check(limits)
    }

    pub(super) async fn check_volume(&self, sandbox: &SandboxId, init: &Init) -> Result<(), DriverError> {
        if !self.workspaces().is_mounted(sandbox) {
            return Ok(());
        }
        let workspace = std::fs::symlink_metadata(self.layout.workspace(sandbox));
        let device = workspace.map_err(failed("find the volume of the workspace"))?.dev();
        let mounts = files::read_text(&init.proc().join("mountinfo"), KERNEL_FILE_MAX_BYTES);
        let mounts = mounts.map_err(failed("read the mounts of PID 1"))?;
        if device_at(&mounts, HOME) == Some(format!("{}:{}", major(device), minor(device)).as_str()) {
            return Ok(());
        }
        self.volumes_hidden.store(true, Ordering::Relaxed);
        terminate_init(init, 0).await?;
        Err(DriverError::Failed { message: VOLUMES_HIDDEN.to_owned(), output: vec![] })
    }
}

/// The device number of the last mount at a path, from the text of a `mountinfo`.
fn device_at<'a>(mountinfo: &'a str, path: &str) -> Option<&'a str> {
    mountinfo.lines().rev().find_map(|line| {
        let mut fields = line.split(' ');
        let device = fields.nth(2)?;
        (fields.nth(1)? == path).then_some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uppermost_mount_at_a_path_tells_its_device() {
        let text = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 254:0 /w /home/sandbox rw - ext4 /dev/vda rw\n\
                    3 1 7:3 / /home/sandbox rw,nosuid - ext4 /dev/loop3 rw\n4 1 0:5 / /home/sandbox/x rw - tmpfs t rw\n";
        for (path, device) in [("/", Some("254:0")), (HOME, Some("7:3")), ("/nowhere", None)] {
            assert_eq!(device_at(text, path), device, "{path}");
        }
    }
}
