//! Shares of a sandbox: with a principal, or with its whole tenant. The routes differ, since every text may be a
//! principal.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{self, ok},
};
use hostd_core::{Grantee, Share, rfc3339};
use hostd_store::{SandboxRecord, ShareChange, ShareMade, ShareRecord, limits};
use protocol::api::{ApiErrorCode, Label, Missing, MissingKind, Page, ShareSpec, ShareView};

/// The whole tenant, where a share that does not exist is named.
const TENANT: &str = "tenant";

pub async fn list(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let records = call.api.store.share_records(&sandbox.id).await?;
    Ok(ok(&Page { items: records.iter().map(view).collect(), next: None }))
}

pub async fn put_principal(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let principal = principal(&call)?;
    if principal == sandbox.owner.principal {
        return Err(CallError::invalid("principal", "owns the sandbox, and needs no share"));
    }
    put(&call, &sandbox, Grantee::Principal(principal)).await
}

pub async fn put_tenant(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    put(&call, &sandbox, Grantee::Tenant).await
}

async fn put(call: &Call, sandbox: &SandboxRecord, grantee: Grantee) -> CallResult {
    let ShareSpec { access } = call.json()?;
    match call.api.store.put_share(change(call, sandbox), Share { grantee, access }).await? {
        ShareMade::Made(record) => Ok(ok(&view(&record))),
        ShareMade::TooMany => {
            let most = limits::SHARES_OF_SANDBOX_MAX;
            let message =
                format!("a sandbox has at most {most} shares; end some of them, or share it with the tenant");
            Err(CallError::new(ApiErrorCode::TooMany, message))
        }
    }
}

pub async fn remove_principal(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let principal = principal(&call)?;
    remove(&call, &sandbox, Grantee::Principal(principal)).await
}

pub async fn remove_tenant(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let missing = || Some(Missing::new(MissingKind::Share, TENANT).in_sandbox(sandbox.id.as_str()));
    remove(&call, &sandbox, Grantee::Tenant).await.map_err(|failure| failure.with_resource(missing))
}

async fn remove(call: &Call, sandbox: &SandboxRecord, grantee: Grantee) -> CallResult {
    match call.api.store.remove_shares(change(call, sandbox), Some(grantee)).await? {
        0 => Err(CallError::not_found()),
        _ => Ok(views::no_content()),
    }
}

/// Ends every share; there may be none.
pub async fn remove_all(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    call.api.store.remove_shares(change(&call, &sandbox), None).await?;
    Ok(views::no_content())
}

fn principal(call: &Call) -> Result<Label, CallError> {
    Label::parse(call.param("principal")?).map_err(|error| CallError::invalid("principal", error.to_string()))
}

fn change(call: &Call, sandbox: &SandboxRecord) -> ShareChange {
    ShareChange { sandbox: sandbox.id, by: call.caller.principal.to_string(), now_ms: call.api.now_ms() }
}

fn view(record: &ShareRecord) -> ShareView {
    let principal = match &record.share.grantee {
        Grantee::Tenant => None,
        Grantee::Principal(principal) => Some(principal.clone()),
    };
    ShareView {
        principal,
        access: record.share.access,
        created_by: record.created_by.clone(),
        created_at: rfc3339(record.created_ms),
    }
}
