//! The directory of contexts: where it is, that only its user may change it, and its lock.

use super::{
    ContextsError,
    error::UnsafeFile,
    private_file::{Ownership, Secrecy, is_link, judge},
};
use nix::{
    fcntl::{Flock, FlockArg},
    libc,
    unistd::geteuid,
};
use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

const MODE: u32 = 0o700;

/// Returns `$XDG_CONFIG_HOME/slipway`, or `.config/slipway` in the home directory.
pub fn locate() -> Result<PathBuf, ContextsError> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("slipway")).ok_or(ContextsError::NoHome)
}

/// Checks a directory before it is read; returns whether it exists.
pub fn check(path: &Path) -> Result<bool, ContextsError> {
    let opened = open(path)?;
    if let Some(directory) = &opened {
        check_open(path, directory)?;
    }
    Ok(opened.is_some())
}

/// Creates a directory where there is none, and takes away permissions of others before it is written to.
pub fn prepare(path: &Path) -> Result<(), ContextsError> {
    let io_error = |doing| move |source| ContextsError::Io { doing, path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(MODE).create(parent).map_err(io_error("create"))?;
    }
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error("create")(error)),
        Ok(()) | Err(_) => {}
    }
    let Some(directory) = open(path)? else { return Err(io_error("open")(io::ErrorKind::NotFound.into())) };
    check_open(path, &directory)?;
    directory.set_permissions(Permissions::from_mode(MODE)).map_err(io_error("change the mode of"))
}

fn open(path: &Path) -> Result<Option<File>, ContextsError> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // O_DIRECTORY also makes this error of a link.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory || is_link(&error) => {
            let link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
            let why = if link { UnsafeFile::Link } else { UnsafeFile::OtherKind("directory") };
            Err(ContextsError::Unsafe { path: path.to_owned(), why })
        }
        Err(source) => Err(ContextsError::Io { doing: "open", path: path.to_owned(), source }),
    }
}

fn check_open(path: &Path, directory: &File) -> Result<(), ContextsError> {
    let metadata = directory.metadata();
    let metadata =
        metadata.map_err(|source| ContextsError::Io { doing: "inspect", path: path.to_owned(), source })?;
    judge(&Ownership::of(&metadata), geteuid().as_raw(), Secrecy::Public)
        .map_err(|why| ContextsError::Unsafe { path: path.to_owned(), why })
}

/// Takes the lock of commands that change contexts. The kernel releases it when the process ends, however it ends.
pub fn lock(path: &Path) -> Result<Flock<File>, ContextsError> {
    let io_error = |source| ContextsError::Io { doing: "lock", path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).map_err(io_error)?;
    // Nothing but changes to these files is done with the lock: it is free in a moment.
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| io_error(error.into()))
}
