//! SQLite connections: how the database file is opened, checked and configured.

use super::{
    error::OpenError,
    limits, schema,
    vacuum::{ask_for_shrinkable, make_shrinkable},
    wal::set_file_options,
};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

/// Opens the database for writing, checks it and migrates its schema.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    make_file(path)?;
    let mut conn = connect(path)?;
    let found = schema::stored_version(&conn)?;
    let known = schema::newest_version();
    // Checked before anything is written: the newer hostd must find its database unchanged.
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    // The check reads the whole file: a large one would delay the start, and damage is reported when it is
    // read.
    let small = fs::metadata(path).is_ok_and(|file| file.len() <= limits::QUICK_CHECK_MAX_BYTES);
    if small && let Some(detail) = damage(&conn, "PRAGMA quick_check(1)")? {
        return Err(OpenError::Corrupt { detail });
    }
    set_up(&conn).map_err(|source| OpenError::sqlite("set up the database", source))?;
    schema::migrate(&mut conn, found)?;
    make_shrinkable(&conn, path);
    Ok(conn)
}

/// Opens a connection that only reads.
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

/// Runs a check and returns the first damage it reports.
pub(super) fn damage(conn: &Connection, check: &str) -> Result<Option<String>, OpenError> {
    let first: String = conn
        .query_row(check, [], |row| row.get(0))
        .map_err(|source| OpenError::sqlite("check the database", source))?;
    // The report may have several lines; error texts are one line.
    let line = first.lines().find(|line| !line.starts_with("***")).unwrap_or("unknown damage");
    Ok(if first == "ok" { None } else { Some(line.to_owned()) })
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Creates the file with mode 0600, since it holds the environment of sandboxes. SQLite gives the WAL and the
/// shared memory the same mode.
fn make_file(path: &Path) -> Result<(), OpenError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(OpenError::Full),
        Err(source) => Err(OpenError::Io { what: "create the database", source }),
    }
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    ask_for_shrinkable(conn)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    // A write that was acknowledged survives a loss of power.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", limits::CHECKPOINT_AT_COMMIT_PAGES)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // SQLite must never shrink the WAL: commits on a full disk use its preallocated blocks.
    conn.pragma_update(None, "journal_size_limit", -1)?;
    // Temporary files would not fit on a full disk.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    set_file_options(conn)?;
    // Overwritten environments must not stay in free pages.
    conn.pragma_update(None, "secure_delete", true)?;
    conn.set_prepared_statement_cache_capacity(limits::STATEMENTS_MAX);
    Ok(())
}
