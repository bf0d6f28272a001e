//! The entry point for the home of a sandbox: a note about it, its files, and a caller that says when there is no more room.

use super::{
    UnpackError,
    attributes::TreeForm,
    entry_path::{EntryPath, Meaning},
    read_ahead::with_read_ahead,
    tree_writer::TreeWriter,
    unpack::write_members,
};
use crate::{
    limits::METER_STEP_BYTES,
    tar_reader::{Member, MemberKind, TarReader},
    tree_quota::TreeQuota,
};
use std::{
    io::{self, BufRead, Read},
    path::Path,
};

/// How the archive of a home is unpacked.
pub struct HomeArchive<'a> {
    /// The owner of directories that the archive does not list.
    pub owner: u32,
    /// The name of the first member, if it is a note: not a file of the home, which may have one of the same name.
    pub note: &'a str,
    pub note_max_bytes: u64,
    /// Called every few megabytes with the bytes that were unpacked so far; an error ends the unpacking.
    pub meter: &'a mut dyn FnMut(u64) -> io::Result<()>,
}

impl HomeArchive<'_> {
    /// Unpacks files with their owners, modes and attributes of users into an empty directory, without devices, FIFOs,
    /// set-id files and capabilities. Returns the note. Needs root.
    pub fn unpack(
        self,
        compressed: impl Read + Send,
        to: &Path,
        quota: &mut TreeQuota,
    ) -> Result<Option<Vec<u8>>, UnpackError> {
        let unpacked = with_read_ahead(compressed, |source| {
            let source = Metered { source, read: 0, told: 0, meter: self.meter };
            let mut archive = TarReader::new(source);
            let mut first = archive.next()?;
            let is_note = first.as_ref().is_some_and(|member| is_note(member, self.note));
            let note = match is_note {
                true => Some(read_note(&mut archive, self.note_max_bytes)?),
                false => None,
            };
            if is_note {
                first = archive.next()?;
            }
            let tree = TreeWriter::open(to, TreeForm::Home { owner: self.owner })?;
            write_members(archive, first, tree, quota)?;
            Ok::<_, UnpackError>(note)
        });
        unpacked.map(|(note, _)| note)
    }
}

fn is_note(member: &Member, name: &str) -> bool {
    let Ok(path) = EntryPath::parse(&member.name) else { return false };
    let is_named = path.plain_meaning() == Meaning::Entry { parent: b"", name: name.as_bytes() };
    is_named && member.kind == MemberKind::File && member.sparse.is_none()
}

fn read_note<R: BufRead>(archive: &mut TarReader<R>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut note = Vec::new();
    loop {
        let length = {
            let bytes = archive.content()?;
            note.extend_from_slice(bytes);
            bytes.len()
        };
        if note.len() as u64 > max_bytes {
            return Err(io::Error::other(format!("its note has more than {max_bytes} bytes")));
        }
        match length {
            0 => return Ok(note),
            length => archive.consume(length),
        }
    }
}

/// Tells how much was read.
struct Metered<'a, R> {
    source: R,
    read: u64,
    told: u64,
    meter: &'a mut dyn FnMut(u64) -> io::Result<()>,
}

impl<R: BufRead> BufRead for Metered<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read - self.told >= METER_STEP_BYTES {
            self.told = self.read;
            (self.meter)(self.read)?;
        }
        self.source.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.read += bytes as u64;
        self.source.consume(bytes);
    }
}

impl<R: BufRead> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}
