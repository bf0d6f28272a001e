//! Unpacks an archive into an image. The archive may be hostile: nothing leaves the directory, no device
//! is made, and size and number have limits.

use crate::driver::local::limits::{IMAGE_DEPTH_MAX, IMAGE_MAX_BYTES, IMAGE_MAX_ENTRIES};
use flate2::read::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::{Component, Path},
};
use tar::{Archive, Entry, EntryType};

/// What an image may still take.
pub struct Allowance {
    bytes: u64,
    entries: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: IMAGE_MAX_BYTES, entries: IMAGE_MAX_ENTRIES }
    }
}

impl Allowance {
    pub fn take(&mut self, bytes: u64) -> io::Result<()> {
        let too = |what: String| io::Error::other(format!("the image has more than {what}"));
        self.entries =
            self.entries.checked_sub(1).ok_or_else(|| too(format!("{IMAGE_MAX_ENTRIES} entries")))?;
        self.bytes =
            self.bytes.checked_sub(bytes).ok_or_else(|| too(format!("{} GiB", IMAGE_MAX_BYTES >> 30)))?;
        Ok(())
    }

    pub fn used_bytes(&self) -> u64 {
        IMAGE_MAX_BYTES - self.bytes
    }
}

/// How many bytes came out of it.
pub fn archive(source: &Path, to: &Path) -> io::Result<u64> {
    let mut file = File::open(source)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("neither a directory nor a file"));
    }
    let mut magic = [0; 2];
    let zipped = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    file.rewind()?;
    let reader = BufReader::new(file);
    if zipped { entries(MultiGzDecoder::new(reader), to) } else { entries(reader, to) }
}

fn entries(reader: impl Read, to: &Path) -> io::Result<u64> {
    let mut archive = Archive::new(reader);
    archive.set_preserve_permissions(true);
    // On the host every file of an image belongs to root, and anybody may get there: no set-id program, and
    // nothing that anybody may change.
    archive.set_mask(0o6002);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    let mut allowance = Allowance::default();
    let mut directories = vec![];
    for entry in archive.entries()? {
        let mut entry = entry?;
        allowance.take(entry.size())?;
        check_depth(&entry)?;
        match entry.header().entry_type() {
            // Their modes come last: one may forbid to write into it.
            EntryType::Directory => directories.push(entry),
            EntryType::Regular
            | EntryType::Continuous
            | EntryType::GNUSparse
            | EntryType::Link
            | EntryType::Symlink => one(&mut entry, to)?,
            // Devices, FIFOs and what archivers say to each other.
            _ => {}
        }
    }
    // The deepest first, so that a parent that forbids it is changed after its children.
    directories.sort_by_cached_key(|entry| std::cmp::Reverse(entry.path_bytes().into_owned()));
    for mut directory in directories {
        one(&mut directory, to)?;
    }
    Ok(allowance.used_bytes())
}

/// Absolute names are taken as relative to the image; `..`, and names that lead through a link out of it,
/// are refused.
fn one<R: Read>(entry: &mut Entry<'_, R>, to: &Path) -> io::Result<()> {
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
