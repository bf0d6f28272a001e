//! Compares a snapshot with its manifest, both read once, in the same order.

use super::{
    super::{super::DriverError, limits::MANIFEST_LINE_MAX_BYTES, workspace::Workspaces},
    manifest::{ManifestEntry, ManifestSummary, ManifestWriter, read_entries},
    walk::walk,
};
use protocol::api::SnapshotId;
use std::{
    cmp::Ordering,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Differences that are listed.
const DIFFERENCES_MAX: usize = 100;

/// A path at which a snapshot is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestDifference {
    Missing(String),
    Added(String),
    Changed(String),
}

/// A snapshot as it is now, and how it differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub found: ManifestSummary,
    /// The first ones.
    pub differences: Vec<ManifestDifference>,
    pub differences_total: usize,
}

impl Workspaces<'_> {
    /// Reads a whole snapshot as it is now, and its manifest.
    pub fn verify_snapshot(&self, snapshot: &SnapshotId) -> Result<Comparison, DriverError> {
        let kept = self.open_manifest(snapshot)?;
        self.with_snapshot(snapshot, "read the snapshot", |tree| compare(BufReader::new(kept), tree))
    }

    /// Refuses a snapshot that is nested too deeply to be read. Reads no file.
    pub fn check_readable(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        self.with_snapshot(snapshot, "list the snapshot", |tree| walk(tree, |_| Ok(())))
    }
}

/// Compares a tree with a manifest: lines in the order of their paths.
pub fn compare(manifest: impl BufRead, tree: &Path) -> io::Result<Comparison> {
    let mut merge = Merge { kept: manifest, differences: vec![], total: 0 };
    let mut next = merge.next()?;
    let mut found = ManifestWriter::new(io::sink());
    read_entries(tree, |entry| {
        found.write(entry)?;
        loop {
            let order = next.as_ref().map_or(Ordering::Greater, |kept| kept.path.cmp(&entry.path));
            match order {
                Ordering::Greater => {
                    merge.note(ManifestDifference::Added(entry.path.clone()));
                    return Ok(());
                }
                Ordering::Less => merge.note_missing(next.take()),
                Ordering::Equal => {
                    if next.as_ref() != Some(entry) {
                        merge.note(ManifestDifference::Changed(entry.path.clone()));
                    }
                    next = merge.next()?;
                    return Ok(());
                }
            }
            next = merge.next()?;
        }
    })?;
    while next.is_some() {
        merge.note_missing(next);
        next = merge.next()?;
    }
    let (_, found) = found.finish()?;
    Ok(Comparison { found, differences: merge.differences, differences_total: merge.total })
}

struct Merge<R> {
    kept: R,
    differences: Vec<ManifestDifference>,
    total: usize,
}

impl<R: BufRead> Merge<R> {
    /// The next line of the manifest.
    fn next(&mut self) -> io::Result<Option<ManifestEntry>> {
        let mut line = Vec::new();
        self.kept.by_ref().take(MANIFEST_LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
        match line.is_empty() {
            true => Ok(None),
            false => serde_json::from_slice(&line).map(Some).map_err(io::Error::other),
        }
    }

    fn note_missing(&mut self, kept: Option<ManifestEntry>) {
        if let Some(kept) = kept {
            self.note(ManifestDifference::Missing(kept.path));
        }
    }

    fn note(&mut self, difference: ManifestDifference) {
        self.total += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(difference);
        }
    }
}
