//! The provisioning of sandboxes: each step is recorded before its exec is started, and with its exec. The archive of
//! dotfiles is in a table of its own: records of sandboxes are held in memory.

use super::{
    error::Result,
    events::{self, NewEvent},
    exec_exits, execs,
    handle::Store,
    query::{change, one},
    records::{ExecRecord, SandboxRecord, Secret},
    sandbox_row::{load, update},
};
use hostd_core::{Provisioning, progress_line, provision_steps};
use protocol::{
    ExecId, Exit,
    api::{Problem, SandboxId},
};
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};
use std::sync::Arc;

/// The command of a step, as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCommand {
    pub argv: Vec<String>,
    pub cwd: String,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq)]
pub enum StepEnd {
    Succeeded,
    Failed(Box<Problem>),
    /// What ran it is gone. The step is begun anew; its exec, which may never have been started, ended like this.
    Interrupted(Exit),
}

impl Store {
    /// Begins the next step. Its exec, if it has one, gets an id that none had before.
    pub async fn begin_provision_step(
        &self,
        id: &SandboxId,
        command: Option<StepCommand>,
        now_ms: u64,
    ) -> Result<SandboxRecord> {
        let id = *id;
        self.write("begin_provision_step", move |conn| begin(conn, &id, command.as_ref(), now_ms)).await
    }

    pub async fn end_provision_step(
        &self,
        id: &SandboxId,
        end: StepEnd,
        now_ms: u64,
    ) -> Result<SandboxRecord> {
        let id = *id;
        self.write("end_provision_step", move |conn| finish(conn, &id, &end, now_ms)).await
    }

    /// Returns the archive of the dotfiles of a sandbox.
    pub async fn dotfiles(&self, id: &SandboxId) -> Result<Option<Secret<Arc<[u8]>>>> {
        let id = *id;
        self.read(move |conn| {
            let sql = "SELECT archive FROM dotfiles WHERE sandbox = ?";
            one(conn, sql, params![id.as_str()], parse_archive)
        })
        .await
    }
}

fn parse_archive(row: &Row<'_>) -> Result<Secret<Arc<[u8]>>> {
    use super::error::During;
    let bytes: Vec<u8> = row.get(0).during("read from the database")?;
    Ok(Secret(bytes.into()))
}

fn begin(
    conn: &Connection,
    id: &SandboxId,
    command: Option<&StepCommand>,
    now_ms: u64,
) -> Result<SandboxRecord> {
    let mut record = load(conn, id)?;
    record.provisioning = record.provisioning.begin(now_ms);
    // A client may have given an exec of its own such an id.
    while execs::find(conn, id, &exec_id(&record.provisioning))?.is_some() {
        record.provisioning = record.provisioning.begin(now_ms);
    }
    if let Some(StepCommand { argv, cwd }) = command {
        let exec = ExecRecord {
            sandbox: *id,
            id: exec_id(&record.provisioning),
            argv: argv.clone(),
            cwd: cwd.clone(),
            tty: false,
            request_hash: [0; 32],
            started_ms: now_ms,
            ended_ms: None,
            exit: None,
            hints: Vec::new(),
        };
        execs::begin(conn, &exec)?;
    }
    let mut data = step_data(&record);
    data["text"] = json!(progress_line(&record.blueprint, record.provisioning.done as usize));
    write(conn, &mut record, "setup.started", data, now_ms)?;
    Ok(record)
}

fn finish(conn: &Connection, id: &SandboxId, end: &StepEnd, now_ms: u64) -> Result<SandboxRecord> {
    let mut record = load(conn, id)?;
    if !record.provisioning.running {
        return Ok(record);
    }
    let mut data = step_data(&record);
    let kind = match end {
        StepEnd::Succeeded => {
            record.provisioning = record.provisioning.succeeded();
            "setup.succeeded"
        }
        StepEnd::Failed(problem) => {
            let exit: Option<&Exit> = problem.step.as_ref().and_then(|step| step.exit.as_ref());
            data["exit"] = json!(exit);
            record.provisioning = record.provisioning.interrupted();
            "setup.failed"
        }
        StepEnd::Interrupted(exit) => {
            let ended = exec_exits::End { exit, hints: &[], ended_ms: now_ms };
            exec_exits::write(conn, id, &exec_id(&record.provisioning), &ended)?;
            record.provisioning = record.provisioning.interrupted();
            "setup.interrupted"
        }
    };
    write(conn, &mut record, kind, data, now_ms)?;
    Ok(record)
}

fn write(conn: &Connection, record: &mut SandboxRecord, kind: &str, data: Value, now_ms: u64) -> Result<()> {
    record.updated_ms = now_ms;
    record.generation += 1;
    update(conn, record)?;
    events::insert(conn, &NewEvent::of_hostd(record, kind, data)).map(|_| ())
}

/// The step that runs, for an event.
fn step_data(record: &SandboxRecord) -> Value {
    let steps = provision_steps(&record.blueprint);
    let index = record.provisioning.done as usize;
    let name = steps.get(index).map(|step| step.name().to_owned());
    json!({ "step": name, "number": index + 1, "of": steps.len(), "exec": record.provisioning.exec_id() })
}

fn exec_id(provisioning: &Provisioning) -> ExecId {
    ExecId::parse(&provisioning.exec_id()).expect("letters, a dash and digits")
}

pub(super) fn insert_dotfiles(conn: &Connection, record: &SandboxRecord, archive: &[u8]) -> Result<()> {
    let sql = "INSERT INTO dotfiles (sandbox, tenant, principal, project, archive) VALUES (?, ?, ?, ?, ?)";
    let owner = &record.owner;
    let values = params![
        record.id.as_str(),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        archive
    ];
    change(conn, sql, values, "write dotfiles").map(|_| ())
}

pub(super) fn delete_dotfiles(conn: &Connection, id: &SandboxId) -> Result<()> {
    change(conn, "DELETE FROM dotfiles WHERE sandbox = ?", params![id.as_str()], "delete dotfiles")
        .map(|_| ())
}
