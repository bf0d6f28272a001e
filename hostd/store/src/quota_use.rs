//! The use of quotas, summed up from rows by indexes made for it.

use super::{
    columns::ColumnReader,
    error::{During, Result},
    query::{all, one},
    quotas::UseByOwner,
};
use hostd_core::{Demand, DiskUse, HOLDERS_MAX, Usage};
use protocol::api::{Label, Owner, QuotaHolder, QuotaResource, QuotaScope};
use rusqlite::{Connection, Row, params, params_from_iter};
use std::collections::BTreeMap;

/// Whether a row of `sandboxes` counts as up, as `core::counts_as_up` says.
const UP: &str = "(goal IN ('running', 'paused') OR status IN ('running', 'paused'))";

/// The parts of the use that have a table each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Sandboxes,
    KeptWorkspaces,
    Tasks,
    Log,
    Snapshots,
}

impl Part {
    const ALL: [Self; 5] = [Self::Sandboxes, Self::KeptWorkspaces, Self::Tasks, Self::Log, Self::Snapshots];

    fn is_needed(self, demand: &Demand) -> bool {
        match self {
            Self::Sandboxes => {
                demand.sandboxes + demand.running + demand.memory_mb + demand.cpus_milli > 0
                    || demand.grows_disk
            }
            Self::KeptWorkspaces | Self::Log | Self::Snapshots => demand.grows_disk,
            Self::Tasks => demand.tasks_queued + demand.tasks_running > 0,
        }
    }

    /// The columns of the use, the table, and the condition of the index that has them.
    fn sql(self) -> (String, &'static str, &'static str) {
        match self {
            Self::Sandboxes => (
                format!(
                    "count(*) AS sandboxes, sum({UP}) AS running, sum({UP} * memory_mb) AS memory_mb,
                    sum({UP} * cpus_milli) AS cpus_milli, sum(disk_bytes + layer_bytes) AS workspaces"
                ),
                "sandboxes",
                "status <> 'destroyed'",
            ),
            Self::KeptWorkspaces => (
                "sum(disk_bytes + layer_bytes) AS kept".to_owned(),
                "sandboxes",
                "status = 'destroyed' AND keep_workspace = 1",
            ),
            // A sandbox works on one task at a time; the others that it has wait there.
            Self::Tasks => (
                "count(*) - count(DISTINCT CASE WHEN taken THEN sandbox END) AS queued,
                    count(DISTINCT CASE WHEN taken THEN sandbox END) AS tasks"
                    .to_owned(),
                "tasks",
                "done_seq IS NULL",
            ),
            Self::Log => {
                ("sum(log_bytes) AS log, sum(changes_bytes) AS changes".to_owned(), "log_sizes", "1")
            }
            Self::Snapshots => ("sum(disk_bytes) AS snapshots".to_owned(), "snapshots", "1"),
        }
    }

    fn parse(self, row: &Row<'_>) -> Result<Usage> {
        let fields = ColumnReader { row, table: "sandboxes", key: "principal" };
        Ok(match self {
            Self::Sandboxes => Usage {
                sandboxes: fields.number("sandboxes")?,
                running: fields.number("running")?,
                memory_mb: fields.number("memory_mb")?,
                cpus_milli: fields.number("cpus_milli")?,
                disk: DiskUse { workspaces_bytes: fields.number("workspaces")?, ..DiskUse::default() },
                ..Usage::default()
            },
            Self::KeptWorkspaces => Usage {
                disk: DiskUse { kept_workspaces_bytes: fields.number("kept")?, ..DiskUse::default() },
                ..Usage::default()
            },
            Self::Snapshots => Usage {
                disk: DiskUse { snapshots_bytes: fields.number("snapshots")?, ..DiskUse::default() },
                ..Usage::default()
            },
            Self::Tasks => Usage {
                tasks_queued: fields.number("queued")?,
                tasks_running: fields.number("tasks")?,
                ..Usage::default()
            },
            Self::Log => {
                let (log_bytes, changes_bytes) = (fields.number("log")?, fields.number("changes")?);
                let database_bytes = log_bytes.saturating_add(changes_bytes);
                Usage {
                    log_bytes,
                    disk: DiskUse { database_bytes, ..DiskUse::default() },
                    ..Usage::default()
                }
            }
        })
    }
}

