//! Quotas of tenants and principals, and what is used of them.

use super::{
    call::Call,
    error::{CallError, CallResult},
    route::{
        RequiredAccess::{Admin, Operator, Read},
        Route,
    },
    views::{no_content, ok},
};
use hostd_core::{QuotaBook, Usage, validate_quota};
use hostd_store::UseByOwner;
use hyper::Method;
use protocol::api::{ApiErrorCode, Label, OwnQuota, Page, Quota, QuotaResource, QuotaSource, QuotaView};
use std::collections::BTreeSet;

pub fn routes() -> Vec<Route> {
    let (tenant, principal) = ("/v1/quotas/{tenant}", "/v1/quotas/{tenant}/principals/{principal}");
    vec![
        Route::new(Method::GET, "/v1/quota", Read, own)
            .operation("getOwnQuota", "What the caller may use and uses: of its tenant, and of its own")
            .returns::<OwnQuota>(200),
        Route::new(Method::GET, "/v1/quotas", Admin, list)
            .operation("listQuotas", "List tenants and principals that have a quota or use something")
            .returns_page::<QuotaView>(200),
        Route::new(Method::GET, tenant, Admin, get)
            .operation("getQuota", "Get the quota of a tenant and its use")
            .returns::<QuotaView>(200),
        Route::new(Method::PUT, tenant, Operator, put)
            .operation("putQuota", "Set the quota of a tenant; a field that is absent is unlimited")
            .json_body::<Quota>()
            .returns::<QuotaView>(200),
        Route::new(Method::DELETE, tenant, Operator, remove)
            .operation("deleteQuota", "Remove the quota of a tenant: the default applies")
            .returns_media(204, ""),
        Route::new(Method::GET, principal, Admin, get)
            .operation("getPrincipalQuota", "Get the quota of a principal and its use")
            .returns::<QuotaView>(200),
        Route::new(Method::PUT, principal, Admin, put)
            .operation(
                "putPrincipalQuota",
                "Set the quota of a principal, within that of its tenant; a field that is absent is unlimited",
            )
            .json_body::<Quota>()
            .returns::<QuotaView>(200),
        Route::new(Method::DELETE, principal, Admin, remove)
            .operation("deletePrincipalQuota", "Remove the quota of a principal: the default applies")
            .returns_media(204, ""),
    ]
}

async fn own(call: Call) -> CallResult {
    let (tenant, principal) = (&call.caller.tenant, &call.caller.principal);
    let quotas = Quotas::read(&call, Some(tenant.clone())).await?;
    let view = |principal| quotas.view(&call, tenant, principal);
    Ok(ok(&OwnQuota { tenant: view(None), principal: view(Some(principal)) }))
}

async fn list(call: Call) -> CallResult {
    let only = if call.caller.operator { None } else { Some(call.caller.tenant.clone()) };
    let quotas = Quotas::read(&call, only.clone()).await?;
    let seen = |tenant: &Label| only.as_ref().is_none_or(|only| only == tenant);
    let items = quotas.owners().into_iter().filter(|(tenant, _)| seen(tenant));
    let items = items.map(|(tenant, principal)| quotas.view(&call, &tenant, principal.as_ref())).collect();
    Ok(ok(&Page { items, next: None }))
}

async fn get(call: Call) -> CallResult {
    let (tenant, principal) = addressed(&call)?;
    respond(&call, &tenant, principal.as_ref()).await
}

async fn put(call: Call) -> CallResult {
    let (tenant, principal) = addressed(&call)?;
    let quota: Quota = call.json()?;
    validate_quota(&quota)?;
    let api = &call.api;
    if !api.store.put_quota(tenant.clone(), principal.clone(), quota, api.now_ms()).await? {
        return Err(CallError::new(ApiErrorCode::TooMany, "there are too many quotas; remove some"));
    }
    api.fleet.apply_quotas().await?;
    respond(&call, &tenant, principal.as_ref()).await
}

async fn remove(call: Call) -> CallResult {
    let (tenant, principal) = addressed(&call)?;
    if !call.api.store.remove_quota(&tenant, principal.as_ref()).await? {
        return Err(CallError::not_found());
    }
    call.api.fleet.apply_quotas().await?;
    Ok(no_content())
}

/// Returns the owner in the path, if it is of the caller's tenant.
fn addressed(call: &Call) -> Result<(Label, Option<Label>), CallError> {
    let label = |name| Label::parse(call.param(name)?).map_err(|_| CallError::not_found());
    let tenant = label("tenant")?;
    if !call.caller.operator && tenant != call.caller.tenant {
        return Err(CallError::foreign());
    }
    let has_principal = call.params.iter().any(|(name, _)| name == "principal");
    Ok((tenant, has_principal.then(|| label("principal")).transpose()?))
}

async fn respond(call: &Call, tenant: &Label, principal: Option<&Label>) -> CallResult {
    let quotas = Quotas::read(call, Some(tenant.clone())).await?;
    Ok(ok(&quotas.view(call, tenant, principal)))
}

/// Quotas and what is used of them, at one moment.
struct Quotas {
    book: QuotaBook,
    used: UseByOwner,
}

impl Quotas {
    async fn read(call: &Call, tenant: Option<Label>) -> Result<Self, CallError> {
        let store = &call.api.store;
        Ok(Self { book: store.quota_book().await?, used: store.use_by_owner(tenant).await? })
    }

    /// Returns the owners that have a quota or use something: each tenant before its principals.
    fn owners(&self) -> BTreeSet<(Label, Option<Label>)> {
        let tenants =
            self.book.tenants.keys().cloned().chain(self.used.keys().map(|(tenant, _)| tenant.clone()));
        let principals = self.book.principals.keys().chain(self.used.keys());
        let principals = principals.map(|(tenant, principal)| (tenant.clone(), Some(principal.clone())));
        tenants.map(|tenant| (tenant, None)).chain(principals).collect()
    }

    fn view(&self, call: &Call, tenant: &Label, principal: Option<&Label>) -> QuotaView {
        let (quota, source) = self.quota(tenant, principal);
        let preview_connections = call.api.fleet.preview_connections(tenant, principal);
        let used = Usage { preview_connections, ..self.usage(tenant, principal) };
        let is_measured = |resource| self.book.limits_in(tenant, resource);
        let disk = is_measured(QuotaResource::DiskMb);
        let used = used.view(disk, disk || is_measured(QuotaResource::EventsMb));
        QuotaView { tenant: tenant.clone(), principal: principal.cloned(), quota, source, used }
    }

    fn quota(&self, tenant: &Label, principal: Option<&Label>) -> (Quota, QuotaSource) {
        match principal {
            Some(principal) => self.book.of_principal(tenant, principal),
            None => self.book.of_tenant(tenant),
        }
    }

    fn usage(&self, tenant: &Label, principal: Option<&Label>) -> Usage {
        let of = |(owner, by): &(Label, Label)| {
            owner == tenant && principal.is_none_or(|principal| principal == by)
        };
        let matching = self.used.iter().filter(|(owner, _)| of(owner));
        matching.fold(Usage::default(), |sum, (_, usage)| sum.plus(usage))
    }
}
