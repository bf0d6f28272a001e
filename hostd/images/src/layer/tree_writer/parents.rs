//! Opens and creates the directories above an entry.

use super::{
    DIRECTORY, Refusal, TreeForm, TreeWriter, UnpackError,
    whiteouts::{is_whiteout, set_opaque},
};
use rustix::{
    fs::{
        AtFlags, FileType, Gid, Mode, ResolveFlags, Uid, fchmod, fchown, mkdirat, openat, openat2, statat,
        unlinkat,
    },
    io::Errno,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o700);
/// Mode of directories that the archive does not list.
const IMPLIED: Mode = Mode::from_raw_mode(0o755);

impl TreeWriter {
    /// Opens a directory of the tree by its path.
    pub(super) fn open_beneath(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        openat2(&self.root, path, DIRECTORY, Mode::empty(), BENEATH)
    }

    /// Returns the directory at `path`, which is created if it is missing.
    pub(super) fn directory(&mut self, path: &[u8]) -> Result<BorrowedFd<'_>, UnpackError> {
        if path.is_empty() {
            return Ok(self.root.as_fd());
        }
        let is_last = self.last.as_ref().is_some_and(|(last, _)| last == path);
        if !is_last {
            let directory = match self.open_beneath(path) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => self.make_directories(path)?,
                Err(error) => return Err(UnpackError::write(path, error)),
            };
            self.last = Some((path.to_vec(), directory));
        }
        let (_, directory) = self.last.as_ref().expect("it was there, or was just set");
        Ok(directory.as_fd())
    }

    /// Keeps a directory open that was just written: its content is likely to come next.
    pub(super) fn remember(&mut self, path: &[u8], directory: OwnedFd) {
        self.last = Some((path.to_vec(), directory));
    }

    /// Creates what is missing of a path, name by name.
    fn make_directories(&mut self, path: &[u8]) -> Result<OwnedFd, UnpackError> {
        let failed = |error: Errno| UnpackError::write(path, error);
        let mut directory = self.open_beneath(b"").map_err(failed)?;
        for name in path.split(|byte| *byte == b'/') {
            directory = match openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => self.make_implied(directory.as_fd(), name).map_err(failed)?,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                    if !is_whiteout(&stat) {
                        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
                        let refusal = if is_link { Refusal::ThroughSymlink } else { Refusal::ThroughFile };
                        return Err(UnpackError::refused(path, refusal));
                    }
                    self.make_implied(directory.as_fd(), name).map_err(failed)?
                }
                Err(error) => return Err(failed(error)),
            };
        }
        Ok(directory)
    }

    /// Creates a directory that every user may enter. It belongs to root, or to the user whose home it is in.
    fn make_implied(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
        let directory = make_directory(self.form, parent, name)?;
        let owner = match self.form {
            TreeForm::Layer => Some((Uid::ROOT, Gid::ROOT)),
            TreeForm::Home { owner } => Some((Uid::from_raw(owner), Gid::from_raw(owner))),
            TreeForm::Plain => None,
        };
        if let Some((uid, gid)) = owner {
            fchown(&directory, Some(uid), Some(gid))?;
        }
        fchmod(&directory, IMPLIED)?;
        self.counts.implied_directories += 1;
        Ok(directory)
    }
}

/// Opens a directory, and creates it first if there is none. One that takes the place of a file, or of a whiteout,
/// shows nothing of the layers below.
pub fn make_directory(form: TreeForm, parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let mut is_replaced = false;
    match mkdirat(parent, name, NEW_DIRECTORY) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                unlinkat(parent, name, AtFlags::empty())?;
                mkdirat(parent, name, NEW_DIRECTORY)?;
                is_replaced = true;
            }
        }
        Err(error) => return Err(error),
    }
    let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
    if is_replaced && form == TreeForm::Layer {
        set_opaque(directory.as_fd())?;
    }
    Ok(directory)
}
