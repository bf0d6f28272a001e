//! Shares of sandboxes. A change writes row and event in one transaction, and ends with the sandbox.

use super::{
    columns::{ColumnReader, int, word},
    error::{Result, StoreError},
    events::{self, NewEvent},
    handle::Store,
    limits,
    query::{all, change},
    records::{SandboxRecord, ShareRecord},
    sandbox_row::load,
};
use hostd_core::{Grantee, Share, TransitionRefused};
use protocol::api::{SandboxId, SandboxStatus};
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

const WHAT: &str = "write a share";

/// The outcome of sharing a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareMade {
    Made(ShareRecord),
    TooMany,
}

/// A change of shares by a caller.
#[derive(Debug, Clone)]
pub struct ShareChange {
    pub sandbox: SandboxId,
    /// The principal of the caller.
    pub by: String,
    pub now_ms: u64,
}

impl Store {
    /// Creates a share, or changes the access of the one with this grantee. Repeating it changes nothing.
    pub async fn put_share(&self, change: ShareChange, share: Share) -> Result<ShareMade> {
        let (index, sandbox) = (self.shares().clone(), change.sandbox);
        let write = move |conn: &Connection| {
            let made = put(conn, &change, share)?;
            Ok((made, of_sandbox(conn, &change.sandbox)?))
        };
        self.write_then("put_share", write, move |(_, left)| index.set(sandbox, shares_of(left)))
            .await
            .map(|(made, _)| made)
    }

    /// Ends the share with a grantee, or all shares of the sandbox. Returns how many there were.
    pub async fn remove_shares(&self, change: ShareChange, grantee: Option<Grantee>) -> Result<usize> {
        let (index, sandbox) = (self.shares().clone(), change.sandbox);
        let write = move |conn: &Connection| {
            let removed = remove(conn, &change, grantee.as_ref())?;
            Ok((removed, of_sandbox(conn, &change.sandbox)?))
        };
        self.write_then("remove_shares", write, move |(_, left)| index.set(sandbox, shares_of(left)))
            .await
            .map(|(removed, _)| removed)
    }

    /// Returns the shares of a sandbox, the one with the whole tenant first.
    pub async fn share_records(&self, sandbox: &SandboxId) -> Result<Vec<ShareRecord>> {
        let sandbox = *sandbox;
        self.read(move |conn| of_sandbox(conn, &sandbox)).await
    }
}

fn shares_of(records: &[ShareRecord]) -> Vec<Share> {
    records.iter().map(|record| record.share.clone()).collect()
}

fn put(conn: &Connection, change_by: &ShareChange, share: Share) -> Result<ShareMade> {
    let sandbox = load_living(conn, &change_by.sandbox)?;
    let there = of_sandbox(conn, &sandbox.id)?;
    let before = there.iter().find(|record| record.share.grantee == share.grantee);
    match before {
        Some(before) if before.share == share => return Ok(ShareMade::Made(before.clone())),
        None if there.len() >= limits::SHARES_OF_SANDBOX_MAX => return Ok(ShareMade::TooMany),
        Some(_) | None => {}
    }
    let sql = "INSERT INTO shares
            (sandbox, grantee, tenant, principal, project, access, created_by, created_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (sandbox, grantee) DO UPDATE SET access = ?6, created_by = ?7, created_ms = ?8";
    let owner = &sandbox.owner;
    let values = params![
        sandbox.id.as_str(),
        grantee_column(&share.grantee),
        owner.tenant.as_str(),
        owner.principal.as_str(),
        owner.project.as_str(),
        word(&share.access, "the access")?,
        change_by.by,
        int(change_by.now_ms),
    ];
    change(conn, sql, values, WHAT)?;
    let mut data = event_data(change_by, &share.grantee);
    data["access"] = json!(share.access);
    note(conn, &sandbox, change_by, "sandbox.shared", data)?;
    let ShareChange { by, now_ms, .. } = change_by;
    Ok(ShareMade::Made(ShareRecord { share, created_by: by.clone(), created_ms: *now_ms }))
}

fn remove(conn: &Connection, change_by: &ShareChange, grantee: Option<&Grantee>) -> Result<usize> {
    let sandbox = load_living(conn, &change_by.sandbox)?;
    let chosen = |record: &ShareRecord| grantee.is_none_or(|grantee| record.share.grantee == *grantee);
    let ended: Vec<ShareRecord> = of_sandbox(conn, &sandbox.id)?.into_iter().filter(chosen).collect();
    for record in &ended {
        let sql = "DELETE FROM shares WHERE sandbox = ? AND grantee = ?";
        let grantee = &record.share.grantee;
        change(conn, sql, params![sandbox.id.as_str(), grantee_column(grantee)], WHAT)?;
        note(conn, &sandbox, change_by, "sandbox.unshared", event_data(change_by, grantee))?;
    }
    Ok(ended.len())
}

/// Deletes the shares of a sandbox that is being destroyed.
pub(super) fn delete_all(conn: &Connection, sandbox: &SandboxId) -> Result<()> {
    change(conn, "DELETE FROM shares WHERE sandbox = ?", params![sandbox.as_str()], WHAT).map(|_| ())
}

fn load_living(conn: &Connection, id: &SandboxId) -> Result<SandboxRecord> {
    let sandbox = load(conn, id)?;
    match sandbox.state.status {
        SandboxStatus::Destroyed => Err(StoreError::Refused(TransitionRefused::Destroyed)),
        SandboxStatus::Creating
        | SandboxStatus::Running
        | SandboxStatus::Paused
        | SandboxStatus::Stopped
        | SandboxStatus::Error => Ok(sandbox),
    }
}

/// Without a principal the event is about the whole tenant, as in the API.
fn event_data(change_by: &ShareChange, grantee: &Grantee) -> Value {
    match grantee {
        Grantee::Tenant => json!({ "by": change_by.by }),
        Grantee::Principal(principal) => json!({ "principal": principal, "by": change_by.by }),
    }
}

fn note(
    conn: &Connection,
    sandbox: &SandboxRecord,
    change_by: &ShareChange,
    kind: &str,
    data: Value,
) -> Result<()> {
    let event = NewEvent { time_ms: change_by.now_ms, ..NewEvent::of_hostd(sandbox, kind, data) };
    events::insert(conn, &event).map(|_| ())
}

fn of_sandbox(conn: &Connection, sandbox: &SandboxId) -> Result<Vec<ShareRecord>> {
    all(conn, "SELECT * FROM shares WHERE sandbox = ? ORDER BY grantee", params![sandbox.as_str()], parse)
}

/// The grantee as stored: empty for the whole tenant, since no principal is.
fn grantee_column(grantee: &Grantee) -> &str {
    match grantee {
        Grantee::Tenant => "",
        Grantee::Principal(principal) => principal.as_str(),
    }
}

pub(super) fn parse(row: &Row<'_>) -> Result<ShareRecord> {
    let fields = ColumnReader { row, table: "shares", key: "sandbox" };
    let grantee: String = fields.get("grantee")?;
    let grantee =
        if grantee.is_empty() { Grantee::Tenant } else { Grantee::Principal(fields.parsed("grantee")?) };
    Ok(ShareRecord {
        share: Share { grantee, access: fields.parsed("access")? },
        created_by: fields.get("created_by")?,
        created_ms: fields.number("created_ms")?,
    })
}
