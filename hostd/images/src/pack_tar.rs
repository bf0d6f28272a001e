//! Packs a root file system into a tar archive, for engines that store images themselves. Symlinks are not
//! followed, and every entry belongs to root, as on disk.

use crate::{TreeQuota, limits::IMAGE_DEPTH_MAX};
use rustix::fs::OFlags;
use std::{
    collections::HashMap,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tar::{Builder, EntryType, Header};

/// Packs files, directories and symlinks below `root`; nothing else. Blocks.
pub fn pack_tar(root: &Path, to: impl Write) -> io::Result<()> {
    let mut packer = Packer { builder: Builder::new(to), quota: TreeQuota::of_image(), seen: HashMap::new() };
    packer.add_below(root, Path::new(""), 0)?;
    packer.builder.into_inner()?.flush()
}

struct Packer<W: Write> {
    builder: Builder<W>,
    quota: TreeQuota,
    /// First path of a file with several hard links.
    seen: HashMap<(u64, u64), PathBuf>,
}

impl<W: Write> Packer<W> {
    fn add_below(&mut self, dir: &Path, inside: &Path, depth: usize) -> io::Result<()> {
        if depth > IMAGE_DEPTH_MAX {
            return Err(io::Error::other(format!("nested deeper than {IMAGE_DEPTH_MAX} directories")));
        }
        let names = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        // Sorted: the same directory makes the same archive.
        names.sort();
        for name in names {
            let (path, inside) = (dir.join(&name), inside.join(&name));
            let meta = fs::symlink_metadata(&path)?;
            self.quota.take(if meta.is_file() { meta.len() } else { 0 })?;
            let kind = meta.file_type();
            if kind.is_dir() {
                self.builder.append_data(
                    &mut header(&meta, EntryType::Directory, 0),
                    &inside,
                    io::empty(),
                )?;
                self.add_below(&path, &inside, depth + 1)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                self.builder.append_link(&mut header(&meta, EntryType::Symlink, 0), &inside, target)?;
            } else if kind.is_file() {
                self.add_file(&path, inside)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, inside: PathBuf) -> io::Result<()> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other(format!("{} changed while it was read", inside.display())));
        }
        let which = (meta.dev(), meta.ino());
        if let Some(first) = self.seen.get(&which) {
            return self.builder.append_link(&mut header(&meta, EntryType::Link, 0), &inside, first);
        }
        let size = meta.len();
        let whole = ExactReader { file, left: size };
        self.builder.append_data(&mut header(&meta, EntryType::Regular, size), &inside, whole)?;
        if meta.nlink() > 1 {
            self.seen.insert(which, inside);
        }
        Ok(())
    }
}

fn header(meta: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(meta.permissions().mode() & 0o1777);
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header
}

/// Reads exactly as many bytes as the header announced: a shorter file would shift all entries after it.
struct ExactReader {
    file: File,
    left: u64,
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let max = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if max == 0 {
            return Ok(0);
        }
        let read = self.file.read(&mut buffer[..max])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_packed_tree_unpacks_with_its_symlinks_but_not_their_targets() {
        let temp = tempfile::tempdir().expect("a directory");
        let (root, copy) = (temp.path().join("root"), temp.path().join("copy"));
        let deep = "d".repeat(120);
        fs::create_dir_all(root.join("usr").join(&deep)).expect("made");
        fs::create_dir(&copy).expect("made");
        fs::write(temp.path().join("secret"), "secret").expect("written");
        fs::write(root.join("usr/tool"), "a tool").expect("written");
        fs::set_permissions(root.join("usr/tool"), fs::Permissions::from_mode(0o755)).expect("set");
        std::os::unix::fs::lchown(root.join("usr/tool"), Some(7), Some(8)).expect("root may");
        fs::hard_link(root.join("usr/tool"), root.join("usr").join(&deep).join("same")).expect("linked");
        symlink(temp.path().join("secret"), root.join("link")).expect("linked");
        symlink(temp.path(), root.join("up")).expect("linked");
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o644))
            .expect("made");
        let mut bytes = vec![];
        pack_tar(&root, &mut bytes).expect("packed");
        let mut archive = tar::Archive::new(bytes.as_slice());
        archive.set_preserve_permissions(true);
        archive.unpack(&copy).expect("unpacked");
        let meta = |path: &Path| fs::symlink_metadata(path).expect("there");
        let tool = meta(&copy.join("usr/tool"));
        assert_eq!(tool.permissions().mode() & 0o7777, 0o755);
        assert_eq!(tool.ino(), meta(&copy.join("usr").join(&deep).join("same")).ino(), "one file");
        assert_eq!(fs::read_link(copy.join("link")).expect("a link"), temp.path().join("secret"));
        assert!(meta(&copy.join("up")).is_symlink() && !copy.join("fifo").exists());
        let mut archive = tar::Archive::new(bytes.as_slice());
        for entry in archive.entries().expect("an archive") {
            let entry = entry.expect("an entry");
            assert_eq!((entry.header().uid().ok(), entry.header().gid().ok()), (Some(0), Some(0)));
        }
    }
}
