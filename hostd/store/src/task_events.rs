//! Events of tasks: stored as the SSE frames that are sent, many in one row, each once.

use super::{
    columns::{int, json, word},
    error::{During, Result, StoreError},
    limits,
    query::change,
    records::TaskRecord,
};
use hostd_core::{TaskFrames, TaskLine, TaskUpdate, explain_loss, final_result};
use protocol::{TaskPhase, TaskResult, TaskStatus};
use rusqlite::{Connection, params};

const WHAT: &str = "write events of a task";

/// Appends the new lines up to `done`, and updates the task, which must not have ended.
pub(super) fn append(conn: &Connection, task: &TaskRecord, lines: &[TaskLine]) -> Result<()> {
    let imported = lines.partition_point(|line| line.number <= task.followed);
    let mut fresh = &lines[imported..];
    if let Some(end) = fresh.iter().position(|line| matches!(line.update, TaskUpdate::Done(_))) {
        fresh = &fresh[..=end];
    }
    let Some(newest) = fresh.last() else { return Ok(()) };
    let with_verdict = with_verdict(task, newest)?;
    let before_end = if with_verdict.is_some() { &fresh[..fresh.len() - 1] } else { fresh };
    let mut seq = newest_seq(conn)?;
    let mut rows = RowWriter::of(conn, task);
    let mut update =
        RecordChanges { open_permissions: task.open_permissions.clone(), ..RecordChanges::default() };
    for line in before_end.iter().chain(&with_verdict) {
        let full = match task.bytes.saturating_add(rows.bytes) {
            bytes if bytes < limits::TASK_OUTPUT_MAX_BYTES || !line.is_output() => None,
            // Reported once, in place of the first line that is dropped.
            _ if !rows.reported_full && task.bytes < limits::TASK_OUTPUT_MAX_BYTES => {
                rows.reported_full = true;
                Some(TaskLine::full(line, limits::TASK_OUTPUT_MAX_BYTES))
            }
            _ => continue,
        };
        seq += 1;
        rows.push(seq, full.as_ref().unwrap_or(line))?;
        update.apply(seq, line);
    }
    rows.write(seq)?;
    update.bytes = rows.bytes;
    set_newest_seq(conn, seq)?;
    update.write(conn, task, newest.number)
}

/// Appends hostd's own events about a task, which must not have ended.
pub(super) fn append_own(conn: &Connection, task: &TaskRecord, lines: &[TaskLine]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut seq = newest_seq(conn)?;
    let mut rows = RowWriter::of(conn, task);
    for line in lines {
        seq += 1;
        rows.push(seq, line)?;
    }
    rows.write(seq)?;
    set_newest_seq(conn, seq)?;
    let sql = "UPDATE tasks SET bytes = bytes + ?2 WHERE number = ?1";
    change(conn, sql, params![task.number, int(rows.bytes)], WHAT).map(|_| ())
}

/// Returns the `done` line with the verdict of the gateway and the reason of a loss applied, whichever side
/// reports the end.
fn with_verdict(task: &TaskRecord, last: &TaskLine) -> Result<Option<TaskLine>> {
    let TaskUpdate::Done(claimed) = &last.update else { return Ok(None) };
    let result = explain_loss((**claimed).clone(), task.death.as_deref());
    let result = Box::new(final_result(result, &task.seen, task.verdict.as_ref()));
    let done = TaskLine::done(last.number, last.time_ms, result);
    done.map(Some).map_err(|_| StoreError::Unfit { what: "the result" })
}

fn set_newest_seq(conn: &Connection, seq: u64) -> Result<()> {
    let sql = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'events'";
    change(conn, sql, params![int(seq)], WHAT).map(|_| ())
}

/// Returns the newest sequence number of the log. Task events take their numbers from the same row.
pub(super) fn newest_seq(conn: &Connection) -> Result<u64> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
    let seq: i64 = conn
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .during("read the newest number of the log")?;
    Ok(seq.unsigned_abs())
}

/// Frames to be written into rows.
struct RowWriter<'a> {
    conn: &'a Connection,
    task: &'a TaskRecord,
    frames: TaskFrames<'a>,
    first: u64,
    /// Bytes of all frames, written or not.
    bytes: u64,
    reported_full: bool,
}

impl<'a> RowWriter<'a> {
    fn of(conn: &'a Connection, task: &'a TaskRecord) -> Self {
        let frames = TaskFrames::new(task.sandbox.as_str(), task.id.as_str());
        Self { conn, task, frames, first: 0, bytes: 0, reported_full: false }
    }

