//! Whiteouts in the form of overlayfs: a character device 0:0 hides a name of the layers below, an attribute of a
//! directory hides all their names in it.
//!
//! A whiteout never hides what its own layer has: next to it, it makes a directory opaque, and means nothing for a file.

use super::{TreeWriter, UnpackError};
use rustix::{
    fs::{AtFlags, FileType, Mode, Stat, XattrFlags, fsetxattr, mknodat, openat, statat},
    io::Errno,
};
use std::os::fd::{AsFd, BorrowedFd};

const OPAQUE: &str = "trusted.overlay.opaque";

impl TreeWriter {
    pub(super) fn write_whiteout(&mut self, parent: &[u8], name: &[u8]) -> Result<(), UnpackError> {
        let directory = self.directory(parent)?;
        whiteout(directory, name).map_err(|error| UnpackError::write(name, error))
    }

    pub(super) fn write_opaque(&mut self, path: &[u8]) -> Result<(), UnpackError> {
        self.counts.is_root_opaque |= path.is_empty();
        set_opaque(self.directory(path)?).map_err(|error| UnpackError::write(path, error))
    }
}

fn whiteout(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0) {
        Err(Errno::EXIST) => {}
        done => return done,
    }
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        set_opaque(openat(parent, name, super::DIRECTORY, Mode::empty())?.as_fd())?;
    }
    Ok(())
}

pub fn set_opaque(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())
}

pub fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
