//! Sandboxes: inserted, adopted, found and listed.

use super::{
    attempts,
    columns::word,
    error::{During, Result},
    events::{self, NewEvent},
    handle::Store,
    query::{List, all},
    records::{FoundTask, NewSandbox, SandboxRecord},
    sandbox_row::{self, SELECT, scope_key},
    tasks,
};
use protocol::api::{AttemptRelation, AttemptState, Label, SandboxId, SandboxScope, SandboxStatus};
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;

/// Selects sandboxes; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxFilter {
    pub tenant: Option<Label>,
    pub principal: Option<Label>,
    pub project: Option<Label>,
    pub status: Option<SandboxStatus>,
    /// Implied when `status` asks for destroyed ones.
    pub include_destroyed: bool,
    pub scope: Option<SandboxScope>,
    /// Metadata in which older API callers keep their own user id.
    pub external_user: Option<String>,
    pub external_project: Option<String>,
}

impl Store {
    /// Inserts a sandbox with its first attempt. Fails while another sandbox of the same owner has the scope.
    pub async fn insert_sandbox(&self, new: NewSandbox, relation: AttemptRelation) -> Result<SandboxRecord> {
        self.write("insert_sandbox", move |conn| {
            let record = sandbox_row::insert(conn, &new)?;
            attempts::insert(conn, &record, relation, AttemptState::Open)?;
            note(conn, &record, "sandbox.created")?;
            Ok(record)
        })
        .await
    }

    /// Inserts a sandbox that the driver has and the database has not, for example after a lost database,
    /// with the tasks that it knows of, oldest first. Its attempt has ended, unless an operation is pending.
    pub async fn adopt_sandbox(&self, new: NewSandbox, found: Vec<FoundTask>) -> Result<SandboxRecord> {
        self.write("adopt_sandbox", move |conn| {
            let record = sandbox_row::insert(conn, &new)?;
            let state = match record.state.operation {
                Some(_) => AttemptState::Open,
                None => AttemptState::Succeeded,
            };
            attempts::insert(conn, &record, AttemptRelation::Create, state)?;
            note(conn, &record, "sandbox.adopted")?;
            found.iter().try_for_each(|task| tasks::adopt(conn, &record, task))?;
            Ok(record)
        })
        .await
    }

    pub async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRecord>> {
        let id = *id;
        self.read(move |conn| sandbox_row::find(conn, &id)).await
    }

    /// Returns sandboxes newest first; `after` is the last one of the previous page.
    pub async fn sandboxes(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<SandboxRecord>> {
        self.read(move |conn| list(conn, filter, after, limit)).await
    }

    /// Returns every sandbox that is not destroyed, oldest first: those that hostd drives from its start.
    pub async fn live_sandboxes(&self) -> Result<Vec<SandboxRecord>> {
        let sql = "SELECT * FROM sandboxes WHERE status <> 'destroyed' ORDER BY id";
        self.read(move |conn| all(conn, sql, [], sandbox_row::parse)).await
    }

    /// Returns the number of sandboxes by status.
    pub async fn count_by_status(&self) -> Result<BTreeMap<String, u64>> {
        self.read(|conn| {
            let what = "count sandboxes";
            let sql = "SELECT status, count(*) FROM sandboxes GROUP BY status";
            let mut statement = conn.prepare_cached(sql).during(what)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())));
            rows.and_then(Iterator::collect).during(what)
        })
        .await
    }
}

fn note(conn: &Connection, record: &SandboxRecord, kind: &str) -> Result<()> {
    let data = json!({ "name": record.name, "status": record.state.status });
    events::insert(conn, &NewEvent::of_hostd(record, kind, data)).map(|_| ())
}

fn list(
    conn: &Connection,
    filter: SandboxFilter,
    after: Option<SandboxId>,
    limit: usize,
) -> Result<Vec<SandboxRecord>> {
    let mut wanted = List::from(SELECT);
    wanted.and_if("tenant = ?", filter.tenant.map(String::from));
    wanted.and_if("principal = ?", filter.principal.map(String::from));
    wanted.and_if("project = ?", filter.project.map(String::from));
    if !filter.include_destroyed && filter.status != Some(SandboxStatus::Destroyed) {
        wanted.and("status <> 'destroyed'");
    }
    wanted.and_if("status = ?", filter.status.map(|status| word(&status, "the status")).transpose()?);
    if let Some(scope) = filter.scope {
        // Redundant, but it lets SQLite use the partial index of scopes.
        wanted.and("scope_kind IS NOT NULL");
        wanted.and_if("scope_kind = ?", Some(scope.kind.as_str().to_owned()));
        wanted.and_if("scope_key = ?", Some(scope_key(&scope).to_owned()));
    }
    let external = "json_extract(metadata, '$.external_user_id') = ?";
    wanted.and_if(external, filter.external_user);
    let external = "json_extract(metadata, '$.external_project_id') = ?";
    wanted.and_if(external, filter.external_project);
    wanted.and_if("id < ?", after.map(String::from));
    wanted.run(conn, "id DESC", limit, sandbox_row::parse)
}
