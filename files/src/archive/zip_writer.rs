//! Writes a zip archive as a stream: the sizes of a file follow its content. Names are their bytes, said to be UTF-8
//! only where they are.

use super::{
    content::Content,
    pack::{ArchiveWriter, COMPRESSION, MemberHeader},
    zip_format::{
        CENTRAL_HEADER, DEFLATED, DESCRIPTOR, DESCRIPTOR_FOLLOWS, END, ENTRIES_IN_ZIP64, EXTRA_TIME,
        EXTRA_TIME_MODIFIED, EXTRA_ZIP64, IN_ZIP64, LOCAL_HEADER, STORED, UNIX, UTF8, ZIP64_END,
        ZIP64_END_BYTES, ZIP64_LOCATOR, dos_time,
    },
};
use crate::{FilesError, exchange::gone, limits::ZIP_DIRECTORY_MAX_BYTES};
use flate2::{Crc, write::DeflateEncoder};
use nix::sys::stat::SFlag;
use std::io::Write;

/// Versions of the format that a reader needs: with deflated content, with large files.
const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;
/// Files from this size on are written as large: their compressed content can be larger than they are.
const LARGE_BYTES: u64 = 0xFF00_0000;

pub struct ZipWriter<W> {
    out: W,
    written: u64,
    /// Keeps its tables from file to file.
    encoder: DeflateEncoder<Vec<u8>>,
    directory: Vec<u8>,
    entries: u64,
}

/// An entry as its headers have it.
struct Record<'a> {
    header: &'a MemberHeader,
    name: Vec<u8>,
    kind: SFlag,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u64,
    size: u64,
    /// Where its local header begins.
    offset: u64,
}

impl<W: Write> ZipWriter<W> {
    pub fn new(out: W) -> Self {
        let encoder = DeflateEncoder::new(Vec::new(), COMPRESSION);
        Self { out, written: 0, encoder, directory: Vec::new(), entries: 0 }
    }

    /// An archive that begins with this many bytes of something else.
    #[cfg(test)]
    pub fn behind(out: W, written: u64) -> Self {
        Self { written, ..Self::new(out) }
    }

    /// Writes the directory; returns where the archive was written to.
    pub fn finish(mut self) -> Result<W, FilesError> {
        let directory = std::mem::take(&mut self.directory);
        let (offset, size) = (self.written, directory.len() as u64);
        self.write(&directory)?;
        let mut end = Vec::new();
        if self.entries >= u64::from(ENTRIES_IN_ZIP64) || offset >= u64::from(IN_ZIP64) {
            self.put_zip64_end(&mut end, offset, size);
        }
        put32(&mut end, END);
        put32(&mut end, 0);
        let entries = u16::try_from(self.entries).unwrap_or(ENTRIES_IN_ZIP64);
        put16(&mut end, entries);
        put16(&mut end, entries);
        put32(&mut end, clamped(size));
        put32(&mut end, clamped(offset));
        put16(&mut end, 0);
        self.write(&end)?;
        Ok(self.out)
    }

    fn put_zip64_end(&self, end: &mut Vec<u8>, offset: u64, size: u64) {
        put32(end, ZIP64_END);
        // Bytes of the record after this field.
        put64(end, ZIP64_END_BYTES as u64 - 12);
        put16(end, made_by());
        put16(end, VERSION_ZIP64);
        put64(end, 0);
        put64(end, self.entries);
        put64(end, self.entries);
        put64(end, size);
        put64(end, offset);
        put32(end, ZIP64_LOCATOR);
        put32(end, 0);
        put64(end, offset + size);
        put32(end, 1);
    }

    /// Only the caller's end can fail.
    fn write(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes).map_err(gone)
    }

    fn record<'a>(&self, header: &'a MemberHeader, kind: SFlag) -> Result<Record<'a>, FilesError> {
        let slash: &[u8] = if kind == SFlag::S_IFDIR { b"/" } else { b"" };
        let name = [&header.name[..], slash].concat();
        if name.len() > usize::from(u16::MAX) {
            let message = "a path is too long for zip: pack as tar".to_owned();
            return Err(FilesError::TooLarge { message });
        }
        let flags = if name.is_ascii() || std::str::from_utf8(&name).is_err() { 0 } else { UTF8 };
        let (offset, method) = (self.written, STORED);
        Ok(Record { header, name, kind, flags, method, crc: 0, compressed: 0, size: 0, offset })
    }

    /// Writes an entry whose content is at hand.
    fn stored(&mut self, header: &MemberHeader, kind: SFlag, content: &[u8]) -> Result<(), FilesError> {
        let mut record = self.record(header, kind)?;
        let mut crc = Crc::new();
        crc.update(content);
        (record.crc, record.size) = (crc.sum(), content.len() as u64);
        record.compressed = record.size;
        self.write(&record.local())?;
        self.write(content)?;
        self.list(&record)
    }

    /// Adds an entry to the directory.
    fn list(&mut self, record: &Record<'_>) -> Result<(), FilesError> {
        record.put_central(&mut self.directory);
        self.entries += 1;
        if self.directory.len() <= ZIP_DIRECTORY_MAX_BYTES {
            return Ok(());
        }
        let message = "the tree has too many entries for zip: pack as tar, or a part of it".to_owned();
        Err(FilesError::TooMany { message })
    }

    /// Writes what the encoder has ready.
    fn write_encoded(&mut self) -> Result<(), FilesError> {
        let mut ready = std::mem::take(self.encoder.get_mut());
        self.write(&ready)?;
        ready.clear();
        *self.encoder.get_mut() = ready;
        Ok(())
    }
}

