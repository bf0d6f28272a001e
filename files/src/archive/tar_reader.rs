//! Reads a tar archive entry by entry. Extended attributes, owners and devices are not unpacked.

use super::{
    extract::{Attributes, Extractor, Member},
    meter::{Decoded, Meter, Whole},
};
use crate::FilesError;
use protocol::files::FileTime;
use std::io::{self, Read};
use tar::{Archive, Entry, EntryType};

const FILE_MODE: u32 = 0o644;

pub fn read(source: impl Read, meter: &Meter, extractor: &mut Extractor<'_>) -> Result<(), FilesError> {
    let failed = |error: io::Error| meter.error(&error);
    let mut archive = Archive::new(Decoded::new(source, meter));
    let mut entries = archive.entries().map_err(failed)?;
    loop {
        // The crate holds the long names and extensions of an entry in memory.
        meter.begin_headers();
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(failed)?;
        meter.begin_content();
        let described = Described::of(&mut entry).map_err(failed)?;
        let size = entry.size();
        let mut content = Whole::new(&mut entry, size, meter);
        described.add(extractor, &mut content)?;
        // What was not unpacked.
        content.drain().map_err(failed)?;
    }
    meter.begin_content();
    if meter.received() == 0 {
        return Err(FilesError::invalid("the archive is empty"));
    }
    // To the end, where the checksum of its compression is.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
    Ok(())
}

/// An entry, apart from its content.
struct Described {
    name: Vec<u8>,
    target: Vec<u8>,
    kind: EntryType,
    attributes: Attributes,
    /// A file with holes, in a form that is written by GNU tar with `--format=posix` only.
    sparse: bool,
}

impl Described {
    fn of<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Self> {
        let name = entry.path_bytes().into_owned();
        let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        let header = entry.header();
        let kind = header.entry_type();
        let mode = header.mode().unwrap_or(FILE_MODE);
        let seconds = header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
        let mut modified = FileTime { seconds, nanos: 0 };
        let mut sparse = false;
        // Of an entry that is an extension itself, the crate would read its content.
        let is_extension = kind.is_pax_global_extensions() || kind.is_pax_local_extensions();
        let extensions = if is_extension { None } else { entry.pax_extensions()? };
        for extension in extensions.into_iter().flatten() {
            let extension = extension?;
            match extension.key_bytes() {
                b"mtime" => modified = extension.value().ok().and_then(parse_time).unwrap_or(modified),
                key => sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(Self { name, target, kind, attributes: Attributes { mode, modified }, sparse })
    }

    fn add(&self, extractor: &mut Extractor<'_>, content: &mut dyn Read) -> Result<(), FilesError> {
        let member = match self.kind {
            EntryType::XGlobalHeader => return Ok(()),
            _ if self.sparse => {
                Member::Unsupported { reason: "a file with holes in this form: pack with --format=gnu" }
            }
            EntryType::Directory => Member::Directory,
            // Of the oldest archives.
            EntryType::Regular if self.name.ends_with(b"/") => Member::Directory,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Member::File { content },
            EntryType::Symlink => Member::Symlink { target: &self.target },
            EntryType::Link => Member::HardLink { target: &self.target },
            EntryType::Char | EntryType::Block => Member::Unsupported { reason: "a device" },
            EntryType::Fifo => Member::Unsupported { reason: "a FIFO" },
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => {
                Member::Unsupported { reason: "an extension of no entry" }
            }
            _ => Member::Unsupported { reason: "an entry of unknown kind" },
        };
        extractor.add(&self.name, self.attributes, member)
    }
}

/// Parses a time as extensions have it: seconds, with decimals.
fn parse_time(text: &str) -> Option<FileTime> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = decimals.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = digits.parse().ok()?;
    Some(match (whole.starts_with('-'), nanos) {
        (true, 1..) => FileTime { seconds: seconds.checked_sub(1)?, nanos: 1_000_000_000 - nanos },
        _ => FileTime { seconds, nanos },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_decimals() {
        let table = [
            ("0", Some((0, 0))),
            ("1700000000.5", Some((1_700_000_000, 500_000_000))),
            ("1.0000000019", Some((1, 1))),
            ("-1.25", Some((-2, 750_000_000))),
            ("-0.25", Some((-1, 750_000_000))),
            ("", None),
            ("1.x", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(seconds, nanos)| FileTime { seconds, nanos });
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
