//! Execs: stored before they run, so that one id never runs twice.

use super::{
    columns::{ColumnReader, int, json},
    error::{Result, StoreError},
    exec_exits::{self, End},
    handle::Store,
    metrics::EndedExecs,
    query::{List, change, one},
    records::ExecRecord,
    sandbox_row::load,
};
use protocol::{ExecId, Exit, Hint, api::SandboxId};
use rusqlite::{Connection, Row, params};

/// The store's decision about the id of a new exec.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecBegun {
    /// The id is new: run the exec.
    New,
    /// The id belongs to the same request.
    Same(Box<ExecRecord>),
    /// The id belongs to another request.
    Conflict,
}

/// The exit of an exec.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecEnd {
    pub exit: Exit,
    pub hints: Vec<Hint>,
    pub ended_ms: u64,
}

impl Store {
    /// Stores an exec before it runs. The sandbox must be up: a later boot marks the exec lost.
    pub async fn begin_exec(&self, exec: ExecRecord) -> Result<ExecBegun> {
        self.write("begin_exec", move |conn| begin(conn, &exec)).await
    }

    /// Writes the exit of an exec. The first exit stays, except that a real one replaces `lost`.
    pub async fn end_exec(&self, sandbox: &SandboxId, id: &ExecId, end: ExecEnd) -> Result<()> {
        let (sandbox, id) = (*sandbox, id.clone());
        let written = self.write("end_exec", move |conn| {
            let ended = End { exit: &end.exit, hints: &end.hints, ended_ms: end.ended_ms };
            let count = exec_exits::write(conn, &sandbox, &id, &ended)?;
            if count == 0 {
                find(conn, &sandbox, &id)?.ok_or(StoreError::NotFound)?;
            }
            Ok(EndedExecs::new(&end.exit, count))
        });
        self.metrics().count_exec_ends(written.await?);
        Ok(())
    }

    /// Marks every exec of the sandbox without an exit as lost. Returns how many.
    pub async fn mark_execs_lost(&self, sandbox: &SandboxId, now_ms: u64) -> Result<usize> {
        let sandbox = *sandbox;
        let count =
            self.write("lose_execs", move |conn| exec_exits::mark_lost(conn, &sandbox, now_ms)).await?;
        self.metrics().count_exec_ends(EndedExecs::new(&Exit::Lost, count));
        Ok(count)
    }

    pub async fn exec(&self, sandbox: &SandboxId, id: &ExecId) -> Result<Option<ExecRecord>> {
        let (sandbox, id) = (*sandbox, id.clone());
        self.read(move |conn| find(conn, &sandbox, &id)).await
    }

    /// Returns execs without an exit, newest first; `after` is the last one of the previous page.
    pub async fn running_execs(
        &self,
        sandbox: &SandboxId,
        after: Option<&ExecId>,
        limit: usize,
    ) -> Result<Vec<ExecRecord>> {
        self.list_execs("sandbox = ? AND exit IS NULL", sandbox, after, limit).await
    }

    /// Returns the sandbox in which an exec with this id has not ended.
    pub async fn sandbox_of_open_exec(&self, id: &ExecId) -> Result<Option<SandboxId>> {
        let id = id.clone();
        let sql = "SELECT sandbox FROM execs INDEXED BY execs_open WHERE ended_ms IS NULL AND id = ?";
        self.read(move |conn| one(conn, sql, params![id.as_str()], parse_sandbox)).await
    }

    /// Returns execs newest first; `after` is the last one of the previous page.
    pub async fn execs(
        &self,
        sandbox: &SandboxId,
        after: Option<&ExecId>,
        limit: usize,
    ) -> Result<Vec<ExecRecord>> {
        self.list_execs("sandbox = ?", sandbox, after, limit).await
    }

    async fn list_execs(
        &self,
        wanted: &'static str,
        sandbox: &SandboxId,
        after: Option<&ExecId>,
        limit: usize,
    ) -> Result<Vec<ExecRecord>> {
        let (sandbox, after) = (*sandbox, after.cloned());
        self.read(move |conn| {
            let mut list = List::from("SELECT * FROM execs");
            list.and_if(wanted, Some(String::from(sandbox)));
            let number = "number < (SELECT page.number FROM execs page
                WHERE page.sandbox = execs.sandbox AND page.id = ?)";
            list.and_if(number, after.map(String::from));
            list.run(conn, "number DESC", limit, parse)
        })
        .await
    }
}

pub(super) fn begin(conn: &Connection, exec: &ExecRecord) -> Result<ExecBegun> {
    let sandbox = load(conn, &exec.sandbox)?;
    if let Some(earlier) = find(conn, &exec.sandbox, &exec.id)? {
        let same = earlier.request_hash == exec.request_hash;
        return Ok(if same { ExecBegun::Same(Box::new(earlier)) } else { ExecBegun::Conflict });
    }
    let sql = "INSERT INTO execs (sandbox, id, tenant, principal, project, attempt, argv, cwd, tty,
            request_hash, started_ms, ended_ms, exit, hints)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let owner = &sandbox.owner;
    let values = params![
        exec.sandbox.as_str(),
        exec.id.as_str(),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        sandbox.attempt,
        json(&exec.argv, "the command")?,
        exec.cwd,
        exec.tty,
        exec.request_hash,
        int(exec.started_ms),
        exec.ended_ms.map(int),
        exec.exit.as_ref().map(|exit| json(exit, "the exit")).transpose()?,
        json(&exec.hints, "the hints")?,
    ];
    change(conn, sql, values, "write an exec")?;
    Ok(ExecBegun::New)
}

pub(super) fn find(conn: &Connection, sandbox: &SandboxId, id: &ExecId) -> Result<Option<ExecRecord>> {
    let sql = "SELECT * FROM execs WHERE sandbox = ? AND id = ?";
    one(conn, sql, params![sandbox.as_str(), id.as_str()], parse)
}

fn parse_sandbox(row: &Row<'_>) -> Result<SandboxId> {
    ColumnReader { row, table: "execs", key: "sandbox" }.sandbox("sandbox")
}

fn parse(row: &Row<'_>) -> Result<ExecRecord> {
    let fields = ColumnReader { row, table: "execs", key: "id" };
    Ok(ExecRecord {
        sandbox: fields.sandbox("sandbox")?,
        id: fields.parsed("id")?,
        argv: fields.json("argv")?,
        cwd: fields.get("cwd")?,
        tty: fields.get("tty")?,
        request_hash: fields.get("request_hash")?,
        started_ms: fields.number("started_ms")?,
        ended_ms: fields.maybe_number("ended_ms")?,
        exit: fields.maybe_json("exit")?,
        hints: fields.json("hints")?,
    })
}
