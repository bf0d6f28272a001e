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

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditOutcome {
    Succeeded,
    /// The caller was refused, or the call was wrong.
    Refused,
    /// hostd or a sandbox failed.
    Failed,
}

/// Selects rows; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    pub tenant: Option<Label>,
    pub principal: Option<String>,
    /// The id of a token, or how else callers were identified.
    pub via: Option<String>,
    pub operation: Option<String>,
    pub outcome: Option<AuditOutcome>,
    pub object: Option<String>,
    pub sandbox: Option<String>,
    pub peer: Option<String>,
    pub request_id: Option<String>,
    pub since_ms: Option<u64>,
    pub until_ms: Option<u64>,
}

impl AuditFilter {
    fn apply(self, wanted: &mut List) {
        wanted.and_if("tenant = ?", self.tenant.map(String::from));
        wanted.and_if("principal = ?", self.principal);
        wanted.and_if("via = ?", self.via);
        wanted.and_if("operation = ?", self.operation);
        match self.outcome {
            None => {}
            Some(AuditOutcome::Succeeded) => wanted.and("status < 400"),
            Some(AuditOutcome::Refused) => wanted.and("status BETWEEN 400 AND 499"),
            Some(AuditOutcome::Failed) => wanted.and("status >= 500"),
        }
        wanted.and_if("object = ?", self.object);
        wanted.and_if("sandbox = ?", self.sandbox);
        wanted.and_if("peer = ?", self.peer);
        wanted.and_if("request_id = ?", self.request_id);
        wanted.and_if("time_ms >= ?", self.since_ms.map(int));
        wanted.and_if("time_ms < ?", self.until_ms.map(int));
    }
}

impl Store {
    pub async fn audit(&self, record: AuditRecord) -> Result<()> {
        self.write("audit", move |conn| {
            let sql = "INSERT INTO audit (time_ms, tenant, principal, via, request_id, method, path,
                    status, code, operation, object, sandbox, peer)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
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
                record.operation,
                record.object,
                record.sandbox,
                record.peer,
            ];
            change(conn, sql, values, "write to the audit").map(|_| ())
        })
        .await
    }

    /// Returns audit rows newest first, each with its number; `after` is the number of the last row of the
    /// previous page.
    pub async fn audits(
        &self,
        filter: AuditFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>> {
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM audit");
            filter.apply(&mut wanted);
            wanted.and_if("number < ?", after.map(int));
            wanted.run(conn, "number DESC", limit, parse)
        })
        .await
    }

    /// Returns audit rows oldest first, from after a number on.
    pub async fn audits_from(
        &self,
        filter: AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>> {
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM audit");
            filter.apply(&mut wanted);
            wanted.and_if("number > ?", Some(int(after)));
            wanted.run(conn, "number", limit, parse)
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
        operation: fields.get("operation")?,
        object: fields.get("object")?,
        sandbox: fields.get("sandbox")?,
        peer: fields.get("peer")?,
    };
    Ok((fields.number("number")?, record))
}
