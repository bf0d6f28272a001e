//! Retention of history: deletes events, ended tasks and execs, old attempts and the rows of destroyed sandboxes, by age
//! and by number, so that the database stops growing.
//!
//! Tasks that have not ended keep everything, and so do sandboxes that left files. A reader that resumes before what was
//! deleted learns it (`Store::trimmed_through`).

use super::{
    columns::{ColumnReader, int},
    error::{During, Result},
    events::EventFilter,
    handle::Store,
    limits,
    log_quota::{OldRow, delete_rows, parse_old},
    query::{all, change},
    task_events::newest_seq,
};
use protocol::api::SandboxId;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

const WHAT: &str = "delete old history";

/// How much history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryPolicy {
    pub keep_ms: u64,
    /// The newest events, of all sandboxes together; `None` for all.
    pub keep_events: Option<u64>,
}

/// The number of deleted rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrimmedHistory {
    /// Events, and rows with several events of one task.
    pub log_rows: usize,
    pub tasks: usize,
    pub execs: usize,
    pub attempts: usize,
    pub sandboxes: usize,
}

/// What an event may not be younger, or newer, than.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    before_ms: u64,
    /// The newest event that is too old; 0 where none is.
    aged_seq: u64,
    /// The newest event beyond the number that is kept.
    excess_seq: u64,
}

/// Deletes execs of any sandbox; those of destroyed ones go earlier.
const EXECS: &str =
    "DELETE FROM execs WHERE number IN (SELECT number FROM execs WHERE ended_ms < ?1 LIMIT ?2)";
/// The newest attempt of a sandbox stays.
const ATTEMPTS: &str = "DELETE FROM attempts WHERE (sandbox, attempt) IN
    (SELECT attempts.sandbox, attempts.attempt FROM attempts JOIN sandboxes ON sandboxes.id = attempts.sandbox
     WHERE attempts.ended_ms < ?1 AND attempts.attempt < sandboxes.attempt LIMIT ?2)";

impl Store {
    /// Deletes what the policy does not keep, in small jobs, so that others run in between. The rows of sandboxes that
    /// left files (`with_files`) stay: they say whose these are. `None` where that is not known: then all of them do.
    pub async fn trim_history(
        &self,
        policy: HistoryPolicy,
        with_files: Option<&BTreeSet<SandboxId>>,
        now_ms: u64,
    ) -> Result<TrimmedHistory> {
        let before_ms = now_ms.saturating_sub(policy.keep_ms);
        let mut trimmed = TrimmedHistory::default();
        let bounds = self.read(move |conn| bounds(conn, policy.keep_events, before_ms)).await?;
        if bounds.aged_seq > 0 || bounds.excess_seq > 0 {
            trimmed.log_rows += self.delete_log(move |conn| aged_rows(conn, bounds)).await?;
        }
        for task in self.read(move |conn| old_tasks(conn, before_ms)).await? {
            trimmed.log_rows += self.delete_log(move |conn| rows_of_task(conn, task)).await?;
            self.write("trim_task", move |conn| delete_task(conn, task)).await?;
            trimmed.tasks += 1;
        }
        trimmed.execs = self.delete_in_batches(EXECS, before_ms, limits::RETENTION_BATCH_MAX_ROWS).await?;
        trimmed.attempts =
            self.delete_in_batches(ATTEMPTS, before_ms, limits::RETENTION_BATCH_MAX_ROWS).await?;
        let Some(with_files) = with_files else { return Ok(trimmed) };
        let gone = self.read(move |conn| old_sandboxes(conn, before_ms)).await?;
        for sandbox in gone.into_iter().filter(|sandbox| !with_files.contains(sandbox)) {
            trimmed.log_rows += self.delete_log(move |conn| rows_of_sandbox(conn, &sandbox)).await?;
            if self.write("trim_sandbox", move |conn| delete_sandbox(conn, &sandbox, before_ms)).await? {
                trimmed.sandboxes += 1;
            }
        }
        Ok(trimmed)
    }

