//! Connections: how the file is opened, checked and set up.

use super::{error::OpenError, limits, schema, wal::set_file_options};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

/// Opens the database for writing: checks it and brings it up to date.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    make_file(path)?;
    let mut conn = connect(path)?;
    let found = schema::version(&conn)?;
    let known = schema::known();
    // Before anything is changed: the newer hostd must find it as it left it.
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    // It reads all of it: a large one would keep everybody waiting, and damage shows when it is met.
    let small = fs::metadata(path).is_ok_and(|file| file.len() <= limits::QUICK_CHECK_MAX_BYTES);
    if small && let Some(detail) = damage(&conn, "PRAGMA quick_check(1)")? {
        return Err(OpenError::Corrupt { detail });
    }
    set_up(&conn).map_err(|source| OpenError::sqlite("set up the database", source))?;
    schema::migrate(&mut conn, found)?;
    Ok(conn)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags())?;
    conn.busy_timeout(Duration::from_millis(limits::LOCK_WAIT_MAX_MS))?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    set_file_options(&conn)?;
    conn.set_prepared_statement_cache_capacity(limits::STATEMENTS_MAX);
    Ok(conn)
}

pub(super) fn connect(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::sqlite("open the database", source);
    let conn = Connection::open_with_flags(path, flags()).map_err(failed)?;
    conn.busy_timeout(Duration::from_millis(limits::LOCK_WAIT_MAX_MS)).map_err(failed)?;
    Ok(conn)
}

/// What the given check finds wrong first, if anything.
pub(super) fn damage(conn: &Connection, check: &str) -> Result<Option<String>, OpenError> {
    let first: String = conn
        .query_row(check, [], |row| row.get(0))
        .map_err(|source| OpenError::sqlite("check the database", source))?;
    // It may have several lines; the first says enough, and errors are one line.
    let line = first.lines().find(|line| !line.starts_with("***")).unwrap_or("unknown damage");
    Ok(if first == "ok" { None } else { Some(line.to_owned()) })
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// The environment of sandboxes is in it: nobody else reads it. SQLite gives the files beside it the same
/// mode.
fn make_file(path: &Path) -> Result<(), OpenError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(OpenError::Full),
        Err(source) => Err(OpenError::Io { what: "create the database", source }),
    }
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    // What was answered survives a loss of power.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", limits::CHECKPOINT_AT_COMMIT_PAGES)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // It is never cut back by SQLite: its blocks are what commits live on when the disk is full.
    conn.pragma_update(None, "journal_size_limit", -1)?;
    // No files beside the database, which a full disk has no room for.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    set_file_options(conn)?;
    // Old environments are overwritten, not left in free space.
    conn.pragma_update(None, "secure_delete", true)?;
    conn.set_prepared_statement_cache_capacity(limits::STATEMENTS_MAX);
    Ok(())
}
