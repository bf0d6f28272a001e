//! Directories that wait to be read. Pure.

use crate::limits::{DISK_WALK_SLICE, PATH_MAX_BYTES};
use std::path::{Path, PathBuf};

/// The size of a slice of the longest paths. A tree made to exceed it is counted in part.
const PENDING_MAX_BYTES: usize = DISK_WALK_SLICE * PATH_MAX_BYTES;

/// Paths below the root, last in, first out: that keeps the list short, and the next one near.
#[derive(Default)]
pub struct Pending {
    paths: Vec<PathBuf>,
    bytes: usize,
}

impl Pending {
    /// Adds a path. False when the limit is reached, or the path is longer than the kernel allows.
    pub fn push(&mut self, path: PathBuf) -> bool {
        let bytes = self.bytes + weight(&path);
        if path.as_os_str().len() > PATH_MAX_BYTES || bytes > PENDING_MAX_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.paths.push(path);
        true
    }

    pub fn pop(&mut self) -> Option<PathBuf> {
        let path = self.paths.pop()?;
        self.bytes -= weight(&path);
        Some(path)
    }

    /// Whether the next path is directly below this directory.
    pub fn next_is_below(&self, directory: &Path) -> bool {
        self.paths.last().and_then(|path| path.parent()) == Some(directory)
    }
}

fn weight(path: &Path) -> usize {
    size_of::<PathBuf>() + path.as_os_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_comes_back_in_reverse() {
        let mut pending = Pending::default();
        let long = PathBuf::from("x".repeat(PATH_MAX_BYTES));
        assert!(pending.push(PathBuf::new()));
        let pushed = (0..10_000).take_while(|_| pending.push(long.clone())).count();
        assert!((500..=DISK_WALK_SLICE).contains(&pushed), "{pushed}");
        for _ in 0..pushed {
            assert_eq!(pending.pop().as_ref(), Some(&long));
        }
        assert_eq!((pending.pop(), pending.pop(), pending.bytes), (Some(PathBuf::new()), None, 0));
        assert!(!pending.push(PathBuf::from("x".repeat(PATH_MAX_BYTES + 1))), "too long a path");
    }

    #[test]
    fn below_means_directly_below() {
        for (waiting, directory, expected) in [
            ("a/b", "a", true),
            ("a", "", true),
            ("a/b/c", "a", false),
            ("ab/c", "a", false),
            ("", "", false),
            ("a", "a", false),
        ] {
            let mut pending = Pending::default();
            pending.push(PathBuf::from(waiting));
            assert_eq!(pending.next_is_below(Path::new(directory)), expected, "{waiting} below {directory}");
        }
    }
}