    /// Returns the number of the oldest event that a reader of the whole log can begin with without a gap: one whose
    /// cursor is below `oldest - 1` has missed some.
    pub async fn oldest_readable(&self) -> Result<u64> {
        Ok(self.trimmed_through(&EventFilter::default()).await?.saturating_add(1))
    }

    /// Deletes rows of the log until there are none left that `find` finds.
    async fn delete_log(
        &self,
        find: impl Fn(&Connection) -> Result<Vec<OldRow>> + Clone + Send + 'static,
    ) -> Result<usize> {
        let mut deleted = 0;
        loop {
            let find = find.clone();
            let batch = self
                .write("trim_history", move |conn| {
                    let rows = find(conn)?;
                    delete_rows(conn, &rows)?;
                    Ok(rows.len())
                })
                .await?;
            deleted += batch;
            if batch < limits::TRIM_BATCH_MAX_ROWS {
                return Ok(deleted);
            }
        }
    }
}

fn bounds(conn: &Connection, keep_events: Option<u64>, before_ms: u64) -> Result<Bounds> {
    let sql = "SELECT max(seq) FROM events WHERE time_ms < ?";
    let aged: Option<i64> = conn.query_row(sql, [int(before_ms)], |row| row.get(0)).during(WHAT)?;
    Ok(Bounds {
        before_ms,
        aged_seq: aged.unwrap_or(0).unsigned_abs(),
        excess_seq: keep_events.map_or(Ok(0), |keep| excess_seq(conn, keep))?,
    })
}

/// Returns the number of the newest event beyond those that are kept; 0 where there is none. Events are counted, newest
/// first, since their numbers have gaps: a restore goes on far above the newest.
fn excess_seq(conn: &Connection, keep: u64) -> Result<u64> {
    if newest_seq(conn)? <= keep {
        return Ok(0);
    }
    let sql = "SELECT first, last FROM (SELECT seq AS first, seq AS last FROM events
        UNION ALL SELECT first, last FROM task_events) ORDER BY first DESC";
    let mut statement = conn.prepare_cached(sql).during(WHAT)?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let mut kept = 0;
    for row in rows.during(WHAT)? {
        let (first, last) = row.during(WHAT)?;
        kept += last.abs_diff(first) + 1;
        if kept > keep {
            return Ok(last.unsigned_abs());
        }
    }
    Ok(0)
}

const OWN_ROW: &str =
    "SELECT seq AS first, seq AS last, 0 AS bytes, 0 AS of_agent, sandbox, task, origin_epoch, origin_seq
    FROM events";
const AGENT_ROW: &str = "SELECT first, last, 0 AS bytes, 1 AS of_agent, sandbox, task,
    NULL AS origin_epoch, NULL AS origin_seq FROM task_events";
const ENDED: &str = "EXISTS (SELECT 1 FROM tasks WHERE tasks.number = task AND tasks.done_seq IS NOT NULL)";
/// A task that was deleted has ended, too.
const NOT_OPEN: &str =
    "NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.number = task AND tasks.done_seq IS NULL)";

/// The end of a task stays as long as the task, so that its followers end.
fn aged_rows(conn: &Connection, bounds: Bounds) -> Result<Vec<OldRow>> {
    let most = limits::TRIM_BATCH_MAX_ROWS;
    let sql = format!(
        "SELECT * FROM ({OWN_ROW} WHERE seq <= max(?1, ?2) AND (seq <= ?1 OR time_ms < ?3) AND {NOT_OPEN}
            ORDER BY seq LIMIT {most})
        UNION ALL SELECT * FROM ({AGENT_ROW} WHERE first <= ?1 AND last <= ?1 AND ends = 0 AND {ENDED}
            ORDER BY first LIMIT {most})
        ORDER BY first LIMIT {most}"
    );
    let values = params![int(bounds.excess_seq), int(bounds.aged_seq), int(bounds.before_ms)];
    all(conn, &sql, values, parse_old)
}

