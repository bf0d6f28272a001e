//! Tasks: stored before they start, so that none is lost and one id never runs twice.

use super::{
    columns::{ColumnReader, int, json, word},
    error::{Result, StoreError},
    handle::Store,
    limits,
    query::{List, all, change, one},
    quotas,
    records::{FoundTask, HASH_UNKNOWN, NewTask, SandboxRecord, Secret, TaskGrant, TaskRecord},
    sandbox_row::load,
    task_events,
};
use hostd_core::{Demand, TaskEnding, TaskLine, counts_as_up};
use protocol::{TaskId, TaskPhase, TaskStatus, api::SandboxId};
use rusqlite::{Connection, Row, params};

/// All columns except long ones.
const SHORT: &str = "SELECT number, sandbox, id, tenant, principal, project, agent, NULL AS request,
    request_hash, status, phase, failure_reason, taken, cancelling, followed, bytes, done_seq, NULL AS result,
    NULL AS model_key_hash, NULL AS model_terms, NULL AS model_seen, NULL AS model_verdict, NULL AS death,
    NULL AS checkpoint, created_by, created_ms, started_ms, ended_ms, open_permissions,";
const WHAT: &str = "write a task";

/// The store's decision about the id of a new task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskBegun {
    New(Box<TaskRecord>),
    /// The id belongs to the same request.
    Same(Box<TaskRecord>),
    /// The id belongs to another request.
    Conflict,
    /// Too many tasks of the sandbox have not ended.
    Full,
}

impl Store {
    pub async fn begin_task(&self, task: NewTask) -> Result<TaskBegun> {
        self.write("begin_task", move |conn| begin(conn, &task)).await
    }

    pub async fn task(&self, sandbox: &SandboxId, id: &TaskId) -> Result<Option<TaskRecord>> {
        let (sandbox, id) = (*sandbox, id.clone());
        self.read(move |conn| find(conn, &sandbox, &id)).await
    }

    pub async fn task_by_number(&self, number: i64) -> Result<Option<TaskRecord>> {
        self.read(move |conn| maybe_by_number(conn, number)).await
    }

