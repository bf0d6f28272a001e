//! What a protocol of other clients knows of a sandbox and the sandbox itself does not: one document for each sandbox
//! and protocol, which only the protocol reads.

use super::{
    columns::ColumnReader,
    error::Result,
    handle::Store,
    query::{all, change, one},
    sandbox_row::owner_of,
};
use protocol::api::SandboxId;
use rusqlite::{Connection, Row, params};

pub(super) const SCHEMA: &str = "
CREATE TABLE client_records (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    protocol TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    project TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (sandbox, protocol)
) STRICT, WITHOUT ROWID;
";

/// Computes the document from the one that there is; `None` leaves it as it is.
pub type ClientRecordChange = Box<dyn FnOnce(Option<String>) -> Option<String> + Send>;

impl Store {
    pub async fn client_record(&self, sandbox: &SandboxId, protocol: &'static str) -> Result<Option<String>> {
        let sandbox = *sandbox;
        self.read(move |conn| find(conn, &sandbox, protocol)).await
    }

    /// Returns the documents of all sandboxes of these that have one.
    pub async fn client_records(
        &self,
        sandboxes: Vec<SandboxId>,
        protocol: &'static str,
    ) -> Result<Vec<(SandboxId, String)>> {
        self.read(move |conn| {
            let ids = serde_json::to_string(&sandboxes).unwrap_or_default();
            let sql = "SELECT sandbox, document FROM client_records
                WHERE protocol = ?1 AND sandbox IN (SELECT value FROM json_each(?2))";
            all(conn, sql, params![protocol, ids], parse)
        })
        .await
    }

    /// Changes a document in one transaction, and returns it as it is then. Fails if there is no such sandbox.
    pub async fn change_client_record(
        &self,
        sandbox: &SandboxId,
        protocol: &'static str,
        compute: ClientRecordChange,
    ) -> Result<Option<String>> {
        let sandbox = *sandbox;
        self.write("change_client_record", move |conn| {
            let before = find(conn, &sandbox, protocol)?;
            let Some(document) = compute(before.clone()) else { return Ok(before) };
            let owner = owner_of(conn, &sandbox)?;
            let sql = "INSERT INTO client_records (sandbox, protocol, tenant, principal, project, document)
                VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT (sandbox, protocol) DO UPDATE SET document = excluded.document";
            let values = params![
                sandbox.as_str(),
                protocol,
                owner.tenant.as_str(),
                owner.principal.as_str(),
                owner.project.as_str(),
                document,
            ];
            change(conn, sql, values, "write what a client protocol knows of a sandbox")?;
            Ok(Some(document))
        })
        .await
    }
}

fn find(conn: &Connection, sandbox: &SandboxId, protocol: &str) -> Result<Option<String>> {
    let sql = "SELECT sandbox, document FROM client_records WHERE sandbox = ? AND protocol = ?";
    Ok(one(conn, sql, params![sandbox.as_str(), protocol], parse)?.map(|(_, document)| document))
}

fn parse(row: &Row<'_>) -> Result<(SandboxId, String)> {
    let fields = ColumnReader { row, table: "client_records", key: "sandbox" };
    Ok((fields.sandbox("sandbox")?, fields.get("document")?))
}
