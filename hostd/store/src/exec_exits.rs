//! Exits of execs: from an event of runtimed, from the request that waited for the exec, or `lost` when
//! neither will come. A real exit replaces `lost`; nothing else is overwritten.

use super::{
    columns::{int, json},
    error::Result,
    metrics::EndedExecs,
    query::change,
    records::SandboxRecord,
};
use protocol::{Event, ExecId, Exit, Fact, Hint, api::SandboxId};
use rusqlite::{Connection, params};

const WHAT: &str = "end an exec";

/// Applies a new event of a sandbox's runtimed to its execs. Returns those that it ended.
pub(super) fn apply_event(
    conn: &Connection,
    record: &SandboxRecord,
    event: &Event,
) -> Result<Option<EndedExecs>> {
    match &event.fact {
        Fact::ExecEnded { exec, exit, hints, .. } => {
            let end = End { exit, hints, ended_ms: event.time_ms };
            let count = write(conn, &record.id, exec, &end)?;
            Ok(Some(EndedExecs::new(exit, count)))
        }
        Fact::Boot { .. } => {
            let count = mark_earlier_lost(conn, record, event.time_ms)?;
            Ok(Some(EndedExecs::new(&Exit::Lost, count)))
        }
        Fact::Shutdown { .. }
        | Fact::Gap { .. }
        | Fact::ExecStarted { .. }
        | Fact::ExecGone { .. }
        | Fact::ExecTrimmed { .. }
        | Fact::ExecForgotten { .. }
        | Fact::ServiceState { .. }
        | Fact::ServiceStarted { .. }
        | Fact::ServiceEnded { .. }
        | Fact::ServiceRemoved { .. }
        | Fact::TaskQueued { .. }
        | Fact::TaskStarted { .. }
        | Fact::TaskEnded { .. }
        | Fact::TaskTrimmed { .. }
        | Fact::TaskForgotten { .. }
        | Fact::TaskReverted { .. }
        | Fact::ManifestLoaded { .. }
        | Fact::ManifestRejected { .. }
        | Fact::HoldTaken { .. }
        | Fact::HoldReleased { .. } => Ok(None),
    }
}

pub(super) struct End<'a> {
    pub exit: &'a Exit,
    pub hints: &'a [Hint],
    pub ended_ms: u64,
}

/// Writes the exit of an exec that runs or was marked lost. Returns the number of rows changed.
pub(super) fn write(conn: &Connection, sandbox: &SandboxId, id: &ExecId, end: &End<'_>) -> Result<usize> {
    let sql = "UPDATE execs SET exit = ?3, hints = ?4, ended_ms = ?5
        WHERE sandbox = ?1 AND id = ?2 AND (ended_ms IS NULL OR (exit = ?6 AND ?3 <> ?6))";
    let values = params![
        sandbox.as_str(),
        id.as_str(),
        json(end.exit, "the exit")?,
        json(&end.hints, "the hints")?,
        int(end.ended_ms),
        json(&Exit::Lost, "the exit")?,
    ];
    change(conn, sql, values, WHAT)
}

/// Marks every exec without an exit as lost. Returns how many.
pub(super) fn mark_lost(conn: &Connection, sandbox: &SandboxId, now_ms: u64) -> Result<usize> {
    let sql = "UPDATE execs SET exit = ?2, ended_ms = ?3 WHERE sandbox = ?1 AND ended_ms IS NULL";
    let values = params![sandbox.as_str(), json(&Exit::Lost, "the exit")?, int(now_ms)];
    change(conn, sql, values, WHAT)
}

/// Marks execs that started before a boot as lost. Returns how many. The attempt number decides where the clock jumped back.
fn mark_earlier_lost(conn: &Connection, record: &SandboxRecord, boot_ms: u64) -> Result<usize> {
    let sql = "UPDATE execs SET exit = ?2, ended_ms = max(started_ms, ?3)
        WHERE sandbox = ?1 AND ended_ms IS NULL AND (started_ms < ?3 OR attempt < ?4)";
    let exit = json(&Exit::Lost, "the exit")?;
    let values = params![record.id.as_str(), exit, int(boot_ms), record.attempt];
    change(conn, sql, values, WHAT)
}
