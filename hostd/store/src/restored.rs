//! What a database says that was restored from a backup: of a host whose sandboxes, links and running tasks are gone.

use super::{
    attempts,
    backup::skip_event_numbers,
    columns::{ColumnReader, int},
    connection::open_writer,
    error::{During, OpenError, Result},
    events::{self, NewEvent},
    exec_exits, limits,
    query::{all, change},
    sandbox_row::{self, update},
    tasks,
};
use hostd_core::{Goal, State, TaskEnding, limits::ADOPTED_KEEP_MS};
use protocol::api::SnapshotId;
use rusqlite::{Connection, params};
use serde_json::json;
use std::{collections::BTreeSet, path::Path};

const WHAT: &str = "restore the database";
const TASK_NOT_BEGUN: &str =
    "the host was restored from a backup that was made before this task began: submit it again";
const SANDBOX_GONE: &str = "the host was restored from a backup that was made while this task ran";

/// What is restored beside the database, and what is not to be valid any more.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    pub now_ms: u64,
    /// Whether tokens of people are revoked, too.
    pub revoke_tokens: bool,
    /// The snapshots whose files are there; rows of others are deleted.
    pub snapshots: BTreeSet<SnapshotId>,
}

/// What was found and changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoredRows {
    /// Sandboxes that are stopped now.
    pub sandboxes: usize,
    pub tasks_ended: usize,
    pub links_revoked: usize,
    pub tokens_revoked: usize,
    pub snapshots: usize,
}

/// Brings the copy of a database in the state in which a new hostd finds it. All of it is on disk when this returns.
pub fn prepare_restored(
    path: &Path,
    options: &RestoreOptions,
) -> std::result::Result<RestoredRows, OpenError> {
    let mut conn = open_writer(path)?;
    let prepared = prepare(&mut conn, options).map_err(OpenError::Store)?;
    let checkpointed = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpointed.map_err(|source| OpenError::sqlite(WHAT, source))?;
    Ok(prepared)
}

fn prepare(conn: &mut Connection, options: &RestoreOptions) -> Result<RestoredRows> {
    let now_ms = options.now_ms;
    let tx = conn.transaction().during(WHAT)?;
    skip_event_numbers(&tx, limits::RESTORE_SKIPS_EVENTS)?;
    // Tasks first: their results name the sandbox as it was.
    let tasks_ended = end_tasks(&tx, now_ms)?;
    let sandboxes = stop_sandboxes(&tx, now_ms)?;
    let snapshots = keep_snapshots(&tx, &options.snapshots)?;
    let revoke = |table: &str| {
        let sql = format!("UPDATE {table} SET revoked_ms = ?1 WHERE revoked_ms IS NULL");
        change(&tx, &sql, params![int(now_ms)], WHAT)
    };
    let links_revoked = revoke("preview_links")? + revoke("file_links")?;
    let tokens_revoked = if options.revoke_tokens { revoke("tokens")? } else { 0 };
    // Grants of tasks for models, and requests that the other hostd did not answer.
    change(&tx, "UPDATE tasks SET model_key_hash = NULL WHERE model_key_hash IS NOT NULL", [], WHAT)?;
    change(&tx, "DELETE FROM idempotency WHERE status IS NULL", [], WHAT)?;
    tx.commit().during(WHAT)?;
    Ok(RestoredRows { sandboxes, tasks_ended, links_revoked, tokens_revoked, snapshots })
}

fn end_tasks(conn: &Connection, now_ms: u64) -> Result<usize> {
    let open = tasks::open(conn)?;
    for task in &open {
        let ending = match task.taken {
            true => TaskEnding::Lost,
            false => TaskEnding::Refused(TASK_NOT_BEGUN.to_owned()),
        };
        tasks::record_death(conn, &task.sandbox, SANDBOX_GONE)?;
        let task = tasks::by_number(conn, task.number)?;
        tasks::conclude(conn, &task, &ending, now_ms)?;
    }
    Ok(open.len())
}

/// Stops all sandboxes, except for those that were being destroyed: the next hostd goes on with that.
fn stop_sandboxes(conn: &Connection, now_ms: u64) -> Result<usize> {
    let sql = format!("{} WHERE status <> 'destroyed' AND goal <> 'destroyed'", sandbox_row::SELECT);
    let living = all(conn, &sql, [], sandbox_row::parse)?;
    let count = living.len();
    for mut record in living {
        let was = record.state.status;
        record.updated_ms = now_ms;
        record.generation += 1;
        record.state = State::at(Goal::Stopped);
        // Nobody could give it more time meanwhile.
        let soonest_ms = now_ms.saturating_add(ADOPTED_KEEP_MS);
        record.expires_ms = record.expires_ms.map(|expires_ms| expires_ms.max(soonest_ms));
        attempts::close_open(conn, &record)?;
        exec_exits::mark_lost(conn, &record.id, now_ms)?;
        update(conn, &record)?;
        let data = json!({ "was": was, "status": record.state.status });
        events::insert(conn, &NewEvent::of_hostd(&record, "sandbox.restored", data))?;
    }
    Ok(count)
}

/// Their files are read and hashed again by the next hostd.
fn keep_snapshots(conn: &Connection, kept: &BTreeSet<SnapshotId>) -> Result<usize> {
    let parse = |row: &rusqlite::Row<'_>| {
        ColumnReader { row, table: "snapshots", key: "id" }.parsed::<SnapshotId>("id")
    };
    let (gone, found): (Vec<SnapshotId>, Vec<SnapshotId>) =
        all(conn, "SELECT id FROM snapshots", [], parse)?.into_iter().partition(|id| !kept.contains(id));
    for id in gone {
        change(conn, "DELETE FROM snapshots WHERE id = ?", params![id.as_str()], WHAT)?;
    }
    change(conn, "UPDATE snapshots SET state = 'ready', sha256 = NULL", [], WHAT)?;
    Ok(found.len())
}
