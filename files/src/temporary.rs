//! A file that appears under its name whole, or not at all.
//!
//! ```text
//! unnamed file ─▶ content ─▶ fsync ─▶ link under the name            (create only)
//!                                  └▶ link under a temporary name ─▶ rename over the name
//! ```
//! A process that dies leaves the old content. It can leave a temporary name only between the last two steps.

use crate::{FilesError, times::set_modified, workspace::Slot};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat},
    sys::stat::{Mode, fchmod, fstat},
    unistd::{UnlinkatFlags, linkat, unlinkat},
};
use protocol::files::{FileEntry, FileTime};
use std::{
    ffi::CString,
    fs::File,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::{AtomicU32, Ordering},
    time::SystemTime,
};

/// Prefix of temporary names.
pub const PREFIX: &str = ".slipway-";
const NAME_TRIES: usize = 16;

/// Numbers the temporary names of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Temporary<'a> {
    slot: &'a Slot,
    pub file: File,
    /// Its name, where the file system has no unnamed files.
    named: Option<CString>,
}

impl<'a> Temporary<'a> {
    pub fn new(slot: &'a Slot) -> Result<Self, FilesError> {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
        match openat(&slot.parent, c".", flags | OFlag::O_TMPFILE, mode) {
            Ok(fd) => return Ok(Self { slot, file: File::from(fd), named: None }),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {}
            Err(errno) => return Err(FilesError::at("create a file", &slot.path)(errno)),
        }
        let (name, file) = under_free_name(|name| {
            openat(
                &slot.parent,
                name.as_c_str(),
                flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW,
                mode,
            )
        })
        .map_err(FilesError::at("create a file", &slot.path))?;
        Ok(Self { slot, file: File::from(file), named: Some(name) })
    }

    /// Makes the content durable and sets the permissions.
    pub fn finish(&self, mode: u32) -> Result<(), FilesError> {
        fchmod(&self.file, Mode::from_bits_truncate(mode & 0o777))
            .map_err(FilesError::at("set the mode", &self.slot.path))?;
        self.file.sync_all().map_err(FilesError::io_at("write the file", &self.slot.path))
    }

    /// Sets the permissions and the time of many files, whose caller makes them durable at once.
    pub fn finish_unsynced(&self, mode: u32, modified: FileTime) -> Result<(), FilesError> {
        fchmod(&self.file, Mode::from_bits_truncate(mode & 0o777))
            .map_err(FilesError::at("set the mode", &self.slot.path))?;
        set_modified(&self.file, modified);
        Ok(())
    }

    /// As [`Self::replace`], quicker where nothing has the name.
    pub fn place(self) -> Result<(), FilesError> {
        if self.named.is_none() && self.link(&self.slot.name).is_ok() {
            return Ok(());
        }
        self.replace().map(drop)
    }

    /// Gives the file its name; `Exists` where there is something already.
    pub fn create(self) -> Result<FileEntry, FilesError> {
        self.link(&self.slot.name).map_err(FilesError::at("create the file", &self.slot.path))?;
        self.entry()
    }

    /// Gives the file its name in place of what has it.
    pub fn replace(mut self) -> Result<FileEntry, FilesError> {
        let failed = || FilesError::at("replace the file", &self.slot.path);
        let name = match self.named.take() {
            Some(name) => name,
            None => under_free_name(|name| self.link(name)).map_err(failed())?.0,
        };
        let renamed =
            renameat(&self.slot.parent, name.as_c_str(), &self.slot.parent, self.slot.name.as_c_str());
        if let Err(errno) = renamed {
            let _ = unlinkat(&self.slot.parent, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
            return Err(failed()(errno));
        }
        self.entry()
    }

    fn link(&self, name: &CString) -> Result<(), Errno> {
        let file = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        linkat(AT_FDCWD, file.as_str(), &self.slot.parent, name.as_c_str(), AtFlags::AT_SYMLINK_FOLLOW)
    }

    fn entry(&self) -> Result<FileEntry, FilesError> {
        let stat = fstat(&self.file).map_err(FilesError::at("inspect the file", &self.slot.path))?;
        Ok(crate::entry::of_stat(self.slot.path.clone(), &stat, None))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.named {
            let _ = unlinkat(&self.slot.parent, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Tries names until one is free.
pub fn under_free_name<T>(mut make: impl FnMut(&CString) -> Result<T, Errno>) -> Result<(CString, T), Errno> {
    for _ in 0..NAME_TRIES {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{:x}-{:x}-{number:x}", std::process::id(), now.as_nanos());
        let name = CString::new(name).expect("digits and dashes");
        match make(&name) {
            Err(Errno::EEXIST) => {}
            other => return other.map(|made| (name, made)),
        }
    }
    Err(Errno::EEXIST)
}

/// Whether a name is one that [`under_free_name`] makes.
pub fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes()).is_some_and(|rest| {
        let numbers: Vec<&[u8]> = rest.split(|byte| *byte == b'-').collect();
        let hexadecimal = |number: &&[u8]| !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit);
        numbers.len() == 3 && numbers.iter().all(hexadecimal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_temporary() {
        let (made, ()) = under_free_name(|_| Ok(())).expect("free");
        assert!(is_temporary(made.to_bytes()));
        for other in
            [".slipway-", ".slipway-a-b", ".slipway-a-b-", ".slipway-a-b-x", "slipway-a-b-c", ".slipway"]
        {
            assert!(!is_temporary(other.as_bytes()), "{other}");
        }
    }
}
