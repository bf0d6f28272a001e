//! The entry points: a layer of an image, and an archive of files.

use super::{UnpackError, attributes::TreeForm, read_ahead::with_read_ahead, tree_writer::TreeWriter};
use crate::{
    Digest,
    tar_reader::{Member, TarError, TarReader},
    tree_quota::TreeQuota,
};
use std::{
    fs::File,
    io::{self, BufRead, Read},
    path::Path,
};

/// What a layer brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedLayer {
    /// Digest of the decompressed archive.
    pub diff_id: Digest,
    /// Content of all entries.
    pub bytes: u64,
    pub entries: u64,
    /// Files with a set-user-id or set-group-id bit.
    pub set_id_files: u64,
    /// Entries that were not written: devices, FIFOs, files of AUFS, notes of archivers.
    pub skipped: u64,
    /// Entries whose owner no sandbox has, and who now belong to `nobody`.
    pub owners_replaced: u64,
    /// Directories that the archive has entries of, but does not list. They belong to root, also where a layer below
    /// says otherwise: overlayfs takes the attributes of the uppermost.
    pub implied_directories: u64,
    /// Whether the layer hides everything of the layers below. Overlayfs does not look at its root for that: leave the
    /// layers below out of the mount.
    pub is_root_opaque: bool,
}

/// Unpacks one layer into `to`, an empty directory, in the form of a lower directory of overlayfs. Nothing is synced.
/// After an error, the directory holds a part of the layer. Needs root.
pub fn unpack_layer(
    compressed: impl Read + Send,
    to: &Path,
    quota: &mut TreeQuota,
) -> Result<UnpackedLayer, UnpackError> {
    let (bytes, entries) = (quota.used_bytes(), quota.used_entries());
    let unpacked = with_read_ahead(compressed, |source| unpack_members(source, to, TreeForm::Layer, quota));
    let (counts, digest) = unpacked?;
    Ok(UnpackedLayer {
        diff_id: digest.ok_or(TarError::Damaged("it was not read to its end"))?,
        bytes: quota.used_bytes() - bytes,
        entries: quota.used_entries() - entries,
        set_id_files: counts.set_id_files,
        skipped: counts.skipped,
        owners_replaced: counts.owners_replaced,
        implied_directories: counts.implied_directories,
        is_root_opaque: counts.is_root_opaque,
    })
}

/// Unpacks an archive of files, of limited size, into a directory; returns the bytes of its files. They belong to the
/// caller, without set-id bits and extended attributes; whiteouts mean nothing.
pub fn unpack_archive_within(source: &Path, to: &Path, mut quota: TreeQuota) -> io::Result<u64> {
    let file = File::open(source)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("neither a directory nor a file"));
    }
    with_read_ahead(file, |source| unpack_members(source, to, TreeForm::Plain, &mut quota))?;
    Ok(quota.used_bytes())
}

/// What was counted while a tree was written.
#[derive(Debug, Default)]
pub struct TreeCounts {
    pub set_id_files: u64,
    pub skipped: u64,
    pub owners_replaced: u64,
    pub implied_directories: u64,
    pub is_root_opaque: bool,
}

fn unpack_members(
    source: impl BufRead,
    to: &Path,
    form: TreeForm,
    quota: &mut TreeQuota,
) -> Result<TreeCounts, UnpackError> {
    let mut archive = TarReader::new(source);
    let first = archive.next()?;
    write_members(archive, first, TreeWriter::open(to, form)?, quota)
}

/// Writes the member whose header was read last, and all that follow.
pub(super) fn write_members<R: BufRead>(
    mut archive: TarReader<R>,
    first: Option<Member>,
    mut tree: TreeWriter,
    quota: &mut TreeQuota,
) -> Result<TreeCounts, UnpackError> {
    let (mut next, mut position) = (first, 0);
    while let Some(member) = next {
        quota.take_archive(archive.position() - position)?;
        position = archive.position();
        quota.take(tree.counted_bytes(&member))?;
        tree.write(&member, &mut archive)?;
        next = archive.next()?;
    }
    archive.finish()?;
    tree.finish()
}
