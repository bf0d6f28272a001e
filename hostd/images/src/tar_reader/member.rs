//! One member of an archive.

use super::{
    TarError, header,
    pax::{self, PaxRecords},
};
use tar::Header;

/// A file, directory or link of an archive. Nothing in it was checked beyond its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: Vec<u8>,
    /// Target of a link.
    pub link: Vec<u8>,
    pub kind: MemberKind,
    /// Size of the file, holes included.
    pub size: u64,
    /// Where the content belongs in a file with holes.
    pub sparse: Option<Vec<Segment>>,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: Mtime,
    pub xattrs: Vec<Xattr>,
}

/// Name and value of an extended attribute.
pub type Xattr = (Vec<u8>, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    File,
    Directory,
    Symlink,
    HardLink,
    Device,
    Fifo,
    /// Notes of archivers.
    Other,
}

/// Seconds since 1970, and nanoseconds after that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mtime {
    pub seconds: i64,
    pub nanoseconds: u32,
}

/// A part of a sparse file that is not a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub bytes: u64,
}

/// Headers that come before the header of a member.
#[derive(Default)]
pub struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<PaxRecords>,
}

impl Extensions {
    pub fn is_pending(&self) -> bool {
        self.long_name.is_some() || self.long_link.is_some() || self.pax.is_some()
    }

    /// Adds a header of type `L` (long name), `K` (long link) or `x` (PAX); any other is global and ignored.
    pub fn add(&mut self, kind: u8, content: Vec<u8>) -> Result<(), TarError> {
        let before = match kind {
            b'L' => self.long_name.replace(until_nul(content)).is_some(),
            b'K' => self.long_link.replace(until_nul(content)).is_some(),
            b'x' => self.pax.replace(pax::parse(&content)?).is_some(),
            _ => false,
        };
        if before { Err(TarError::Damaged("an entry has the same header twice")) } else { Ok(()) }
    }

    /// Returns the member, and the bytes of content that are stored.
    pub fn into_member(self, header: &Header) -> Result<(Member, u64), TarError> {
        let pax = self.pax.unwrap_or_default();
        if pax.is_sparse {
            return Err(TarError::SparsePax);
        }
        let name = self.long_name.or(pax.path).unwrap_or_else(|| header.path_bytes().into_owned());
        let own_link = || header.link_name_bytes().unwrap_or_default().into_owned();
        let link = self.long_link.or(pax.link_path).unwrap_or_else(own_link);
        let kind = kind_of(header, &name);
        let stored = match kind {
            MemberKind::File | MemberKind::Other => {
                pax.size.map_or_else(|| header::size(header), header::checked_size)?
            }
            MemberKind::Directory
            | MemberKind::Symlink
            | MemberKind::HardLink
            | MemberKind::Device
            | MemberKind::Fifo => 0,
        };
        let seconds = || header.mtime().ok().and_then(|mtime| i64::try_from(mtime).ok()).unwrap_or(0);
        let member = Member {
            name,
            link,
            kind,
            size: stored,
            sparse: None,
            mode: header::mode(header)?,
            uid: pax.uid.or_else(|| header.uid().ok()).unwrap_or(0),
            gid: pax.gid.or_else(|| header.gid().ok()).unwrap_or(0),
            mtime: pax.mtime.unwrap_or_else(|| Mtime { seconds: seconds(), nanoseconds: 0 }),
            xattrs: pax.xattrs,
        };
        Ok((member, stored))
    }
}

fn kind_of(header: &Header, name: &[u8]) -> MemberKind {
    match header.entry_type().as_byte() {
        // In the oldest format, a directory is a file whose name ends with a slash.
        0 | b'0' if name.ends_with(b"/") => MemberKind::Directory,
        0 | b'0' | b'7' | b'S' => MemberKind::File,
        b'1' => MemberKind::HardLink,
        b'2' => MemberKind::Symlink,
        b'3' | b'4' => MemberKind::Device,
        b'5' => MemberKind::Directory,
        b'6' => MemberKind::Fifo,
        _ => MemberKind::Other,
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(length);
    bytes
}
