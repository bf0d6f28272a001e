//! Rows of the table `sandboxes`, read and written whole.

use super::{
    columns::{ColumnReader, exact, int, json, word},
    error::{Result, StoreError, is_primary_key_violation, is_unique_violation},
    provisioning,
    query::{change, one},
    records::{NewSandbox, SandboxRecord, Secret},
};
use hostd_core::{Operation, State, cpus_milli};
use protocol::{
    Cursor,
    api::{Label, Owner, SandboxId, SandboxScope},
};
use rusqlite::{Connection, Row, named_params, params};

pub(super) const SELECT: &str = "SELECT * FROM sandboxes";

pub(super) fn parse(row: &Row<'_>) -> Result<SandboxRecord> {
    let fields = ColumnReader { row, table: "sandboxes", key: "id" };
    Ok(SandboxRecord {
        id: fields.sandbox("id")?,
        name: fields.get("name")?,
        owner: fields.owner()?,
        scope: scope(&fields)?,
        replaced_by: fields.maybe_parsed("replaced_by")?,
        blueprint: fields.json::<hostd_core::Blueprint>("blueprint")?.into(),
        metadata: fields.json("metadata")?,
        env: Secret(fields.secret_json("env")?),
        state: state(&fields)?,
        provisioning: fields.json("provisioning")?,
        post_mortem: fields.maybe_json("post_mortem")?,
        progress: None,
        other_pid_namespace: false,
        attempt: fields.get("attempt")?,
        generation: fields.number("generation")?,
        keep_workspace: fields.get("keep_workspace")?,
        created_ms: fields.number("created_ms")?,
        updated_ms: fields.number("updated_ms")?,
        expires_ms: fields.maybe_number("expires_ms")?,
        followed: Cursor { epoch: fields.number("followed_epoch")?, seq: fields.number("followed_seq")? },
    })
}

fn scope(fields: &ColumnReader<'_>) -> Result<Option<SandboxScope>> {
    let Some(kind) = fields.maybe_parsed("scope_kind")? else { return Ok(None) };
    let key: String = fields.get("scope_key")?;
    let key = if key.is_empty() { None } else { Some(fields.parsed::<Label>("scope_key")?) };
    Ok(Some(SandboxScope { kind, key }))
}

fn state(fields: &ColumnReader<'_>) -> Result<State> {
    let operation = match (fields.maybe_parsed("phase")?, fields.maybe_number("deadline_ms")?) {
        (Some(phase), Some(deadline_ms)) => Some(Operation { phase, deadline_ms }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(fields.wrong("phase", &"a phase and its deadline come together"));
        }
    };
    Ok(State {
        goal: fields.parsed("goal")?,
        status: fields.parsed("status")?,
        operation,
        renewal: fields.maybe_json("renewal")?,
        dozing: fields.get("dozing")?,
        problem: fields.maybe_json("problem")?,
    })
}

pub(super) fn find(conn: &Connection, id: &SandboxId) -> Result<Option<SandboxRecord>> {
    one(conn, "SELECT * FROM sandboxes WHERE id = ?", params![id.as_str()], parse)
}

pub(super) fn load(conn: &Connection, id: &SandboxId) -> Result<SandboxRecord> {
    find(conn, id)?.ok_or(StoreError::NotFound)
}

pub(super) fn owner_of(conn: &Connection, id: &SandboxId) -> Result<Owner> {
    let sql = "SELECT id, tenant, principal, project FROM sandboxes WHERE id = ?";
    let parse = |row: &Row<'_>| ColumnReader { row, table: "sandboxes", key: "id" }.owner();
    one(conn, sql, params![id.as_str()], parse)?.ok_or(StoreError::NotFound)
}

/// Returns the scope key as stored: empty for none.
pub(super) fn scope_key(scope: &SandboxScope) -> &str {
    scope.key.as_ref().map_or("", Label::as_str)
}

/// Inserts a sandbox. Its first attempt is numbered but not inserted.
pub(super) fn insert(conn: &Connection, new: &NewSandbox) -> Result<SandboxRecord> {
    let record = SandboxRecord {
        id: new.id,
        name: new.name.clone(),
        owner: new.owner.clone(),
        scope: new.scope.clone(),
        replaced_by: None,
        blueprint: new.blueprint.clone(),
        metadata: new.metadata.clone(),
        env: new.env.clone(),
        state: new.state.clone(),
        provisioning: new.provisioning,
        post_mortem: None,
        progress: None,
        other_pid_namespace: false,
        attempt: 1,
        generation: 1,
        keep_workspace: false,
        created_ms: new.created_ms,
        updated_ms: new.created_ms,
        expires_ms: new.expires_ms,
        followed: Cursor::default(),
    };
    let sql = "INSERT INTO sandboxes (id, tenant, principal, project, scope_kind, scope_key, created_ms,
            name, blueprint, metadata, env, goal, status, attempt, generation, keep_workspace,
            updated_ms, followed_epoch, followed_seq)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '', '', '', ?9, ?10, 0, 0, 0, 0, 0, 0)";
    let owner = &record.owner;
    let values = params![
        record.id.as_str(),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        record.scope.as_ref().map(|scope| scope.kind.as_str()),
        record.scope.as_ref().map_or("", scope_key),
        int(record.created_ms),
        record.name,
        word(&record.state.goal, "the goal")?,
        word(&record.state.status, "the status")?,
    ];
    let inserted = conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
    match inserted {
        Ok(_) => {}
        Err(error) if is_primary_key_violation(&error) => return Err(StoreError::Exists),
        Err(error) if is_unique_violation(&error) => {
            check_free(conn, new)?;
            return Err(StoreError::sqlite("write a sandbox", error));
        }
        Err(error) => return Err(StoreError::sqlite("write a sandbox", error)),
    }
    update(conn, &record)?;
    if let Some(archive) = &new.dotfiles {
        provisioning::insert_dotfiles(conn, &record, &archive.0)?;
    }
    Ok(record)
}

