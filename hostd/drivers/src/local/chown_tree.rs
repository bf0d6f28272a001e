//! Changes the owner of files to the ids of a sandbox, for runtimes without idmapped mounts.
//!
//! The owner of the top directory tells whose the tree is; it is changed last, so that an interrupted change
//! is repeated.

use super::{
    files::errno,
    id_map::IdMap,
    layout::Layout,
    limits::{SANDBOX_UID, TREE_DEPTH_MAX, UID_RANGE},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{Mode, SFlag, fstatat},
    unistd::{Gid, Uid, fchownat},
};
use protocol::api::SandboxId;
use std::{ffi::CString, io, os::unix::fs::MetadataExt, path::Path};

/// Nesting depth beyond which a tree is refused.
const DEPTH_MAX: usize = TREE_DEPTH_MAX * 16;

/// Gives everything below `path` to the ids that the map assigns. `top` is the owner of the top directory, as
/// an id inside the sandbox.
pub fn chown_tree(path: &Path, top: u32, ids: &IdMap) -> io::Result<()> {
    let owner = std::fs::symlink_metadata(path)?.uid();
    let unknown_owner =
        || io::Error::other(format!("{} has an owner outside the known id range", path.display()));
    let (Some(uid), Some(gid)) = (ids.uid(top), ids.gid(top)) else {
        return Err(io::Error::other(format!("sandboxes on this host have no user {top}")));
    };
    if owner == uid {
        return Ok(());
    }
    let old_base = owner.checked_sub(top).ok_or_else(unknown_owner)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = Dir::open(path, flags, Mode::empty()).map_err(errno)?;
    let shift = IdShift { old_base, ids };
    shift.chown_below(dir, 0).map_err(errno)?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    nix::unistd::fchownat(nix::fcntl::AT_FDCWD, path, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)
        .map_err(errno)
}

/// Gives the workspace to the sandbox.
pub fn chown_workspace(layout: &Layout, sandbox: &SandboxId, ids: &IdMap) -> io::Result<()> {
    chown_tree(&layout.workspace(sandbox), SANDBOX_UID, ids)
}

/// Gives the control and the public directory to the sandbox.
pub fn chown_control_files(layout: &Layout, sandbox: &SandboxId, ids: &IdMap) -> io::Result<()> {
    let dir = layout.sandbox(sandbox);
    chown_tree(&dir.control(), 0, ids)?;
    chown_tree(&dir.public(), 0, ids)
}

struct IdShift<'a> {
    old_base: u32,
    ids: &'a IdMap,
}

impl IdShift<'_> {
    fn chown_below(&self, mut dir: Dir, depth: usize) -> Result<(), Errno> {
        if depth > DEPTH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let mut names: Vec<CString> = vec![];
        for entry in dir.iter() {
            let entry = entry?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                names.push(entry.file_name().to_owned());
            }
        }
        for name in names {
            self.chown_entry(&dir, &name, depth)?;
        }
        Ok(())
    }

    fn chown_entry(&self, parent: &Dir, name: &CString, depth: usize) -> Result<(), Errno> {
        let stat = fstatat(parent, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            self.chown_below(Dir::openat(parent, name.as_c_str(), flags, Mode::empty())?, depth + 1)?;
        }
        let uid = self.inside(stat.st_uid).and_then(|id| self.ids.uid(id)).unwrap_or(stat.st_uid);
        let gid = self.inside(stat.st_gid).and_then(|id| self.ids.gid(id)).unwrap_or(stat.st_gid);
        if (uid, gid) == (stat.st_uid, stat.st_gid) {
            return Ok(());
        }
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        fchownat(parent, name.as_c_str(), uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// The id inside the sandbox. `None` for an id outside the old range: changed already, or not ours.
    fn inside(&self, id: u32) -> Option<u32> {
        id.checked_sub(self.old_base).filter(|inside| *inside < UID_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_changes_owner_and_back_without_following_symlinks() {
        let temp = tempfile::tempdir().expect("a directory");
        let outside = temp.path().join("outside");
        std::fs::write(&outside, "").expect("written");
        let tree = temp.path().join("tree");
        std::fs::create_dir_all(tree.join("a")).expect("made");
        std::fs::write(tree.join("a/file"), "").expect("written");
        symlink(&outside, tree.join("a/link")).expect("linked");
        std::os::unix::fs::lchown(&tree, Some(1000), Some(1000)).expect("root may");
        std::os::unix::fs::lchown(tree.join("a/file"), Some(1000), Some(5)).expect("root may");
        let owner = |path: &Path| {
            let meta = std::fs::symlink_metadata(path).expect("there");
            (meta.uid(), meta.gid())
        };
        let base = 1 << 28;
        chown_tree(&tree, 1000, &IdMap::single_range(base, UID_RANGE)).expect("given");
        assert_eq!(owner(&tree), (base + 1000, base + 1000));
        assert_eq!(owner(&tree.join("a/file")), (base + 1000, base + 5));
        assert_eq!(owner(&tree.join("a/link")), (base, base));
        assert_eq!(owner(&outside), (0, 0));
        chown_tree(&tree, 1000, &IdMap::default()).expect("given back");
        assert_eq!(owner(&tree.join("a/file")), (1000, 5));
    }
}
