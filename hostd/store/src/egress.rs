//! Egress: profiles of rules, and the egress events and byte counts of sandboxes.

use super::{
    columns::{ColumnReader, int, json},
    error::{During, Result, StoreError},
    events::{NewEvent, insert},
    handle::Store,
    query::{all, change, one},
    sandbox_row::owner_of,
};
use protocol::{
    TaskId,
    api::{EgressProfile, SandboxId},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

const KIND: &str = "egress";

/// An egress event: decisions of one kind, aggregated.
#[derive(Debug, Clone, PartialEq)]
pub struct EgressFact {
    pub sandbox: SandboxId,
    /// The task that made the requests, as the sandbox claims.
    pub task: Option<TaskId>,
    pub data: Value,
}

impl Store {
    pub async fn egress_profiles(&self) -> Result<Vec<(String, EgressProfile)>> {
        self.read(|conn| all(conn, "SELECT * FROM egress_profiles ORDER BY name", [], parse)).await
    }

    pub async fn put_egress_profile(&self, name: &str, profile: EgressProfile, now_ms: u64) -> Result<()> {
        let name = name.to_owned();
        self.write("put_egress_profile", move |conn| {
            let sql = "INSERT INTO egress_profiles (name, rules, updated_ms) VALUES (?, ?, ?)
                ON CONFLICT (name) DO UPDATE SET rules = excluded.rules, updated_ms = excluded.updated_ms";
            let values = params![name, json(&profile, "the rules")?, int(now_ms)];
            change(conn, sql, values, "write a profile").map(|_| ())
        })
        .await
    }

    /// Deletes a profile; returns whether it existed.
    pub async fn remove_egress_profile(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write("remove_egress_profile", move |conn| {
            let sql = "DELETE FROM egress_profiles WHERE name = ?";
            Ok(change(conn, sql, params![name], "remove a profile")? > 0)
        })
        .await
    }

    /// Returns the bytes that a sandbox sent and received, as far as they are stored.
    pub async fn egress_bytes(&self, id: &SandboxId) -> Result<u64> {
        let id = *id;
        let parse =
            |row: &Row<'_>| ColumnReader { row, table: "sandboxes", key: "id" }.number("egress_bytes");
        let sql = "SELECT id, egress_bytes FROM sandboxes WHERE id = ?";
        self.read(move |conn| Ok(one(conn, sql, params![id.as_str()], parse)?.unwrap_or(0))).await
    }

    /// Writes events and byte counts in one transaction.
    pub async fn record_egress(
        &self,
        facts: Vec<EgressFact>,
        moved: Vec<(SandboxId, u64)>,
        now_ms: u64,
    ) -> Result<()> {
        self.write("record_egress", move |conn| {
            facts.iter().try_for_each(|fact| record_fact(conn, fact, now_ms))?;
            moved.iter().try_for_each(|(sandbox, bytes)| count(conn, sandbox, *bytes))
        })
        .await
    }
}

fn record_fact(conn: &Connection, fact: &EgressFact, now_ms: u64) -> Result<()> {
    let owner = match owner_of(conn, &fact.sandbox) {
        // The sandbox may have been deleted since.
        Err(StoreError::NotFound) => return Ok(()),
        owner => owner?,
    };
    let task = fact.task.as_ref().map(|task| running(conn, &fact.sandbox, task)).transpose()?.flatten();
    let event = NewEvent {
        sandbox: &fact.sandbox,
        owner: &owner,
        time_ms: now_ms,
        kind: KIND,
        origin: None,
        task,
        data: fact.data.clone(),
    };
    insert(conn, &event).map(|_| ())
}

fn count(conn: &Connection, sandbox: &SandboxId, bytes: u64) -> Result<()> {
    let sql = "UPDATE sandboxes SET egress_bytes = egress_bytes + ?2 WHERE id = ?1";
    change(conn, sql, params![sandbox.as_str(), int(bytes)], "count the bytes that were sent").map(|_| ())
}

/// Returns the row of a task of this sandbox that has not ended. Events are not attributed to a task after
/// its end.
fn running(conn: &Connection, sandbox: &SandboxId, task: &TaskId) -> Result<Option<i64>> {
    let sql = "SELECT number FROM tasks WHERE sandbox = ? AND id = ? AND done_seq IS NULL";
    conn.prepare_cached(sql)
        .and_then(|mut found| {
            found.query_row(params![sandbox.as_str(), task.as_str()], |row| row.get(0)).optional()
        })
        .during("find a task")
}

fn parse(row: &Row<'_>) -> Result<(String, EgressProfile)> {
    let fields = ColumnReader { row, table: "egress_profiles", key: "name" };
    Ok((fields.get("name")?, fields.json("rules")?))
}
