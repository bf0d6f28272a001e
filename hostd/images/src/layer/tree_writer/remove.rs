//! Removes what a later entry of the same name replaces.

use super::{DIRECTORY, TreeWriter};
use rustix::{
    fs::{AtFlags, Dir, Mode, openat, unlinkat},
    io::Errno,
};
use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

impl TreeWriter {
    /// Removes a file, or a directory with everything below it, from the directory at `parent`.
    pub(super) fn remove(&mut self, parent: &[u8], name: &[u8]) -> Result<(), Errno> {
        let directory = self.open_beneath(parent)?;
        // It might be the directory that is removed, or lie below it.
        self.last = None;
        let name = [name, b"\0"].concat();
        let name = CStr::from_bytes_with_nul(&name).map_err(|_| Errno::INVAL)?;
        remove_tree(directory.as_fd(), name)
    }
}

/// Recurses no deeper than entries are nested.
fn remove_tree(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return done,
    }
    let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
    let entries = Dir::read_from(&directory)?.collect::<Result<Vec<_>, _>>()?;
    for entry in entries.iter().filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")) {
        remove_tree(directory.as_fd(), entry.file_name())?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}
