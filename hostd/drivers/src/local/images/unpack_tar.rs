//! Unpacks an archive into an image. The archive may be hostile: nothing is written outside the directory, no
//! device is created, and size and number of entries are limited.

use super::zstd::ZstdReader;
use crate::local::limits::{IMAGE_DEPTH_MAX, IMAGE_HEADERS_MAX_BYTES, IMAGE_MAX_BYTES, IMAGE_MAX_ENTRIES};
use flate2::read::MultiGzDecoder;
use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::{Component, Path},
};
use tar::{Archive, Entry, EntryType};

/// Bytes and entries that a tree may still use.
pub struct TreeQuota {
    what: &'static str,
    max_bytes: u64,
    max_entries: u64,
    bytes: u64,
    entries: u64,
}

impl TreeQuota {
    /// `what` begins the message of an error.
    pub fn new(what: &'static str, max_bytes: u64, max_entries: u64) -> Self {
        Self { what, max_bytes, max_entries, bytes: max_bytes, entries: max_entries }
    }

    pub fn of_image() -> Self {
        Self::new("the image", IMAGE_MAX_BYTES, IMAGE_MAX_ENTRIES)
    }

    pub fn take(&mut self, bytes: u64) -> io::Result<()> {
        let too = |what: String| io::Error::other(format!("{} has more than {what}", self.what));
        let max_entries = self.max_entries;
        self.entries = self.entries.checked_sub(1).ok_or_else(|| too(format!("{max_entries} entries")))?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| too(size(self.max_bytes)))?;
        Ok(())
    }

    pub fn used_bytes(&self) -> u64 {
        self.max_bytes - self.bytes
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

/// Unpacks the archive of an image; returns its size in bytes.
pub fn unpack_archive(source: &Path, to: &Path) -> io::Result<u64> {
    unpack_archive_within(source, to, TreeQuota::of_image())
}

/// Unpacks an archive of limited size.
pub fn unpack_archive_within(source: &Path, to: &Path, quota: TreeQuota) -> io::Result<u64> {
    let mut file = File::open(source)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("neither a directory nor a file"));
    }
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    file.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    let reader = BufReader::new(file);
    match Compression::of(&magic) {
        Compression::Plain => unpack_entries(reader, to, quota),
        Compression::Gzip => unpack_entries(MultiGzDecoder::new(reader), to, quota),
        Compression::Zstd => unpack_entries(ZstdReader::new(reader), to, quota),
        Compression::Other(name) => Err(io::Error::other(format!(
            "it is compressed with {name}; give a tar archive that is plain or compressed with gzip or zstd"
        ))),
    }
}

/// Compression of an archive, by its first bytes.
#[derive(Debug, PartialEq, Eq)]
enum Compression {
    Plain,
    Gzip,
    Zstd,
    /// Recognized, not supported.
    Other(&'static str),
}

/// Length of the longest magic number.
const MAGIC_BYTES: usize = 6;

impl Compression {
    fn of(beginning: &[u8]) -> Self {
        match beginning {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame, which parallel compressors write first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Other("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Other("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Other("lz4"),
            [b'P', b'K', 3, 4, ..] => Self::Other("zip"),
            _ => Self::Plain,
        }
    }
}

/// Entries that are unpacked, besides directories: no devices, FIFOs and metadata of archivers.
const UNPACKED: [EntryType; 5] =
    [EntryType::Regular, EntryType::Continuous, EntryType::GNUSparse, EntryType::Link, EntryType::Symlink];

/// A reader whose limit is reset for each entry: names and extended headers are read into memory before the
/// entry itself is known.
struct HeaderLimitReader<'a, R> {
    inner: R,
    left_bytes: &'a Cell<u64>,
}

impl<R: Read> Read for HeaderLimitReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left_bytes.get();
        if left == 0 && !buffer.is_empty() {
            let max_kib = IMAGE_HEADERS_MAX_BYTES >> 10;
            return Err(io::Error::other(format!("an entry has headers of more than {max_kib} KiB")));
        }
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(&mut buffer[..max])?;
        self.left_bytes.set(left - read as u64);
        Ok(read)
    }
}

fn unpack_entries(reader: impl Read, to: &Path, mut quota: TreeQuota) -> io::Result<u64> {
    let left_bytes = Cell::new(IMAGE_HEADERS_MAX_BYTES);
    let mut archive = Archive::new(HeaderLimitReader { inner: reader, left_bytes: &left_bytes });
    archive.set_preserve_permissions(true);
    // On the host all files of an image belong to root, and every user may reach them: no set-id programs,
    // nothing world-writable.
    archive.set_mask(0o6002);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    let mut directories = vec![];
    for entry in archive.entries()? {
        let mut entry = entry?;
        quota.take(entry.size())?;
        left_bytes.set(entry.size() + IMAGE_HEADERS_MAX_BYTES);
        check_depth(&entry)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            // Directories get their mode last: it may forbid writing into them.
            directories.push(entry);
        } else if UNPACKED.contains(&kind) {
            unpack_entry(&mut entry, to)?;
        }
    }
    // Deepest first, so that a parent without write permission changes after its children.
    directories.sort_by_cached_key(|entry| std::cmp::Reverse(entry.path_bytes().into_owned()));
    for mut directory in directories {
        unpack_entry(&mut directory, to)?;
    }
    // An archive ends before the compressed stream does: only at its end does a truncation or a wrong
    // checksum show.
    io::copy(&mut archive.into_inner().take(IMAGE_HEADERS_MAX_BYTES), &mut io::sink())?;
    Ok(quota.used_bytes())
}

/// Unpacks one entry. Absolute names are relative to the image; `..`, and names that leave the image through
/// a symlink, are refused.
fn unpack_entry<R: Read>(entry: &mut Entry<'_, R>, to: &Path) -> io::Result<()> {
    let name = entry.path()?.into_owned();
    let outside = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
    match entry.unpack_in(to).map_err(outside)? {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} leads out of the image", name.display()))),
    }
}

fn check_depth<R: Read>(entry: &Entry<'_, R>) -> io::Result<()> {
    let parts = entry.path()?.components().filter(|part| matches!(part, Component::Normal(_))).count();
    if parts > IMAGE_DEPTH_MAX {
        return Err(io::Error::other(format!("nested deeper than {IMAGE_DEPTH_MAX} directories")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_detected_by_magic_number() {
        let table: [(&[u8], Compression); 10] = [
            (b"", Compression::Plain),
            (b"./", Compression::Plain),
            (b"\x1f\x8b\x08", Compression::Gzip),
            (b"\x28\xb5\x2f\xfd\x04", Compression::Zstd),
            (b"\x50\x2a\x4d\x18", Compression::Zstd),
            (b"\x28\xb5\x2f", Compression::Plain),
            (b"\xfd7zXZ\0", Compression::Other("xz")),
            (b"BZh91A", Compression::Other("bzip2")),
            (b"\x04\x22\x4d\x18", Compression::Other("lz4")),
            (b"PK\x03\x04", Compression::Other("zip")),
        ];
        for (beginning, packing) in table {
            assert_eq!(Compression::of(beginning), packing, "{beginning:?}");
        }
    }
}