    /// Returns tasks newest first, with `prompt_chars` of their prompts and without request and result;
    /// `after` is the last one of the previous page.
    pub async fn tasks(
        &self,
        sandbox: &SandboxId,
        after: Option<&TaskId>,
        limit: usize,
        prompt_chars: usize,
    ) -> Result<Vec<TaskRecord>> {
        let (sandbox, after) = (*sandbox, after.cloned());
        self.read(move |conn| {
            let mut wanted =
                List::from(&format!("{SHORT} substr(prompt, 1, {prompt_chars}) AS prompt FROM tasks"));
            wanted.and_if("sandbox = ?", Some(String::from(sandbox)));
            let number = "number < (SELECT page.number FROM tasks page
                WHERE page.sandbox = tasks.sandbox AND page.id = ?)";
            wanted.and_if(number, after.map(String::from));
            wanted.run(conn, "number DESC", limit, parse)
        })
        .await
    }

    /// Returns the sandbox in which a task with this id has not ended.
    pub async fn sandbox_of_open_task(&self, id: &TaskId) -> Result<Option<SandboxId>> {
        let id = id.clone();
        let sql = "SELECT sandbox FROM tasks INDEXED BY tasks_open WHERE done_seq IS NULL AND id = ?";
        self.read(move |conn| one(conn, sql, params![id.as_str()], parse_sandbox)).await
    }

    /// Returns tasks that have not ended, oldest first: of one sandbox, or of all.
    pub async fn open_tasks(&self, sandbox: Option<SandboxId>) -> Result<Vec<TaskRecord>> {
        self.read(move |conn| match sandbox {
            Some(sandbox) => {
                let sql = "SELECT * FROM tasks WHERE sandbox = ? AND done_seq IS NULL ORDER BY number";
                all(conn, sql, params![sandbox.as_str()], parse)
            }
            None => open(conn),
        })
        .await
    }

    /// Refuses a task for which the quota of tasks at once has no room now.
    pub async fn check_task_quota(&self, number: i64) -> Result<()> {
        if !self.has_quotas() {
            return Ok(());
        }
        self.read(move |conn| check_room_to_run(conn, number)).await
    }

    /// Records that runtimed may have the task from now on, unless a quota has no room for it. Returns the current
    /// record: the task may have ended meanwhile.
    pub async fn mark_task_dispatched(&self, number: i64) -> Result<TaskRecord> {
        self.write("task_taken", move |conn| {
            check_room_to_run(conn, number)?;
            let sql = "UPDATE tasks SET taken = 1 WHERE number = ? AND done_seq IS NULL";
            change(conn, sql, params![number], WHAT)?;
            by_number(conn, number)
        })
        .await
    }

    /// Records that runtimed has accepted the task, and deletes its request.
    pub async fn mark_task_accepted(&self, number: i64) -> Result<TaskRecord> {
        let task = self
            .write("task_given", move |conn| {
                // Accepted by a live sandbox: an earlier death did not lose the task.
                let sql = "UPDATE tasks SET request = NULL, death = NULL WHERE number = ?";
                change(conn, sql, params![number], WHAT)?;
                by_number(conn, number)
            })
            .await?;
        // The request, including its environment, was overwritten.
        self.secrets_overwritten().notify_one();
        Ok(task)
    }

    /// Requests the end of a task. A task that runtimed does not have ends at once.
    pub async fn cancel_task(&self, number: i64, now_ms: u64) -> Result<TaskRecord> {
        let task = self
            .write("cancel_task", move |conn| {
                let sql = "UPDATE tasks SET cancelling = 1 WHERE number = ? AND done_seq IS NULL";
                change(conn, sql, params![number], WHAT)?;
                let task = by_number(conn, number)?;
                if !task.taken && task.done_seq.is_none() {
                    conclude(conn, &task, &TaskEnding::Cancelled, now_ms)?;
                }
                by_number(conn, number)
            })
            .await?;
        // The request, including its environment, was overwritten.
        self.secrets_overwritten().notify_one();
        Ok(task)
    }

    /// Ends a task on behalf of hostd; a task that has ended stays as it is.
    pub async fn conclude_task(&self, number: i64, ending: TaskEnding, now_ms: u64) -> Result<TaskRecord> {
        let task = self
            .write("conclude_task", move |conn| {
                let task = by_number(conn, number)?;
                if task.done_seq.is_none() {
                    conclude(conn, &task, &ending, now_ms)?;
                }
                by_number(conn, number)
            })
            .await?;
        // The request, including its environment, was overwritten.
        self.secrets_overwritten().notify_one();
        Ok(task)
    }

    /// Imports events of a task and returns its record. Events that are stored already are skipped, so any
    /// part of its log may be given again; nothing is imported after `done`.
    pub async fn append_task(&self, number: i64, lines: Vec<TaskLine>) -> Result<TaskRecord> {
        let bytes = lines.iter().map(TaskLine::frame_bytes).sum();
        let task = self
            .write("append_task", move |conn| {
                let task = by_number(conn, number)?;
                if task.done_seq.is_some() {
                    return Ok(task);
                }
                task_events::append(conn, &task, &lines)?;
                by_number(conn, number)
            })
            .await?;
        self.count_wal_bytes(bytes);
        Ok(task)
    }
}

