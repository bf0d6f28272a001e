//! The manifest of a snapshot: a line for every file, directory and link, with its attributes and the hash of its content,
//! in the order of their paths. It is written while the tree is read, and never held in memory.

use super::{
    super::{
        super::DriverError,
        files::{self, failed},
        limits::{MANIFEST_MAX_BYTES, MANIFEST_PATH_MAX_BYTES, SNAPSHOT_MAX_ENTRIES},
        trash::NewEntry,
        workspace::Workspaces,
    },
    content_hash::{ContentHash, hash_content, hex},
    record::{SnapshotRecord, sync_dir},
    tree_limit::{TreeLimit, deleted, typed},
    walk::{WalkedEntry, escaped, walk},
};
use nix::{
    fcntl::{OFlag, openat, readlinkat},
    sys::stat::{Mode, SFlag},
};
use protocol::api::SnapshotId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    os::{
        fd::BorrowedFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
};

const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const BUFFER_BYTES: usize = 256 << 10;
/// Without set-id bits of files, and of users of directories: they have no effect in a sandbox and are not imported.
const FILE_MODE: u32 = 0o1777;
const DIRECTORY_MODE: u32 = 0o3777;
const LINK_MODE: u32 = 0o7777;

/// One entry: a line of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Relative to the home directory; bytes that are no text, and `%`, as `%XX`.
    pub path: String,
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The size of a file, holes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of the content of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Of a file that is nearly all zeros: see [`super::content_hash`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse_sha256: Option<String>,
    /// Of the same: the bytes of the blocks that are not all zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// Of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Link,
}

/// What a manifest says in sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestSummary {
    pub files: u64,
    /// The sizes of all files; of one that is nearly all zeros, what it holds.
    pub bytes: u64,
    /// Of the whole text.
    pub sha256: String,
}

/// Writes a manifest line by line.
pub struct ManifestWriter<W> {
    to: W,
    hash: Sha256,
    files: u64,
    bytes: u64,
    entries: u64,
    text_bytes: u64,
}

impl<W: Write> ManifestWriter<W> {
    pub fn new(to: W) -> Self {
        Self { to, hash: Sha256::new(), files: 0, bytes: 0, entries: 0, text_bytes: 0 }
    }

    pub fn write(&mut self, entry: &ManifestEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        self.entries += 1;
        self.text_bytes += line.len() as u64;
        if self.entries > SNAPSHOT_MAX_ENTRIES {
            return Err(TreeLimit::Entries(SNAPSHOT_MAX_ENTRIES).into());
        }
        if self.text_bytes > MANIFEST_MAX_BYTES {
            return Err(TreeLimit::ManifestBytes(MANIFEST_MAX_BYTES).into());
        }
        self.files += u64::from(entry.kind == EntryKind::File);
        let bytes = entry.held_bytes.or(entry.bytes).unwrap_or(0);
        self.bytes = self.bytes.saturating_add(bytes);
        self.hash.update(&line);
        self.to.write_all(&line)
    }

    pub fn finish(mut self) -> io::Result<(W, ManifestSummary)> {
        self.to.flush()?;
        let sha256 = hex(&self.hash.finalize());
        Ok((self.to, ManifestSummary { files: self.files, bytes: self.bytes, sha256 }))
    }
}

/// Reads every entry of a tree that nobody changes, in the order of their paths.
pub fn read_entries(top: &Path, mut each: impl FnMut(&ManifestEntry) -> io::Result<()>) -> io::Result<()> {
    walk(top, |walked| match read_entry(walked)? {
        Some(entry) => each(&entry),
        None => Ok(()),
    })
}

/// Writes the manifest of a tree that nobody changes.
pub fn write_tree<W: Write>(top: &Path, to: W) -> io::Result<(W, ManifestSummary)> {
    let mut manifest = ManifestWriter::new(to);
    read_entries(top, |entry| manifest.write(entry))?;
    manifest.finish()
}

