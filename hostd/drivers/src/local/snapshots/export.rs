//! Writes a tree that nobody changes as a tar archive, which GNU tar reads: holes are not stored, and hard links are kept.

use super::{
    super::limits::{
        ARCHIVE_HOLE_MIN_BYTES, ARCHIVE_LINKS_MAX_BYTES, ARCHIVE_PARTS_MAX, ARCHIVE_ZEROS_FACTOR,
        ARCHIVE_ZEROS_MAX_BYTES,
    },
    archive::NOTE,
    extents::{Extent, Extents, extents},
    manifest::open,
    tree_limit::TreeLimit,
    walk::{WalkedEntry, unescaped, walk},
};
use nix::{
    fcntl::readlinkat,
    sys::stat::{FileStat, SFlag, lstat},
};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
};
use tar::{EntryType, GnuExtSparseHeader, Header};

const BLOCK: usize = 512;
const ZEROS: [u8; BLOCK] = [0; BLOCK];
const PIECE_BYTES: usize = 256 << 10;
const LONG_LINK: &[u8] = b"././@LongLink";
/// Fields of a header for a name and for a link.
const NAME_BYTES: usize = 100;

/// Writes a note and a tree.
pub fn write_tree(tree: &Path, note: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut archive = Archive { out, links: Links::default() };
    let mut header = Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(note.len() as u64);
    archive.header(header, NOTE.as_bytes(), b"")?;
    archive.out.write_all(note)?;
    archive.pad(note.len() as u64)?;
    archive.header(header_of(&lstat(tree)?, EntryType::Directory), b"./", b"")?;
    walk(tree, |entry| archive.entry(entry))?;
    archive.out.write_all(&ZEROS)?;
    archive.out.write_all(&ZEROS)
}

struct Archive<'a> {
    out: &'a mut dyn Write,
    links: Links,
}

