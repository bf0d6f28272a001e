//! Files of this machine: read without following links, and replaced as a whole.

use nix::libc;
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// The names of files that are being written begin so.
pub const PARTIAL_PREFIX: &str = ".slipway-part-";

/// Permissions without set-id and sticky bits.
pub fn permissions(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o777
}

/// Opens a regular file for reading. `follow`: also by a link at the end of the path.
pub fn open_regular(path: &Path, follow: bool) -> io::Result<(File, Metadata)> {
    // A FIFO must not block the open.
    let flags = libc::O_NONBLOCK | if follow { 0 } else { libc::O_NOFOLLOW };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"))
    }
}

/// A file that takes its place when it is complete, and leaves no trace otherwise.
pub struct PartialFile {
    file: File,
    partial: PathBuf,
    finished: bool,
}

impl PartialFile {
    /// Begins a file beside the one that it will replace.
    pub fn create(target: &Path) -> io::Result<Self> {
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let random = getrandom::u64().map_err(io::Error::other)?;
        let partial = directory.unwrap_or(Path::new(".")).join(format!("{PARTIAL_PREFIX}{random:016x}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        Ok(Self { file, partial, finished: false })
    }

    /// Gives it its permissions and its name.
    pub fn finish(mut self, target: &Path, mode: u32) -> io::Result<()> {
        self.file.flush()?;
        self.file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
        fs::rename(&self.partial, target)?;
        self.finished = true;
        Ok(())
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing more can be done about it.
            let _ = fs::remove_file(&self.partial);
        }
    }
}
