//! Writes a tar archive. Names and targets are their bytes; long ones go before their entry, as GNU tar has it.
//!
//! The builder of the `tar` crate is not used: it cleans paths, and ends the archive also after an error.

use super::{
    content::Content,
    pack::{ArchiveWriter, MemberHeader},
};
use crate::{FilesError, exchange::gone};
use std::io::Write;
use tar::{EntryType, Header};

const BLOCK_BYTES: usize = 512;
const ZEROS: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];
/// User and group of the sandbox.
const SANDBOX_ID: u64 = 1000;
/// The name of an entry that holds a long name, by convention.
const LONG_LINK: &[u8] = b"././@LongLink";

pub struct TarWriter<W> {
    out: W,
}

impl<W: Write> TarWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Ends the archive; returns where it was written to.
    pub fn finish(mut self) -> Result<W, FilesError> {
        self.write(&ZEROS)?;
        Ok(self.out)
    }

    /// Only the caller's end can fail.
    fn write(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        self.out.write_all(bytes).map_err(gone)
    }

    fn pad(&mut self, written: u64) -> Result<(), FilesError> {
        let over = usize::try_from(written % BLOCK_BYTES as u64).unwrap_or(0);
        if over == 0 { Ok(()) } else { self.write(&ZEROS[..BLOCK_BYTES - over]) }
    }

    fn header(
        &mut self,
        kind: EntryType,
        name: &[u8],
        target: &[u8],
        member: &MemberHeader,
    ) -> Result<(), FilesError> {
        let mut header = Header::new_gnu();
        let fields = header.as_old_mut();
        let long_target = !put(&mut fields.linkname, target);
        let long_name = !put(&mut fields.name, name);
        if long_target {
            self.long(EntryType::GNULongLink, target)?;
        }
        if long_name {
            self.long(EntryType::GNULongName, name)?;
        }
        header.set_entry_type(kind);
        header.set_mode(member.mode);
        header.set_uid(SANDBOX_ID);
        header.set_gid(SANDBOX_ID);
        header.set_mtime(u64::try_from(member.modified).unwrap_or(0));
        header.set_size(member.size);
        header.set_cksum();
        self.write(header.as_bytes())
    }

    /// Writes the entry that holds the whole name, or target, of the next.
    fn long(&mut self, kind: EntryType, bytes: &[u8]) -> Result<(), FilesError> {
        let mut header = Header::new_gnu();
        put(&mut header.as_old_mut().name, LONG_LINK);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        let size = bytes.len() as u64 + 1;
        header.set_size(size);
        header.set_cksum();
        self.write(header.as_bytes())?;
        self.write(bytes)?;
        self.write(b"\0")?;
        self.pad(size)
    }
}

/// Puts bytes into a field, as many as it holds. Returns whether that is all.
fn put(field: &mut [u8], bytes: &[u8]) -> bool {
    let count = bytes.len().min(field.len());
    field[..count].copy_from_slice(&bytes[..count]);
    count == bytes.len()
}

impl<W: Write> ArchiveWriter for TarWriter<W> {
    fn directory(&mut self, header: &MemberHeader) -> Result<(), FilesError> {
        let name = [&header.name[..], b"/"].concat();
        self.header(EntryType::Directory, &name, b"", header)
    }

    fn link(&mut self, header: &MemberHeader, target: &[u8]) -> Result<(), FilesError> {
        self.header(EntryType::Symlink, &header.name, target, header)
    }

    fn file(&mut self, header: &MemberHeader, content: &mut Content<'_>) -> Result<(), FilesError> {
        self.header(EntryType::Regular, &header.name, b"", header)?;
        loop {
            let bytes = content.next()?;
            if bytes.is_empty() {
                return self.pad(header.size);
            }
            self.out.write_all(bytes).map_err(gone)?;
        }
    }
}
