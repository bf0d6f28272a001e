//! Writes the entries of a backup, with their hash at its end.

use super::{
    entry::{End, EntryDigest, EntryName},
    error::BackupError,
};
use protocol::api::BackupSummary;
use std::io::{self, Read, Write};
use tar::{EntryType, Header};

const BLOCK_BYTES: u64 = 512;
const ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];
const PIECE_BYTES: usize = 64 << 10;
const WRITE: &str = "write the backup";

pub struct EntryWriter<'a> {
    out: &'a mut dyn Write,
    digest: EntryDigest,
}

impl<'a> EntryWriter<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, digest: EntryDigest::default() }
    }

    pub fn bytes(&mut self, name: &EntryName, content: &[u8]) -> Result<(), BackupError> {
        self.entry(name, content.len() as u64, &mut &*content)
    }

    /// Writes an entry of this size; content that is shorter is an error.
    pub fn entry(&mut self, name: &EntryName, size: u64, content: &mut dyn Read) -> Result<(), BackupError> {
        let name = name.to_string();
        self.digest.begin(&name, size);
        self.header(&name, size).map_err(BackupError::io(WRITE))?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = content.read(&mut piece[..most]).map_err(BackupError::io("read a file"))?;
            if read == 0 {
                return Err(BackupError::io("read a file")(io::ErrorKind::UnexpectedEof.into()));
            }
            self.digest.update(&piece[..read]);
            self.out.write_all(&piece[..read]).map_err(BackupError::io(WRITE))?;
            left -= read as u64;
        }
        let over = usize::try_from(size % BLOCK_BYTES).unwrap_or(0);
        if over > 0 {
            self.out.write_all(&ZEROS[over..]).map_err(BackupError::io(WRITE))?;
        }
        Ok(())
    }

    /// Writes the last entry.
    pub fn end(mut self, summary: &BackupSummary) -> Result<(), BackupError> {
        let (entries, sha256) = self.digest.clone().finish();
        let end = End { entries, sha256, summary: summary.clone() };
        let text = serde_json::to_vec(&end).map_err(io::Error::other).map_err(BackupError::io(WRITE))?;
        self.bytes(&EntryName::End, &text)?;
        let finish = [ZEROS, ZEROS].concat();
        self.out.write_all(&finish).map_err(BackupError::io(WRITE))
    }

    fn header(&mut self, name: &str, size: u64) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_path(name)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_size(size);
        header.set_cksum();
        self.out.write_all(header.as_bytes())
    }
}
