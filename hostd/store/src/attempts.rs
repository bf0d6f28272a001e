//! Attempts: one row for each try to launch a sandbox, numbered per sandbox, with its frozen blueprint.

use super::{
    columns::{ColumnReader, int, json, word},
    error::{Result, StoreError},
    events::{self, NewEvent},
    handle::{Store, receive_reply},
    query::{List, change, one},
    records::{AttemptRecord, SandboxRecord},
    sandbox_row::{load, update},
    transitions::apply_transition,
    writer::{WriteJob, WriterMessage},
};
use hostd_core::{Blueprint, Handle, Transition};
use protocol::api::{AttemptRelation, AttemptState, Problem, SandboxId};
use rusqlite::{Connection, Row, params};
use serde_json::json;
use std::sync::Arc;

impl Store {
    /// Begins the next attempt and returns its number. An attempt that is still open has failed.
    pub async fn begin_attempt(
        &self,
        id: &SandboxId,
        relation: AttemptRelation,
        blueprint: Arc<Blueprint>,
        now_ms: u64,
    ) -> Result<u32> {
        let id = *id;
        self.write("begin_attempt", move |conn| {
            let mut record = load(conn, &id)?;
            record.updated_ms = now_ms;
            close_open(conn, &record)?;
            record.attempt += 1;
            record.generation += 1;
            update(conn, &record)?;
            record.blueprint = blueprint;
            insert(conn, &record, relation, AttemptState::Open)?;
            let data = json!({ "attempt": record.attempt, "relation": relation });
            events::insert(conn, &NewEvent::of_hostd(&record, "attempt.started", data))?;
            Ok(record.attempt)
        })
        .await
    }

    /// Stores the handle by which the driver finds PID 1 again.
    pub async fn attempt_launched(
        &self,
        id: &SandboxId,
        attempt: u32,
        handle: Handle,
        now_ms: u64,
    ) -> Result<()> {
        let id = *id;
        self.write("attempt_launched", move |conn| launched(conn, &id, attempt, &handle, now_ms)).await
    }

    /// Ends an attempt: succeeded, or failed with a problem. The first end stays.
    pub async fn end_attempt(
        &self,
        id: &SandboxId,
        attempt: u32,
        problem: Option<Problem>,
        now_ms: u64,
    ) -> Result<()> {
        let id = *id;
        self.write("end_attempt", move |conn| ended(conn, &id, attempt, problem.as_ref(), now_ms)).await
    }

    /// Writes handle, end of the attempt and transition of a sandbox that is up in one commit. Returns the
    /// record, and whether all of the attempt was written.
    pub async fn attempt_reached(
        &self,
        id: &SandboxId,
        attempt: u32,
        handle: Option<Handle>,
        now_ms: u64,
    ) -> Result<(SandboxRecord, Result<()>)> {
        let id = *id;
        let launch = move |handle| {
            WriteJob::boxed("attempt_launched", move |conn| launched(conn, &id, attempt, &handle, now_ms))
        };
        let (launch, launched) = handle.map(launch).unzip();
        let (end, ended) =
            WriteJob::boxed("end_attempt", move |conn| ended(conn, &id, attempt, None, now_ms));
        let (moves, moved) = WriteJob::boxed("move_sandbox", move |conn| {
            apply_transition(conn, &id, &Transition::Reached, now_ms)
        });
        self.send(WriterMessage::Jobs(launch.into_iter().chain([end, moves]).collect())).await?;
        let launched = match launched {
            Some(launched) => receive_reply(launched).await,
            None => Ok(()),
        };
        let written = launched.and(receive_reply(ended).await);
        Ok((receive_reply(moved).await?, written))
    }

    /// Returns attempts newest first; `after` is the last one of the previous page.
    pub async fn attempts(
        &self,
        id: &SandboxId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>> {
        let id = *id;
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM attempts");
            wanted.and_if("sandbox = ?", Some(String::from(id)));
            wanted.and_if("attempt < ?", after.map(i64::from));
            wanted.run(conn, "attempt DESC", limit, parse)
        })
        .await
    }
}

fn launched(conn: &Connection, id: &SandboxId, attempt: u32, handle: &Handle, now_ms: u64) -> Result<()> {
    let mut record = load(conn, id)?;
    let sql = "UPDATE attempts SET handle = ?3 WHERE sandbox = ?1 AND attempt = ?2";
    let values = params![id.as_str(), attempt, json(handle, "the handle")?];
    if change(conn, sql, values, "write an attempt")? == 0 {
        return Err(StoreError::NotFound);
    }
    record.updated_ms = now_ms;
    events::insert(conn, &NewEvent::of_hostd(&record, "attempt.launched", json!({ "attempt": attempt })))?;
    Ok(())
}

