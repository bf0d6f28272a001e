//! Attempts: one row for each try to bring a sandbox up, numbered per sandbox, with its frozen blueprint.

use super::{
    error::{Result, StoreError},
    events::{self, NewEvent},
    handle::{Store, answered},
    moves::move_in,
    query::{List, change, one},
    records::{AttemptRecord, SandboxRecord},
    row::{Fields, int, json, word},
    sandbox_row::{load, update},
    writer::{Message, Write},
};
use crate::{
    core::{Blueprint, Transition},
    driver::Handle,
};
use protocol::api::{AttemptRelation, AttemptState, Problem, SandboxId};
use rusqlite::{Connection, Row, params};
use serde_json::json;
use std::sync::Arc;

impl Store {
    /// The next attempt, and its number. One that is still open has failed.
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
            events::add(conn, &NewEvent::ours(&record, "attempt.started", data))?;
            Ok(record.attempt)
        })
        .await
    }

    /// PID 1 runs: what the driver needs to know about it again.
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

    /// It succeeded, or failed with a problem. The first end counts.
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

    /// The sandbox is up: what the driver said of the launch, the end of the attempt and the move share a commit.
    /// The record then, and whether all was written of the attempt.
    pub async fn attempt_reached(
        &self,
        id: &SandboxId,
        attempt: u32,
        handle: Option<Handle>,
        now_ms: u64,
    ) -> Result<(SandboxRecord, Result<()>)> {
        let id = *id;
        let launch = move |handle| {
            Write::job("attempt_launched", move |conn| launched(conn, &id, attempt, &handle, now_ms))
        };
        let (launch, launched) = handle.map(launch).unzip();
        let (end, ended) = Write::job("end_attempt", move |conn| ended(conn, &id, attempt, None, now_ms));
        let (moves, moved) =
            Write::job("move_sandbox", move |conn| move_in(conn, &id, &Transition::Reached, now_ms));
        self.send(Message::Jobs(launch.into_iter().chain([end, moves]).collect())).await?;
        let launched = match launched {
            Some(launched) => answered(launched).await,
            None => Ok(()),
        };
        let written = launched.and(answered(ended).await);
        Ok((answered(moved).await?, written))
    }

    /// Newest first; `after` is the last one of the page before.
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
    events::add(conn, &NewEvent::ours(&record, "attempt.launched", json!({ "attempt": attempt })))?;
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

/// The attempt that the record numbers, with the record's blueprint.
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

/// Ends what is open, without a word on why: somebody did not come to say it. The time is the record's.
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
    let told = problem.map(|problem| json(problem, "the problem")).transpose()?;
    let values = params![record.id.as_str(), attempt, state, told, int(record.updated_ms)];
    change(conn, sql, values, "end an attempt")?;
    let mut data = json!({ "attempt": attempt });
    if let Some(problem) = problem {
        data["problem"] = json!(problem);
    }
    events::add(conn, &NewEvent::ours(record, &format!("attempt.{state}"), data)).map(|_| ())
}

/// How what the newest attempt brought up ended, as the record tells it.
pub(super) fn died(conn: &Connection, record: &SandboxRecord) -> Result<()> {
    let sql = "UPDATE attempts SET post_mortem = ?3 WHERE sandbox = ?1 AND attempt = ?2";
    let told = record.post_mortem.as_ref().map(|told| json(told, "the post-mortem")).transpose()?;
    change(conn, sql, params![record.id.as_str(), record.attempt, told], "write an attempt").map(|_| ())
}

fn parse(row: &Row<'_>) -> Result<AttemptRecord> {
    let fields = Fields { row, table: "attempts", key: "sandbox" };
    Ok(AttemptRecord {
        attempt: fields.get("attempt")?,
        relation: fields.word("relation")?,
        state: fields.word("state")?,
        blueprint: Arc::new(fields.json("blueprint")?),
        handle: fields.maybe_json("handle")?,
        problem: fields.maybe_json("problem")?,
        post_mortem: fields.maybe_json("post_mortem")?,
        started_ms: fields.number("started_ms")?,
        ended_ms: fields.maybe_number("ended_ms")?,
    })
}
