//! Quotas of tenants and principals, and the check that every write passes that adds to the use of one.
//!
//! The check runs in the transaction of the write, and the use is summed up from rows: two writes cannot both take the
//! last room, and no counter can drift.

use super::{
    columns::{ColumnReader, int, json},
    error::{Result, StoreError},
    handle::Store,
    limits,
    query::{all, change, one},
    quota_use::{self, holders},
};
use hostd_core::{Demand, QuotaBook, QuotaExceeded, Usage, binds, check_quota};
use protocol::api::{Label, Owner, Quota, QuotaScope, SandboxId, SnapshotId};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;

const WHAT: &str = "write a quota";
/// The principal of the row that is the default of all principals. Its tenant is '', which no tenant is called.
const EVERY_PRINCIPAL: &str = "*";

/// The use of an owner, by tenant and principal.
pub type UseByOwner = BTreeMap<(Label, Label), Usage>;

impl Store {
    /// Writes the defaults of the configuration: they are in force from now on. Writes nothing if they are already, so
    /// that a start needs no room on the disk.
    pub async fn set_default_quotas(&self, tenant: Option<Quota>, principal: Option<Quota>) -> Result<()> {
        let stored = self.quota_book().await?;
        if (&stored.tenant_default, &stored.principal_default) == (&tenant, &principal) {
            return Ok(());
        }
        self.write_quotas("set_default_quotas", move |conn| {
            change(conn, "DELETE FROM quotas WHERE tenant = ''", [], WHAT)?;
            for (principal, quota) in [("", tenant), (EVERY_PRINCIPAL, principal)] {
                if let Some(quota) = quota {
                    put(conn, "", principal, &quota, 0)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Sets the quota of a tenant, or of one principal of it; false when there are too many quotas.
    pub async fn put_quota(
        &self,
        tenant: Label,
        principal: Option<Label>,
        quota: Quota,
        now_ms: u64,
    ) -> Result<bool> {
        self.write_quotas("put_quota", move |conn| {
            let principal = principal.as_ref().map_or("", Label::as_str);
            let count = "SELECT count(*) AS rows FROM quotas WHERE NOT (tenant = ? AND principal = ?)";
            let others = one(conn, count, params![tenant.as_str(), principal], |row| {
                ColumnReader { row, table: "quotas", key: "rows" }.number("rows")
            })?;
            if others.unwrap_or(0) >= limits::QUOTAS_MAX {
                return Ok(false);
            }
            put(conn, tenant.as_str(), principal, &quota, now_ms)?;
            Ok(true)
        })
        .await
    }

    /// Removes a quota, so that the default applies; returns whether it was set.
    pub async fn remove_quota(&self, tenant: &Label, principal: Option<&Label>) -> Result<bool> {
        let (tenant, principal) = (tenant.clone(), principal.map_or("", Label::as_str).to_owned());
        self.write_quotas("remove_quota", move |conn| {
            let sql = "DELETE FROM quotas WHERE tenant = ? AND principal = ?";
            Ok(change(conn, sql, params![tenant.as_str(), principal], WHAT)? > 0)
        })
        .await
    }

    pub async fn quota_book(&self) -> Result<QuotaBook> {
        self.read(|conn| Ok(book(all(conn, "SELECT * FROM quotas ORDER BY tenant, principal", [], parse)?)))
            .await
    }

    /// Returns the use of every owner of a tenant, or of all tenants; without connections to previews.
    pub async fn use_by_owner(&self, tenant: Option<Label>) -> Result<UseByOwner> {
        self.read(move |conn| quota_use::by_owner(conn, tenant.as_ref())).await
    }

    /// Records the sizes of workspaces, as they were measured.
    pub async fn record_workspace_sizes(&self, sizes: Vec<(SandboxId, u64)>) -> Result<()> {
        self.write("workspace_sizes", move |conn| {
            let sql = "UPDATE sandboxes SET disk_bytes = ?2 WHERE id = ?1 AND disk_bytes <> ?2";
            for (sandbox, bytes) in &sizes {
                change(conn, sql, params![sandbox.as_str(), int(*bytes)], "write the size of a workspace")?;
            }
            Ok(())
        })
        .await
    }

    /// Records the space of layers, as it was measured: of these snapshots, and of these sandboxes and no others. With it
    /// the sizes of workspaces of which something may have become a layer.
    pub async fn record_layer_sizes(
        &self,
        snapshots: BTreeMap<SnapshotId, u64>,
        sandboxes: BTreeMap<SandboxId, u64>,
        workspaces: BTreeMap<SandboxId, u64>,
    ) -> Result<()> {
        self.write("layer_sizes", move |conn| {
            const WHAT: &str = "write the size of layers";
            let sql = "UPDATE snapshots SET disk_bytes = ?2 WHERE id = ?1 AND disk_bytes <> ?2";
            for (snapshot, bytes) in &snapshots {
                change(conn, sql, params![snapshot.as_str(), int(*bytes)], WHAT)?;
            }
            let counted = all(conn, "SELECT id FROM sandboxes WHERE layer_bytes > 0", [], |row| {
                ColumnReader { row, table: "sandboxes", key: "id" }.sandbox("id")
            })?;
            let without = counted.into_iter().filter(|id| !sandboxes.contains_key(id)).map(|id| (id, 0));
            let sql = "UPDATE sandboxes SET layer_bytes = ?2 WHERE id = ?1 AND layer_bytes <> ?2";
            for (sandbox, bytes) in without.chain(sandboxes.iter().map(|(id, bytes)| (*id, *bytes))) {
                change(conn, sql, params![sandbox.as_str(), int(bytes)], WHAT)?;
            }
            let sql = "UPDATE sandboxes SET disk_bytes = ?2 WHERE id = ?1 AND disk_bytes <> ?2";
            for (sandbox, bytes) in &workspaces {
                change(conn, sql, params![sandbox.as_str(), int(*bytes)], WHAT)?;
            }
            Ok(())
        })
        .await
    }

    /// Refuses content that an owner adds to a workspace when its disk quota is used up.
    pub async fn check_disk_quota(&self, owner: &Owner) -> Result<()> {
        if !self.has_quotas() {
            return Ok(());
        }
        let owner = owner.clone();
        let checked = self
            .read(move |conn| {
                let demand = Demand { grows_disk: true, ..Demand::default() };
                check_room(conn, &owner, &demand, &Demand::default())
            })
            .await;
        self.count_refusal(&checked);
        checked
    }
}

/// Returns whether any quota is set.
pub(super) fn exists(conn: &Connection) -> Result<bool> {
    let found = one(conn, "SELECT 1 AS found FROM quotas LIMIT 1", [], |_| Ok(()))?;
    Ok(found.is_some())
}

/// Refuses a write whose demand does not fit into the quota of its tenant or principal. `counted` is what rows that
/// this transaction wrote, or is about to end, hold already.
pub(super) fn check_room(conn: &Connection, owner: &Owner, demand: &Demand, counted: &Demand) -> Result<()> {
    if demand.is_empty() {
        return Ok(());
    }
    let bound: Vec<_> =
        quotas_of(conn, owner)?.into_iter().filter(|(_, quota)| binds(quota, demand)).collect();
    if bound.is_empty() {
        return Ok(());
    }
    let used = quota_use::of_tenant(conn, &owner.tenant, demand)?;
    for (scope, quota) in bound {
        let used = match scope {
            QuotaScope::Tenant => used.values().fold(Usage::default(), |sum, each| sum.plus(each)),
            QuotaScope::Principal => used.get(owner.principal.as_str()).copied().unwrap_or_default(),
        };
        if let Err(shortage) = check_quota(&quota, &used.without(counted), demand) {
            let (by, others) = holders(conn, owner, scope, shortage.resource)?;
            let refused = QuotaExceeded { owner: owner.clone(), scope, shortage, by, others };
            return Err(StoreError::QuotaExceeded(Box::new(refused)));
        }
    }
    Ok(())
}

/// Returns the quotas that bind an owner.
fn quotas_of(conn: &Connection, owner: &Owner) -> Result<Vec<(QuotaScope, Quota)>> {
    let sql = "SELECT * FROM quotas WHERE tenant = '' OR (tenant = ?1 AND principal IN ('', ?2))";
    let book = book(all(conn, sql, params![owner.tenant.as_str(), owner.principal.as_str()], parse)?);
    let (tenant, _) = book.of_tenant(&owner.tenant);
    let (principal, _) = book.of_principal(&owner.tenant, &owner.principal);
    Ok(vec![(QuotaScope::Principal, principal), (QuotaScope::Tenant, tenant)])
}

fn put(conn: &Connection, tenant: &str, principal: &str, quota: &Quota, now_ms: u64) -> Result<()> {
    let sql = "INSERT INTO quotas (tenant, principal, quota, updated_ms) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (tenant, principal) DO UPDATE SET quota = ?3, updated_ms = ?4";
    let values = params![tenant, principal, json(quota, "the quota")?, int(now_ms)];
    change(conn, sql, values, WHAT).map(|_| ())
}

/// A row: tenant, principal and quota.
type QuotaRow = (String, String, Quota);

fn parse(row: &Row<'_>) -> Result<QuotaRow> {
    let fields = ColumnReader { row, table: "quotas", key: "tenant" };
    Ok((fields.get("tenant")?, fields.get("principal")?, fields.json("quota")?))
}

fn book(rows: Vec<QuotaRow>) -> QuotaBook {
    let mut book = QuotaBook::default();
    for (tenant, principal, quota) in rows {
        match (Label::parse(&tenant), principal.as_str()) {
            (Err(_), "") => book.tenant_default = Some(quota),
            (Err(_), _) => book.principal_default = Some(quota),
            (Ok(tenant), "") => drop(book.tenants.insert(tenant, quota)),
            (Ok(tenant), principal) => {
                if let Ok(principal) = Label::parse(principal) {
                    book.principals.insert((tenant, principal), quota);
                }
            }
        }
    }
    book
}

impl Store {
    /// Counts a write that a quota refused.
    pub(super) fn count_refusal<T>(&self, written: &Result<T>) {
        if let Err(StoreError::QuotaExceeded(refused)) = written {
            self.metrics().count_quota_refusal(refused.resource());
        }
    }
}
