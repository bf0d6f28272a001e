//! Gives files to the ids of a sandbox, for runtimes that cannot map them while mounting.
//!
//! The owner of the top directory says whose the tree is; it is changed last, so that a change that was
//! cut off is done again.

use super::{
    files::errno,
    limits::{TREE_DEPTH_MAX, UID_RANGE},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{Mode, SFlag, fstatat},
    unistd::{Gid, Uid, fchownat},
};
use std::{ffi::CString, io, os::unix::fs::MetadataExt, path::Path};

/// Directories that may be nested before a tree is called too deep to hand over.
const DEPTH_MAX: usize = TREE_DEPTH_MAX * 16;

/// Makes the ids of everything below `path` count from `base`. `top` is who its top belongs to, counted
/// from 0.
pub fn give(path: &Path, top: u32, base: u32) -> io::Result<()> {
    let owner = std::fs::symlink_metadata(path)?.uid();
    let old_base = owner.checked_sub(top).ok_or_else(|| io::Error::other("belongs to nobody we know"))?;
    if old_base == base {
        return Ok(());
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = Dir::open(path, flags, Mode::empty()).map_err(errno)?;
    let shift = Shift { old_base, base };
    shift.below(dir, 0).map_err(errno)?;
    let (uid, gid) = (Uid::from_raw(base + top), Gid::from_raw(base + top));
    nix::unistd::fchownat(nix::fcntl::AT_FDCWD, path, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)
        .map_err(errno)
}

struct Shift {
    old_base: u32,
    base: u32,
}

impl Shift {
    fn below(&self, mut dir: Dir, depth: usize) -> Result<(), Errno> {
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
            self.one(&dir, &name, depth)?;
        }
        Ok(())
    }

    fn one(&self, parent: &Dir, name: &CString, depth: usize) -> Result<(), Errno> {
        let stat = fstatat(parent, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            self.below(Dir::openat(parent, name.as_c_str(), flags, Mode::empty())?, depth + 1)?;
        }
        let (uid, gid) = (self.moved(stat.st_uid), self.moved(stat.st_gid));
        if (uid, gid) == (stat.st_uid, stat.st_gid) {
            return Ok(());
        }
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        fchownat(parent, name.as_c_str(), uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// An id that is not of the old range was moved already, or is none of ours.
    fn moved(&self, id: u32) -> u32 {
        match id.checked_sub(self.old_base) {
            Some(inside) if inside < UID_RANGE => self.base + inside,
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_changes_hands_and_back_without_following_links() {
        let place = tempfile::tempdir().expect("a directory");
        let outside = place.path().join("outside");
        std::fs::write(&outside, "").expect("written");
        let tree = place.path().join("tree");
        std::fs::create_dir_all(tree.join("a")).expect("made");
        std::fs::write(tree.join("a/file"), "").expect("written");
        symlink(&outside, tree.join("a/link")).expect("linked");
        std::os::unix::fs::lchown(&tree, Some(1000), Some(1000)).expect("root may");
        std::os::unix::fs::lchown(tree.join("a/file"), Some(1000), Some(5)).expect("root may");
        let owner = |path: &Path| {
            let meta = std::fs::symlink_metadata(path).expect("there");
            (meta.uid(), meta.gid())
        };
        give(&tree, 1000, 1 << 28).expect("given");
        let base = 1 << 28;
        assert_eq!(owner(&tree), (base + 1000, base + 1000));
        assert_eq!(owner(&tree.join("a/file")), (base + 1000, base + 5));
        assert_eq!(owner(&tree.join("a/link")), (base, base));
        assert_eq!(owner(&outside), (0, 0));
        give(&tree, 1000, 0).expect("given back");
        assert_eq!(owner(&tree.join("a/file")), (1000, 5));
    }
}
