//! The write-ahead log file: preallocated space, so that commits go on when the disk is full, and
//! checkpoints.
//!
//! Blocks are allocated beyond the end of the WAL, as many as `core::disk_room` allows: an appended commit
//! writes into blocks that exist. On a full disk the WAL is checkpointed before each batch, so that it is
//! written from its start again. Truncation, which removes overwritten secrets, happens only while the disk
//! has space to recreate the WAL.

use super::{
    error::{During, Result},
    limits,
};
use crate::disk_space::DiskSpace;
use nix::fcntl::{FallocateFlags, fallocate};
use protocol::api::DiskLevel;
use rusqlite::{Connection, ffi};
use std::{
    ffi::c_int,
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};
use tracing::debug;

const PAGE_BYTES: u64 = 4096;
/// A frame of the WAL: a page and its header.
const FRAME_BYTES: u64 = PAGE_BYTES + 24;
/// WAL space that a batch of lifecycle jobs may need.
const BATCH_WAL_BYTES: u64 = 128 << 10;

pub(super) struct WalFile {
    path: PathBuf,
    /// Opened once and kept open. SQLite holds no lock on the WAL that closing this descriptor could release.
    file: Option<File>,
    /// Absent in tests and tools: nothing is preallocated then.
    disk: Option<DiskSpace>,
    /// The offset at which the allocated blocks end.
    allocated_end: u64,
}

/// Returns the path of a database's WAL.
pub(super) fn wal_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

impl WalFile {
    pub(super) fn new(path: PathBuf, disk: Option<DiskSpace>) -> Self {
        Self { path, file: None, disk, allocated_end: 0 }
    }

    /// Allocates blocks ahead of the WAL when less than half of them are left. Costs one `fstat` otherwise.
    pub(super) fn preallocate(&mut self) {
        let Some(disk) = &self.disk else { return };
        if self.file.is_none() {
            self.file = File::options().write(true).open(&self.path).ok();
        }
        let Some(file) = &self.file else { return };
        let Ok(end) = file.metadata().map(|meta| meta.len()) else { return };
        let reserve_bytes = disk.marks().journal_bytes;
        if end + reserve_bytes / 2 <= self.allocated_end {
            return;
        }
        let (Ok(from), Ok(length)) = (i64::try_from(end), i64::try_from(reserve_bytes)) else { return };
        // A file system that is full or cannot preallocate does not stop hostd.
        if fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, length).is_ok() {
            self.allocated_end = end + reserve_bytes;
        }
    }

    /// Prepares for a batch: on a full disk, makes sure that the WAL has space for it.
    pub(super) fn before_batch(&mut self, conn: &Connection) {
        let Some(disk) = &self.disk else { return };
        if disk.level() != DiskLevel::Full {
            return;
        }
        let left = match checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)") {
            // Everything is in the database: the WAL restarts at its beginning.
            Ok(checkpointed) if checkpointed.is_complete() => self.allocated_end,
            Ok(checkpointed) => self.allocated_end.saturating_sub(checkpointed.frames * FRAME_BYTES),
            // The database file could not grow.
            Err(error) => {
                debug!(%error, "failed to checkpoint the WAL");
                0
            }
        };
        if left < BATCH_WAL_BYTES {
            disk.ensure_free();
        }
    }

    /// Frees reserved space after a batch that did not fit, for the next one.
    pub(super) fn on_disk_full(&self) {
        if let Some(disk) = &self.disk {
            disk.ensure_free();
        }
    }

    /// Checkpoints and truncates the WAL. Returns whether it was done: readers and a full disk are not waited
    /// for.
    pub(super) fn truncate(&mut self, conn: &Connection) -> Result<bool> {
        const WHAT: &str = "truncate the WAL";
        if self.disk.as_ref().is_some_and(|disk| disk.state().level == DiskLevel::Full) {
            return Ok(false);
        }
        conn.busy_timeout(Duration::ZERO).during(WHAT)?;
        let truncated = checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)");
        conn.busy_timeout(Duration::from_millis(limits::LOCK_WAIT_MAX_MS)).during(WHAT)?;
        let done = !truncated?.busy;
        if done {
            self.allocated_end = 0;
            self.preallocate();
        }
        Ok(done)
    }
}

/// The result of a checkpoint.
struct Checkpoint {
    busy: bool,
    frames: u64,
    checkpointed: u64,
}

impl Checkpoint {
    fn is_complete(&self) -> bool {
        !self.busy && self.frames == self.checkpointed
    }
}

fn checkpoint(conn: &Connection, sql: &str) -> Result<Checkpoint> {
    let checkpointed = conn.query_row(sql, [], |row| {
        let count = |at: usize| row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or(0));
        Ok(Checkpoint { busy: row.get(0)?, frames: count(1)?, checkpointed: count(2)? })
    });
    checkpointed.during("checkpoint the WAL")
}

/// Checkpoints as much as possible beside readers and the writer.
pub(super) fn checkpoint_passive(conn: &Connection) -> Result<()> {
    checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)").map(drop)
}

/// Gives the database file its size if all or part of the database is only in the WAL, as after migrations. Later a
/// checkpoint on a full disk would do that, and take the space that was released for a client.
pub(super) fn allocate_database(conn: &Connection, path: &Path) {
    let pages = conn.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0));
    let database_bytes = pages.ok().and_then(|pages| u64::try_from(pages).ok()).unwrap_or(0) * PAGE_BYTES;
    if path.metadata().is_ok_and(|meta| meta.len() >= database_bytes) {
        return;
    }
    if let Err(error) = checkpoint_passive(conn) {
        debug!(%error, "failed to checkpoint the WAL");
    }
}

/// Keeps the WAL when the last connection closes, and grows the database file in allocated chunks.
pub(super) fn set_file_options(conn: &Connection) -> rusqlite::Result<()> {
    file_control(conn, ffi::SQLITE_FCNTL_PERSIST_WAL, 1)?;
    file_control(conn, ffi::SQLITE_FCNTL_CHUNK_SIZE, limits::DATABASE_CHUNK_BYTES)
}

#[allow(unsafe_code)]
fn file_control(conn: &Connection, verb: c_int, mut value: c_int) -> rusqlite::Result<()> {
    // SAFETY: the handle is that of an open connection, used by this thread alone; both operations read one
    // `int` at the pointer, and write one back to it.
    let code =
        unsafe { ffi::sqlite3_file_control(conn.handle(), c"main".as_ptr(), verb, (&raw mut value).cast()) };
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }
}
