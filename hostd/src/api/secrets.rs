//! Secrets of a tenant: write-only. The operator may name the tenant.

use super::{
    call::{Call, forbidden},
    error::{CallError, CallResult},
    views::{self, no_content, ok},
};
use hostd_core::rfc3339;
use hostd_store::{SecretRecord, SecretValue, SecretWrite};
use protocol::api::{Label, SECRET_VALUE_MAX_BYTES, SecretName, SecretSpec, SecretView};

pub async fn put(call: Call) -> CallResult {
    let SecretSpec { value, tenant } = call.json()?;
    let value = SecretValue::from(value);
    let (tenant, name) = (tenant_of(&call, tenant)?, name(&call)?);
    if value.as_str().is_empty() || value.as_str().len() > SECRET_VALUE_MAX_BYTES {
        // The error must not repeat the value.
        return Err(CallError::invalid("value", format!("must be 1 to {SECRET_VALUE_MAX_BYTES} bytes")));
    }
    let updated_by = call.caller.principal.to_string();
    let now_ms = call.api.now_ms();
    let write = SecretWrite { tenant: &tenant, name: &name, value: value.as_str(), updated_by, now_ms };
    let record = call.api.secrets.put(write).await?;
    call.api.models.reload_keys().await?;
    Ok(ok(&view(&call, &record)))
}

pub async fn list(call: Call) -> CallResult {
    let tenant = query_tenant(&call)?;
    let tenant = if call.caller.operator { tenant } else { Some(tenant_of(&call, tenant)?) };
    let after = call.query.text("after").map(cursor).transpose()?;
    let limit = call.query.limit()?;
    let records = call.api.store.secrets(tenant.as_ref(), after, limit).await?;
    let next = |record: &SecretRecord| format!("{}/{}", record.tenant, record.name);
    Ok(ok(&views::page(&records, limit, |record| view(&call, record), next)))
}

pub async fn remove(call: Call) -> CallResult {
    let (tenant, name) = (tenant_of(&call, query_tenant(&call)?)?, name(&call)?);
    if !call.api.store.remove_secret(&tenant, &name).await? {
        return Err(CallError::not_found());
    }
    call.api.models.reload_keys().await?;
    Ok(no_content())
}

/// The tenant that a request names, else that of the caller.
fn tenant_of(call: &Call, named: Option<Label>) -> Result<Label, CallError> {
    match named {
        Some(named) if !call.caller.operator && named != call.caller.tenant => {
            Err(forbidden("tenant", "only the operator uses secrets of other tenants"))
        }
        Some(named) => Ok(named),
        None => Ok(call.caller.tenant.clone()),
    }
}

fn query_tenant(call: &Call) -> Result<Option<Label>, CallError> {
    let invalid = |_| CallError::invalid("tenant", "must be the name of a tenant");
    call.query.text("tenant").map(Label::parse).transpose().map_err(invalid)
}

fn name(call: &Call) -> Result<SecretName, CallError> {
    SecretName::parse(call.param("name")?).map_err(|error| CallError::invalid("name", error.to_string()))
}

/// The last secret of the previous page. A name has no slash; a tenant may have one.
fn cursor(text: &str) -> Result<(Label, SecretName), CallError> {
    let parse = || {
        let (tenant, name) = text.rsplit_once('/')?;
        Some((Label::parse(tenant).ok()?, SecretName::parse(name).ok()?))
    };
    parse().ok_or_else(|| CallError::invalid("after", "must be `next` of the previous page"))
}

fn view(call: &Call, record: &SecretRecord) -> SecretView {
    SecretView {
        name: record.name.clone(),
        tenant: record.tenant.clone(),
        version: record.version,
        updated_by: record.updated_by.clone(),
        created_at: rfc3339(record.created_ms),
        updated_at: rfc3339(record.updated_ms),
        last_used_at: record.last_used_ms.map(rfc3339),
        problem: call.api.secrets.problem(record).map(|problem| problem.to_string()),
    }
}
