//! The overlay of a stack: its layers, and above them a directory for what differs.
//!
//! Layers have plain ids on disk. Where a sandbox has ids of its own, each layer is mounted with them first; the overlay
//! keeps the credentials of the thread that mounts it, which therefore has an id that the sandbox has too.

use super::super::{
    capabilities,
    files::{self, errno},
    layout::StackDir,
    limits::UID_RANGE,
    user_namespace,
};
use hostd_images::{
    mount_calls::{attach_mount, clone_mount, idmap_mount},
    unshare_mounts,
};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sys::statvfs::{FsFlags, statvfs},
    unistd::{Gid, Uid, chdir, setfsgid, setfsuid},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
};

/// Layers of a stack, at most: each costs every lookup of a name.
pub const LAYERS_MAX: usize = 16;
const MERGED: &str = "merged";
const LIVE: &str = "live";
const MOUNT_POINTS_OPTIONS: &str = "mode=0755,size=1m,nr_inodes=1k";

/// A stack to mount.
pub struct Stack<'a> {
    pub dir: &'a StackDir,
    /// Topmost first.
    pub layers: &'a [PathBuf],
    /// The first id of the sandbox on the host, where it has ids of its own.
    pub first_id: Option<u32>,
    /// An empty directory, covered for one thread.
    pub scratch: &'a Path,
}

impl Stack<'_> {
    /// Mounts the stack at a directory.
    pub fn mount(&self, at: &Path) -> io::Result<()> {
        let merged = thread::scope(|scope| {
            let work = || self.merge();
            let thread = thread::Builder::new().name("stack-mount".to_owned()).spawn_scoped(scope, work)?;
            thread.join().map_err(|_| io::Error::other("the thread that mounts a workspace panicked"))?
        })?;
        attach_mount(merged.as_fd(), at).map_err(errno)
    }

    /// Returns the overlay, attached nowhere. Changes the mounts and the credentials of the thread.
    fn merge(&self) -> io::Result<OwnedFd> {
        unshare_mounts().map_err(errno)?;
        let users = self.first_id.map(|first| user_namespace::with_ids(first, UID_RANGE)).transpose()?;
        let users = users.as_ref().map(AsFd::as_fd);
        let hardened = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), self.scratch, Some("tmpfs"), hardened, Some(MOUNT_POINTS_OPTIONS))
            .map_err(errno)?;
        let names: Vec<String> = (0..self.layers.len()).map(|number| number.to_string()).collect();
        for (name, layer) in names.iter().zip(self.layers) {
            self.attach_copy(layer, name, users)?;
        }
        self.attach_copy(&self.dir.live(), LIVE, users)?;
        files::make_dir(&self.scratch.join(MERGED), 0o755)?;
        chdir(self.scratch).map_err(errno)?;
        if let Some(first) = self.first_id {
            setfsuid(Uid::from_raw(first));
            setfsgid(Gid::from_raw(first));
            capabilities::raise_all()?;
        }
        let options = format!(
            "lowerdir={},upperdir={LIVE}/upper,workdir={LIVE}/work,redirect_dir=on,metacopy=off,index=off",
            names.join(":")
        );
        mount(Some("overlay"), MERGED, Some("overlay"), hardened, Some(options.as_str())).map_err(errno)?;
        let flags = statvfs(MERGED).map_err(errno)?.flags();
        // The kernel mounts an overlay whose work directory it cannot use, and says so in its log alone.
        if flags.contains(FsFlags::ST_RDONLY) {
            return Err(errno(Errno::EROFS));
        }
        clone_mount(Path::new(MERGED)).map_err(errno)
    }

    fn attach_copy(&self, dir: &Path, name: &str, users: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let at = self.scratch.join(name);
        files::make_dir(&at, 0o755)?;
        let copy = clone_mount(dir).map_err(errno)?;
        if let Some(users) = users {
            idmap_mount(copy.as_fd(), users).map_err(errno)?;
        }
        attach_mount(copy.as_fd(), &at).map_err(errno)
    }
}
