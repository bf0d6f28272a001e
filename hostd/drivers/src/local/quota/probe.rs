//! Probes of the means: each is tried as it will be used, on the file system of the data directory. A kernel that
//! counts, but does not enforce, says nothing by itself.

use super::{super::capabilities, project, volume};
use nix::errno::Errno;
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

const PROBE_MB: u64 = 1;
/// Where a probe mounts, below its directory.
pub const PROBE_MOUNT: &str = "mnt";
static PIECE: [u8; 64 << 10] = [7; 64 << 10];

/// Removes what a probe left, in every case.
struct ProbeDir(PathBuf);

impl ProbeDir {
    fn make(trash: &Path) -> io::Result<Self> {
        let dir = trash.join(format!("quota-probe-{}", ulid::Ulid::generate()));
        super::super::files::make_dir(&dir, 0o700)?;
        Ok(Self(dir))
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        let _ = volume::detach(&self.0.join(PROBE_MOUNT));
        if let Err(error) = super::super::remove_tree::remove_tree(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "failed to remove the probe of disk limits");
        }
    }
}

/// Limits a directory by a project, and writes more than it may hold.
pub fn project(trash: &Path) -> Result<(), String> {
    let dir = ProbeDir::make(trash).map_err(|error| error.to_string())?;
    project::assign(&dir.0, PROBE_MB)
        .map_err(|error| format!("the file system of the data directory has no project quotas ({error})"))?;
    let assigned = project::tagged_project(&dir.0);
    let file = dir.0.join("file");
    // Another thread: it gives up the right of root to exceed quotas.
    let written = std::thread::spawn(move || overfill(&file)).join();
    drop(dir);
    if let Some(project) = assigned
        && let Err(error) = project::release(trash, project)
    {
        tracing::warn!(project, %error, "failed to release the project of a probe");
    }
    match written {
        Ok(Err(error)) if is_limit(&error) => Ok(()),
        Ok(Err(error)) => Err(format!("a write below a project quota failed ({error})")),
        Ok(Ok(())) => Err("project quotas are not enforced here: mount with prjquota".to_owned()),
        Err(_) => Err("the probe of project quotas failed".to_owned()),
    }
}

fn overfill(path: &Path) -> io::Result<()> {
    capabilities::drop_quota_override()?;
    let mut file = File::create(path)?;
    for _ in 0..2 * (PROBE_MB << 20) / PIECE.len() as u64 {
        file.write_all(&PIECE)?;
    }
    file.sync_all()
}

fn is_limit(error: &io::Error) -> bool {
    [Errno::ENOSPC, Errno::EDQUOT].iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

/// Makes, mounts and unmounts a small volume.
pub fn volumes(trash: &Path, mkfs: Option<&Path>) -> Result<(), String> {
    let mkfs = mkfs.ok_or("mkfs.ext4 is missing: install e2fsprogs")?;
    let dir = match ProbeDir::make(trash) {
        Err(error) if is_limit(&error) => return Ok(()),
        made => made.map_err(|error| error.to_string())?,
    };
    let (content, file, at) = (dir.0.join("content"), dir.0.join("probe.ext4"), dir.0.join(PROBE_MOUNT));
    let made = super::super::files::make_dir(&content, 0o700)
        .and_then(|()| volume::allocate(&file, volume::volume_bytes(PROBE_MB)))
        .and_then(|image| volume::format(mkfs, &file, &image, &content));
    match made {
        Ok(()) => {}
        // A full disk refuses sandboxes with a limit by itself, and is not full for ever.
        Err(error) if is_limit(&error) => return Ok(()),
        Err(error) => return Err(format!("could not make a volume ({error})")),
    }
    volume::mount(&file, &at).map_err(|error| format!("could not mount a volume ({error})"))?;
    volume::detach(&at).map_err(|error| format!("could not unmount a volume ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_leave_nothing_and_volumes_work_on_a_host_with_loop_devices() {
        let temp = tempfile::tempdir().expect("a directory");
        // Either answer is right, by the kernel at hand; without quotas in it, it says so.
        if let Err(why) = project(temp.path()) {
            assert!(why.contains("project quota"), "{why}");
        }
        assert_eq!(volumes(temp.path(), volume::find_mkfs().as_deref()), Ok(()));
        let missing = volumes(temp.path(), None).expect_err("no program to make it");
        assert!(missing.contains("e2fsprogs"), "{missing}");
        assert_eq!(std::fs::read_dir(temp.path()).expect("there").count(), 0);
    }
}