impl Archive<'_> {
    fn entry(&mut self, entry: &WalkedEntry<'_>) -> io::Result<()> {
        let path = [&b"./"[..], &unescaped(entry.path)].concat();
        match entry.kind() {
            SFlag::S_IFDIR => {
                let path = [&path[..], b"/"].concat();
                self.header(header_of(&entry.stat, EntryType::Directory), &path, b"")
            }
            SFlag::S_IFLNK => {
                let target = readlinkat(entry.dir, entry.name)?;
                self.header(header_of(&entry.stat, EntryType::Symlink), &path, target.as_bytes())
            }
            SFlag::S_IFREG => match self.links.first_name(&entry.stat, &path)? {
                Some(first) => self.header(header_of(&entry.stat, EntryType::Link), &path, &first),
                None => self.file(&path, &entry.stat, &open(entry.dir, entry)?),
            },
            // FIFOs and sockets have no content.
            _ => Ok(()),
        }
    }

    fn file(&mut self, path: &[u8], stat: &FileStat, file: &File) -> io::Result<()> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let Extents { parts, data_bytes } = extents(file, size, ARCHIVE_HOLE_MIN_BYTES, ARCHIVE_PARTS_MAX)?;
        let stored = parts.iter().map(|part| part.bytes()).sum::<u64>();
        let zeros_max = data_bytes.saturating_mul(ARCHIVE_ZEROS_FACTOR).max(ARCHIVE_ZEROS_MAX_BYTES);
        if size - stored < ARCHIVE_HOLE_MIN_BYTES {
            let mut header = header_of(stat, EntryType::Regular);
            header.set_size(size);
            self.header(header, path, b"")?;
            self.part(file, Extent { start: 0, end: size })?;
            return self.pad(size);
        }
        if stored - data_bytes > zeros_max {
            return Err(TreeLimit::SparseParts(path.escape_ascii().to_string()).into());
        }
        self.sparse_header(path, header_of(stat, EntryType::GNUSparse), &parts, size)?;
        parts.iter().try_for_each(|part| self.part(file, *part))?;
        self.pad(stored)
    }

    /// The map of a file with holes. A part without content at its end says how long it is to programs that take the
    /// size from the map.
    fn sparse_header(
        &mut self,
        path: &[u8],
        mut header: Header,
        parts: &[Extent],
        size: u64,
    ) -> io::Result<()> {
        let end = Extent { start: size, end: size };
        let ends_with_hole = parts.last().is_none_or(|last| last.end < size);
        let mut map = parts.iter().copied().chain(ends_with_hole.then_some(end)).peekable();
        header.set_size(parts.iter().map(|part| part.bytes()).sum());
        let gnu = header.as_gnu_mut().ok_or_else(|| io::Error::other("a header is not of GNU"))?;
        gnu.set_real_size(size);
        for (field, part) in gnu.sparse.iter_mut().zip(map.by_ref()) {
            field.set_offset(part.start);
            field.set_length(part.bytes());
        }
        gnu.set_is_extended(map.peek().is_some());
        self.header(header, path, b"")?;
        while map.peek().is_some() {
            let mut more = GnuExtSparseHeader::new();
            for (field, part) in more.sparse.iter_mut().zip(map.by_ref()) {
                field.set_offset(part.start);
                field.set_length(part.bytes());
            }
            more.set_is_extended(map.peek().is_some());
            self.out.write_all(more.as_bytes())?;
        }
        Ok(())
    }

    /// Names that are too long for a header come before it.
    fn header(&mut self, mut header: Header, name: &[u8], link: &[u8]) -> io::Result<()> {
        for (kind, text) in [(b'L', name), (b'K', link)] {
            if text.len() > NAME_BYTES {
                let mut long = Header::new_gnu();
                long.as_old_mut().name[..LONG_LINK.len()].copy_from_slice(LONG_LINK);
                long.set_entry_type(EntryType::new(kind));
                long.set_size(text.len() as u64 + 1);
                long.set_mode(0o644);
                long.set_cksum();
                self.out.write_all(long.as_bytes())?;
                self.out.write_all(text)?;
                self.out.write_all(b"\0")?;
                self.pad(text.len() as u64 + 1)?;
            }
        }
        let old = header.as_old_mut();
        for (field, text) in [(&mut old.name, name), (&mut old.linkname, link)] {
            let length = text.len().min(NAME_BYTES);
            field[..length].copy_from_slice(&text[..length]);
        }
        header.set_cksum();
        self.out.write_all(header.as_bytes())
    }

    fn part(&mut self, file: &File, part: Extent) -> io::Result<()> {
        let mut piece = vec![0; usize::try_from(part.bytes()).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
        let mut at = part.start;
        while at < part.end {
            let length = usize::try_from(part.end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            file.read_exact_at(&mut piece[..length], at)?;
            self.out.write_all(&piece[..length])?;
            at += length as u64;
        }
        Ok(())
    }

    fn pad(&mut self, bytes: u64) -> io::Result<()> {
        match usize::try_from(bytes % BLOCK as u64).unwrap_or(0) {
            0 => Ok(()),
            over => self.out.write_all(&ZEROS[over..]),
        }
    }
}

fn header_of(stat: &FileStat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(u64::from(stat.st_uid));
    header.set_gid(u64::from(stat.st_gid));
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(0);
    header
}

/// The first names of files that have several.
#[derive(Default)]
struct Links {
    /// By device and inode: the name, and how many names are to come.
    names: HashMap<(u64, u64), (Vec<u8>, u64)>,
    bytes: usize,
}

impl Links {
    /// The first name of a file that was written already.
    fn first_name(&mut self, stat: &FileStat, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if stat.st_nlink < 2 {
            return Ok(None);
        }
        let file = (stat.st_dev, stat.st_ino);
        if let Some((name, left)) = self.names.get_mut(&file) {
            *left = left.saturating_sub(1);
            let (name, left) = (name.clone(), *left);
            if left == 0 {
                self.names.remove(&file);
                self.bytes -= held_bytes(&name);
            }
            return Ok(Some(name));
        }
        self.bytes += held_bytes(path);
        if self.bytes > ARCHIVE_LINKS_MAX_BYTES {
            return Err(TreeLimit::LinkPaths(ARCHIVE_LINKS_MAX_BYTES).into());
        }
        #[allow(clippy::useless_conversion, reason = "32 bits on ARM")]
        self.names.insert(file, (path.to_owned(), u64::from(stat.st_nlink) - 1));
        Ok(None)
    }
}

fn held_bytes(path: &[u8]) -> usize {
    path.len() + size_of::<((u64, u64), (Vec<u8>, u64))>()
}
