//! A copy of the database for a backup: one moment of it, while writes go on.

use super::{
    columns::int,
    error::{During, Result},
    handle::Store,
};
use rusqlite::Connection;
use std::path::PathBuf;

const WHAT: &str = "copy the database";

impl Store {
    /// Returns the most that a copy of the database takes, in bytes.
    pub async fn copy_bytes_max(&self) -> Result<u64> {
        self.read(|conn| {
            let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
            let bytes: i64 = conn.query_row(sql, [], |row| row.get(0)).during(WHAT)?;
            Ok(bytes.unsigned_abs())
        })
        .await
    }

    /// Copies the database into an empty file, without what was deleted in it.
    pub async fn copy_to(&self, file: PathBuf) -> Result<()> {
        self.read(move |conn| {
            // The one statement of a reader that writes: into another file.
            conn.pragma_update(None, "query_only", false).during(WHAT)?;
            let copied = conn.execute("VACUUM INTO ?", [file.to_string_lossy()]).during(WHAT);
            conn.pragma_update(None, "query_only", true).during(WHAT)?;
            copied.map(drop)
        })
        .await
    }
}

/// Moves the numbers of later events beyond those that clients saw of events that a copy does not have.
pub(super) fn skip_event_numbers(conn: &Connection, numbers: u64) -> Result<()> {
    let sql = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'events'";
    conn.execute(sql, [int(numbers)]).during("skip numbers of events").map(drop)
}
