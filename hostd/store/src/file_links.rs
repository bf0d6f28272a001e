//! Signed URLs of files: which exist and which are live. Signatures are not stored: they can be derived from the link
//! and the host's key.

use super::{
    columns::{ColumnReader, int},
    error::{Result, StoreError},
    handle::Store,
    limits,
    preview_links::LinkMade,
    query::{List, change, one},
    records::FileLinkRecord,
};
use hostd_core::{FileLink, LinkId};
use protocol::{
    api::{FileLinkMethod, SandboxId},
    files::FilePath,
};
use rusqlite::{Connection, Row, params};

/// A link is live until it expires, is revoked or its sandbox is destroyed.
const LIVE: &str = "file_links JOIN sandboxes ON sandboxes.id = file_links.sandbox
    WHERE sandboxes.status <> 'destroyed' AND revoked_ms IS NULL AND file_links.expires_ms > ?2";

impl Store {
    pub async fn insert_file_link(&self, link: FileLinkRecord) -> Result<LinkMade> {
        self.write("insert_file_link", move |conn| insert(conn, &link)).await
    }

    /// The link with this id, if it is live.
    pub async fn live_file_link(&self, id: LinkId, now_ms: u64) -> Result<Option<FileLinkRecord>> {
        self.read(move |conn| {
            let sql = format!("SELECT file_links.* FROM {LIVE} AND file_links.id = ?1");
            one(conn, &sql, params![id.to_string(), int(now_ms)], parse)
        })
        .await
    }

    /// Revokes a link; returns whether the sandbox has it. An earlier time of revocation stays.
    pub async fn revoke_file_link(&self, sandbox: &SandboxId, id: LinkId, now_ms: u64) -> Result<bool> {
        let sandbox = *sandbox;
        self.write("revoke_file_link", move |conn| {
            let sql = "UPDATE file_links SET revoked_ms = coalesce(revoked_ms, ?3)
                WHERE id = ?1 AND sandbox = ?2";
            let values = params![id.to_string(), sandbox.as_str(), int(now_ms)];
            Ok(change(conn, sql, values, "revoke a file link")? > 0)
        })
        .await
    }

    /// Returns links newest first; `after` is the last one of the previous page.
    pub async fn file_links(
        &self,
        sandbox: &SandboxId,
        after: Option<LinkId>,
        limit: usize,
    ) -> Result<Vec<FileLinkRecord>> {
        let sandbox = sandbox.to_string();
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM file_links");
            wanted.and_if("sandbox = ?", Some(sandbox));
            wanted.and_if("id < ?", after.map(|id| id.to_string()));
            wanted.run(conn, "id DESC", limit, parse)
        })
        .await
    }
}

fn insert(conn: &Connection, record: &FileLinkRecord) -> Result<LinkMade> {
    let link = &record.link;
    let sql = format!("SELECT count(*) AS links FROM {LIVE} AND file_links.sandbox = ?1");
    let number = |row: &Row<'_>| ColumnReader { row, table: "file_links", key: "links" }.number("links");
    let live = one(conn, &sql, params![link.sandbox.as_str(), int(record.created_ms)], number)?;
    if live.unwrap_or(0) >= limits::LINKS_OF_SANDBOX_MAX {
        return Ok(LinkMade::TooMany);
    }
    let sql = "INSERT INTO file_links
            (id, sandbox, tenant, principal, project, method, path, max_bytes, created_by, created_ms, expires_ms)
        SELECT ?1, id, tenant, principal, project, ?3, ?4, ?5, ?6, ?7, ?8
        FROM sandboxes WHERE id = ?2 AND status <> 'destroyed'";
    let values = params![
        link.id.to_string(),
        link.sandbox.as_str(),
        link.method.as_str(),
        link.path.encoded(),
        int(link.max_bytes),
        record.created_by,
        int(record.created_ms),
        int(link.expires_ms),
    ];
    let made = change(conn, sql, values, "write a file link")? > 0;
    Ok(if made { LinkMade::Made } else { LinkMade::Gone })
}

fn parse(row: &Row<'_>) -> Result<FileLinkRecord> {
    let fields = ColumnReader { row, table: "file_links", key: "id" };
    let (id, method, path): (String, String, String) =
        (fields.get("id")?, fields.get("method")?, fields.get("path")?);
    let wrong = |error| -> StoreError { fields.wrong("id", &error) };
    let unknown = |column, text: &String| fields.wrong(column, text);
    let methods = [FileLinkMethod::Get, FileLinkMethod::Put];
    let link = FileLink {
        id: id.parse().map_err(wrong)?,
        sandbox: fields.sandbox("sandbox")?,
        method: methods
            .into_iter()
            .find(|each| each.as_str() == method)
            .ok_or_else(|| unknown("method", &method))?,
        path: FilePath::decode(&path).ok_or_else(|| unknown("path", &path))?,
        max_bytes: fields.number("max_bytes")?,
        expires_ms: fields.number("expires_ms")?,
    };
    Ok(FileLinkRecord {
        link,
        created_by: fields.get("created_by")?,
        created_ms: fields.number("created_ms")?,
        revoked_ms: fields.maybe_number("revoked_ms")?,
    })
}
