//! `hostd repair`: moves a damaged database aside, so that hostd can start with an empty one and adopt its
//! sandboxes. A healthy database is left alone. Must not run while hostd does.

use super::{
    connection::{connect, damage},
    error::OpenError,
};
use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairOutcome {
    /// There is no database.
    Absent,
    /// The database is undamaged and unchanged.
    Healthy,
    /// The database was damaged and was moved to this path.
    MovedAside { to: PathBuf, detail: String },
}

impl fmt::Display for RepairOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no database, so nothing was done"),
            Self::Healthy => f.write_str("the database is healthy, so nothing was done"),
            Self::MovedAside { to, detail } => {
                let to = to.display();
                write!(f, "the database was damaged ({detail}) and is now {to}; start hostd again")
            }
        }
    }
}

pub fn repair(path: &Path) -> Result<RepairOutcome, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RepairOutcome::Absent),
        Err(source) => return Err(OpenError::Io { what: "inspect the database", source }),
    }
    // The connection is closed before the files are moved.
    let found = connect(path).and_then(|conn| damage(&conn, "PRAGMA integrity_check(1)"));
    match found {
        Ok(None) => Ok(RepairOutcome::Healthy),
        Ok(Some(detail)) | Err(OpenError::Corrupt { detail }) => {
            let to =
                move_aside(path).map_err(|source| OpenError::Io { what: "move the database", source })?;
            Ok(RepairOutcome::MovedAside { to, detail })
        }
        Err(other) => Err(other),
    }
}

/// Moves the files, the database itself last: as long as it is in place, an interrupted repair can be
/// repeated.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let aside = format!(".corrupt-{time_ms}");
    for suffix in ["-wal", "-shm"] {
        let from = with_suffix(path, suffix);
        let to = with_suffix(&with_suffix(path, &aside), suffix);
        if let Err(error) = fs::rename(from, to)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    let to = with_suffix(path, &aside);
    fs::rename(path, &to)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()?;
    Ok(to)
}

fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
