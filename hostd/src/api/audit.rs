//! `GET /v1/audit`: the audit log of a tenant, or of all tenants for the operator.

use super::{
    call::Call,
    error::CallResult,
    views::{self, ok},
};
use hostd_core::rfc3339;
use hostd_store::AuditRecord;
use serde::Serialize;
use utoipa::ToSchema;

/// A call that changed something or was refused.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditView {
    number: u64,
    time: String,
    /// Empty when the caller was not identified.
    tenant: String,
    principal: String,
    /// The token's id, or how else the caller was identified.
    via: String,
    request_id: String,
    method: String,
    path: String,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

pub async fn list(call: Call) -> CallResult {
    let tenant = (!call.caller.operator).then_some(&call.caller.tenant);
    let (after, limit) = (call.query.number("after")?, call.query.limit()?);
    let rows = call.api.store.audits(tenant, after, limit).await?;
    Ok(ok(&views::page(&rows, limit, view, |(number, _)| number.to_string())))
}

fn view((number, row): &(u64, AuditRecord)) -> AuditView {
    let row = row.clone();
    AuditView {
        number: *number,
        time: rfc3339(row.time_ms),
        tenant: row.tenant,
        principal: row.principal,
        via: row.via,
        request_id: row.request_id,
        method: row.method,
        path: row.path,
        status: row.status,
        code: row.code,
    }
}
