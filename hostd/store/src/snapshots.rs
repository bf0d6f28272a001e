//! Snapshots: which exist, whose they are, and what they hold. Their files are the driver's.

use super::{
    columns::{ColumnReader, int, json},
    error::Result,
    handle::Store,
    limits,
    query::{List, all, change, one},
    quotas::check_room,
};
use hostd_core::{Blueprint, Demand};
use protocol::api::{Owner, SandboxId, SnapshotContent, SnapshotId, SnapshotState};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

/// A snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotRow {
    pub id: SnapshotId,
    pub name: Option<String>,
    /// Absent for one that was imported.
    pub sandbox: Option<SandboxId>,
    pub parent: Option<SnapshotId>,
    pub owner: Owner,
    pub state: SnapshotState,
    pub excludes: Vec<String>,
    /// Of the sandbox, without its environment and its seed.
    pub blueprint: Arc<Blueprint>,
    pub created_ms: u64,
    pub frozen_ms: u64,
    pub content: Option<SnapshotContent>,
}

/// A snapshot that is about to be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSnapshot {
    pub id: SnapshotId,
    pub name: Option<String>,
    /// Absent for one that is imported.
    pub sandbox: Option<SandboxId>,
    pub owner: Owner,
    pub excludes: Vec<String>,
    pub blueprint: Arc<Blueprint>,
    pub created_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SnapshotMade {
    Made(Box<SnapshotRow>),
    /// The sandbox has as many as it may.
    TooMany,
    /// The sandbox is destroyed.
    Gone,
}

/// Which snapshots are listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotFilter {
    pub tenant: Option<String>,
    pub principal: Option<String>,
    pub sandbox: Option<SandboxId>,
}

/// How long snapshots without a name are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotRetention {
    /// Of one sandbox, the newest ones.
    pub count: Option<u64>,
    pub age_ms: Option<u64>,
}

impl Store {
    /// Writes the row of a snapshot that is about to be taken, if its owner has room for it.
    pub async fn insert_snapshot(&self, new: NewSnapshot) -> Result<SnapshotMade> {
        let written = self.write("insert_snapshot", move |conn| insert(conn, &new)).await;
        self.count_refusal(&written);
        written
    }

    /// Writes the row of a snapshot that a backup takes for itself, whatever room its owner has. It is never ready, and
    /// names no sandbox: after a crash it is removed like an import that was cut off.
    pub async fn insert_snapshot_of_backup(&self, new: NewSnapshot) -> Result<()> {
        let new = NewSnapshot { sandbox: None, ..new };
        self.write("insert_backup_snapshot", move |conn| insert_row(conn, &new)).await
    }

    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRow>> {
        let id = *id;
        self.read(move |conn| find(conn, &id)).await
    }

