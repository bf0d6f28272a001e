//! API tokens, found by their hash; the tokens themselves are not stored.

use super::{
    columns::{ColumnReader, int, word},
    error::{Result, StoreError, is_primary_key_violation, is_unique_violation},
    handle::Store,
    query::{List, change, one},
    records::TokenRecord,
};
use protocol::api::Label;
use rusqlite::{Connection, Row, params};

impl Store {
    pub async fn insert_token(&self, token: TokenRecord, hash: [u8; 32]) -> Result<()> {
        self.write("insert_token", move |conn| {
            let sql = "INSERT INTO tokens (id, hash, tenant, principal, scope, created_ms, expires_ms,
                    revoked_ms)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
            let values = params![
                token.id,
                hash,
                token.tenant.as_str(),
                token.principal.as_str(),
                word(&token.scope, "the scope")?,
                int(token.created_ms),
                token.expires_ms.map(int),
                token.revoked_ms.map(int),
            ];
            let inserted = conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
            inserted.map(|_| ()).map_err(|error| {
                match is_primary_key_violation(&error) || is_unique_violation(&error) {
                    true => StoreError::Exists,
                    false => StoreError::sqlite("write a token", error),
                }
            })
        })
        .await
    }

    /// Returns a token even if it is revoked or expired: the caller decides.
    pub async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>> {
        let hash = *hash;
        self.read(move |conn| one(conn, "SELECT * FROM tokens WHERE hash = ?", params![hash], parse)).await
    }

    pub async fn token(&self, id: &str) -> Result<Option<TokenRecord>> {
        let id = id.to_owned();
        self.read(move |conn| one(conn, "SELECT * FROM tokens WHERE id = ?", params![id], parse)).await
    }

    /// Revokes a token, and tells those who watch; returns whether there was one to revoke.
    pub async fn revoke_token(&self, id: &str, now_ms: u64) -> Result<bool> {
        let (id, revocations) = (id.to_owned(), self.token_revocations_sender());
        let work = move |conn: &Connection| {
            let sql = "UPDATE tokens SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL";
            Ok(change(conn, sql, params![id, int(now_ms)], "revoke a token")? > 0)
        };
        let committed = move |_: &bool| revocations.send_modify(|count| *count += 1);
        self.write_then("revoke_token", work, committed).await
    }

    /// Returns tokens newest first; `after` is the id of the last one of the previous page.
    pub async fn tokens(
        &self,
        tenant: Option<&Label>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>> {
        let (tenant, after) = (tenant.cloned(), after.map(str::to_owned));
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM tokens");
            wanted.and_if("tenant = ?", tenant.map(String::from));
            wanted.and_if("id < ?", after);
            wanted.run(conn, "id DESC", limit, parse)
        })
        .await
    }
}

fn parse(row: &Row<'_>) -> Result<TokenRecord> {
    let fields = ColumnReader { row, table: "tokens", key: "id" };
    Ok(TokenRecord {
        id: fields.get("id")?,
        tenant: fields.parsed("tenant")?,
        principal: fields.parsed("principal")?,
        scope: fields.parsed("scope")?,
        created_ms: fields.number("created_ms")?,
        expires_ms: fields.maybe_number("expires_ms")?,
        revoked_ms: fields.maybe_number("revoked_ms")?,
    })
}