fn rows_of_task(conn: &Connection, task: i64) -> Result<Vec<OldRow>> {
    let most = limits::RETENTION_BATCH_MAX_EVENT_ROWS.max(limits::TRIM_BATCH_MAX_ROWS);
    all(conn, &format!("{AGENT_ROW} WHERE task = ? ORDER BY first LIMIT {most}"), params![task], parse_old)
}

fn rows_of_sandbox(conn: &Connection, sandbox: &SandboxId) -> Result<Vec<OldRow>> {
    let most = limits::TRIM_BATCH_MAX_ROWS;
    let sql = format!(
        "SELECT * FROM ({OWN_ROW} WHERE sandbox = ?1 ORDER BY seq LIMIT {most})
        UNION ALL SELECT * FROM ({AGENT_ROW} WHERE sandbox = ?1 ORDER BY first LIMIT {most})
        ORDER BY first LIMIT {most}"
    );
    all(conn, &sql, params![sandbox.as_str()], parse_old)
}

fn old_tasks(conn: &Connection, before_ms: u64) -> Result<Vec<i64>> {
    let most = limits::RETENTION_BATCH_MAX_ROWS;
    let sql = format!("SELECT number FROM tasks WHERE done_seq IS NOT NULL AND ended_ms < ? LIMIT {most}");
    let number = |row: &Row<'_>| ColumnReader { row, table: "tasks", key: "number" }.get("number");
    all(conn, &sql, params![int(before_ms)], number)
}

fn old_sandboxes(conn: &Connection, before_ms: u64) -> Result<Vec<SandboxId>> {
    let most = limits::RETENTION_BATCH_MAX_ROWS;
    let sql = format!(
        "SELECT id FROM sandboxes WHERE status = 'destroyed' AND keep_workspace = 0 AND updated_ms < ? LIMIT {most}"
    );
    let id = |row: &Row<'_>| ColumnReader { row, table: "sandboxes", key: "id" }.sandbox("id");
    all(conn, &sql, params![int(before_ms)], id)
}

fn delete_task(conn: &Connection, task: i64) -> Result<()> {
    for sql in [
        "DELETE FROM task_change_files WHERE task = ?",
        "DELETE FROM task_changes WHERE task = ?",
        "DELETE FROM tasks WHERE number = ? AND done_seq IS NOT NULL",
    ] {
        change(conn, sql, params![task], WHAT)?;
    }
    Ok(())
}

/// Deletes a destroyed sandbox whose history is gone; returns whether it was there.
fn delete_sandbox(conn: &Connection, sandbox: &SandboxId, before_ms: u64) -> Result<bool> {
    let tasks = all(
        conn,
        "SELECT number FROM tasks WHERE sandbox = ? AND done_seq IS NOT NULL",
        params![sandbox.as_str()],
        |row| ColumnReader { row, table: "tasks", key: "number" }.get::<i64>("number"),
    )?;
    tasks.into_iter().try_for_each(|task| delete_task(conn, task))?;
    for table in ["execs", "attempts", "preview_links", "file_links", "shares", "client_records", "dotfiles"]
    {
        change(conn, &format!("DELETE FROM {table} WHERE sandbox = ?"), params![sandbox.as_str()], WHAT)?;
    }
    // Its readers still learn that something is gone.
    let sql = "INSERT INTO trimmed_history (tenant, principal, trimmed_seq)
        SELECT tenant, principal, max(trimmed_seq, expired_seq) FROM sandboxes
        WHERE id = ? AND max(trimmed_seq, expired_seq) > 0
        ON CONFLICT DO UPDATE SET trimmed_seq = max(trimmed_seq, excluded.trimmed_seq)";
    change(conn, sql, params![sandbox.as_str()], WHAT)?;
    let sql = "DELETE FROM sandboxes WHERE id = ? AND status = 'destroyed' AND updated_ms < ?";
    Ok(change(conn, sql, params![sandbox.as_str(), int(before_ms)], WHAT)? > 0)
}