    /// Returns snapshots newest first, without those that are being removed; `after` is the last of the previous page.
    pub async fn snapshots(
        &self,
        filter: SnapshotFilter,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> Result<Vec<SnapshotRow>> {
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM snapshots");
            wanted.and_if("state = ?", Some("ready".to_owned()));
            wanted.and_if("tenant = ?", filter.tenant);
            wanted.and_if("principal = ?", filter.principal);
            wanted.and_if("sandbox = ?", filter.sandbox.map(|id| id.to_string()));
            wanted.and_if("id < ?", after.map(|id| id.to_string()));
            wanted.run(conn, "id DESC", limit, parse)
        })
        .await
    }

    /// Snapshots whose making, hashing or removal may have been cut off.
    pub async fn unfinished_snapshots(&self) -> Result<Vec<SnapshotRow>> {
        self.read(move |conn| {
            all(conn, "SELECT * FROM snapshots WHERE state <> 'ready' OR sha256 IS NULL", [], parse)
        })
        .await
    }

    /// The snapshot exists; later ones of its sandbox are based on it.
    pub async fn snapshot_taken(&self, id: &SnapshotId, frozen_ms: u64) -> Result<()> {
        let id = *id;
        self.write("snapshot_taken", move |conn| {
            let sql =
                "UPDATE snapshots SET state = 'ready', frozen_ms = ?2 WHERE id = ?1 AND state = 'creating'";
            change(conn, sql, params![id.as_str(), int(frozen_ms)], "record a snapshot")?;
            let sql = "UPDATE sandboxes SET base_snapshot = ?1
                WHERE id = (SELECT sandbox FROM snapshots WHERE id = ?1)";
            change(conn, sql, params![id.as_str()], "record the base of a sandbox").map(drop)
        })
        .await
    }

    /// The files of a sandbox are those of a snapshot now.
    pub async fn sandbox_restored(&self, sandbox: &SandboxId, snapshot: &SnapshotId) -> Result<()> {
        let (sandbox, snapshot) = (*sandbox, *snapshot);
        self.write("sandbox_restored", move |conn| {
            let sql = "UPDATE sandboxes SET base_snapshot = ?2 WHERE id = ?1";
            change(conn, sql, params![sandbox.as_str(), snapshot.as_str()], "record a restore").map(drop)
        })
        .await
    }

    /// What the archive of a snapshot says about it. A name that it has already stays.
    pub async fn describe_import(
        &self,
        id: &SnapshotId,
        name: Option<String>,
        blueprint: &Blueprint,
    ) -> Result<()> {
        let (id, blueprint) = (*id, json(blueprint, "blueprint")?);
        self.write("describe_import", move |conn| {
            let sql = "UPDATE snapshots SET name = coalesce(name, ?2), blueprint = ?3 WHERE id = ?1";
            change(conn, sql, params![id.as_str(), name, blueprint], "describe a snapshot").map(drop)
        })
        .await
    }

    /// Records the size of a snapshot that is being imported, so that it counts for the quota of its owner.
    pub async fn snapshot_grew(&self, id: &SnapshotId, bytes: u64) -> Result<()> {
        let id = *id;
        self.write("snapshot_grew", move |conn| {
            let sql = "UPDATE snapshots SET disk_bytes = ?2 WHERE id = ?1 AND state = 'creating'";
            change(conn, sql, params![id.as_str(), int(bytes)], "record the size of a snapshot").map(drop)
        })
        .await
    }

    pub async fn snapshot_hashed(&self, id: &SnapshotId, content: SnapshotContent) -> Result<()> {
        let id = *id;
        self.write("snapshot_hashed", move |conn| {
            let SnapshotContent { files, bytes, sha256 } = &content;
            let sql = "UPDATE snapshots SET files = ?2, bytes = ?3, sha256 = ?4 WHERE id = ?1";
            let values = params![id.as_str(), int(*files), int(*bytes), sha256];
            change(conn, sql, values, "record the content of a snapshot").map(drop)
        })
        .await
    }

    /// Hides a snapshot before its files are removed; returns whether there was one.
    pub async fn hide_snapshot(&self, id: &SnapshotId) -> Result<bool> {
        let id = *id;
        self.write("hide_snapshot", move |conn| {
            let sql = "UPDATE snapshots SET state = 'deleting' WHERE id = ?1";
            Ok(change(conn, sql, params![id.as_str()], "hide a snapshot")? > 0)
        })
        .await
    }

    /// Forgets a snapshot whose files are gone.
    pub async fn forget_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let id = *id;
        self.write("forget_snapshot", move |conn| {
            change(conn, "DELETE FROM snapshots WHERE id = ?1", params![id.as_str()], "forget a snapshot")
                .map(drop)
        })
        .await
    }

    /// Snapshots without a name that retention keeps no longer. The limit of their number is for each sandbox; those
    /// that were imported have none, and only their age counts.
    pub async fn expired_snapshots(&self, keep: SnapshotRetention, now_ms: u64) -> Result<Vec<SnapshotId>> {
        self.read(move |conn| {
            let oldest_ms = keep.age_ms.map_or(0, |age_ms| now_ms.saturating_sub(age_ms));
            let count = keep.count.unwrap_or(u64::MAX >> 1);
            let sql = "SELECT id FROM (SELECT id, sandbox, created_ms,
                    row_number() OVER (PARTITION BY sandbox ORDER BY id DESC) AS place
                FROM snapshots WHERE state = 'ready' AND name IS NULL)
                WHERE (place > ?1 AND sandbox IS NOT NULL) OR created_ms < ?2 LIMIT 1000";
            let id = |row: &Row<'_>| ColumnReader { row, table: "snapshots", key: "id" }.parsed("id");
            all(conn, sql, params![int(count), int(oldest_ms)], id)
        })
        .await
    }
}

