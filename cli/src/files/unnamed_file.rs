//! A file without a name until it is complete, so that nothing of it is left behind, not even by a kill.

use super::PARTIAL_PREFIX;
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag},
    sys::stat::Mode,
    unistd::linkat,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A file that only its owner reads. Where the file system has no files without a name, it has one that is removed when
/// it is not finished.
pub struct UnnamedFile {
    file: File,
    directory: PathBuf,
    /// The name that it has already.
    named: Option<PathBuf>,
    finished: bool,
}

impl UnnamedFile {
    /// Begins a file that will have the name `target`, or replace the file that has it.
    pub fn create(target: &Path) -> io::Result<Self> {
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).to_owned();
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        match nix::fcntl::open(&directory, flags, MODE) {
            Ok(file) => Ok(Self { file: file.into(), directory, named: None, finished: false }),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR) => {
                let name = partial_name(&directory)?;
                let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
                let file = nix::fcntl::open(&name, flags, MODE)?;
                Ok(Self { file: file.into(), directory, named: Some(name), finished: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it its name when all of it is on disk.
    pub fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        let name = match self.named.clone() {
            Some(name) => name,
            None => {
                let (from, name) =
                    (format!("/proc/self/fd/{}", self.file.as_raw_fd()), partial_name(&self.directory)?);
                linkat(AT_FDCWD, from.as_str(), AT_FDCWD, &name, AtFlags::AT_SYMLINK_FOLLOW)?;
                self.named = Some(name.clone());
                name
            }
        };
        fs::rename(name, target)?;
        self.finished = true;
        File::open(&self.directory)?.sync_all()
    }
}

fn partial_name(directory: &Path) -> io::Result<PathBuf> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(directory.join(format!("{PARTIAL_PREFIX}{random:016x}")))
}

impl Write for UnnamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let (false, Some(name)) = (self.finished, &self.named) {
            // Nothing more can be done about it.
            let _ = fs::remove_file(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_appears_whole_and_private_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("backup.age");
        let count = || fs::read_dir(dir.path()).expect("there").count();
        let mut given_up = UnnamedFile::create(&target).expect("begun");
        given_up.write_all(b"half").expect("written");
        drop(given_up);
        assert_eq!(count(), 0);
        for content in ["first", "second"] {
            let mut file = UnnamedFile::create(&target).expect("begun");
            file.write_all(content.as_bytes()).expect("written");
            file.finish(&target).expect("finished");
            assert_eq!((fs::read_to_string(&target).expect("read").as_str(), count()), (content, 1));
        }
        assert_eq!(fs::metadata(&target).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
