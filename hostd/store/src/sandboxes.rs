//! Sandboxes: inserted, adopted, found and listed.

use super::{
    attempts,
    columns::word,
    error::{During, Result, StoreError},
    events::{self, NewEvent},
    handle::Store,
    query::{List, all, change},
    quotas,
    records::{FoundTask, NewSandbox, SandboxRecord},
    sandbox_row::{self, SELECT, scope_key},
    tasks,
};
use hostd_core::{Demand, alternative_names, counts_as_up, generated_name};
use protocol::api::{AttemptRelation, AttemptState, Label, OnTtl, SandboxId, SandboxScope, SandboxStatus};
use rusqlite::{Connection, params};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// Whether sandboxes that colleagues share are listed, and with whom.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum SharedFilter {
    #[default]
    Without,
    /// Beside those of the principal of the filter; without one all of the tenant are listed anyway.
    With,
    /// Only those that others share with this principal of this tenant.
    Only { tenant: Label, principal: Label },
}

/// Selects sandboxes; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxFilter {
    pub tenant: Option<Label>,
    pub principal: Option<Label>,
    pub shared: SharedFilter,
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
    /// Inserts a sandbox with its first attempt. Fails while another sandbox of the same owner has the scope or the
    /// name, and where a quota has no room for it.
    pub async fn insert_sandbox(&self, new: NewSandbox, relation: AttemptRelation) -> Result<SandboxRecord> {
        self.write("insert_sandbox", move |conn| insert(conn, new, relation, &Demand::default())).await
    }

    /// Inserts a sandbox as `insert_sandbox` does, and takes the name from the living sandbox that has it, which
    /// expires at once. Its room counts as free.
    pub async fn replace_sandbox(
        &self,
        new: NewSandbox,
        relation: AttemptRelation,
        keep_workspace: bool,
    ) -> Result<Replacement> {
        self.write("replace_sandbox", move |conn| {
            if sandbox_row::find(conn, &new.id)?.is_some() {
                return Err(StoreError::Exists);
            }
            let replaced = sandbox_row::name_holder(conn, &new.owner, &new.name)?;
            let replaced = replaced.map(|id| replace(conn, &id, &new, keep_workspace)).transpose()?;
            let freed = replaced.as_ref().map_or(Demand::default(), held);
            let record = insert(conn, new, relation, &freed)?;
            Ok(Replacement { record, replaced })
        })
        .await
    }

    /// Inserts a sandbox that the driver has and the database has not, for example after a lost database,
    /// with the tasks that it knows of, oldest first. Its attempt has ended, unless an operation is pending.
    pub async fn adopt_sandbox(&self, new: NewSandbox, found: Vec<FoundTask>) -> Result<SandboxRecord> {
        self.write("adopt_sandbox", move |conn| {
            let name = free_name(conn, &new)?;
            let record = sandbox_row::insert(conn, &NewSandbox { name, ..new })?;
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

/// A sandbox that took the name of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    pub record: SandboxRecord,
    /// The sandbox that had the name: expired, and to be destroyed.
    pub replaced: Option<SandboxRecord>,
}

/// Inserts a sandbox. One that exists already, and a scope or name that is taken, are reported before a quota that has
/// no room. `freed` is what a sandbox holds that this transaction ends.
fn insert(
    conn: &Connection,
    new: NewSandbox,
    relation: AttemptRelation,
    freed: &Demand,
) -> Result<SandboxRecord> {
    let is_generated = new.name == generated_name(&new.id);
    let name = if is_generated { free_name(conn, &new)? } else { new.name.clone() };
    let new = NewSandbox { name, ..new };
    sandbox_row::check_free(conn, &new)?;
    quotas::check_room(conn, &new.owner, &Demand::create(&new.blueprint.limits), freed)?;
    let record = sandbox_row::insert(conn, &new)?;
    attempts::insert(conn, &record, relation, AttemptState::Open)?;
    note(conn, &record, "sandbox.created")?;
    Ok(record)
}

/// Returns what a living sandbox holds of its owner's quotas.
fn held(record: &SandboxRecord) -> Demand {
    match counts_as_up(&record.state) {
        true => Demand::create(&record.blueprint.limits),
        false => Demand { sandboxes: 1, ..Demand::default() },
    }
}

/// Takes name, and scope where both have the same, from a sandbox, and lets it expire.
fn replace(
    conn: &Connection,
    id: &SandboxId,
    new: &NewSandbox,
    keep_workspace: bool,
) -> Result<SandboxRecord> {
    let mut record = sandbox_row::load(conn, id)?;
    record.replaced_by = Some(new.id);
    record.expires_ms = Some(new.created_ms);
    Arc::make_mut(&mut record.blueprint).on_ttl = OnTtl::Destroy;
    record.keep_workspace |= keep_workspace;
    record.updated_ms = new.created_ms;
    record.generation += 1;
    sandbox_row::update(conn, &record)?;
    if record.scope.is_some() && record.scope == new.scope {
        let sql = "UPDATE sandboxes SET scope_kind = NULL, scope_key = '' WHERE id = ?";
        change(conn, sql, params![id.as_str()], "write a sandbox")?;
        record.scope = None;
    }
    events::insert(conn, &NewEvent::of_hostd(&record, "sandbox.replaced", json!({ "by": new.id })))?;
    Ok(record)
}

/// Returns the name of a sandbox, or one like it where another living one has it.
fn free_name(conn: &Connection, new: &NewSandbox) -> Result<String> {
    let is_free =
        |name: &str| -> Result<bool> { Ok(sandbox_row::name_holder(conn, &new.owner, name)?.is_none()) };
    if is_free(&new.name)? {
        return Ok(new.name.clone());
    }
    let [short, whole] = alternative_names(&new.name, &new.id);
    Ok(if is_free(&short)? { short } else { whole })
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
    let by_ids = filter.shared == SharedFilter::With && filter.principal.is_some();
    // The unary plus keeps SQLite off the index of the tenant.
    let of_tenant = if by_ids { "+tenant = ?" } else { "tenant = ?" };
    wanted.and_if(of_tenant, filter.tenant.clone().map(String::from));
    match (filter.shared, filter.tenant, filter.principal) {
        (SharedFilter::With, Some(tenant), Some(principal)) => wanted.and_all(
            // Both parts from an index; an OR would read every sandbox of the tenant.
            "id IN (SELECT own.id FROM sandboxes own WHERE own.tenant = ? AND own.principal = ?
                UNION ALL SELECT sandbox FROM shares WHERE shares.tenant = ? AND grantee IN ('', ?))",
            [tenant.clone(), principal.clone(), tenant, principal],
        ),
        (SharedFilter::Only { tenant, principal }, ..) => wanted.and_all(
            "principal <> ? AND id IN (SELECT sandbox FROM shares WHERE tenant = ? AND grantee IN ('', ?))",
            [principal.clone(), tenant, principal],
        ),
        (SharedFilter::With | SharedFilter::Without, _, principal) => {
            wanted.and_if("principal = ?", principal.map(String::from));
        }
    }
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