/// Returns what each principal of a tenant uses of the resources that a demand asks for.
pub(super) fn of_tenant(
    conn: &Connection,
    tenant: &Label,
    demand: &Demand,
) -> Result<BTreeMap<String, Usage>> {
    let mut found = BTreeMap::<String, Usage>::new();
    for part in Part::ALL.into_iter().filter(|part| part.is_needed(demand)) {
        for (_, principal, usage) in read(conn, part, Some(tenant))? {
            let sum = found.entry(principal).or_default();
            *sum = sum.plus(&usage);
        }
    }
    Ok(found)
}

/// Returns everything that each owner uses: of one tenant, or of all.
pub(super) fn by_owner(conn: &Connection, tenant: Option<&Label>) -> Result<UseByOwner> {
    // A snapshot: the parts must be of one moment.
    let moment = conn.unchecked_transaction().during("sum up the use of quotas")?;
    let mut found = UseByOwner::new();
    for part in Part::ALL {
        for (tenant, principal, usage) in read(&moment, part, tenant)? {
            let (Ok(tenant), Ok(principal)) = (Label::parse(&tenant), Label::parse(&principal)) else {
                continue;
            };
            let sum = found.entry((tenant, principal)).or_default();
            *sum = sum.plus(&usage);
        }
    }
    Ok(found)
}

fn read(conn: &Connection, part: Part, tenant: Option<&Label>) -> Result<Vec<(String, String, Usage)>> {
    const WHAT: &str = "sum up the use of quotas";
    let (columns, table, condition) = part.sql();
    let of_tenant = if tenant.is_some() { "tenant = ? AND " } else { "" };
    let sql = format!(
        "SELECT tenant, principal, {columns} FROM {table} WHERE {of_tenant}{condition} GROUP BY tenant, principal"
    );
    let mut statement = conn.prepare_cached(&sql).during(WHAT)?;
    let mut rows = statement.query(params_from_iter(tenant.map(Label::as_str))).during(WHAT)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().during(WHAT)? {
        let (tenant, principal) = (row.get(0).during(WHAT)?, row.get(1).during(WHAT)?);
        found.push((tenant, principal, part.parse(row)?));
    }
    Ok(found)
}

/// Returns the sandboxes of the owner that use most of a resource, and how many others use some of it.
pub(super) fn holders(
    conn: &Connection,
    owner: &Owner,
    scope: QuotaScope,
    resource: QuotaResource,
) -> Result<(Vec<QuotaHolder>, u64)> {
    let amount = match resource {
        QuotaResource::Sandboxes => "1".to_owned(),
        QuotaResource::Running => UP.to_owned(),
        QuotaResource::MemoryMb => format!("{UP} * memory_mb"),
        QuotaResource::Cpus => format!("{UP} * cpus_milli / 1000.0"),
        QuotaResource::DiskMb => "(disk_bytes + layer_bytes + 1048575) / 1048576".to_owned(),
        QuotaResource::TasksQueued | QuotaResource::TasksRunning => {
            "(SELECT count(*) FROM tasks WHERE tasks.sandbox = sandboxes.id AND done_seq IS NULL)".to_owned()
        }
        // No sandbox is refused for these.
        QuotaResource::EventsMb | QuotaResource::PreviewConnections => return Ok((Vec::new(), 0)),
    };
    let living = format!("FROM sandboxes WHERE tenant = ?1 AND status <> 'destroyed' AND {amount} > 0");
    let (tenant, principal) = (owner.tenant.as_str(), owner.principal.as_str());
    let sql = format!(
        "SELECT id, name, {amount} * 1.0 AS used {living} AND principal = ?2 ORDER BY used DESC, id LIMIT {HOLDERS_MAX}"
    );
    let by = all(conn, &sql, params![tenant, principal], parse_holder)?;
    let count = match scope {
        QuotaScope::Tenant => format!("SELECT count(*) AS held {living} AND ?2 <> ''"),
        QuotaScope::Principal => format!("SELECT count(*) AS held {living} AND principal = ?2"),
    };
    let held = one(conn, &count, params![tenant, principal], |row| {
        ColumnReader { row, table: "sandboxes", key: "held" }.number("held")
    })?;
    let others = held.unwrap_or(0).saturating_sub(by.len() as u64);
    Ok((by, others))
}

fn parse_holder(row: &Row<'_>) -> Result<QuotaHolder> {
    let fields = ColumnReader { row, table: "sandboxes", key: "id" };
    Ok(QuotaHolder { id: fields.sandbox("id")?, name: fields.get("name")?, used: fields.get("used")? })
}