/// Refuses an id, a scope or a name that is taken. The scope comes before the name: `ensure` looks for it.
pub(super) fn check_free(conn: &Connection, new: &NewSandbox) -> Result<()> {
    if one(conn, "SELECT id FROM sandboxes WHERE id = ?", params![new.id.as_str()], parse_id)?.is_some() {
        return Err(StoreError::Exists);
    }
    if let Some(existing) = scope_holder(conn, new)? {
        return Err(StoreError::ScopeTaken { existing });
    }
    match name_holder(conn, &new.owner, &new.name)? {
        Some(existing) => Err(StoreError::NameTaken { name: new.name.clone(), existing }),
        None => Ok(()),
    }
}

fn scope_holder(conn: &Connection, new: &NewSandbox) -> Result<Option<SandboxId>> {
    let Some(scope) = &new.scope else { return Ok(None) };
    let sql = "SELECT id FROM sandboxes WHERE tenant = ? AND principal = ? AND project = ?
        AND scope_kind = ? AND scope_key = ? AND scope_kind IS NOT NULL AND status <> 'destroyed'";
    let Owner { tenant, principal, project } = &new.owner;
    let values =
        params![tenant.as_str(), principal.as_str(), project.as_str(), scope.kind.as_str(), scope_key(scope)];
    one(conn, sql, values, parse_id)
}

/// Returns the living sandbox of an owner that has the name.
pub(super) fn name_holder(conn: &Connection, owner: &Owner, name: &str) -> Result<Option<SandboxId>> {
    let sql = "SELECT id FROM sandboxes WHERE tenant = ? AND principal = ? AND project = ? AND name = ?
        AND goal <> 'destroyed' AND replaced_by IS NULL";
    let Owner { tenant, principal, project } = owner;
    one(conn, sql, params![tenant.as_str(), principal.as_str(), project.as_str(), name], parse_id)
}

fn parse_id(row: &Row<'_>) -> Result<SandboxId> {
    ColumnReader { row, table: "sandboxes", key: "id" }.sandbox("id")
}

/// Writes every column that can change.
pub(super) fn update(conn: &Connection, record: &SandboxRecord) -> Result<()> {
    let sql = "UPDATE sandboxes SET name = :name, blueprint = :blueprint, metadata = :metadata,
            env = :env, goal = :goal, status = :status, phase = :phase, deadline_ms = :deadline_ms,
            renewal = :renewal, dozing = :dozing, problem = :problem, post_mortem = :post_mortem,
            provisioning = :provisioning, attempt = :attempt, generation = :generation, replaced_by = :replaced_by,
            memory_mb = :memory_mb, cpus_milli = :cpus_milli,
            keep_workspace = :keep_workspace, updated_ms = :updated_ms, expires_ms = :expires_ms,
            followed_epoch = :epoch, followed_seq = :seq
        WHERE id = :id";
    let (state, limits) = (&record.state, &record.blueprint.limits);
    let operation = state.operation.as_ref();
    let values = named_params! {
        ":id": record.id.as_str(),
        ":name": record.name,
        ":blueprint": json(&*record.blueprint, "the blueprint")?,
        ":metadata": json(&record.metadata, "the metadata")?,
        ":env": json(&record.env.0, "the environment")?,
        ":goal": word(&state.goal, "the goal")?,
        ":status": word(&state.status, "the status")?,
        ":phase": operation.map(|operation| word(&operation.phase, "the phase")).transpose()?,
        ":deadline_ms": operation.map(|operation| int(operation.deadline_ms)),
        ":renewal": state.renewal.as_ref().map(|renewal| json(renewal, "the renewal")).transpose()?,
        ":dozing": state.dozing,
        ":problem": state.problem.as_ref().map(|problem| json(problem, "the problem")).transpose()?,
        ":post_mortem": record.post_mortem.as_ref().map(|report| json(report, "the post-mortem")).transpose()?,
        ":provisioning": json(&record.provisioning, "the provisioning")?,
        ":attempt": record.attempt,
        ":replaced_by": record.replaced_by.as_ref().map(SandboxId::as_str),
        ":memory_mb": int(limits.memory_mb),
        ":cpus_milli": int(cpus_milli(limits.cpus)),
        ":generation": int(record.generation),
        ":keep_workspace": record.keep_workspace,
        ":updated_ms": int(record.updated_ms),
        ":expires_ms": record.expires_ms.map(int),
        ":epoch": exact(record.followed.epoch, "the epoch of an event")?,
        ":seq": exact(record.followed.seq, "the number of an event")?,
    };
    if change(conn, sql, values, "write a sandbox")? == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}
