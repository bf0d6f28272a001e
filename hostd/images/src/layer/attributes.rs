//! Owner, mode, times and extended attributes of entries: which of them are kept.
//!
//! In a layer, owners and modes are kept as they are, set-id bits too: layers lie below a directory that only root may
//! enter, and are mounted `nosuid`. An id that no sandbox has becomes `nobody`, and the file loses its set-id bits.
//! Of extended attributes, capabilities and those of users are kept; what steers overlayfs or a security module is not.
//! The home of a sandbox has no set-id files and no capabilities: it is not known who made the archive.

use super::{Refusal, UnpackError};
use crate::{
    limits::{ENTRY_NAME_MAX_BYTES, ENTRY_XATTRS_MAX_BYTES, OWNER_ID_MAX},
    tar_reader::{Member, MemberKind, Mtime, Xattr},
};
use rustix::{
    fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fsetxattr},
    io::Errno,
};
use std::os::fd::BorrowedFd;

/// User and group `nobody`.
const NOBODY: u32 = 65_534;
/// Set-id bits, and writing by every user.
const PLAIN_MASK: u32 = 0o6002;
const SET_ID: u32 = 0o6000;
const SET_USER_ID: u32 = 0o4000;
const CAPABILITY: &[u8] = b"security.capability";
const OF_USERS: &[u8] = b"user.";
const OF_OVERLAY: &[u8] = b"user.overlay.";

/// How a tree is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeForm {
    /// A lower directory of overlayfs, with whiteouts, owners, modes and extended attributes.
    Layer,
    /// The home of a sandbox: as a layer, but no name means anything. Without set-id files and capabilities; directories
    /// that the archive does not list belong to `owner`.
    Home { owner: u32 },
    /// Files, directories and links that belong to root, without set-id bits and extended attributes.
    Plain,
}

/// The attributes with which an entry is written.
pub struct Attributes<'a> {
    /// None where the owner stays as it is.
    owner: Option<(u32, u32)>,
    mode: u32,
    pub mtime: Mtime,
    xattrs: Vec<&'a Xattr>,
    pub is_owner_replaced: bool,
}

impl<'a> Attributes<'a> {
    pub fn of(member: &'a Member, form: TreeForm) -> Result<Self, Refusal> {
        let mtime = member.mtime;
        if form == TreeForm::Plain {
            let mode = member.mode & !PLAIN_MASK;
            return Ok(Self { owner: None, mode, mtime, xattrs: vec![], is_owner_replaced: false });
        }
        let id = |id: u64| u32::try_from(id).ok().filter(|id| *id <= OWNER_ID_MAX);
        let (uid, gid) = (id(member.uid), id(member.gid));
        let is_owner_replaced = uid.is_none() || gid.is_none();
        let is_home = matches!(form, TreeForm::Home { .. });
        let mask = match (is_owner_replaced, is_home) {
            // The set-group-id bit of a directory gives its group to what is made in it, and no rights.
            (false, true) if member.kind == MemberKind::Directory => SET_USER_ID,
            (true, _) | (_, true) => SET_ID,
            (false, false) => 0,
        };
        let owner = Some((uid.unwrap_or(NOBODY), gid.unwrap_or(NOBODY)));
        let xattrs = kept_xattrs(&member.xattrs, !is_home)?;
        Ok(Self { owner, mode: member.mode & !mask, mtime, xattrs, is_owner_replaced })
    }

    pub fn is_set_id(&self) -> bool {
        self.mode & SET_ID != 0
    }

    /// Sets everything but the times of an open file or directory. A change of the owner clears set-id bits and
    /// capabilities, so it comes first.
    pub fn apply(&self, file: BorrowedFd<'_>, path: &[u8]) -> Result<(), UnpackError> {
        let failed = |error: Errno| UnpackError::write(path, error);
        if let Some((uid, gid)) = self.owner {
            fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(failed)?;
        }
        fchmod(file, Mode::from_raw_mode(self.mode)).map_err(failed)?;
        for (name, value) in &self.xattrs {
            match fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                // The file system has no extended attributes.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(Errno::INVAL | Errno::RANGE) => {
                    return Err(UnpackError::refused(path, Refusal::XattrInvalid));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Sets owner and times of a symlink, which has nothing else.
    pub fn apply_to_symlink(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        rustix::fs::utimensat(parent, name, &timestamps(self.mtime), AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Returns the times of an entry: archives have no time of access.
pub fn timestamps(mtime: Mtime) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn kept_xattrs(xattrs: &[Xattr], with_capabilities: bool) -> Result<Vec<&Xattr>, Refusal> {
    let is_kept = |name: &[u8]| is_kept(name) && (with_capabilities || name != CAPABILITY);
    let kept: Vec<_> = xattrs.iter().filter(|(name, _)| is_kept(name)).collect();
    if kept.iter().any(|(name, _)| name.len() > ENTRY_NAME_MAX_BYTES || name.contains(&0)) {
        return Err(Refusal::XattrInvalid);
    }
    let bytes: usize = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ENTRY_XATTRS_MAX_BYTES { Err(Refusal::XattrsTooLarge) } else { Ok(kept) }
}

/// Whether an extended attribute of an archive is kept.
fn is_kept(name: &[u8]) -> bool {
    name == CAPABILITY || (name.starts_with(OF_USERS) && !name.starts_with(OF_OVERLAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_attributes_of_users_are_kept() {
        for (name, kept) in [
            ("security.capability", true),
            ("user.note", true),
            ("user.overlay.opaque", false),
            ("trusted.overlay.opaque", false),
            ("trusted.overlay.redirect", false),
            ("trusted.x", false),
            ("security.selinux", false),
            ("security.ima", false),
            ("security.capability2", false),
            ("system.posix_acl_access", false),
            ("", false),
        ] {
            assert_eq!(is_kept(name.as_bytes()), kept, "{name}");
        }
        let large = vec![(b"user.a".to_vec(), vec![0; 2000]), (b"user.b".to_vec(), vec![0; 2000])];
        assert_eq!(kept_xattrs(&large, true), Err(Refusal::XattrsTooLarge));
        let dropped = vec![(b"trusted.a".to_vec(), vec![0; 9000])];
        assert_eq!(kept_xattrs(&dropped, true), Ok(vec![]));
        let capability = vec![(CAPABILITY.to_vec(), vec![1])];
        assert_eq!(kept_xattrs(&capability, true), Ok(vec![&capability[0]]));
        assert_eq!(kept_xattrs(&capability, false), Ok(vec![]));
        assert_eq!(kept_xattrs(&[(b"user.a\0b".to_vec(), vec![])], true), Err(Refusal::XattrInvalid));
    }
}
