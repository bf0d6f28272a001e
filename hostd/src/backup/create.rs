//! Makes a backup while hostd serves: a copy of the database, and then the files of one sandbox after the other, each
//! from a snapshot that exists only meanwhile. Needs room for the copy and for one of these snapshots.

use super::{
    encryption::SealWith,
    entry::{EntryName, FORMAT, KeyFile, Manifest, SettingFile, Tree},
    error::BackupError,
    limits::PART_BYTES,
    settings::BackupSettings,
    writer::EntryWriter,
};
use crate::reconcile::{Fleet, FleetError};
use hostd_drivers::{DriverError, StallGuard, compress_into};
use hostd_store::{Store, disk_space::DiskSpace, failpoint, newest_schema_version};
use protocol::api::{BackupSkipped, BackupSummary, SandboxId, SnapshotId};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use tokio::{runtime::Handle, sync::oneshot};
use tracing::warn;

/// What is in progress here is removed when hostd starts.
const TRASH: &str = "trash";

/// The parts of hostd that a backup reads.
#[derive(Clone)]
pub struct BackupParts {
    pub fleet: Fleet,
    pub store: Store,
    pub disk: DiskSpace,
    pub data_dir: PathBuf,
    pub instance: String,
    pub settings: BackupSettings,
}

/// What is to be in the backup.
pub struct BackupPlan {
    pub seal: SealWith,
    pub sandboxes: Vec<SandboxId>,
    pub snapshots: Vec<SnapshotId>,
    pub created_ms: u64,
}

/// A backup that is being written into a pipe.
pub struct RunningBackup {
    pub pipe: PipeReader,
    pub end: oneshot::Receiver<Result<BackupSummary, BackupError>>,
}

/// Copies the database, and begins to write. `permit` is held until the end, which a reader that is gone hastens.
pub async fn begin(
    parts: BackupParts,
    plan: BackupPlan,
    permit: impl Send + 'static,
) -> Result<RunningBackup, BackupError> {
    let database = copy_database(&parts).await?;
    let (pipe, out) = io::pipe().map_err(BackupError::io("make a pipe"))?;
    let (reply, end) = oneshot::channel();
    let runtime = Handle::current();
    // Ends with its reader, or when it takes nothing for long.
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let written = Backup { parts, plan, runtime, summary: BackupSummary::default() }.write(database, out);
        if let Err(error) = &written {
            warn!(error = error as &dyn std::error::Error, "backup given up");
        }
        // The reader may be gone.
        let _ = reply.send(written);
    });
    Ok(RunningBackup { pipe, end })
}

/// Copies the database as it is now. The copy has no name when this returns.
async fn copy_database(parts: &BackupParts) -> Result<File, BackupError> {
    const COPY: &str = "copy the database";
    let (needed, disk) = (parts.store.copy_bytes_max().await?, parts.disk.state());
    if disk.free_bytes < disk.floor_bytes.saturating_add(needed) {
        return Err(FleetError::DiskFull(disk).into());
    }
    let path = parts.data_dir.join(TRASH).join(format!("backup-{}", ulid::Ulid::generate()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(BackupError::io(COPY))?;
    let unnamed = Unnamed { path };
    parts.store.copy_to(unnamed.path.clone()).await?;
    failpoint::hit("backup.copied");
    Ok(file)
}

/// Removes the name of a file when it is dropped.
struct Unnamed {
    path: PathBuf,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(%error, "failed to remove the copy of the database");
        }
    }
}

struct Backup {
    parts: BackupParts,
    plan: BackupPlan,
    runtime: Handle,
    summary: BackupSummary,
}

