//! Disk usage of a tree that a sandbox filled: symlinks are not followed, depth and number of entries are
//! bounded. Entries beyond the bounds are not counted, so the true usage may be higher, never lower.

use super::{
    files::errno,
    limits::{MEASURE_MAX_ENTRIES, TREE_DEPTH_MAX},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    libc,
    sys::stat::{FileStat, Mode, SFlag, fstatat},
};
use std::{collections::HashSet, ffi::CString, io, os::fd::AsFd, path::Path};

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NOFOLLOW);

struct UsageCount {
    bytes: u64,
    entries: u64,
    /// Files with several hard links are counted once.
    seen: HashSet<libc::ino_t>,
}

/// Bytes of a tree on disk; `None` when there is none. Takes long for a large tree; blocks.
pub fn tree_bytes(path: &Path) -> io::Result<Option<u64>> {
    let top = match Dir::open(path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(errno(error)),
    };
    let mut count = UsageCount { bytes: 0, entries: 0, seen: HashSet::new() };
    let mut levels = vec![(count.files(&top)?, top)];
    while let Some((subdirs, dir)) = levels.last_mut() {
        match subdirs.pop() {
            Some(name) => {
                let below = match Dir::openat(dir.as_fd(), name.as_c_str(), DIRECTORY, Mode::empty()) {
                    Ok(below) => below,
                    // Removed or replaced since it was listed.
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                    Err(error) => return Err(errno(error)),
                };
                if levels.len() < TREE_DEPTH_MAX {
                    levels.push((count.files(&below)?, below));
                }
            }
            None => drop(levels.pop()),
        }
    }
    Ok(Some(count.bytes))
}

impl UsageCount {
    /// Counts the entries of a directory; returns the names of its subdirectories.
    fn files(&mut self, dir: &Dir) -> io::Result<Vec<CString>> {
        let mut again = Dir::openat(dir.as_fd(), c".", DIRECTORY, Mode::empty()).map_err(errno)?;
        let mut subdirs = Vec::new();
        for entry in again.iter() {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.entries += 1;
            if self.entries > MEASURE_MAX_ENTRIES {
                return Ok(Vec::new());
            }
            let stat = match fstatat(dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::ENOENT) => continue,
                Err(error) => return Err(errno(error)),
            };
            let is_dir = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR;
            if is_dir {
                subdirs.push(name.to_owned());
            }
            self.add(&stat, is_dir);
        }
        Ok(subdirs)
    }

    fn add(&mut self, stat: &FileStat, is_dir: bool) {
        if is_dir || stat.st_nlink < 2 || self.seen.insert(stat.st_ino) {
            self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_once_and_links_are_not_followed() {
        let temp = tempfile::tempdir().expect("a directory");
        let (tree, outside) = (temp.path().join("tree"), temp.path().join("outside"));
        std::fs::create_dir_all(tree.join("a/b")).expect("made");
        std::fs::write(&outside, vec![7; 4 << 20]).expect("written");
        std::fs::write(tree.join("a/b/file"), vec![7; 1 << 20]).expect("written");
        std::fs::hard_link(tree.join("a/b/file"), tree.join("again")).expect("linked");
        std::os::unix::fs::symlink(&outside, tree.join("link")).expect("linked");
        let bytes = tree_bytes(&tree).expect("measured").expect("there");
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
        assert_eq!(super::tree_bytes(&temp.path().join("nothing")).expect("measured"), None);
    }
}
