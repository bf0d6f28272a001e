//! Rows of secrets. Values are sealed before they get here; the key file is not in the database.

use super::{
    columns::{ColumnReader, int},
    error::{Result, StoreError},
    handle::Store,
    limits,
    query::{List, change, one},
    records::SecretRecord,
};
use protocol::api::{Label, SecretName};
use rusqlite::{Connection, Row, params};

const WHAT: &str = "write a secret";

/// A secret to be written.
#[derive(Debug, Clone)]
pub struct NewSecret {
    pub tenant: Label,
    pub name: SecretName,
    pub sealed: Vec<u8>,
    pub updated_by: String,
    pub now_ms: u64,
}

impl Store {
    /// Creates a secret, or replaces the value of the one with its name. `None` when the tenant has too many.
    pub async fn put_secret(&self, secret: NewSecret) -> Result<Option<SecretRecord>> {
        let put = self.write("put_secret", move |conn| put(conn, &secret)).await?;
        // An earlier value was overwritten.
        self.secrets_overwritten().notify_one();
        Ok(put)
    }

    pub async fn secret(&self, tenant: &Label, name: &SecretName) -> Result<Option<SecretRecord>> {
        let (tenant, name) = (tenant.clone(), name.clone());
        self.read(move |conn| find(conn, &tenant, &name)).await
    }

    /// Returns secrets by name, of one tenant or of all; `after` is the last one of the previous page.
    pub async fn secrets(
        &self,
        tenant: Option<&Label>,
        after: Option<(Label, SecretName)>,
        limit: usize,
    ) -> Result<Vec<SecretRecord>> {
        let tenant = tenant.cloned();
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM secrets");
            wanted.and_if("tenant = ?", tenant.map(String::from));
            if let Some((tenant, name)) = after {
                let name = Label::parse(name.as_str()).map_err(|_| StoreError::Unfit { what: "a name" })?;
                wanted.and_all("(tenant, name) > (?, ?)", [tenant, name]);
            }
            wanted.run(conn, "tenant, name", limit, parse)
        })
        .await
    }

    /// Deletes a secret; returns whether it existed.
    pub async fn remove_secret(&self, tenant: &Label, name: &SecretName) -> Result<bool> {
        let (tenant, name) = (tenant.clone(), name.clone());
        let removed = self
            .write("remove_secret", move |conn| {
                let sql = "DELETE FROM secrets WHERE tenant = ? AND name = ?";
                Ok(change(conn, sql, params![tenant.as_str(), name.as_str()], WHAT)? > 0)
            })
            .await?;
        self.secrets_overwritten().notify_one();
        Ok(removed)
    }

    /// Queues the time of a use.
    pub(super) fn note_secret_use(&self, tenant: &Label, name: &SecretName, now_ms: u64) {
        let (tenant, name) = (tenant.clone(), name.clone());
        // Written whether or not it is awaited.
        drop(self.post("secret_used", move |conn| {
            let sql = "UPDATE secrets SET last_used_ms = ?3 WHERE tenant = ?1 AND name = ?2";
            change(conn, sql, params![tenant.as_str(), name.as_str(), int(now_ms)], WHAT).map(|_| ())
        }));
    }
}

fn put(conn: &Connection, secret: &NewSecret) -> Result<Option<SecretRecord>> {
    let (tenant, name) = (secret.tenant.as_str(), secret.name.as_str());
    let count = "SELECT count(*) AS rows FROM secrets WHERE tenant = ? AND name <> ?";
    let others = one(conn, count, params![tenant, name], |row| {
        ColumnReader { row, table: "secrets", key: "rows" }.number("rows")
    })?;
    if others.unwrap_or(0) >= limits::SECRETS_OF_TENANT_MAX {
        return Ok(None);
    }
    let sql = "INSERT INTO secrets (tenant, name, sealed, version, updated_by, created_ms, updated_ms)
        VALUES (?1, ?2, ?3, 1, ?4, ?5, ?5)
        ON CONFLICT (tenant, name) DO UPDATE SET sealed = ?3, version = version + 1, updated_by = ?4,
            updated_ms = ?5";
    change(conn, sql, params![tenant, name, secret.sealed, secret.updated_by, int(secret.now_ms)], WHAT)?;
    find(conn, &secret.tenant, &secret.name)?.map(Some).ok_or(StoreError::NotFound)
}

fn find(conn: &Connection, tenant: &Label, name: &SecretName) -> Result<Option<SecretRecord>> {
    let sql = "SELECT * FROM secrets WHERE tenant = ? AND name = ?";
    one(conn, sql, params![tenant.as_str(), name.as_str()], parse)
}

fn parse(row: &Row<'_>) -> Result<SecretRecord> {
    let fields = ColumnReader { row, table: "secrets", key: "name" };
    Ok(SecretRecord {
        tenant: fields.parsed("tenant")?,
        name: fields.parsed("name")?,
        sealed: fields.get("sealed")?,
        version: fields.number("version")?,
        updated_by: fields.get("updated_by")?,
        created_ms: fields.number("created_ms")?,
        updated_ms: fields.number("updated_ms")?,
        last_used_ms: fields.maybe_number("last_used_ms")?,
    })
}
