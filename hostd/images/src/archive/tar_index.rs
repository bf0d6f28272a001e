//! The members of a tar archive by name, found in one pass over its headers.

use super::ArchiveError;
use crate::{
    layer::EntryPath,
    limits::{ARCHIVE_LINKS_MAX, ARCHIVE_MEMBERS_MAX},
    tar_reader::{Member, MemberKind, TarReader},
};
use std::{collections::BTreeMap, io::BufRead};

/// Directories of a root file system. An archive with one of them is not searched further.
const ROOTFS_NAMES: [&str; 19] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc",
    "root", "run", "sbin", "srv", "usr", "var",
];

#[derive(Debug, Default)]
pub struct TarIndex {
    members: BTreeMap<Vec<u8>, Indexed>,
}

#[derive(Debug)]
enum Indexed {
    File(Section),
    /// The path of another member.
    Link(Vec<u8>),
}

/// Where a member lies in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    pub offset: u64,
    pub bytes: u64,
}

impl TarIndex {
    /// Indexes an archive that holds an image with layers; nothing for any other archive, such as a root file system.
    pub fn scan<R: BufRead>(archive: &mut TarReader<R>) -> Result<Option<Self>, ArchiveError> {
        let mut index = Self::default();
        while let Some(member) = archive.next()? {
            let Ok(path) = EntryPath::parse(&member.name) else { return Ok(None) };
            let is_large = index.members.len() == ARCHIVE_MEMBERS_MAX;
            if is_large || is_of_rootfs(path.as_bytes()) {
                return Ok(None);
            }
            index.add(path.as_bytes(), &member, archive.position());
        }
        Ok(index.has_image().then_some(index))
    }

    fn add(&mut self, path: &[u8], member: &Member, offset: u64) {
        let indexed = match member.kind {
            MemberKind::File if member.sparse.is_none() => {
                Some(Indexed::File(Section { offset, bytes: member.size }))
            }
            MemberKind::HardLink => {
                EntryPath::parse(&member.link).ok().map(|target| Indexed::Link(target.as_bytes().to_vec()))
            }
            MemberKind::Symlink => symlink_target(path, &member.link).map(Indexed::Link),
            MemberKind::File
            | MemberKind::Directory
            | MemberKind::Device
            | MemberKind::Fifo
            | MemberKind::Other => None,
        };
        // Later entries replace earlier ones.
        match indexed {
            Some(indexed) => self.members.insert(path.to_vec(), indexed),
            None => self.members.remove(path),
        };
    }

    fn has_image(&self) -> bool {
        let has = |name: &str| self.members.contains_key(name.as_bytes());
        has("manifest.json") || (has("oci-layout") && has("index.json"))
    }

    /// Returns where a member lies, through links to others.
    pub fn find(&self, name: &[u8]) -> Option<Section> {
        let mut name = name;
        for _ in 0..=ARCHIVE_LINKS_MAX {
            match self.members.get(name)? {
                Indexed::File(section) => return Some(*section),
                Indexed::Link(target) => name = target,
            }
        }
        None
    }

    /// Returns the first member that ends after the archive does.
    pub fn beyond(&self, archive_bytes: u64) -> Option<&[u8]> {
        let ends_after = |indexed: &Indexed| match indexed {
            Indexed::File(section) => section.offset.saturating_add(section.bytes) > archive_bytes,
            Indexed::Link(_) => false,
        };
        self.members.iter().find(|(_, indexed)| ends_after(indexed)).map(|(name, _)| name.as_slice())
    }
}

fn is_of_rootfs(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    ROOTFS_NAMES.iter().any(|name| name.as_bytes() == first)
}

/// Resolves the target of a symlink by its text: archives of `docker save` refer to layers they have already by
/// `../<id>/layer.tar`. A target outside the archive is none.
fn symlink_target(path: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    parts.pop();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symlinks_are_resolved_within_the_archive() {
        type Bytes = &'static [u8];
        let table: [(Bytes, Bytes, Option<Bytes>); 6] = [
            (b"b/layer.tar", b"../a/layer.tar", Some(b"a/layer.tar")),
            (b"layer.tar", b"./x.tar", Some(b"x.tar")),
            (b"a/b/c", b"../../d", Some(b"d")),
            (b"a/b", b"../../d", None),
            (b"a", b"../d", None),
            (b"a", b"/etc/passwd", None),
        ];
        for (path, target, expected) in table {
            assert_eq!(symlink_target(path, target).as_deref(), expected, "{}", target.escape_ascii());
        }
    }

    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let mut index = TarIndex::default();
        index.members.insert(b"a".to_vec(), Indexed::Link(b"b".to_vec()));
        index.members.insert(b"b".to_vec(), Indexed::Link(b"a".to_vec()));
        assert_eq!(index.find(b"a"), None);
        let section = Section { offset: 1, bytes: 2 };
        index.members.insert(b"b".to_vec(), Indexed::File(section));
        assert_eq!(index.find(b"a"), Some(section));
        assert_eq!((index.beyond(3), index.beyond(2)), (None, Some(&b"b"[..])));
    }
}