fn begin(conn: &Connection, task: &NewTask) -> Result<TaskBegun> {
    let sandbox = load(conn, &task.sandbox)?;
    if let Some(earlier) = find(conn, &task.sandbox, &task.id)? {
        let same = earlier.request_hash == task.request_hash;
        return Ok(if same { TaskBegun::Same(Box::new(earlier)) } else { TaskBegun::Conflict });
    }
    if sandbox.state.status == protocol::api::SandboxStatus::Destroyed {
        return Err(hostd_core::TransitionRefused::Destroyed.into());
    }
    let count = "SELECT count(*) FROM tasks WHERE sandbox = ? AND done_seq IS NULL";
    let open = one(conn, count, params![task.sandbox.as_str()], |row| Ok(row.get::<_, i64>(0).unwrap_or(0)))?;
    if open.unwrap_or(0) >= limits::TASKS_OPEN_MAX as i64 {
        return Ok(TaskBegun::Full);
    }
    check_room_to_queue(conn, &sandbox)?;
    let sql = "INSERT INTO tasks (sandbox, id, tenant, principal, project, agent, prompt, request,
            request_hash, status, phase, taken, cancelling, followed, bytes, created_ms, model_key_hash,
            model_terms, created_by)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?, ?, ?)";
    let owner = &sandbox.owner;
    let values = params![
        task.sandbox.as_str(),
        task.id.as_str(),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        task.agent,
        task.prompt,
        json(&task.request.0, "the task")?,
        task.request_hash,
        word(&TaskStatus::Queued, "the status")?,
        word(&TaskPhase::Queued, "the phase")?,
        int(task.created_ms),
        task.grant.as_ref().map(|grant| grant.key_hash),
        task.grant.as_ref().map(|grant| json(&grant.terms, "the grant")).transpose()?,
        task.created_by,
    ];
    change(conn, sql, values, WHAT)?;
    let written = find(conn, &task.sandbox, &task.id)?.ok_or(StoreError::NotFound)?;
    Ok(TaskBegun::New(Box::new(written)))
}

/// Refuses a task that would wait beyond the quota, or whose sandbox could not be woken for it.
fn check_room_to_queue(conn: &Connection, sandbox: &SandboxRecord) -> Result<()> {
    let wake = match counts_as_up(&sandbox.state) {
        true => Demand { grows_disk: true, ..Demand::default() },
        false => Demand::launch(&sandbox.blueprint.limits),
    };
    let demand = Demand { tasks_queued: 1, ..wake };
    quotas::check_room(conn, &sandbox.owner, &demand, &Demand::default())
}

/// Refuses a task that its sandbox would work on beyond the quota. One that waits behind another task of the sandbox
/// needs no room.
fn check_room_to_run(conn: &Connection, number: i64) -> Result<()> {
    let task = by_number(conn, number)?;
    let sql = "SELECT 1 FROM tasks WHERE sandbox = ? AND done_seq IS NULL AND taken = 1";
    let is_at_work = one(conn, sql, params![task.sandbox.as_str()], |_| Ok(()))?.is_some();
    if is_at_work || task.done_seq.is_some() {
        return Ok(());
    }
    let demand = Demand { tasks_running: 1, ..Demand::default() };
    quotas::check_room(conn, &task.owner, &demand, &Demand::default())
}

/// Inserts a task of an adopted sandbox: runtimed has it, and its events tell the rest.
pub(super) fn adopt(conn: &Connection, sandbox: &SandboxRecord, task: &FoundTask) -> Result<()> {
    let sql =
        "INSERT INTO tasks (sandbox, id, tenant, principal, project, agent, prompt, request_hash, status,
            phase, taken, cancelling, followed, bytes, created_ms)
        VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, 1, 0, 0, 0, ?)";
    let owner = &sandbox.owner;
    let values = params![
        sandbox.id.as_str(),
        task.id.as_str(),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        task.agent,
        HASH_UNKNOWN,
        word(&TaskStatus::Queued, "the status")?,
        word(&TaskPhase::Queued, "the phase")?,
        int(task.created_ms),
    ];
    change(conn, sql, values, WHAT).map(|_| ())
}

pub(super) fn conclude(conn: &Connection, task: &TaskRecord, ending: &TaskEnding, now_ms: u64) -> Result<()> {
    let result = Box::new(ending.result(task.taken));
    let done = TaskLine::done(task.followed + 1, now_ms, result);
    let done = done.map_err(|_| StoreError::Unfit { what: "the result" })?;
    task_events::append(conn, task, &[done])
}

