//! Unpacks a tar archive from a sandbox below a directory of this machine. Trusts nothing in it: no absolute name, no
//! `..`, nothing through a link, no link that leads out, no set-id bit, no device.

use super::{Beneath, PartialFile, link_stays_beneath};
use crate::limits;
use std::{
    fs::{self, Permissions},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};
use tar::{Archive, Entry, EntryType};

/// What an archive was unpacked to.
#[derive(Debug, Default)]
pub struct Unpacked {
    pub files: u64,
    /// The first entries that were left out, and why.
    pub skipped: Vec<(PathBuf, String)>,
    pub skipped_count: u64,
}

/// Why an entry was not unpacked.
enum EntryError {
    /// The entry is left out.
    Skip(String),
    Fatal(io::Error),
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Fatal(error)
    }
}

/// Unpacks below an existing directory.
pub fn unpack(from: &mut dyn Read, directory: &Path) -> io::Result<Unpacked> {
    let mut archive = Archive::new(from);
    let beneath = Beneath::new(directory);
    let (mut unpacked, mut modes) = (Unpacked::default(), Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(&entry.path_bytes()));
        match unpack_entry(&mut entry, &beneath, &mut modes) {
            Ok(true) => unpacked.files += 1,
            Ok(false) => {}
            Err(EntryError::Skip(why)) => unpacked.skip(name, why),
            Err(EntryError::Fatal(error)) => return Err(error),
        }
    }
    // Last, and the deepest first: a directory may not be writable.
    for (path, mode) in modes.into_iter().rev() {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(unpacked)
}

impl Unpacked {
    fn skip(&mut self, name: PathBuf, why: String) {
        self.skipped_count += 1;
        if self.skipped.len() < limits::SKIPPED_SHOWN {
            self.skipped.push((name, why));
        }
    }
}

/// Unpacks an entry; returns whether it is a file.
#[expect(clippy::wildcard_enum_match_arm, reason = "kinds that the library may add are no files either")]
fn unpack_entry<R: Read>(
    entry: &mut Entry<'_, R>,
    beneath: &Beneath,
    modes: &mut Vec<(PathBuf, u32)>,
) -> Result<bool, EntryError> {
    let name = entry.path_bytes().into_owned();
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory && name.split(|byte| *byte == b'/').all(|part| matches!(part, b"" | b"."))
    {
        // The directory itself.
        return Ok(false);
    }
    let path = beneath.prepare(&name).map_err(refused)?;
    let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
    match kind {
        EntryType::Directory => {
            make_directory(&path)?;
            modes.push((path, mode));
            Ok(false)
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            refuse_directory(&path)?;
            let mut file = PartialFile::create(&path)?;
            io::copy(entry, &mut file)?;
            file.finish(&path, mode)?;
            Ok(true)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            make_link(&path, &name, &target)?;
            Ok(false)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            link_file(&path, &beneath.find(&target).map_err(refused)?)?;
            Ok(true)
        }
        _ => Err(EntryError::Skip("is no file, directory or link".to_owned())),
    }
}

/// A name that is refused leaves out its entry.
fn refused(error: io::Error) -> EntryError {
    if error.kind() == io::ErrorKind::InvalidInput {
        EntryError::Skip(error.to_string())
    } else {
        EntryError::Fatal(error)
    }
}

fn make_directory(path: &Path) -> Result<(), EntryError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            // Writable, until its content is there.
            Ok(fs::set_permissions(path, Permissions::from_mode(found.permissions().mode() | 0o700))?)
        }
        Ok(_) => Err(EntryError::Skip("something that is no directory has this name".to_owned())),
        Err(_) => Ok(fs::create_dir(path)?),
    }
}

fn refuse_directory(path: &Path) -> Result<(), EntryError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(EntryError::Skip("a directory has this name".to_owned())),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn make_link(path: &Path, name: &[u8], target: &[u8]) -> Result<(), EntryError> {
    if !link_stays_beneath(name, target) {
        let target = String::from_utf8_lossy(target);
        return Err(EntryError::Skip(format!("is a link out of the directory, to {target}")));
    }
    refuse_directory(path)?;
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    Ok(symlink(std::ffi::OsStr::from_bytes(target), path)?)
}

/// Makes another name for a file that was unpacked before.
fn link_file(path: &Path, target: &Path) -> Result<(), EntryError> {
    let regular = fs::symlink_metadata(target).is_ok_and(|found| found.is_file());
    if !regular {
        return Err(EntryError::Skip("is another name of a file that is not there".to_owned()));
    }
    refuse_directory(path)?;
    if path != target && fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    if path == target { Ok(()) } else { Ok(fs::hard_link(target, path)?) }
}
