//! The audit log: one row for each mutating or refused API call, with its caller and its response.

use super::{
    columns::{ColumnReader, int},
    error::Result,
    handle::Store,
    query::{List, change},
    records::AuditRecord,
};
use protocol::api::Label;
use rusqlite::{Row, params};

impl Store {
    pub async fn audit(&self, record: AuditRecord) -> Result<()> {
        self.write("audit", move |conn| {
            let sql = "INSERT INTO audit (time_ms, tenant, principal, via, request_id, method, path,
                    status, code)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let values = params![
                int(record.time_ms),
                record.tenant,
                record.principal,
                record.via,
                record.request_id,
                record.method,
                record.path,
                record.status,
                record.code,
            ];
            change(conn, sql, values, "write to the audit").map(|_| ())
        })
        .await
    }

    /// Returns audit rows newest first, each with its number; `after` is the number of the last row of the
    /// previous page.
    pub async fn audits(
        &self,
        tenant: Option<&Label>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>> {
        let tenant = tenant.cloned();
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM audit");
            wanted.and_if("tenant = ?", tenant.map(String::from));
            wanted.and_if("number < ?", after.map(int));
            wanted.run(conn, "number DESC", limit, parse)
        })
        .await
    }
}

fn parse(row: &Row<'_>) -> Result<(u64, AuditRecord)> {
    let fields = ColumnReader { row, table: "audit", key: "number" };
    let record = AuditRecord {
        time_ms: fields.number("time_ms")?,
        tenant: fields.get("tenant")?,
        principal: fields.get("principal")?,
        via: fields.get("via")?,
        request_id: fields.get("request_id")?,
        method: fields.get("method")?,
        path: fields.get("path")?,
        status: fields.get("status")?,
        code: fields.get("code")?,
    };
    Ok((fields.number("number")?, record))
}