    fn push(&mut self, seq: u64, line: &TaskLine) -> Result<()> {
        let full = self.frames.len() + line.frame_bytes() > limits::FRAMES_MAX_BYTES;
        if full && !self.frames.is_empty() {
            self.write(seq - 1)?;
        }
        if self.frames.is_empty() {
            self.first = seq;
        }
        let before = self.frames.len();
        self.frames.push(seq, line);
        self.bytes += (self.frames.len() - before) as u64;
        if matches!(line.update, TaskUpdate::Done(_)) { self.row(seq, true) } else { Ok(()) }
    }

    fn write(&mut self, last: u64) -> Result<()> {
        if self.frames.is_empty() { Ok(()) } else { self.row(last, false) }
    }

    fn row(&mut self, last: u64, ends: bool) -> Result<()> {
        let sql =
            "INSERT INTO task_events (first, last, task, sandbox, tenant, principal, project, ends, frames)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let owner = &self.task.owner;
        let values = params![
            int(self.first),
            int(last),
            self.task.number,
            self.task.sandbox.as_str(),
            owner.tenant.as_str(),
            owner.principal.as_str(),
            owner.project.as_str(),
            ends,
            self.frames.take(),
        ];
        change(self.conn, sql, values, WHAT).map(|_| ())
    }
}

/// The update of a task that follows from its events.
#[derive(Default)]
struct RecordChanges<'a> {
    bytes: u64,
    phase: Option<TaskPhase>,
    started_ms: Option<u64>,
    open_permissions: Vec<String>,
    checkpoint: Option<&'a str>,
    done: Option<(u64, u64, &'a TaskResult)>,
}

impl<'a> RecordChanges<'a> {
    fn apply(&mut self, seq: u64, line: &'a TaskLine) {
        self.checkpoint = self.checkpoint.or(line.checkpoint.as_deref());
        match &line.update {
            TaskUpdate::None => {}
            TaskUpdate::Phase(phase) => {
                self.phase = Some(*phase);
                if *phase != TaskPhase::Queued {
                    self.started_ms = self.started_ms.or(Some(line.time_ms));
                }
            }
            TaskUpdate::PermissionAsked(id) => {
                if self.open_permissions.len() < limits::OPEN_PERMISSIONS_MAX
                    && !self.open_permissions.contains(id)
                {
                    self.open_permissions.push(id.clone());
                }
            }
            TaskUpdate::PermissionDecided(id) => self.open_permissions.retain(|open| open != id),
            TaskUpdate::Done(result) => {
                self.open_permissions.clear();
                self.done = Some((seq, line.time_ms, result));
            }
        }
    }

    fn write(self, conn: &Connection, task: &TaskRecord, followed: u64) -> Result<()> {
        let phase = if self.done.is_some() { Some(TaskPhase::Done) } else { self.phase };
        let phase = phase.unwrap_or(task.phase);
        let result = self.done.map(|(_, _, result)| result);
        let status = match (result, phase) {
            (Some(result), _) => result.status,
            (None, TaskPhase::Queued) => TaskStatus::Queued,
            (None, _) => TaskStatus::Running,
        };
        let failure_reason = result.and_then(|result| result.failure_reason);
        let sql =
            "UPDATE tasks SET followed = ?2, phase = ?3, status = ?4, failure_reason = ?5, done_seq = ?6,
                ended_ms = ?7, result = ?8, started_ms = coalesce(started_ms, ?9),
                request = CASE WHEN ?6 IS NULL THEN request END, bytes = bytes + ?10,
                open_permissions = ?11, checkpoint = coalesce(checkpoint, ?12)
            WHERE number = ?1";
        let values = params![
            task.number,
            int(followed),
            word(&phase, "the phase")?,
            word(&status, "the status")?,
            failure_reason.map(|reason| word(&reason, "the reason")).transpose()?,
            self.done.map(|(seq, _, _)| int(seq)),
            self.done.map(|(_, ended_ms, _)| int(ended_ms)),
            result.map(|result| json(result, "the result")).transpose()?,
            self.started_ms.map(int),
            int(self.bytes),
            (!self.open_permissions.is_empty())
                .then(|| json(&self.open_permissions, "the permissions"))
                .transpose()?,
            self.checkpoint,
        ];
        change(conn, sql, values, WHAT).map(|_| ())
    }
}
