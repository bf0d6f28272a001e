//! Model providers. Their keys are stored encrypted; the key file is not in the database.

use super::{
    columns::{ColumnReader, int, json, word},
    error::{Result, StoreError},
    handle::Store,
    limits,
    query::{all, change, one},
    records::ProviderRecord,
};
use protocol::api::Label;
use rusqlite::{Connection, Row, params};

const WHAT: &str = "write a model provider";

impl Store {
    /// Creates a provider, or replaces the one with its tenant and name. `None` when there are too many
    /// providers.
    pub async fn put_provider(&self, provider: ProviderRecord) -> Result<Option<ProviderRecord>> {
        let put = self.write("put_provider", move |conn| put(conn, &provider)).await?;
        // An earlier key was overwritten.
        self.secrets_overwritten().notify_one();
        Ok(put)
    }

    /// Returns all providers, oldest first.
    pub async fn providers(&self) -> Result<Vec<ProviderRecord>> {
        self.read(|conn| all(conn, "SELECT * FROM model_providers ORDER BY rowid", [], parse)).await
    }

    /// Deletes a provider; returns whether it existed.
    pub async fn remove_provider(&self, tenant: Option<&Label>, name: &str) -> Result<bool> {
        let (tenant, name) = (tenant_column(tenant), name.to_owned());
        let removed = self
            .write("remove_provider", move |conn| {
                let sql = "DELETE FROM model_providers WHERE tenant = ? AND name = ?";
                Ok(change(conn, sql, params![tenant, name], WHAT)? > 0)
            })
            .await?;
        self.secrets_overwritten().notify_one();
        Ok(removed)
    }
}

fn tenant_column(tenant: Option<&Label>) -> String {
    tenant.map_or_else(String::new, |tenant| tenant.as_str().to_owned())
}

fn put(conn: &Connection, provider: &ProviderRecord) -> Result<Option<ProviderRecord>> {
    let tenant = tenant_column(provider.tenant.as_ref());
    let count = "SELECT count(*) AS rows FROM model_providers WHERE NOT (tenant = ? AND name = ?)";
    let others = one(conn, count, params![tenant, provider.name], |row| {
        ColumnReader { row, table: "model_providers", key: "rows" }.number("rows")
    })?;
    if others.unwrap_or(0) >= limits::PROVIDERS_MAX {
        return Ok(None);
    }
    let sql = "INSERT INTO model_providers
            (tenant, name, dialect, base_url, sealed, models, default_model, created_ms, key_from)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (tenant, name) DO UPDATE SET dialect = ?3, base_url = ?4, sealed = ?5, models = ?6,
            default_model = ?7, key_from = ?9";
    let values = params![
        tenant,
        provider.name,
        word(&provider.dialect, "the dialect")?,
        provider.base_url,
        provider.sealed,
        json(&provider.models, "the models")?,
        provider.default,
        int(provider.created_ms),
        provider.key_from.clone().map(String::from),
    ];
    change(conn, sql, values, WHAT)?;
    let sql = "SELECT * FROM model_providers WHERE tenant = ? AND name = ?";
    let written = one(conn, sql, params![tenant, provider.name], parse)?;
    written.map(Some).ok_or(StoreError::NotFound)
}

fn parse(row: &Row<'_>) -> Result<ProviderRecord> {
    let fields = ColumnReader { row, table: "model_providers", key: "name" };
    let tenant: String = fields.get("tenant")?;
    let everybody = tenant.is_empty();
    Ok(ProviderRecord {
        tenant: if everybody { None } else { Some(fields.parsed("tenant")?) },
        name: fields.get("name")?,
        dialect: fields.parsed("dialect")?,
        base_url: fields.get("base_url")?,
        sealed: fields.get("sealed")?,
        key_from: fields.maybe_parsed("key_from")?,
        models: fields.json("models")?,
        default: fields.get("default_model")?,
        created_ms: fields.number("created_ms")?,
    })
}