fn insert(conn: &Connection, new: &NewSnapshot) -> Result<SnapshotMade> {
    let demand = Demand { grows_disk: true, ..Demand::default() };
    check_room(conn, &new.owner, &demand, &Demand::default())?;
    let number =
        |row: &Row<'_>| ColumnReader { row, table: "snapshots", key: "snapshots" }.number("snapshots");
    let sandbox = new.sandbox.map(|id| id.to_string());
    let sql = "SELECT count(*) AS snapshots FROM snapshots WHERE sandbox IS ?1 AND tenant = ?2";
    let taken = one(conn, sql, params![sandbox, new.owner.tenant.as_str()], number)?;
    if taken.unwrap_or(0) >= limits::SNAPSHOTS_OF_SANDBOX_MAX {
        return Ok(SnapshotMade::TooMany);
    }
    insert_row(conn, new)?;
    Ok(find(conn, &new.id)?.map_or(SnapshotMade::Gone, |row| SnapshotMade::Made(Box::new(row))))
}

fn insert_row(conn: &Connection, new: &NewSnapshot) -> Result<()> {
    let sandbox = new.sandbox.map(|id| id.to_string());
    let sql = "INSERT INTO snapshots
            (id, name, sandbox, parent, tenant, principal, project, state, excludes, blueprint, created_ms)
        SELECT ?1, ?2, ?3,
            (SELECT coalesce(base_snapshot, json_extract(blueprint, '$.seed.snapshot')) FROM sandboxes WHERE id = ?3),
            ?4, ?5, ?6, 'creating', ?7, ?8, ?9
        WHERE ?3 IS NULL OR EXISTS (SELECT 1 FROM sandboxes WHERE id = ?3 AND status <> 'destroyed')";
    let values = params![
        new.id.as_str(),
        new.name,
        sandbox,
        new.owner.tenant.as_str(),
        new.owner.principal.as_str(),
        new.owner.project.as_str(),
        json(&new.excludes, "excludes")?,
        json(&*new.blueprint, "blueprint")?,
        int(new.created_ms),
    ];
    change(conn, sql, values, "write a snapshot").map(drop)
}

fn find(conn: &Connection, id: &SnapshotId) -> Result<Option<SnapshotRow>> {
    one(conn, "SELECT * FROM snapshots WHERE id = ?1", params![id.as_str()], parse)
}

fn parse(row: &Row<'_>) -> Result<SnapshotRow> {
    let fields = ColumnReader { row, table: "snapshots", key: "id" };
    let sha256: Option<String> = fields.get("sha256")?;
    let content = match sha256 {
        Some(sha256) => {
            Some(SnapshotContent { files: fields.number("files")?, bytes: fields.number("bytes")?, sha256 })
        }
        None => None,
    };
    Ok(SnapshotRow {
        id: fields.parsed("id")?,
        name: fields.get("name")?,
        sandbox: fields.maybe_parsed("sandbox")?,
        parent: fields.maybe_parsed("parent")?,
        owner: fields.owner()?,
        state: fields.parsed("state")?,
        excludes: fields.json("excludes")?,
        blueprint: Arc::new(fields.json("blueprint")?),
        created_ms: fields.number("created_ms")?,
        frozen_ms: fields.number("frozen_ms")?,
        content,
    })
}
