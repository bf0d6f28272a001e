//! Reads a zip archive by its directory, one header at a time.

use super::{
    extract::{Attributes, Extractor, Member},
    meter::{Meter, Whole},
    zip_format::{
        CENTRAL_HEADER, CENTRAL_HEADER_BYTES, DEFLATED, ENCRYPTED, END, END_BYTES, ENTRIES_IN_ZIP64,
        EXTRA_TIME, EXTRA_TIME_MODIFIED, EXTRA_ZIP64, IN_ZIP64, LOCAL_HEADER, LOCAL_HEADER_BYTES, MAC_OS,
        STORED, UNIX, ZIP64_END, ZIP64_END_BYTES, ZIP64_LOCATOR, ZIP64_LOCATOR_BYTES, unix_time,
    },
};
use crate::{Exchange, FilesError, limits::PATH_MAX_BYTES};
use flate2::{Crc, read::DeflateDecoder};
use nix::sys::stat::SFlag;
use protocol::files::FileTime;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// The end has a comment of at most 65,535 bytes.
const END_MAX_BYTES: u64 = END_BYTES as u64 + 0xFFFF;

pub fn read(
    file: &File,
    exchange: &dyn Exchange,
    meter: &Meter,
    extractor: &mut Extractor<'_>,
) -> Result<(), FilesError> {
    let failed = |error: io::Error| meter.error(&error);
    let mut directory = Directory::find(file).map_err(failed)?;
    meter.check_entries(directory.entries)?;
    while let Some(entry) = directory.next().map_err(failed)? {
        if exchange.is_cancelled() {
            return Err(FilesError::Cancelled);
        }
        meter.check_work().map_err(failed)?;
        add(&entry, file, meter, extractor)?;
    }
    Ok(())
}

/// Where the entries are listed.
pub struct Directory<'a> {
    file: &'a File,
    /// Bytes before the archive, of a program that unpacks itself.
    shift: u64,
    entries: u64,
    at: u64,
    end: u64,
}

/// What the directory says of an entry.
pub struct Listed {
    pub name: Vec<u8>,
    kind: SFlag,
    attributes: Attributes,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u64,
    size: u64,
    /// Of its local header.
    pub offset: u64,
}

impl<'a> Directory<'a> {
    pub fn find(file: &'a File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut tail = vec![0; usize::try_from(length.min(END_MAX_BYTES)).unwrap_or(0)];
        let tail_at = length - tail.len() as u64;
        file.read_exact_at(&mut tail, tail_at)?;
        let fits = |at: &usize| {
            let end = &tail[*at..];
            u32_at(end, 0) == END && END_BYTES + usize::from(u16_at(end, 20)) <= end.len()
        };
        let found = (0..(tail.len() + 1).saturating_sub(END_BYTES)).rev().find(fits);
        let found = found.ok_or_else(|| corrupt("it has no end of a zip archive"))?;
        let end = &tail[found..];
        let mut end_at = tail_at + found as u64;
        let mut entries = u64::from(u16_at(end, 10));
        let (mut size, mut offset) = (u64::from(u32_at(end, 12)), u64::from(u32_at(end, 16)));
        let is_large =
            u16_at(end, 10) == ENTRIES_IN_ZIP64 || u32_at(end, 12) == IN_ZIP64 || u32_at(end, 16) == IN_ZIP64;
        if let Some(large) = if is_large { zip64_end(file, end_at)? } else { None } {
            (end_at, entries, size, offset) = large;
        }
        let begin = end_at.checked_sub(size);
        let shift = begin.and_then(|begin| begin.checked_sub(offset));
        let (Some(at), Some(shift)) = (begin, shift) else {
            return Err(corrupt("its directory is not where its end says"));
        };
        if entries > size / CENTRAL_HEADER_BYTES as u64 {
            return Err(corrupt("its directory is too small for its entries"));
        }
        Ok(Self { file, shift, entries, at, end: end_at })
    }

    pub fn next(&mut self) -> io::Result<Option<Listed>> {
        let Some(left) = self.entries.checked_sub(1) else { return Ok(None) };
        self.entries = left;
        let header: [u8; CENTRAL_HEADER_BYTES] = read_at(self.file, self.at)?;
        if u32_at(&header, 0) != CENTRAL_HEADER {
            return Err(corrupt("its directory has no entry where one should be"));
        }
        let lengths = [28, 30, 32].map(|at| usize::from(u16_at(&header, at)));
        let mut variable = vec![0; lengths[0] + lengths[1]];
        self.file.read_exact_at(&mut variable, self.at + header.len() as u64)?;
        self.at += (header.len() + lengths.iter().sum::<usize>()) as u64;
        if self.at > self.end {
            return Err(corrupt("its directory is longer than its end says"));
        }
        let extra = variable.split_off(lengths[0]);
        let mut listed = Listed::of(&header, variable, &extra)?;
        listed.offset =
            listed.offset.checked_add(self.shift).ok_or_else(|| corrupt("an offset is too large"))?;
        Ok(Some(listed))
    }
}

/// Where the large end is, its entries, the size and the offset of the directory; `None` where there is none.
fn zip64_end(file: &File, end_at: u64) -> io::Result<Option<(u64, u64, u64, u64)>> {
    let Some(locator_at) = end_at.checked_sub(ZIP64_LOCATOR_BYTES as u64) else { return Ok(None) };
    let locator: [u8; ZIP64_LOCATOR_BYTES] = read_at(file, locator_at)?;
    if u32_at(&locator, 0) != ZIP64_LOCATOR {
        return Ok(None);
    }
    // Before the locator, and without an extension, as all known programs write it.
    let at = locator_at.checked_sub(ZIP64_END_BYTES as u64);
    let at = at.ok_or_else(|| corrupt("its large end is missing"))?;
    let end: [u8; ZIP64_END_BYTES] = read_at(file, at)?;
    if u32_at(&end, 0) != ZIP64_END {
        return Err(corrupt("its large end is missing"));
    }
    Ok(Some((at, u64_at(&end, 32), u64_at(&end, 40), u64_at(&end, 48))))
}