/// Returns the id of the task that runs in a sandbox, if one does.
pub(super) fn running(conn: &Connection, sandbox: &SandboxId) -> Result<Option<String>> {
    let sql = "SELECT id FROM tasks WHERE sandbox = ? AND done_seq IS NULL AND status = ? ORDER BY number";
    let status = word(&TaskStatus::Running, "the status")?;
    one(conn, sql, params![sandbox.as_str(), status], |row| Ok(row.get::<_, String>(0).unwrap_or_default()))
}

/// Records why the sandbox died, for the results of the tasks that were in it.
pub(super) fn record_death(conn: &Connection, sandbox: &SandboxId, why: &str) -> Result<()> {
    let sql = "UPDATE tasks SET death = ?2 WHERE sandbox = ?1 AND done_seq IS NULL AND taken = 1";
    change(conn, sql, params![sandbox.as_str(), why], WHAT).map(|_| ())
}

fn find(conn: &Connection, sandbox: &SandboxId, id: &TaskId) -> Result<Option<TaskRecord>> {
    let sql = "SELECT * FROM tasks WHERE sandbox = ? AND id = ?";
    one(conn, sql, params![sandbox.as_str(), id.as_str()], parse)
}

pub(super) fn by_number(conn: &Connection, number: i64) -> Result<TaskRecord> {
    maybe_by_number(conn, number)?.ok_or(StoreError::NotFound)
}

fn maybe_by_number(conn: &Connection, number: i64) -> Result<Option<TaskRecord>> {
    one(conn, "SELECT * FROM tasks WHERE number = ?", params![number], parse)
}

/// Returns the tasks that have not ended.
pub(super) fn open(conn: &Connection) -> Result<Vec<TaskRecord>> {
    all(conn, "SELECT * FROM tasks WHERE done_seq IS NULL ORDER BY number", [], parse)
}

fn parse_sandbox(row: &Row<'_>) -> Result<SandboxId> {
    ColumnReader { row, table: "tasks", key: "sandbox" }.sandbox("sandbox")
}

fn parse(row: &Row<'_>) -> Result<TaskRecord> {
    let fields = ColumnReader { row, table: "tasks", key: "id" };
    let request: Option<String> = fields.get("request")?;
    let request = request.map(|_| fields.secret_json("request")).transpose()?;
    Ok(TaskRecord {
        number: fields.get("number")?,
        sandbox: fields.sandbox("sandbox")?,
        owner: fields.owner()?,
        id: fields.parsed("id")?,
        agent: fields.get("agent")?,
        created_by: fields.get("created_by")?,
        prompt: fields.get("prompt")?,
        request: request.map(Secret),
        request_hash: fields.get("request_hash")?,
        status: fields.parsed("status")?,
        phase: fields.parsed("phase")?,
        failure_reason: fields.maybe_parsed("failure_reason")?,
        taken: fields.get("taken")?,
        cancelling: fields.get("cancelling")?,
        followed: fields.number("followed")?,
        bytes: fields.number("bytes")?,
        done_seq: fields.maybe_number("done_seq")?,
        result: fields.maybe_json("result")?,
        grant: grant(&fields)?,
        seen: fields.maybe_json("model_seen")?.unwrap_or_default(),
        verdict: fields.maybe_json("model_verdict")?,
        death: fields.get("death")?,
        checkpoint: fields.get("checkpoint")?,
        open_permissions: fields.maybe_json("open_permissions")?.unwrap_or_default(),
        created_ms: fields.number("created_ms")?,
        started_ms: fields.maybe_number("started_ms")?,
        ended_ms: fields.maybe_number("ended_ms")?,
    })
}

fn grant(fields: &ColumnReader<'_>) -> Result<Option<TaskGrant>> {
    let key_hash: Option<[u8; 32]> = fields.get("model_key_hash")?;
    let terms = fields.maybe_json("model_terms")?;
    Ok(key_hash.zip(terms).map(|(key_hash, terms)| TaskGrant { key_hash, terms }))
}
