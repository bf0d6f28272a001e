//! Gives the space of deleted rows back to the file system, a few pages at a time, so that no write waits for long.

use super::{
    columns::int,
    error::{During, Result},
    handle::Store,
    limits,
};
use nix::sys::statvfs::statvfs;
use rusqlite::Connection;
use std::path::Path;
use tracing::{info, warn};

const WHAT: &str = "shrink the database";
/// `PRAGMA auto_vacuum` of a database that [`Store::shrink`] can shrink.
const INCREMENTAL: i64 = 2;

impl Store {
    /// Frees pages that are not in use, but for a few that the next writes take. Returns how many. A database of an
    /// earlier hostd that was too large to be converted keeps its size, and uses its free pages again.
    pub async fn shrink(&self) -> Result<u64> {
        let mut freed = 0;
        loop {
            let step = self.write("shrink", shrink_step).await?;
            freed += step;
            if step < limits::SHRINK_STEP_PAGES {
                return Ok(freed);
            }
        }
    }
}

fn shrink_step(conn: &Connection) -> Result<u64> {
    let free = number(conn, "PRAGMA freelist_count")?;
    let step = free.saturating_sub(limits::FREE_PAGES_KEPT).min(limits::SHRINK_STEP_PAGES);
    if step == 0 || number(conn, "PRAGMA auto_vacuum")? != INCREMENTAL as u64 {
        return Ok(0);
    }
    // It frees a page for each row that is fetched.
    let mut statement = conn.prepare(&format!("PRAGMA incremental_vacuum({})", int(step))).during(WHAT)?;
    let mut rows = statement.query([]).during(WHAT)?;
    while rows.next().during(WHAT)?.is_some() {}
    Ok(free.saturating_sub(number(conn, "PRAGMA freelist_count")?))
}

/// Asks for a database that can shrink. In force for a new one at once; must come before anything is written.
pub(super) fn ask_for_shrinkable(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "auto_vacuum", INCREMENTAL)
}

/// Converts a database of an earlier hostd, once, where that takes neither long nor space that is missing.
pub(super) fn make_shrinkable(conn: &Connection, path: &Path) {
    let convert = || -> Result<()> {
        if number(conn, "PRAGMA auto_vacuum")? == INCREMENTAL as u64 {
            return Ok(());
        }
        let bytes = path.metadata().map_or(u64::MAX, |meta| meta.len());
        let free = statvfs(path).map_or(0, |disk| disk.blocks_available() * disk.fragment_size());
        // It is written into the WAL, and from there into the file.
        if bytes > limits::CONVERT_MAX_BYTES || free / limits::CONVERT_ROOM_FACTOR < bytes {
            info!(bytes, free, "the database keeps the space of deleted rows for new ones");
            return Ok(());
        }
        conn.execute_batch("VACUUM").during(WHAT)
    };
    if let Err(error) = convert() {
        warn!(%error, "failed to convert the database: it keeps the space of deleted rows for new ones");
    }
}

fn number(conn: &Connection, pragma: &str) -> Result<u64> {
    let value: i64 = conn.query_row(pragma, [], |row| row.get(0)).during(WHAT)?;
    Ok(value.unsigned_abs())
}
