//! Packs a tree, or one file. Links are packed as links; FIFOs, sockets, devices and what the sandbox's user may not
//! read are left out.

use super::{
    chunks::{Chunks, SharedExchange},
    content::Content,
    tar_writer::TarWriter,
    zip_writer::ZipWriter,
};
use crate::{
    Exchange, FilesError, Workspace,
    copy::open_visited,
    exchange::gone,
    limits::{ARCHIVE_MAX_BYTES, ARCHIVE_MAX_ENTRIES},
    walk::{Visited, Walk, WalkOptions},
    workspace::{child_path, file_kind, reopen},
};
use flate2::{Compression, write::GzEncoder};
use nix::{
    fcntl::OFlag,
    sys::stat::{FileStat, SFlag, fstat},
};
use protocol::files::{ArchiveFormat, FileEntry, FilePath, FileType, FilesReply, Selection};
use std::{cell::RefCell, fs::File, time::Instant};

/// The processors are shared with the sandboxes: speed before size.
pub const COMPRESSION: Compression = Compression::fast();

/// What an archive says of an entry beside its kind.
pub struct MemberHeader {
    /// Relative to the top of the archive, without a slash at its end.
    pub name: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since the Unix epoch.
    pub modified: i64,
    pub size: u64,
}

/// A format of archives.
pub trait ArchiveWriter {
    fn directory(&mut self, header: &MemberHeader) -> Result<(), FilesError>;
    fn link(&mut self, header: &MemberHeader, target: &[u8]) -> Result<(), FilesError>;
    fn file(&mut self, header: &MemberHeader, content: &mut Content<'_>) -> Result<(), FilesError>;
}

pub fn pack(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    path: &FilePath,
    format: ArchiveFormat,
    select: &Selection,
) -> Result<(), FilesError> {
    // Before the reply: what fails here is the answer.
    let source = Source::open(workspace, path, select)?;
    exchange.reply(FilesReply::Archive).map_err(gone)?;
    let exchange = RefCell::new(exchange);
    let chunks = Chunks::new(&exchange);
    match format {
        ArchiveFormat::Tar => {
            let mut writer = TarWriter::new(chunks);
            source.write(&mut writer, &exchange)?;
            writer.finish()?.finish()
        }
        ArchiveFormat::TarGz => {
            let mut writer = TarWriter::new(GzEncoder::new(chunks, COMPRESSION));
            source.write(&mut writer, &exchange)?;
            writer.finish()?.finish().map_err(gone)?.finish()
        }
        ArchiveFormat::Zip => {
            let mut writer = ZipWriter::new(chunks);
            source.write(&mut writer, &exchange)?;
            writer.finish()?.finish()
        }
    }
}

enum Source<'a> {
    Tree { walk: Walk<'a>, prefix: usize },
    File { file: File, stat: FileStat, path: &'a FilePath },
}

impl<'a> Source<'a> {
    fn open(workspace: &'a Workspace, path: &'a FilePath, select: &Selection) -> Result<Self, FilesError> {
        let found = workspace.open_path(path, true)?;
        let stat = fstat(&found).map_err(FilesError::at("inspect the path", path))?;
        if file_kind(&stat) == SFlag::S_IFDIR {
            let options = WalkOptions { depth: u32::MAX, select, after: None, wanted: usize::MAX };
            let walk = Walk::new(workspace, path, &options)?;
            return Ok(Self::Tree { walk, prefix: child_path(path, b"").0.len() });
        }
        let (file, stat) = reopen(&found, path, OFlag::O_RDONLY)?;
        Ok(Self::File { file, stat, path })
    }

    fn write(self, writer: &mut dyn ArchiveWriter, exchange: &SharedExchange<'_>) -> Result<(), FilesError> {
        let mut packer = Packer { writer, entries: 0, bytes: 0, buffer: Content::buffer() };
        let (mut walk, prefix) = match self {
            Self::Tree { walk, prefix } => (walk, prefix),
            Self::File { file, stat, path } => {
                let name = path.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                return packer.file(name.to_vec(), &file, &stat, path);
            }
        };
        loop {
            let visited = {
                let exchange = exchange.borrow();
                walk.next(&**exchange)?
            };
            let Some(visited) = visited else { return Ok(()) };
            let since = Instant::now();
            packer.visited(&visited, prefix)?;
            // The caller's pace is not the tree's.
            walk.extend_deadline(since.elapsed());
        }
    }
}

struct Packer<'a> {
    writer: &'a mut dyn ArchiveWriter,
    entries: u64,
    bytes: u64,
    buffer: Vec<u8>,
}

impl Packer<'_> {
    fn visited(&mut self, visited: &Visited<'_>, prefix: usize) -> Result<(), FilesError> {
        self.count()?;
        let entry = &visited.entry;
        let name = entry.path.0[prefix..].to_vec();
        match entry.kind {
            FileType::Directory => self.writer.directory(&header_of(name, entry, 0)),
            FileType::Symlink => match &entry.target {
                Some(target) => self.writer.link(&header_of(name, entry, 0), &target.0),
                None => Ok(()),
            },
            FileType::File => match open_readable(visited)? {
                Some((file, stat)) => self.file(name, &file, &stat, &entry.path),
                None => Ok(()),
            },
            FileType::Fifo | FileType::Socket | FileType::Device => Ok(()),
        }
    }

    fn file(
        &mut self,
        name: Vec<u8>,
        file: &File,
        stat: &FileStat,
        path: &FilePath,
    ) -> Result<(), FilesError> {
        let entry = crate::entry::of_stat(path.clone(), stat, None);
        self.bytes = self.bytes.saturating_add(entry.size);
        if self.bytes > ARCHIVE_MAX_BYTES {
            let message = format!("the files have more than {ARCHIVE_MAX_BYTES} bytes: pack a part of them");
            return Err(FilesError::TooLarge { message });
        }
        let mut content = Content::new(file, path, entry.size, &mut self.buffer);
        self.writer.file(&header_of(name, &entry, entry.size), &mut content)
    }

    fn count(&mut self) -> Result<(), FilesError> {
        self.entries += 1;
        if self.entries <= ARCHIVE_MAX_ENTRIES {
            return Ok(());
        }
        let message = format!("the tree has more than {ARCHIVE_MAX_ENTRIES} entries: pack a part of it");
        Err(FilesError::TooMany { message })
    }
}

/// Opens a file where it was found; `None` where it is gone, became something else, or may not be read.
fn open_readable(visited: &Visited<'_>) -> Result<Option<(File, FileStat)>, FilesError> {
    let opened = open_visited(visited).and_then(|found| {
        found.map(|found| reopen(&found, &visited.entry.path, OFlag::O_RDONLY)).transpose()
    });
    match opened {
        Err(FilesError::Denied { .. } | FilesError::NotAFile { .. } | FilesError::NotFound { .. }) => {
            Ok(None)
        }
        other => other,
    }
}

fn header_of(name: Vec<u8>, entry: &FileEntry, size: u64) -> MemberHeader {
    MemberHeader { name, mode: entry.mode & 0o777, modified: entry.modified.seconds, size }
}