fn ended(
    conn: &Connection,
    id: &SandboxId,
    attempt: u32,
    problem: Option<&Problem>,
    now_ms: u64,
) -> Result<()> {
    let mut record = load(conn, id)?;
    record.updated_ms = now_ms;
    let sql = "SELECT * FROM attempts WHERE sandbox = ? AND attempt = ?";
    let found = one(conn, sql, params![id.as_str(), attempt], parse)?.ok_or(StoreError::NotFound)?;
    match found.state {
        AttemptState::Open => end(conn, &record, attempt, problem),
        AttemptState::Succeeded | AttemptState::Failed => Ok(()),
    }
}

/// Inserts the attempt that the record numbers, with the record's blueprint.
pub(super) fn insert(
    conn: &Connection,
    record: &SandboxRecord,
    relation: AttemptRelation,
    state: AttemptState,
) -> Result<()> {
    let sql = "INSERT INTO attempts (sandbox, attempt, tenant, principal, project, relation, state,
            blueprint, started_ms, ended_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let owner = &record.owner;
    let ended_ms = if state == AttemptState::Open { None } else { Some(int(record.updated_ms)) };
    let values = params![
        record.id.as_str(),
        record.attempt,
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        word(&relation, "the relation")?,
        word(&state, "the state")?,
        json(&*record.blueprint, "the blueprint")?,
        int(record.updated_ms),
        ended_ms,
    ];
    change(conn, sql, values, "write an attempt").map(|_| ())
}

/// Ends an attempt that was left open, as failed without a problem: its SandboxActor did not get to report
/// one. The time is the record's.
pub(super) fn close_open(conn: &Connection, record: &SandboxRecord) -> Result<()> {
    let sql = "SELECT * FROM attempts WHERE sandbox = ? AND attempt = ?";
    let newest = one(conn, sql, params![record.id.as_str(), record.attempt], parse)?;
    let Some(open) = newest.filter(|newest| newest.state == AttemptState::Open) else { return Ok(()) };
    write_end(conn, record, open.attempt, (AttemptState::Failed, None))
}

fn end(conn: &Connection, record: &SandboxRecord, attempt: u32, problem: Option<&Problem>) -> Result<()> {
    let state = if problem.is_some() { AttemptState::Failed } else { AttemptState::Succeeded };
    write_end(conn, record, attempt, (state, problem))
}

fn write_end(
    conn: &Connection,
    record: &SandboxRecord,
    attempt: u32,
    (state, problem): (AttemptState, Option<&Problem>),
) -> Result<()> {
    let sql =
        "UPDATE attempts SET state = ?3, problem = ?4, ended_ms = ?5 WHERE sandbox = ?1 AND attempt = ?2";
    let state = word(&state, "the state")?;
    let stored = problem.map(|problem| json(problem, "the problem")).transpose()?;
    let values = params![record.id.as_str(), attempt, state, stored, int(record.updated_ms)];
    change(conn, sql, values, "end an attempt")?;
    let mut data = json!({ "attempt": attempt });
    if let Some(problem) = problem {
        data["problem"] = json!(problem);
    }
    events::insert(conn, &NewEvent::of_hostd(record, &format!("attempt.{state}"), data)).map(|_| ())
}

/// Copies the post-mortem of the record to its newest attempt.
pub(super) fn record_death(conn: &Connection, record: &SandboxRecord) -> Result<()> {
    let sql = "UPDATE attempts SET post_mortem = ?3 WHERE sandbox = ?1 AND attempt = ?2";
    let stored = record.post_mortem.as_ref().map(|stored| json(stored, "the post-mortem")).transpose()?;
    change(conn, sql, params![record.id.as_str(), record.attempt, stored], "write an attempt").map(|_| ())
}

fn parse(row: &Row<'_>) -> Result<AttemptRecord> {
    let fields = ColumnReader { row, table: "attempts", key: "sandbox" };
    Ok(AttemptRecord {
        attempt: fields.get("attempt")?,
        relation: fields.parsed("relation")?,
        state: fields.parsed("state")?,
        blueprint: Arc::new(fields.json("blueprint")?),
        handle: fields.maybe_json("handle")?,
        problem: fields.maybe_json("problem")?,
        post_mortem: fields.maybe_json("post_mortem")?,
        started_ms: fields.number("started_ms")?,
        ended_ms: fields.maybe_number("ended_ms")?,
    })
}
