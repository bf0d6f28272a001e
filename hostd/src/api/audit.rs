//! The audit log of a tenant, or of all tenants for the operator: as pages, and whole as NDJSON.

use super::{
    call::{Call, forbidden},
    error::{CallError, CallResult, error_chain},
    limits,
    route::{RequiredAccess::Admin, Route},
    route_params::{AUDIT, PAGE_BY_NUMBER},
    views::{self, ok},
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use hostd_core::{parse_duration_ms, parse_rfc3339, rfc3339};
use hostd_store::{AuditFilter, AuditOutcome, AuditRecord, Store, StoreError};
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::{AuditView, Label};
use tracing::warn;

const NDJSON: &str = "application/x-ndjson";

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/audit", Admin, list)
            .operation("listAudit", "List calls that changed something or were refused, newest first")
            .query(PAGE_BY_NUMBER)
            .query(AUDIT)
            .returns_page::<AuditView>(200),
        Route::new(Method::GET, "/v1/audit/export", Admin, export)
            .operation(
                "exportAudit",
                "All of the audit log that the parameters select, oldest first, one JSON object per line",
            )
            .query(AUDIT)
            .returns_media(200, NDJSON),
    ]
}

async fn list(call: Call) -> CallResult {
    let filter = filter(&call)?;
    let (after, limit) = (call.query.number("after")?, call.query.limit()?);
    let rows = call.api.store.audits(filter, after, limit).await?;
    Ok(ok(&views::page(&rows, limit, view, |(number, _)| number.to_string())))
}

async fn export(call: Call) -> CallResult {
    let reader = Export { store: call.api.store.clone(), filter: filter(&call)?, after: Some(0) };
    let mut response = Response::new(Body::from_stream(stream::unfold(reader, Export::next)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

/// The rest of an export.
struct Export {
    store: Store,
    filter: AuditFilter,
    /// The row that was read last; `None` at the end.
    after: Option<u64>,
}

impl Export {
    /// Reads some rows. An error cuts the response off, so that it is not taken for whole.
    async fn next(mut self) -> Option<(Result<Bytes, StoreError>, Self)> {
        let after = self.after.take()?;
        let most = limits::AUDIT_EXPORT_ROWS;
        let rows = match self.store.audits_from(self.filter.clone(), after, most).await {
            Ok(rows) => rows,
            Err(error) => {
                warn!(error = error_chain(&error), "failed to export the audit log");
                return Some((Err(error), self));
            }
        };
        self.after = rows.last().filter(|_| rows.len() >= most).map(|(number, _)| *number);
        let mut lines = Vec::new();
        for row in &rows {
            lines.extend(serde_json::to_vec(&view(row)).unwrap_or_default());
            lines.push(b'\n');
        }
        Some((Ok(lines.into()), self))
    }
}

fn filter(call: &Call) -> Result<AuditFilter, CallError> {
    let named = call.query.text("tenant").map(Label::parse).transpose();
    let named = named.map_err(|_| CallError::invalid("tenant", "must be the name of a tenant"))?;
    let tenant = match (call.caller.operator, named) {
        (true, named) => named,
        (false, Some(named)) if named != call.caller.tenant => {
            return Err(forbidden("tenant", "only the operator reads the audit log of other tenants"));
        }
        (false, _) => Some(call.caller.tenant.clone()),
    };
    let outcome = match call.query.text("outcome") {
        None => None,
        Some("succeeded") => Some(AuditOutcome::Succeeded),
        Some("refused") => Some(AuditOutcome::Refused),
        Some("failed") => Some(AuditOutcome::Failed),
        Some(_) => return Err(CallError::invalid("outcome", "must be succeeded, refused or failed")),
    };
    let text = |name| call.query.text(name).map(str::to_owned);
    let time = |name| call.query.text(name).map(|value| time_ms(name, value, call.api.now_ms())).transpose();
    Ok(AuditFilter {
        tenant,
        principal: text("principal"),
        via: text("token"),
        operation: text("operation"),
        outcome,
        object: text("object"),
        sandbox: text("sandbox").map(|id| id.to_ascii_lowercase()),
        peer: text("from"),
        request_id: text("request"),
        since_ms: time("since")?,
        until_ms: time("until")?,
    })
}

/// Parses a time, or how long ago it was.
fn time_ms(name: &str, text: &str, now_ms: u64) -> Result<u64, CallError> {
    if let Ok(ago_ms) = parse_duration_ms(text) {
        return Ok(now_ms.saturating_sub(ago_ms));
    }
    let invalid = "must be a time as in 2026-01-31T23:59:59Z, or how long ago, as in 90s, 4h or 7d";
    parse_rfc3339(text).ok_or_else(|| CallError::invalid(name, invalid))
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
        operation: row.operation,
        object: row.object,
        sandbox: row.sandbox,
        from: row.peer,
    }
}
