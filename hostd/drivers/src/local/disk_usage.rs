//! Disk usage of a tree that a sandbox filled: symlinks are not followed, and a walk is bounded. A tree beyond the bounds
//! counts as [`MEASURED_BEYOND_BYTES`], which is more than any limit: no sandbox gets space by making many files.

use super::{
    files::errno,
    limits::{MEASURE_MAX_ENTRIES, MEASURE_MAX_NAMES, MEASURED_BEYOND_BYTES, TREE_DEPTH_MAX, WALK_DEPTH_MAX},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    libc,
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};
use std::{collections::HashSet, ffi::CString, io, os::fd::AsFd, path::Path};

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NOFOLLOW);

/// How far a tree is walked.
struct Bounds {
    entries: u64,
    /// Directories that are still to be counted, and files with several hard links: both are kept in memory.
    names: u64,
    depth: usize,
}

const BOUNDS: Bounds =
    Bounds { entries: MEASURE_MAX_ENTRIES, names: MEASURE_MAX_NAMES, depth: WALK_DEPTH_MAX };

struct UsageCount<'b> {
    bounds: &'b Bounds,
    bytes: u64,
    entries: u64,
    names: u64,
    /// Files with several hard links are counted once.
    seen: HashSet<libc::ino_t>,
}

/// A directory on the way down.
struct Level {
    /// Absent while [`TREE_DEPTH_MAX`] directories below it are open; never of the top.
    dir: Option<Dir>,
    device_and_inode: (u64, u64),
    /// Directories in it that are still to be counted.
    subdirs: Vec<CString>,
}

/// Bytes of a tree on disk; `None` when there is none. Takes long for a large tree; blocks. A directory that is moved
/// meanwhile may be missed with what lies around it.
pub fn tree_bytes(path: &Path) -> io::Result<Option<u64>> {
    tree_bytes_within(path, &BOUNDS)
}

fn tree_bytes_within(path: &Path, bounds: &Bounds) -> io::Result<Option<u64>> {
    let top = match Dir::open(path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(errno(error)),
    };
    let mut count = UsageCount { bounds, bytes: 0, entries: 0, names: 0, seen: HashSet::new() };
    let mut levels = vec![count.level(top)?];
    if count.is_beyond() {
        return Ok(Some(MEASURED_BEYOND_BYTES));
    }
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.subdirs.pop() else {
            leave(&mut levels);
            continue;
        };
        count.names = count.names.saturating_sub(1);
        let Some(dir) = &level.dir else { continue };
        let below = match Dir::openat(dir.as_fd(), name.as_c_str(), DIRECTORY, Mode::empty()) {
            Ok(below) => below,
            // Removed or replaced since it was listed.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
            Err(error) => return Err(errno(error)),
        };
        levels.push(count.level(below)?);
        if count.is_beyond() || levels.len() > bounds.depth {
            return Ok(Some(MEASURED_BEYOND_BYTES));
        }
        let closed = levels.len().saturating_sub(TREE_DEPTH_MAX + 1);
        if let Some(level) = levels.get_mut(closed).filter(|_| closed > 0) {
            level.dir = None;
        }
    }
    Ok(Some(count.bytes))
}

/// Goes back to the parent of the last directory, which is opened again by way of it. Where that is another one now, to
/// the next one above that is open.
fn leave(levels: &mut Vec<Level>) {
    let left = levels.pop().and_then(|level| level.dir);
    let Some(parent) = levels.last_mut().filter(|parent| parent.dir.is_none()) else { return };
    let opened = left.and_then(|left| Dir::openat(left.as_fd(), c"..", DIRECTORY, Mode::empty()).ok());
    let same = opened.filter(|dir| identity(dir).is_ok_and(|found| found == parent.device_and_inode));
    match same {
        Some(dir) => parent.dir = Some(dir),
        None => {
            while levels.last().is_some_and(|level| level.dir.is_none()) {
                levels.pop();
            }
        }
    }
}

fn identity(dir: &Dir) -> io::Result<(u64, u64)> {
    let stat = fstat(dir.as_fd()).map_err(errno)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl UsageCount<'_> {
    fn is_beyond(&self) -> bool {
        self.entries > self.bounds.entries || self.names > self.bounds.names
    }

    fn level(&mut self, dir: Dir) -> io::Result<Level> {
        let (device_and_inode, subdirs) = (identity(&dir)?, self.files(&dir)?);
        Ok(Level { dir: Some(dir), device_and_inode, subdirs })
    }

    /// Counts the entries of a directory, up to the bounds; returns the names of its subdirectories.
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
            if self.is_beyond() {
                break;
            }
            let stat = match fstatat(dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::ENOENT) => continue,
                Err(error) => return Err(errno(error)),
            };
            let is_dir = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR;
            if is_dir {
                self.names += 1;
                subdirs.push(name.to_owned());
            }
            self.add(&stat, is_dir);
        }
        Ok(subdirs)
    }

    fn add(&mut self, stat: &FileStat, is_dir: bool) {
        let linked = !is_dir && stat.st_nlink > 1;
        if !linked || self.seen.insert(stat.st_ino) {
            self.names += u64::from(linked);
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

    #[test]
    fn a_tree_beyond_the_bounds_counts_as_more_than_any_limit() {
        let temp = tempfile::tempdir().expect("a directory");
        // Before a large file in the order of a walk, or after it.
        for name in ["a", "z"] {
            let many = temp.path().join(name);
            std::fs::create_dir_all(many.join("d/d/d")).expect("made");
            (0..20).for_each(|number| std::fs::write(many.join(format!("{number}")), "").expect("written"));
            std::fs::hard_link(many.join("0"), many.join("again")).expect("linked");
        }
        std::fs::create_dir(temp.path().join("m")).expect("made");
        std::fs::write(temp.path().join("m/large"), vec![7; 1 << 20]).expect("written");
        let (plenty, entries) = (Bounds { entries: 100, names: 100, depth: 100 }, 52);
        for (bounds, is_beyond) in [
            (Bounds { entries, ..plenty }, false),
            (Bounds { entries: entries - 1, ..plenty }, true),
            (Bounds { entries: 1, ..plenty }, true),
            (Bounds { names: 10, ..plenty }, false),
            (Bounds { names: 1, ..plenty }, true),
            (Bounds { depth: 5, ..plenty }, false),
            (Bounds { depth: 4, ..plenty }, true),
        ] {
            let Bounds { entries, names, depth } = bounds;
            let bytes = tree_bytes_within(temp.path(), &bounds).expect("measured").expect("there");
            assert!(bytes >= 1 << 20, "{entries} {names} {depth}: {bytes}");
            assert_eq!(bytes == MEASURED_BEYOND_BYTES, is_beyond, "{entries} {names} {depth}: {bytes}");
        }
    }

    #[test]
    fn files_count_however_deep_they_lie() {
        let temp = tempfile::tempdir().expect("a directory");
        let deep = (0..3 * TREE_DEPTH_MAX).fold(temp.path().to_owned(), |dir, _| dir.join("d"));
        std::fs::create_dir_all(&deep).expect("made");
        // At the bottom, and beside the way back.
        for dir in [&deep, &temp.path().join("d/d")] {
            std::fs::write(dir.join("file"), vec![7; 1 << 20]).expect("written");
            std::fs::create_dir(dir.join("other")).expect("made");
            std::fs::write(dir.join("other/file"), vec![7; 1 << 20]).expect("written");
        }
        let bytes = tree_bytes(temp.path()).expect("measured").expect("there");
        assert!((4 << 20..6 << 20).contains(&bytes), "{bytes}");
    }
}
