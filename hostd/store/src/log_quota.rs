//! The quota of events and output: how much of the log an owner has, and deleting the oldest of it.
//!
//! Events of tasks that have not ended stay, and so does the last row of every task, which has its result. A reader
//! that resumes before what was deleted learns it (`Store::trimmed_through`).

use super::{
    columns::{ColumnReader, int},
    error::{During, Result},
    events::EventFilter,
    handle::Store,
    limits,
    query::{all, change, one},
};
use protocol::api::Label;
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, HashMap};

const WHAT: &str = "trim the event log";

/// Whose log it is: a whole tenant's, or that of one principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOwner {
    pub tenant: Label,
    pub principal: Option<Label>,
}

impl Store {
    /// Measures the log of each principal of a tenant, and keeps the sizes for the checks of disk quotas.
    pub async fn measure_log(&self, tenant: &Label) -> Result<()> {
        let of = tenant.clone();
        let (sizes, before) = self.read(move |conn| Ok((measure(conn, &of)?, recorded(conn, &of)?))).await?;
        if sizes == before {
            return Ok(());
        }
        let tenant = tenant.clone();
        self.write("measure_log", move |conn| {
            let what = "write the size of a log";
            change(conn, "DELETE FROM log_sizes WHERE tenant = ?", params![tenant.as_str()], what)?;
            let sql =
                "INSERT INTO log_sizes (tenant, principal, log_bytes, changes_bytes) VALUES (?, ?, ?, ?)";
            for (principal, size) in &sizes {
                let values = params![tenant.as_str(), principal, int(size.log), int(size.changes)];
                change(conn, sql, values, what)?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the tenants that have, or had, sandboxes.
    pub async fn tenants(&self) -> Result<Vec<Label>> {
        let sql = "SELECT DISTINCT tenant FROM sandboxes ORDER BY tenant";
        let parse = |row: &Row<'_>| ColumnReader { row, table: "sandboxes", key: "tenant" }.parsed("tenant");
        self.read(move |conn| all(conn, sql, [], parse)).await
    }

    /// Deletes the oldest events of an owner until `excess_bytes` are freed or nothing more may go. Returns how many
    /// bytes were freed.
    pub async fn trim_log(&self, owner: &LogOwner, excess_bytes: u64) -> Result<u64> {
        let mut freed = 0;
        while freed < excess_bytes {
            let (owner, left) = (owner.clone(), excess_bytes - freed);
            // In small jobs, so that others run in between.
            match self.write("trim_log", move |conn| trim(conn, &owner, left)).await? {
                0 => break,
                bytes => freed += bytes,
            }
        }
        Ok(freed)
    }

    /// Returns the number up to which events that the filter selects were deleted; 0 where all are kept.
    pub async fn trimmed_through(&self, filter: &EventFilter) -> Result<u64> {
        let filter = filter.clone();
        self.read(move |conn| trimmed_through(conn, &filter)).await
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LogSize {
    log: u64,
    changes: u64,
}

fn measure(conn: &Connection, tenant: &Label) -> Result<BTreeMap<String, LogSize>> {
    let events = limits::EVENT_ROW_BYTES;
    let log = [
        format!("octet_length(data) + {events}) AS bytes FROM events"),
        "octet_length(frames)) AS bytes FROM task_events".to_owned(),
    ];
    let changes = [
        "octet_length(record)) AS bytes FROM task_changes".to_owned(),
        "octet_length(path) + coalesce(octet_length(diff), 0)) AS bytes FROM task_change_files".to_owned(),
    ];
    let mut sizes = BTreeMap::<String, LogSize>::new();
    for (select, of_log) in log.iter().map(|sql| (sql, true)).chain(changes.iter().map(|sql| (sql, false))) {
        let sql = format!("SELECT principal, sum({select} WHERE tenant = ? GROUP BY principal");
        for (principal, bytes) in all(conn, &sql, params![tenant.as_str()], parse_size)? {
            let size = sizes.entry(principal).or_default();
            let part = if of_log { &mut size.log } else { &mut size.changes };
            *part += bytes;
        }
    }
    Ok(sizes)
}

/// Returns the sizes as they were measured last.
fn recorded(conn: &Connection, tenant: &Label) -> Result<BTreeMap<String, LogSize>> {
    let sql = "SELECT * FROM log_sizes WHERE tenant = ?";
    let rows = all(conn, sql, params![tenant.as_str()], |row| {
        let fields = ColumnReader { row, table: "log_sizes", key: "principal" };
        let size = LogSize { log: fields.number("log_bytes")?, changes: fields.number("changes_bytes")? };
        Ok((fields.get("principal")?, size))
    })?;
    Ok(rows.into_iter().collect())
}

fn parse_size(row: &Row<'_>) -> Result<(String, u64)> {
    let fields = ColumnReader { row, table: "events", key: "principal" };
    Ok((fields.get("principal")?, fields.number("bytes")?))
}

/// A row of the log that may be deleted.
pub(super) struct OldRow {
    first: i64,
    last: i64,
    bytes: u64,
    of_agent: bool,
    sandbox: String,
    task: Option<i64>,
    origin: Option<(i64, i64)>,
}

pub(super) fn parse_old(row: &Row<'_>) -> Result<OldRow> {
    let fields = ColumnReader { row, table: "events", key: "first" };
    let origin = (fields.get::<Option<i64>>("origin_epoch")?, fields.get::<Option<i64>>("origin_seq")?);
    Ok(OldRow {
        first: fields.get("first")?,
        last: fields.get("last")?,
        bytes: fields.number("bytes")?,
        of_agent: fields.get("of_agent")?,
        sandbox: fields.get("sandbox")?,
        task: fields.get("task")?,
        origin: origin.0.zip(origin.1),
    })
}

/// Deletes the oldest rows, at most a batch of them. Returns their bytes.
fn trim(conn: &Connection, owner: &LogOwner, excess_bytes: u64) -> Result<u64> {
    let (mut freed, mut gone) = (0, Vec::new());
    for row in oldest(conn, owner)? {
        if freed >= excess_bytes {
            break;
        }
        freed += row.bytes;
        gone.push(row);
    }
    delete_rows(conn, &gone)?;
    Ok(freed)
}

/// Deletes rows, and records that they are gone.
pub(super) fn delete_rows(conn: &Connection, rows: &[OldRow]) -> Result<()> {
    for row in rows {
        let sql = match row.of_agent {
            true => "DELETE FROM task_events WHERE first = ?",
            false => "DELETE FROM events WHERE seq = ?",
        };
        change(conn, sql, params![row.first], WHAT)?;
    }
    record_trimmed(conn, rows)
}

fn oldest(conn: &Connection, owner: &LogOwner) -> Result<Vec<OldRow>> {
    let principal = if owner.principal.is_some() { "AND principal = ?2" } else { "AND ?2 = ''" };
    let most = limits::TRIM_BATCH_MAX_ROWS;
    let events = limits::EVENT_ROW_BYTES;
    let ended = "EXISTS (SELECT 1 FROM tasks WHERE tasks.number = task AND tasks.done_seq IS NOT NULL)";
    let sql = format!(
        "SELECT * FROM
            (SELECT seq AS first, seq AS last, octet_length(data) + {events} AS bytes, 0 AS of_agent, sandbox, task,
                origin_epoch, origin_seq
             FROM events WHERE tenant = ?1 {principal} AND (task IS NULL OR {ended}) ORDER BY seq LIMIT {most})
        UNION ALL SELECT * FROM
            (SELECT first, last, octet_length(frames) AS bytes, 1 AS of_agent, sandbox, task,
                NULL AS origin_epoch, NULL AS origin_seq
             FROM task_events WHERE tenant = ?1 {principal} AND ends = 0 AND {ended} ORDER BY first LIMIT {most})
        ORDER BY first LIMIT {most}"
    );
    let values = params![owner.tenant.as_str(), owner.principal.as_ref().map_or("", Label::as_str)];
    all(conn, &sql, values, parse_old)
}

/// Records up to which event sandboxes and tasks have lost their history.
fn record_trimmed(conn: &Connection, gone: &[OldRow]) -> Result<()> {
    let (mut sandboxes, mut tasks) = (HashMap::<&str, (i64, (i64, i64))>::new(), HashMap::<i64, i64>::new());
    for row in gone {
        let (through, origin) = sandboxes.entry(&row.sandbox).or_default();
        *through = row.last.max(*through);
        *origin = row.origin.unwrap_or_default().max(*origin);
        if let Some(task) = row.task {
            let through = tasks.entry(task).or_default();
            *through = row.last.max(*through);
        }
    }
    for (sandbox, (through, (epoch, seq))) in sandboxes {
        let sql = "UPDATE sandboxes SET trimmed_seq = max(trimmed_seq, ?2) WHERE id = ?1";
        change(conn, sql, params![sandbox, through], WHAT)?;
        let sql = "UPDATE sandboxes SET trimmed_origin_epoch = ?2, trimmed_origin_seq = ?3
            WHERE id = ?1 AND (trimmed_origin_epoch, trimmed_origin_seq) < (?2, ?3)";
        change(conn, sql, params![sandbox, epoch, seq], WHAT)?;
    }
    for (task, through) in tasks {
        let sql = "UPDATE tasks SET trimmed_seq = max(trimmed_seq, ?2) WHERE number = ?1";
        change(conn, sql, params![task, through], WHAT)?;
    }
    Ok(())
}

pub(super) fn trimmed_through(conn: &Connection, filter: &EventFilter) -> Result<u64> {
    let number = |row: &Row<'_>| {
        let through: Option<i64> = row.get(0).during(WHAT)?;
        Ok(through.unwrap_or(0).unsigned_abs())
    };
    // Also of sandboxes whose rows are deleted.
    let most = "SELECT max(trimmed_seq) FROM (SELECT tenant, principal, trimmed_seq FROM sandboxes WHERE trimmed_seq > 0
        UNION ALL SELECT tenant, principal, trimmed_seq FROM trimmed_history) WHERE 1";
    let tenant = filter.tenant.as_ref().map_or("", Label::as_str);
    let principal = filter.principal.as_ref().map_or("", Label::as_str);
    let found = match (filter.task, filter.sandbox) {
        (Some(task), _) => {
            one(conn, "SELECT trimmed_seq FROM tasks WHERE number = ?", params![task], number)?
        }
        (None, Some(sandbox)) => {
            one(conn, "SELECT trimmed_seq FROM sandboxes WHERE id = ?", params![sandbox.as_str()], number)?
        }
        (None, None) if filter.tenant.is_none() => one(conn, most, [], number)?,
        (None, None) => {
            let sql = format!("{most} AND tenant = ?1 AND (?2 = '' OR principal = ?2)");
            one(conn, &sql, params![tenant, principal], number)?
        }
    };
    Ok(found.unwrap_or(0))
}
