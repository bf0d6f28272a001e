//! Reads tar archives, which may be hostile, member by member: ustar, GNU and PAX.
//!
//! The headers of a member are bounded. Values of PAX records are taken by their length, not by lines: extended
//! attributes are binary. Links, directories and devices have no content, whatever size their header says, as in Go and
//! GNU tar. Global PAX headers are ignored, as Docker does.

mod header;
mod member;
mod pax;
mod sparse;

pub use member::{Member, MemberKind, Mtime, Segment, Xattr};

use crate::limits::{ARCHIVE_PADDING_MAX_BYTES, ENTRY_HEADERS_MAX_BYTES};
use header::{BLOCK_BYTES, padding};
use member::Extensions;
use std::io::{self, BufRead, BufReader, Read, Seek};
use tar::Header;

/// Why an archive cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    #[error("the archive could not be read")]
    Read(#[from] io::Error),
    #[error("the archive is damaged: {0}")]
    Damaged(&'static str),
    #[error("an entry has headers of more than {} KiB", ENTRY_HEADERS_MAX_BYTES >> 10)]
    HeadersTooLarge,
    #[error("it has sparse files in the format of PAX: create the archive without --sparse")]
    SparsePax,
    #[error("more than {} KiB follow the end of the archive", ARCHIVE_PADDING_MAX_BYTES >> 10)]
    AfterEnd,
}

type Skip<R> = fn(&mut R, u64) -> io::Result<()>;

/// Reads one archive.
pub struct TarReader<R> {
    source: R,
    skip: Skip<R>,
    /// Content of the current member that was not read yet, and the padding after it.
    data_left: u64,
    padding_left: u64,
    position: u64,
}

impl<R: BufRead> TarReader<R> {
    pub fn new(source: R) -> Self {
        Self { source, skip: skip_by_reading, data_left: 0, padding_left: 0, position: 0 }
    }
}

impl<R: Read + Seek> TarReader<BufReader<R>> {
    /// Reads the headers of a file and jumps over contents; a file that ends too early is not noticed.
    pub fn of_file(file: R) -> Self {
        let source = BufReader::new(file);
        Self { source, skip: skip_by_seeking, data_left: 0, padding_left: 0, position: 0 }
    }
}

impl<R: BufRead> TarReader<R> {
    /// Returns the next member, whose content is then read by [`Self::content`].
    #[expect(clippy::should_implement_trait, reason = "an iterator would go on after an error")]
    pub fn next(&mut self) -> Result<Option<Member>, TarError> {
        self.skip_member()?;
        let mut extensions = Extensions::default();
        let mut headers_left = ENTRY_HEADERS_MAX_BYTES;
        loop {
            let Some(block) = self.read_header()? else {
                let pending = extensions.is_pending();
                return if pending { Err(TarError::Damaged("it ends after a header")) } else { Ok(None) };
            };
            let header = Header::from_byte_slice(&block);
            header::check(header)?;
            let kind = header.entry_type().as_byte();
            if !matches!(kind, b'L' | b'K' | b'x' | b'g') {
                return self.member(header, extensions, headers_left).map(Some);
            }
            let size = header::size(header)?;
            let taken = size.saturating_add(padding(size)).saturating_add(BLOCK_BYTES as u64);
            headers_left = headers_left.checked_sub(taken).ok_or(TarError::HeadersTooLarge)?;
            let content = self.read_extension(size)?;
            extensions.add(kind, content)?;
        }
    }

    fn member(
        &mut self,
        header: &Header,
        extensions: Extensions,
        headers_left: u64,
    ) -> Result<Member, TarError> {
        let (mut member, stored) = extensions.into_member(header)?;
        if header.entry_type().is_gnu_sparse() {
            let mut map = sparse::Map::begin(header, stored)?;
            let mut blocks_left = headers_left / BLOCK_BYTES as u64;
            while map.is_continued() {
                blocks_left = blocks_left.checked_sub(1).ok_or(TarError::HeadersTooLarge)?;
                map.extend(
                    &self.read_block()?.ok_or(TarError::Damaged("it ends in a map of a sparse file"))?,
                )?;
            }
            let (segments, size) = map.finish()?;
            (member.sparse, member.size) = (Some(segments), size);
        }
        (self.data_left, self.padding_left) = (stored, padding(stored));
        Ok(member)
    }

    /// Returns the next bytes of the member's content, which [`Self::consume`] takes; nothing at its end.
    pub fn content(&mut self) -> io::Result<&[u8]> {
        if self.data_left == 0 {
            return Ok(&[]);
        }
        let bytes = self.source.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(self.data_left).unwrap_or(usize::MAX).min(bytes.len());
        Ok(&bytes[..length])
    }

    pub fn consume(&mut self, bytes: usize) {
        self.source.consume(bytes);
        self.data_left -= bytes as u64;
        self.position += bytes as u64;
    }

    /// Returns the number of bytes before the content that is read next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads what follows the last member, so that the whole archive was read.
    pub fn finish(mut self) -> Result<R, TarError> {
        let mut left = ARCHIVE_PADDING_MAX_BYTES;
        loop {
            let length = self.source.fill_buf()?.len();
            if length == 0 {
                return Ok(self.source);
            }
            left = left.checked_sub(length as u64).ok_or(TarError::AfterEnd)?;
            self.source.consume(length);
        }
    }

    fn skip_member(&mut self) -> Result<(), TarError> {
        let left = self.data_left + self.padding_left;
        if left > 0 {
            (self.skip)(&mut self.source, left)?;
            self.position += left;
        }
        (self.data_left, self.padding_left) = (0, 0);
        Ok(())
    }

    fn read_extension(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        let mut content = vec![0; usize::try_from(size).map_err(|_| TarError::HeadersTooLarge)?];
        self.source.read_exact(&mut content)?;
        skip_by_reading(&mut self.source, padding(size))?;
        self.position += size + padding(size);
        Ok(content)
    }

    /// Reads a header; nothing at the end of the archive, which is a block of zeros or the end of the file.
    fn read_header(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, TarError> {
        Ok(self.read_block()?.filter(|block| block.iter().any(|byte| *byte != 0)))
    }

    fn read_block(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, TarError> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut block = [0; BLOCK_BYTES];
        self.source.read_exact(&mut block)?;
        self.position += BLOCK_BYTES as u64;
        Ok(Some(block))
    }
}

fn skip_by_reading<R: BufRead>(source: &mut R, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let length = source.fill_buf()?.len() as u64;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = length.min(bytes);
        source.consume(usize::try_from(length).expect("as long as the buffer at most"));
        bytes -= length;
    }
    Ok(())
}

fn skip_by_seeking<R: Read + Seek>(source: &mut BufReader<R>, bytes: u64) -> io::Result<()> {
    let bytes = i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    source.seek_relative(bytes)
}

#[cfg(test)]
mod tests;