impl<W: Write> ArchiveWriter for ZipWriter<W> {
    fn directory(&mut self, header: &MemberHeader) -> Result<(), FilesError> {
        self.stored(header, SFlag::S_IFDIR, b"")
    }

    fn link(&mut self, header: &MemberHeader, target: &[u8]) -> Result<(), FilesError> {
        self.stored(header, SFlag::S_IFLNK, target)
    }

    fn file(&mut self, header: &MemberHeader, content: &mut Content<'_>) -> Result<(), FilesError> {
        if header.size == 0 {
            return self.stored(header, SFlag::S_IFREG, b"");
        }
        let mut record = self.record(header, SFlag::S_IFREG)?;
        record.method = DEFLATED;
        record.flags |= DESCRIPTOR_FOLLOWS;
        self.write(&record.local())?;
        let begin = self.written;
        let mut crc = Crc::new();
        loop {
            let bytes = content.next()?;
            if bytes.is_empty() {
                break;
            }
            crc.update(bytes);
            self.encoder.write_all(bytes).map_err(gone)?;
            self.write_encoded()?;
        }
        self.encoder.try_finish().map_err(gone)?;
        self.write_encoded()?;
        self.encoder.reset(Vec::new()).map_err(gone)?;
        (record.crc, record.size) = (crc.sum(), header.size);
        record.compressed = self.written - begin;
        self.write(&record.descriptor())?;
        self.list(&record)
    }
}

impl Record<'_> {
    /// Whether its sizes are numbers of 64 bits, decided before they are known.
    fn is_large(&self) -> bool {
        self.header.size >= LARGE_BYTES
    }

    fn local(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        let (mut compressed, mut size) = (clamped(self.compressed), clamped(self.size));
        if self.is_large() {
            (compressed, size) = (IN_ZIP64, IN_ZIP64);
            put16(&mut extra, EXTRA_ZIP64);
            put16(&mut extra, 16);
            put64(&mut extra, 0);
            put64(&mut extra, 0);
        }
        self.put_time(&mut extra);
        let mut out = Vec::new();
        put32(&mut out, LOCAL_HEADER);
        self.put_common(&mut out, compressed, size, &extra);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
        out
    }

    fn descriptor(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put32(&mut out, DESCRIPTOR);
        put32(&mut out, self.crc);
        if self.is_large() {
            put64(&mut out, self.compressed);
            put64(&mut out, self.size);
        } else {
            put32(&mut out, clamped(self.compressed));
            put32(&mut out, clamped(self.size));
        }
        out
    }

    fn put_central(&self, out: &mut Vec<u8>) {
        let large: Vec<u64> = [self.size, self.compressed, self.offset]
            .into_iter()
            .filter(|number| clamped(*number) == IN_ZIP64)
            .collect();
        let mut extra = Vec::new();
        if !large.is_empty() {
            put16(&mut extra, EXTRA_ZIP64);
            put16(&mut extra, u16::try_from(8 * large.len()).unwrap_or(0));
            large.into_iter().for_each(|number| put64(&mut extra, number));
        }
        self.put_time(&mut extra);
        put32(out, CENTRAL_HEADER);
        put16(out, made_by());
        self.put_common(out, clamped(self.compressed), clamped(self.size), &extra);
        // Comment, disk, internal attributes.
        out.extend_from_slice(&[0; 6]);
        let directory = u32::from(self.kind == SFlag::S_IFDIR) << 4;
        put32(out, (self.kind.bits() | self.header.mode) << 16 | directory);
        put32(out, clamped(self.offset));
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
    }

    /// The fields that both headers have.
    fn put_common(&self, out: &mut Vec<u8>, compressed: u32, size: u32, extra: &[u8]) {
        let (time, date) = dos_time(self.header.modified);
        let is_zip64 = self.is_large() || clamped(self.offset) == IN_ZIP64;
        put16(out, if is_zip64 { VERSION_ZIP64 } else { VERSION });
        put16(out, self.flags);
        put16(out, self.method);
        put16(out, time);
        put16(out, date);
        put32(out, self.crc);
        put32(out, compressed);
        put32(out, size);
        put16(out, u16::try_from(self.name.len()).unwrap_or(u16::MAX));
        put16(out, u16::try_from(extra.len()).unwrap_or(u16::MAX));
    }

    /// The time in seconds, where the field holds it.
    fn put_time(&self, extra: &mut Vec<u8>) {
        if let Ok(seconds) = i32::try_from(self.header.modified) {
            put16(extra, EXTRA_TIME);
            put16(extra, 5);
            extra.push(EXTRA_TIME_MODIFIED);
            extra.extend_from_slice(&seconds.to_le_bytes());
        }
    }
}

/// The number, or the one that says that it is elsewhere.
fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(IN_ZIP64)
}

fn made_by() -> u16 {
    u16::from(UNIX) << 8 | VERSION_ZIP64
}

fn put16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}