impl Listed {
    fn of(header: &[u8], name: Vec<u8>, extra: &[u8]) -> io::Result<Self> {
        let is_unix = matches!(header[5], UNIX | MAC_OS);
        let mode = if is_unix { u32_at(header, 38) >> 16 } else { 0 };
        let (kind, default) = match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
            kind if !kind.is_empty() => (kind, FILE_MODE),
            _ if name.ends_with(b"/") => (SFlag::S_IFDIR, DIRECTORY_MODE),
            _ => (SFlag::S_IFREG, FILE_MODE),
        };
        let mode = if mode == 0 { default } else { mode };
        let seconds = unix_time(u16_at(header, 12), u16_at(header, 14));
        let mut listed = Self {
            name,
            kind,
            attributes: Attributes { mode, modified: FileTime { seconds, nanos: 0 } },
            flags: u16_at(header, 8),
            method: u16_at(header, 10),
            crc: u32_at(header, 16),
            compressed: u64::from(u32_at(header, 20)),
            size: u64::from(u32_at(header, 24)),
            offset: u64::from(u32_at(header, 42)),
        };
        listed.extend(extra)?;
        Ok(listed)
    }

    /// Takes what the extra fields say.
    fn extend(&mut self, mut extra: &[u8]) -> io::Result<()> {
        while extra.len() >= 4 {
            let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let field = extra.get(4..4 + length).ok_or_else(|| corrupt("an extra field is cut"))?;
            extra = &extra[4 + length..];
            match id {
                EXTRA_ZIP64 => self.extend_sizes(field)?,
                EXTRA_TIME if field.len() >= 5 && field[0] & EXTRA_TIME_MODIFIED != 0 => {
                    self.attributes.modified.seconds = i64::from(u32_at(field, 1).cast_signed());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The numbers that do not fit the header, in this order.
    fn extend_sizes(&mut self, field: &[u8]) -> io::Result<()> {
        let mut numbers = field.chunks_exact(8).map(|number| u64_at(number, 0));
        for number in [&mut self.size, &mut self.compressed, &mut self.offset] {
            if *number == u64::from(IN_ZIP64) {
                *number = numbers.next().ok_or_else(|| corrupt("a large size is missing"))?;
            }
        }
        Ok(())
    }
}

fn add(entry: &Listed, file: &File, meter: &Meter, extractor: &mut Extractor<'_>) -> Result<(), FilesError> {
    let failed = |error: io::Error| meter.error(&error);
    let mut unsupported =
        |reason| extractor.add(&entry.name, entry.attributes, Member::Unsupported { reason });
    match entry.kind {
        SFlag::S_IFDIR => return extractor.add(&entry.name, entry.attributes, Member::Directory),
        SFlag::S_IFREG | SFlag::S_IFLNK => {}
        _ => return unsupported("a device, a FIFO or a socket"),
    }
    if entry.flags & ENCRYPTED != 0 {
        return unsupported("an encrypted file");
    }
    let section = section(entry, file, meter).map_err(failed)?;
    let mut stored;
    let mut deflated;
    let source: &mut dyn Read = match entry.method {
        STORED => {
            stored = section;
            &mut stored
        }
        DEFLATED => {
            deflated = DeflateDecoder::new(section);
            &mut deflated
        }
        _ => return unsupported("a file compressed in an unknown way"),
    };
    let mut content =
        Checked { source: Whole::new(source, entry.size, meter), crc: Crc::new(), expected: entry.crc };
    if entry.kind == SFlag::S_IFREG {
        return extractor.add(&entry.name, entry.attributes, Member::File { content: &mut content });
    }
    let mut target = Vec::new();
    // One byte more than a link holds: the kernel refuses it.
    content.take(PATH_MAX_BYTES as u64 + 1).read_to_end(&mut target).map_err(failed)?;
    extractor.add(&entry.name, entry.attributes, Member::Symlink { target: &target })
}

/// The bytes of an entry in the archive.
fn section<'a>(entry: &Listed, file: &'a File, meter: &'a Meter) -> io::Result<Section<'a>> {
    let header: [u8; LOCAL_HEADER_BYTES] = read_at(file, entry.offset)?;
    if u32_at(&header, 0) != LOCAL_HEADER {
        return Err(corrupt("an entry is not where its directory says"));
    }
    let variable = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
    let at = entry.offset + LOCAL_HEADER_BYTES as u64 + variable;
    if at.saturating_add(entry.compressed) > file.metadata()?.len() {
        return Err(corrupt("an entry is longer than the archive"));
    }
    Ok(Section { file, meter, at, left: entry.compressed })
}

/// A part of the archive. It looks at the clock: content can be long and unpack to nothing.
struct Section<'a> {
    file: &'a File,
    meter: &'a Meter,
    at: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check_work()?;
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Content whose checksum is compared at its end.
struct Checked<R> {
    source: R,
    crc: Crc,
    expected: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.crc.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && self.crc.sum() != self.expected {
            return Err(corrupt("the checksum of a file is wrong"));
        }
        Ok(count)
    }
}

fn corrupt(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn read_at<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).map(|()| bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
