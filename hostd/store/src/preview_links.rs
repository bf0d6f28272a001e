//! Links to private previews: which exist and which are live. Preview passes are not stored: they can be
//! derived from the link and the host's key.

use super::{
    columns::{ColumnReader, int},
    error::{Result, StoreError},
    handle::Store,
    limits,
    query::{List, change, one},
    records::LinkRecord,
};
use hostd_core::{LinkId, Preview};
use protocol::api::{Owner, SandboxId};
use rusqlite::{Connection, Row, params};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMade {
    Made,
    /// The sandbox does not exist or is destroyed.
    Gone,
    TooMany,
}

/// A link is live until it expires, is revoked or its sandbox is destroyed.
const LIVE: &str = "SELECT count(*) AS links FROM preview_links
    JOIN sandboxes ON sandboxes.id = preview_links.sandbox
    WHERE sandboxes.status <> 'destroyed' AND revoked_ms IS NULL AND preview_links.expires_ms > ?2";

impl Store {
    pub async fn insert_link(&self, link: LinkRecord) -> Result<LinkMade> {
        self.write("insert_link", move |conn| insert(conn, &link)).await
    }

    pub async fn link_is_live(&self, id: LinkId, now_ms: u64) -> Result<bool> {
        self.read(move |conn| {
            let sql = format!("{LIVE} AND preview_links.id = ?1");
            Ok(count(conn, &sql, &id.to_string(), now_ms)? > 0)
        })
        .await
    }

    /// Revokes a link; returns whether the sandbox has it. An earlier time of revocation stays.
    pub async fn revoke_link(&self, sandbox: &SandboxId, id: LinkId, now_ms: u64) -> Result<bool> {
        let sandbox = *sandbox;
        self.write("revoke_link", move |conn| {
            let sql = "UPDATE preview_links SET revoked_ms = coalesce(revoked_ms, ?3)
                WHERE id = ?1 AND sandbox = ?2";
            let values = params![id.to_string(), sandbox.as_str(), int(now_ms)];
            Ok(change(conn, sql, values, "revoke a link")? > 0)
        })
        .await
    }

    /// Returns links newest first; `after` is the last one of the previous page.
    pub async fn links(
        &self,
        sandbox: &SandboxId,
        after: Option<LinkId>,
        limit: usize,
    ) -> Result<Vec<LinkRecord>> {
        let sandbox = sandbox.to_string();
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM preview_links");
            wanted.and_if("sandbox = ?", Some(sandbox));
            wanted.and_if("id < ?", after.map(|id| id.to_string()));
            wanted.run(conn, "id DESC", limit, parse)
        })
        .await
    }

    /// Returns the owner of a sandbox, destroyed or not.
    pub async fn owner_of(&self, sandbox: &SandboxId) -> Result<Option<Owner>> {
        let sandbox = *sandbox;
        self.read(move |conn| {
            let sql = "SELECT id, tenant, principal, project FROM sandboxes WHERE id = ?";
            one(conn, sql, params![sandbox.as_str()], |row| {
                ColumnReader { row, table: "sandboxes", key: "id" }.owner()
            })
        })
        .await
    }
}

fn insert(conn: &Connection, link: &LinkRecord) -> Result<LinkMade> {
    let sql = format!("{LIVE} AND preview_links.sandbox = ?1");
    let live = count(conn, &sql, link.preview.sandbox.as_str(), link.created_ms)?;
    if live >= limits::LINKS_OF_SANDBOX_MAX {
        return Ok(LinkMade::TooMany);
    }
    let sql = "INSERT INTO preview_links
            (id, sandbox, tenant, principal, project, port, created_by, created_ms, expires_ms)
        SELECT ?1, id, tenant, principal, project, ?3, ?4, ?5, ?6
        FROM sandboxes WHERE id = ?2 AND status <> 'destroyed'";
    let values = params![
        link.id.to_string(),
        link.preview.sandbox.as_str(),
        link.preview.port,
        link.created_by,
        int(link.created_ms),
        int(link.expires_ms),
    ];
    let made = change(conn, sql, values, "write a link")? > 0;
    Ok(if made { LinkMade::Made } else { LinkMade::Gone })
}

fn count(conn: &Connection, sql: &str, key: &str, now_ms: u64) -> Result<u64> {
    let number = |row: &Row<'_>| ColumnReader { row, table: "preview_links", key: "links" }.number("links");
    Ok(one(conn, sql, params![key, int(now_ms)], number)?.unwrap_or(0))
}

fn parse(row: &Row<'_>) -> Result<LinkRecord> {
    let fields = ColumnReader { row, table: "preview_links", key: "id" };
    let id: String = fields.get("id")?;
    let wrong = |error| -> StoreError { fields.wrong("id", &error) };
    Ok(LinkRecord {
        id: id.parse().map_err(wrong)?,
        preview: Preview { sandbox: fields.sandbox("sandbox")?, port: fields.get("port")? },
        created_by: fields.get("created_by")?,
        created_ms: fields.number("created_ms")?,
        expires_ms: fields.number("expires_ms")?,
        revoked_ms: fields.maybe_number("revoked_ms")?,
    })
}
