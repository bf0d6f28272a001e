//! Restores a backup: reads all of it, reads it again into a directory beside the target, and renames that.
//!
//! ```text
//! check the target ─▶ read ─▶ .NAME.restoring/data: unpack ─▶ database, new instance ─▶ sync ─▶ rename to the target
//! ```
//!
//! A restore that was killed leaves `.NAME.restoring`, which is no data directory; the next one removes it.

use super::{
    encryption::OpenWith,
    error::RestoreError,
    reader::{Piece, WholeBackup, read_backup},
    unpack::{self, Unpacker},
};
use hostd_drivers::remove_unfinished;
use hostd_store::{
    RestoreOptions, RestoredRows, failpoint, identity_files::load_or_create, newest_schema_version,
    prepare_restored,
};
use nix::fcntl::{Flock, FlockArg};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Seek},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

pub struct RestoreRequest {
    pub file: PathBuf,
    pub data_dir: PathBuf,
    pub key: OpenWith,
    pub revoke_tokens: bool,
    pub now_ms: u64,
}

/// What was restored.
pub struct Restored {
    pub backup: WholeBackup,
    pub rows: RestoredRows,
    /// The id of the new instance.
    pub instance: String,
    /// Where the configuration is that was backed up.
    pub configuration: Option<PathBuf>,
}

/// Reads a whole backup, and checks everything but what only a restore can.
pub fn verify(file: &Path, key: &OpenWith) -> Result<WholeBackup, RestoreError> {
    read_backup(open(file)?, key, newest_schema_version(), &mut |_| Ok(()))
}

pub fn restore(request: &RestoreRequest) -> Result<Restored, RestoreError> {
    let target = Target::check(&request.data_dir)?;
    let mut file = open(&request.file)?;
    let backup = read(request, &file, &mut |_| Ok(()))?;
    failpoint::hit("host_restore.verified");
    file.rewind().map_err(RestoreError::io("read the backup again"))?;
    let staging = target.stage()?;
    let mut unpacker = Unpacker::new(&staging.data)?;
    if read(request, &file, &mut |piece| unpacker.piece(&piece))? != backup {
        return Err(RestoreError::damaged("it changed while it was read"));
    }
    failpoint::hit("host_restore.unpacked");
    let options = RestoreOptions {
        now_ms: request.now_ms,
        revoke_tokens: request.revoke_tokens,
        snapshots: backup.end.summary.snapshots.iter().copied().collect(),
    };
    let rows = prepare_restored(&staging.data.join(crate::boot::DATABASE), &options)?;
    // New: the instance, the administrator's token, and the key that signs badges, links and tokens of sandboxes. So
    // nothing that the other host handed out, or still runs, is taken for this one's.
    let identity = load_or_create(&staging.data).map_err(RestoreError::io("write the identity files"))?;
    let configuration = match unpacker.has_configuration {
        true => Some(request.data_dir.join(unpack::CONFIGURATION)),
        false => {
            unpack::remove_empty_configuration(&staging.data).map_err(RestoreError::io("tidy up"))?;
            None
        }
    };
    unpacker.sync()?;
    failpoint::hit("host_restore.prepared");
    staging.publish(&target)?;
    failpoint::hit("host_restore.renamed");
    Ok(Restored { backup, rows, instance: identity.instance, configuration })
}

fn read(
    request: &RestoreRequest,
    file: &File,
    visit: &mut dyn FnMut(Piece<'_>) -> Result<(), RestoreError>,
) -> Result<WholeBackup, RestoreError> {
    read_backup(file, &request.key, newest_schema_version(), visit)
}

fn open(path: &Path) -> Result<File, RestoreError> {
    File::open(path).map_err(RestoreError::io(format!("open {}", path.display())))
}

/// Where the data directory is to appear: nothing is there, or an empty directory.
struct Target {
    dir: PathBuf,
    parent: PathBuf,
    name: String,
}

impl Target {
    fn check(dir: &Path) -> Result<Self, RestoreError> {
        let shown = dir.display().to_string();
        let named = dir.parent().zip(dir.file_name()).filter(|_| dir.is_absolute());
        let (parent, name) = named.ok_or_else(|| {
            let why =
                io::Error::new(io::ErrorKind::InvalidInput, "it is not an absolute path of a directory");
            RestoreError::io(format!("restore into {shown}"))(why)
        })?;
        let target = Self {
            dir: dir.to_owned(),
            parent: parent.to_owned(),
            name: name.to_string_lossy().into_owned(),
        };
        let look = || RestoreError::io(format!("look at {shown}"));
        let is_empty = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(parent).map_err(RestoreError::io(format!("make {}", parent.display())))?;
                return Ok(target);
            }
            Err(error) => return Err(look()(error)),
        };
        if !is_empty {
            return Err(if is_locked(dir) {
                RestoreError::InUse(shown)
            } else {
                RestoreError::NotEmpty(shown)
            });
        }
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
        if device(dir).map_err(look())? != device(parent).map_err(look())? {
            return Err(RestoreError::MountPoint(shown));
        }
        Ok(target)
    }

    /// Makes the directory beside the target, in the place of one that an earlier restore left.
    fn stage(&self) -> Result<Staging, RestoreError> {
        let dir = self.parent.join(format!(".{}.restoring", self.name));
        let make = || RestoreError::io(format!("make {}", dir.display()));
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(make()(error)),
            Ok(()) | Err(_) => {}
        }
        let lock = Flock::lock(File::open(&dir).map_err(make())?, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, error)| {
            RestoreError::io(format!("lock {}: another restore may be running", dir.display()))(error.into())
        })?;
        let data = dir.join("data");
        remove_unfinished(&data).map_err(RestoreError::io("remove what an earlier restore left"))?;
        Ok(Staging { dir, data, published: false, _lock: lock })
    }
}

/// Whether a hostd runs on a data directory.
fn is_locked(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join("lock")) else { return false };
    Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
}

/// The directory in which a restore works. Dropped before it is published, it is removed.
struct Staging {
    dir: PathBuf,
    data: PathBuf,
    published: bool,
    _lock: Flock<File>,
}

impl Staging {
    fn publish(mut self, target: &Target) -> Result<(), RestoreError> {
        let publish =
            || RestoreError::io(format!("rename the restored directory to {}", target.dir.display()));
        // Atomic, also over an empty directory; over one that was filled meanwhile it fails.
        fs::rename(&self.data, &target.dir).map_err(publish())?;
        self.published = true;
        File::open(&target.parent).and_then(|parent| parent.sync_all()).map_err(publish())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let removed = match self.published {
            true => Ok(()),
            false => remove_unfinished(&self.data),
        };
        if let Err(error) = removed.and_then(|()| fs::remove_dir(&self.dir)) {
            eprintln!("hostd: could not remove {}: {error}", self.dir.display());
        }
    }
}
