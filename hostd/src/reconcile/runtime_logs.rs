//! Reads the log directory of a runtimed without its help. The files were written from inside and are not trusted:
//! they are opened without following links, and read within bounds.

use hostd_core::limits;
use nix::{
    dir::Dir,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::Mode,
};
use protocol::{
    Cursor,
    log_line::{self, LogLine},
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::task::spawn_blocking;
use tracing::warn;

/// The directory with the logs of one runtimed.
pub(super) struct RuntimeLogs {
    pub(super) logs: PathBuf,
}

impl RuntimeLogs {
    /// The files of one log, from the one that holds the event after a cursor.
    pub(super) async fn files(self: Arc<Self>, log: String, after: Cursor) -> Vec<String> {
        let found = spawn_blocking(move || {
            let mut firsts = self.list(&log)?;
            firsts.sort_unstable();
            let from = firsts.iter().rposition(|first| *first <= after).unwrap_or(0);
            Ok(firsts[from..].iter().map(|first| format!("{log}/{}", log_line::file_name(*first))).collect())
        });
        found.await.unwrap_or_else(|error| Err(io::Error::other(error))).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                warn!(%error, "failed to list the logs of a sandbox");
            }
            Vec::new()
        })
    }

    fn list(&self, log: &str) -> io::Result<Vec<Cursor>> {
        let mut dir = Dir::from_fd(self.open(Path::new(log), OFlag::O_DIRECTORY)?)?;
        let names = dir.iter().take(limits::RECOVERY_FILES_MAX).flatten();
        Ok(names.filter_map(|entry| log_line::parse_file_name(entry.file_name().to_str().ok()?)).collect())
    }

    /// Maps the complete lines of a file; `None` drops a line.
    pub(super) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        file: &str,
        mut each: impl FnMut(&LogLine<'_>) -> Option<T> + Send + 'static,
    ) -> Vec<T> {
        let file = file.to_owned();
        let read = spawn_blocking(move || {
            let bytes = self.bytes(Path::new(&file), limits::RECOVERY_FILE_MAX_BYTES)?;
            Ok(log_line::lines(&bytes).filter_map(|line| each(&line)).collect())
        });
        read.await.unwrap_or_else(|error| Err(io::Error::other(error))).unwrap_or_else(|error| {
            warn!(%error, "failed to read a log of a sandbox");
            Vec::new()
        })
    }

    /// The names in a directory, at most `max`.
    pub(super) fn names(&self, dir: &str, max: usize) -> io::Result<Vec<String>> {
        let mut dir = Dir::from_fd(self.open(Path::new(dir), OFlag::O_DIRECTORY)?)?;
        let names = dir.iter().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| name != "." && name != "..").take(max).collect())
    }

    /// The first `max_bytes` of a file.
    pub(super) fn bytes(&self, file: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        let opened = File::from(self.open(file, OFlag::O_NONBLOCK)?);
        if !opened.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        opened.take(max_bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a path beneath the directory, through no link.
    fn open(&self, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        let logs = File::open(&self.logs)?;
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | flags)
            .mode(Mode::empty())
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        Ok(openat2(logs.as_fd(), path, how)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Event, Fact};
    use std::os::unix::fs::symlink;

    fn logs() -> (tempfile::TempDir, Arc<RuntimeLogs>) {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join("events")).expect("made");
        let logs = Arc::new(RuntimeLogs { logs: home.path().to_owned() });
        (home, logs)
    }

    fn line(epoch: u64, seq: u64) -> String {
        let cursor = Cursor { epoch, seq };
        let fact = Fact::Shutdown { reason: "x".to_owned() };
        log_line::encode(&Event { cursor, time_ms: 1, fact }).expect("JSON")
    }

    #[tokio::test]
    async fn reading_begins_where_it_was_left() {
        let (home, logs) = logs();
        for first in [(1, 1), (1, 9), (2, 1)] {
            let cursor = Cursor { epoch: first.0, seq: first.1 };
            let name = home.path().join("events").join(log_line::file_name(cursor));
            std::fs::write(name, line(first.0, first.1)).expect("written");
        }
        std::fs::write(home.path().join("events/other"), "x").expect("written");
        for (after, files) in [((0, 0), 3), ((1, 1), 3), ((1, 9), 2), ((1, 20), 2), ((2, 5), 1)] {
            let after = Cursor { epoch: after.0, seq: after.1 };
            assert_eq!(logs.clone().files("events".to_owned(), after).await.len(), files, "{after}");
        }
        assert!(logs.clone().files("tasks/none".to_owned(), Cursor::default()).await.is_empty());
    }

    #[tokio::test]
    async fn links_pipes_and_torn_lines_give_nothing() {
        let (home, logs) = logs();
        let outside = home.path().join("outside");
        std::fs::write(&outside, line(1, 1)).expect("written");
        let events = home.path().join("events");
        symlink(&outside, events.join("link")).expect("linked");
        symlink("/etc", home.path().join("away")).expect("linked");
        nix::unistd::mkfifo(&events.join("pipe"), Mode::S_IRWXU).expect("made");
        let torn = format!("{}{}", line(1, 1), &line(1, 2)[..20]);
        std::fs::write(events.join("torn"), torn).expect("written");
        let read = |name: &'static str| logs.clone().read(name, |line| Some(line.cursor));
        assert!(read("events/link").await.is_empty());
        assert!(read("events/pipe").await.is_empty());
        assert!(read("../outside").await.is_empty());
        assert!(read("away/passwd").await.is_empty());
        assert_eq!(read("events/torn").await, [Cursor { epoch: 1, seq: 1 }]);
    }
}
