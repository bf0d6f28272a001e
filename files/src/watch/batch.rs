//! Changes that are collected before they are reported, and halves of moves until they are paired. Pure.
//!
//! ```text
//! created, modified     ─▶ created          modified, modified ─▶ modified
//! moved from, moved to  ─▶ moved            moved from         ─▶ deleted, in its place
//! ```
//! The deletion or move of a directory is one of everything below it.

use crate::limits::{WATCH_BATCH_MAX, WATCH_BATCH_MAX_BYTES};
use protocol::files::{FileChangeEvent, FileChangeKind, FilePath};
use std::collections::HashMap;

pub struct Batch<K> {
    entries: Vec<Entry<K>>,
    /// The last entry of a path, where the next can be part of it.
    last: HashMap<FilePath, usize>,
    /// Entries of halves by the number that the kernel gave both.
    halves: HashMap<u32, usize>,
    bytes: usize,
}

enum Entry<K> {
    Change(FileChangeEvent),
    Half(Half<K>),
    /// A half whose other half was found.
    Paired,
}

/// A name that something was moved away from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Half<K> {
    pub path: FilePath,
    pub directory: bool,
    /// A temporary name of ours, which is not reported.
    pub temporary: bool,
    /// The watched directory that was moved.
    pub node: Option<K>,
}

/// The changes of a batch, and directories that left the tree.
pub struct Taken<K> {
    pub changes: Vec<FileChangeEvent>,
    pub left: Vec<K>,
}

impl<K: Copy> Batch<K> {
    pub fn new() -> Self {
        Self { entries: Vec::new(), last: HashMap::new(), halves: HashMap::new(), bytes: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.entries.len() >= WATCH_BATCH_MAX || self.bytes >= WATCH_BATCH_MAX_BYTES
    }

    pub fn has_halves(&self) -> bool {
        !self.halves.is_empty()
    }

    pub fn push(&mut self, change: FileChangeKind, path: FilePath, directory: bool) {
        let before = self.last.get(&path).and_then(|at| match &self.entries[*at] {
            Entry::Change(before) if before.directory == directory => Some(before.change),
            Entry::Change(_) | Entry::Half(_) | Entry::Paired => None,
        });
        if before.is_some_and(|before| is_part(before, change)) {
            return;
        }
        if change == FileChangeKind::Deleted && directory {
            self.last.clear();
        }
        self.last.insert(path.clone(), self.entries.len());
        self.add(path.0.len(), Entry::Change(FileChangeEvent { change, path, directory, from: None }));
    }

    pub fn moved(&mut self, from: FilePath, to: FilePath, directory: bool) {
        self.last.clear();
        let bytes = from.0.len() + to.0.len();
        let (change, from) = (FileChangeKind::Moved, Some(from));
        self.add(bytes, Entry::Change(FileChangeEvent { change, path: to, directory, from }));
    }

    pub fn moved_from(&mut self, cookie: u32, half: Half<K>) {
        self.last.clear();
        self.halves.insert(cookie, self.entries.len());
        self.add(half.path.0.len(), Entry::Half(half));
    }

    /// The other half of a move, if it was seen.
    pub fn pair(&mut self, cookie: u32) -> Option<Half<K>> {
        let at = self.halves.remove(&cookie)?;
        match std::mem::replace(&mut self.entries[at], Entry::Paired) {
            Entry::Half(half) => Some(half),
            Entry::Change(_) | Entry::Paired => None,
        }
    }

    /// Empties the batch. Halves that are left are deletions.
    pub fn take(&mut self) -> Taken<K> {
        let entries = std::mem::replace(self, Self::new()).entries;
        let mut taken = Taken { changes: Vec::with_capacity(entries.len()), left: Vec::new() };
        for entry in entries {
            match entry {
                Entry::Change(change) => taken.changes.push(change),
                Entry::Paired => {}
                Entry::Half(half) => {
                    taken.left.extend(half.node);
                    if !half.temporary {
                        taken.changes.push(FileChangeEvent {
                            change: FileChangeKind::Deleted,
                            path: half.path,
                            directory: half.directory,
                            from: None,
                        });
                    }
                }
            }
        }
        taken
    }

    fn add(&mut self, bytes: usize, entry: Entry<K>) {
        self.bytes += bytes;
        self.entries.push(entry);
    }
}

/// Whether a report of `before` says all that `change` of the same path would.
fn is_part(before: FileChangeKind, change: FileChangeKind) -> bool {
    match change {
        FileChangeKind::Created => before == FileChangeKind::Created,
        FileChangeKind::Modified => matches!(before, FileChangeKind::Created | FileChangeKind::Modified),
        FileChangeKind::Deleted | FileChangeKind::Moved => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileChangeKind::{Created, Deleted, Modified};

    fn told(batch: &mut Batch<u32>) -> Vec<String> {
        let told = |change: FileChangeEvent| match change.from {
            None => format!("{:?} {}", change.change, change.path.lossy()),
            Some(from) => format!("Moved {} {}", from.lossy(), change.path.lossy()),
        };
        batch.take().changes.into_iter().map(told).collect()
    }

    #[test]
    fn changes_of_a_file_are_one_where_one_says_all() {
        let table: [(&[FileChangeKind], &[&str]); 6] = [
            (&[Created, Modified, Modified], &["Created f"]),
            (&[Modified, Modified], &["Modified f"]),
            (&[Created, Created], &["Created f"]),
            (&[Deleted, Created], &["Deleted f", "Created f"]),
            (&[Created, Deleted, Created], &["Created f", "Deleted f", "Created f"]),
            (&[Modified, Deleted, Modified], &["Modified f", "Deleted f", "Modified f"]),
        ];
        for (changes, expected) in table {
            let mut batch = Batch::<u32>::new();
            for change in changes {
                batch.push(*change, "f".into(), false);
            }
            assert_eq!(told(&mut batch), expected, "{changes:?}");
            assert!(batch.is_empty());
        }
    }

    #[test]
    fn what_is_below_a_deleted_directory_is_created_again() {
        let mut batch = Batch::<u32>::new();
        for (change, path, directory) in
            [(Created, "d/f", false), (Deleted, "d", true), (Created, "d", true), (Created, "d/f", false)]
        {
            batch.push(change, path.into(), directory);
        }
        assert_eq!(told(&mut batch), ["Created d/f", "Deleted d", "Created d", "Created d/f"]);
    }

    #[test]
    fn a_half_is_a_deletion_in_its_place() {
        let half = |path: &str, temporary| Half {
            path: path.into(),
            directory: false,
            temporary,
            node: Some(u32::from(temporary)),
        };
        let mut batch = Batch::new();
        batch.moved_from(1, half("f", false));
        batch.push(Created, "f".into(), false);
        batch.moved_from(2, half("temporary", true));
        batch.moved_from(3, half("g", false));
        let paired = batch.pair(3).expect("seen");
        batch.moved(paired.path, "h".into(), false);
        assert_eq!(batch.pair(3), None);
        let taken = batch.take();
        assert_eq!(taken.left, [0, 1]);
        assert_eq!(taken.changes.len(), 3);
        assert_eq!(taken.changes[0].change, Deleted);
        assert_eq!(taken.changes[1].change, Created);
        assert_eq!(taken.changes[2].from, Some("g".into()));
    }
}