impl Backup {
    fn write(mut self, database: File, out: PipeWriter) -> Result<BackupSummary, BackupError> {
        const WRITE: &str = "write the backup";
        let mut guard = StallGuard::of_export(out).map_err(BackupError::io(WRITE))?;
        let mut sealed = self.plan.seal.wrap(&mut guard)?;
        let mut failure = None;
        let compressed = compress_into(&mut sealed, |packed| {
            self.entries(database, packed).map_err(|error| {
                failure = Some(error);
                io::Error::other("the backup was given up")
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        compressed.map_err(BackupError::io(WRITE))?;
        // Without this the last piece is missing, and the backup cannot be taken for a whole one.
        sealed.finish().and_then(|out| out.flush()).map_err(BackupError::io(WRITE))?;
        Ok(self.summary)
    }

    fn entries(&mut self, database: File, out: &mut dyn Write) -> Result<(), BackupError> {
        let mut entries = EntryWriter::new(out);
        let manifest = Manifest {
            format: FORMAT,
            hostd_version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: self.parts.instance.clone(),
            schema: newest_schema_version(),
            created_ms: self.plan.created_ms,
            sandboxes: self.plan.sandboxes.clone(),
            snapshots: self.plan.snapshots.clone(),
        };
        let manifest = serde_json::to_vec(&manifest).map_err(io::Error::other);
        entries.bytes(&EntryName::Manifest, &manifest.map_err(BackupError::io("write the manifest"))?)?;
        let mut database = database;
        let size = database.metadata().map_err(BackupError::io("read the copy of the database"))?.len();
        entries.entry(&EntryName::Database, size, &mut database)?;
        drop(database);
        self.small_files(&mut entries)?;
        for sandbox in self.plan.sandboxes.clone() {
            self.sandbox(&mut entries, sandbox)?;
        }
        for snapshot in self.plan.snapshots.clone() {
            self.snapshot(&mut entries, snapshot)?;
        }
        entries.end(&self.summary)
    }

    fn small_files(&self, entries: &mut EntryWriter<'_>) -> Result<(), BackupError> {
        for key in KeyFile::ALL {
            let read = read_if_there(&self.parts.data_dir.join(key.name()));
            if let Some(bytes) = read.map_err(BackupError::io("read a key"))? {
                entries.bytes(&EntryName::Key(key), &bytes)?;
            }
        }
        for file in SettingFile::ALL {
            let read = self.parts.settings.read(file);
            if let Some(bytes) = read.map_err(BackupError::io("read the configuration"))? {
                entries.bytes(&EntryName::Setting(file), &bytes)?;
            }
        }
        Ok(())
    }

    fn sandbox(&mut self, entries: &mut EntryWriter<'_>, id: SandboxId) -> Result<(), BackupError> {
        let fleet = self.parts.fleet.clone();
        let snapshot = match self.runtime.block_on(fleet.capture_for_backup(&id)) {
            Ok(Some(snapshot)) => snapshot,
            // Destroyed meanwhile, or never launched.
            Ok(None) => return Ok(()),
            Err(error) => return self.skip(id.as_str(), error),
        };
        failpoint::hit("backup.captured");
        let exported = self.tree(entries, Tree::Sandbox(id), &snapshot);
        failpoint::hit("backup.exported");
        if let Err(error) = self.runtime.block_on(fleet.remove_snapshot(&snapshot)) {
            warn!(%snapshot, %error, "failed to remove the snapshot of a backup; hostd does when it starts");
        }
        exported?;
        self.summary.sandboxes.push(id);
        Ok(())
    }

    fn snapshot(&mut self, entries: &mut EntryWriter<'_>, id: SnapshotId) -> Result<(), BackupError> {
        match self.tree(entries, Tree::Snapshot(id), &id) {
            Ok(()) => self.summary.snapshots.push(id),
            // Deleted before any of it was read.
            Err(BackupError::Fleet(FleetError::Driver(DriverError::Conflict { .. }))) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// One sandbox whose files cannot be read keeps no other from being saved. A full disk, and the end of hostd, do.
    fn skip(&mut self, id: &str, error: FleetError) -> Result<(), BackupError> {
        match error {
            FleetError::ShuttingDown | FleetError::DiskFull(_) | FleetError::Store(_) => Err(error.into()),
            FleetError::Driver(DriverError::DiskFull) => Err(error.into()),
            FleetError::NotFound
            | FleetError::Refused(_)
            | FleetError::Failed { .. }
            | FleetError::InProgress
            | FleetError::NotRunning { .. }
            | FleetError::TooMany
            | FleetError::QuotaExceeded(_)
            | FleetError::Capacity(_)
            | FleetError::InUse
            | FleetError::Restoring
            | FleetError::Driver(_)
            | FleetError::Control(_) => {
                warn!(id, %error, "files are not in the backup");
                self.summary.skipped.push(BackupSkipped { id: id.to_owned(), why: error.to_string() });
                Ok(())
            }
        }
    }

    /// Writes the files of a snapshot in parts, since their size is not known before.
    fn tree(
        &self,
        entries: &mut EntryWriter<'_>,
        tree: Tree,
        snapshot: &SnapshotId,
    ) -> Result<(), BackupError> {
        let (mut files, out) = io::pipe().map_err(BackupError::io("make a pipe"))?;
        let end = self.parts.fleet.export_for_backup(snapshot, out);
        let mut part = Vec::with_capacity(PART_BYTES);
        for number in 0.. {
            part.clear();
            let read = (&mut files).take(PART_BYTES as u64).read_to_end(&mut part);
            if read.map_err(BackupError::io("read the files of a snapshot"))? == 0 {
                break;
            }
            entries.bytes(&EntryName::Part(tree, number), &part)?;
        }
        self.runtime.block_on(end).unwrap_or(Err(FleetError::ShuttingDown)).map_err(BackupError::from)
    }
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