/// `None` for what has no content: FIFOs, sockets and devices.
fn read_entry(walked: &WalkedEntry<'_>) -> io::Result<Option<ManifestEntry>> {
    if walked.path.len() > MANIFEST_PATH_MAX_BYTES {
        return Err(TreeLimit::Path(MANIFEST_PATH_MAX_BYTES).into());
    }
    let stat = &walked.stat;
    let entry = |kind: EntryKind, mode: u32| ManifestEntry {
        path: walked.path.to_owned(),
        kind,
        mode: stat.st_mode & mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        bytes: None,
        sha256: None,
        sparse_sha256: None,
        held_bytes: None,
        target: None,
    };
    match walked.kind() {
        SFlag::S_IFREG => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let file = open(walked.dir, walked)?;
            let (mut sha256, mut sparse_sha256, mut held) = (None, None, None);
            match hash_content(&file, size)? {
                ContentHash::Whole(hash) => sha256 = Some(hash),
                ContentHash::Sparse { sha256, held_bytes } => {
                    (sparse_sha256, held) = (Some(sha256), Some(held_bytes));
                }
            }
            let file = entry(EntryKind::File, FILE_MODE);
            Ok(Some(ManifestEntry { bytes: Some(size), sha256, sparse_sha256, held_bytes: held, ..file }))
        }
        SFlag::S_IFDIR => Ok(Some(entry(EntryKind::Directory, DIRECTORY_MODE))),
        SFlag::S_IFLNK => {
            let target = readlinkat(walked.dir, walked.name)?;
            Ok(Some(ManifestEntry {
                target: Some(escaped(target.as_bytes())),
                ..entry(EntryKind::Link, LINK_MODE)
            }))
        }
        _ => Ok(None),
    }
}

pub(super) fn open(dir: BorrowedFd<'_>, walked: &WalkedEntry<'_>) -> io::Result<File> {
    Ok(openat(dir, walked.name, READ, Mode::empty())?.into())
}

impl Workspaces<'_> {
    /// Runs work that reads the files of a snapshot at a path. They are not removed meanwhile.
    pub(super) fn with_snapshot<T: Send>(
        &self,
        snapshot: &SnapshotId,
        what: &'static str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send,
    ) -> Result<T, DriverError> {
        let (record, _pinned) = self.pin_snapshot(snapshot, what)?;
        self.with_merged(&record, work).map_err(|error| typed(failed(what)(error)))
    }

    /// Reads a whole snapshot and writes its manifest beside it.
    pub fn write_manifest(&self, snapshot: &SnapshotId) -> Result<ManifestSummary, DriverError> {
        let write = || failed("write the manifest of the snapshot");
        let new = NewEntry::reserve(&self.layout.trash(), "manifest");
        let made = self.write_manifest_at(new.path(), snapshot);
        let published = made.and_then(|summary| {
            let at = self.layout.manifest(snapshot);
            std::fs::rename(new.path(), &at).map_err(write())?;
            sync_dir(&self.layout.snapshots()).map_err(write())?;
            // A snapshot that was removed meanwhile leaves nothing.
            if SnapshotRecord::read(self.layout, snapshot).map_err(write())?.is_none() {
                files::remove_file(&at).map_err(write())?;
                return Err(deleted());
            }
            Ok(summary)
        });
        if published.is_err() {
            self.discard(new.path());
        }
        published
    }

    /// On disk when this returns.
    fn write_manifest_at(&self, path: &Path, snapshot: &SnapshotId) -> Result<ManifestSummary, DriverError> {
        let write = || failed("write the manifest of the snapshot");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(write())?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let (file, summary) =
            self.with_snapshot(snapshot, "read the snapshot", |tree| write_tree(tree, file))?;
        file.get_ref().sync_all().map_err(write())?;
        Ok(summary)
    }

    /// The manifest that was written when the snapshot was taken.
    pub fn open_manifest(&self, snapshot: &SnapshotId) -> Result<File, DriverError> {
        match File::open(self.layout.manifest(snapshot)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(deleted()),
            opened => opened.map_err(failed("read the manifest of the snapshot")),
        }
    }
}
