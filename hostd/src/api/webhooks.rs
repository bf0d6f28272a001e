//! Webhooks of a tenant; the operator may name the tenant, or all. Secrets are in the responses that make them only.

use super::{
    call::{Call, forbidden},
    error::{CallError, CallResult},
    route::{RequiredAccess::Admin, Route},
    route_params::{DELIVERIES, PAGE, PAGE_BY_NUMBER, WEBHOOKS},
    views::{self, no_content, ok},
};
use crate::webhooks::SecretProblem;
use hostd_core::{rfc3339, webhook::Endpoint};
use hostd_store::{
    DeliveryFilter, DeliveryRow, NewWebhook, WebhookCounts, WebhookRow, WebhookState, WebhookUpdate,
    limits as store,
};
use hyper::{Method, StatusCode};
use protocol::api::{
    ApiErrorCode, DeliveryState, DeliveryView, Label, RedeliverRequest, Redelivered,
    WEBHOOK_DESCRIPTION_MAX_CHARS, WEBHOOK_EVENTS_MAX, WebhookChange, WebhookCreate, WebhookCreated,
    WebhookDisabledReason, WebhookEvents, WebhookFailure, WebhookStatus, WebhookTest, WebhookView,
};

pub fn routes() -> Vec<Route> {
    let (all, one) = ("/v1/webhooks", "/v1/webhooks/{webhook}");
    vec![
        Route::new(Method::POST, all, Admin, create)
            .operation(
                "createWebhook",
                "Create a webhook, which is told of events from now on; the only response that contains its secret",
            )
            .json_body::<WebhookCreate>()
            .rejects_idempotency_key()
            .returns::<WebhookCreated>(201),
        Route::new(Method::GET, all, Admin, list)
            .operation("listWebhooks", "List webhooks, newest first, without their secrets")
            .query(PAGE)
            .query(WEBHOOKS)
            .returns_page::<WebhookView>(200),
        Route::new(Method::GET, one, Admin, get)
            .operation("getWebhook", "Get a webhook: its cursor, what waits, and the last failure")
            .returns::<WebhookView>(200),
        Route::new(Method::PATCH, one, Admin, update)
            .operation("updateWebhook", "Change the URL or the events of a webhook, disable or enable it")
            .json_body::<WebhookChange>()
            .returns::<WebhookView>(200),
        Route::new(Method::DELETE, one, Admin, remove)
            .operation("deleteWebhook", "Remove a webhook with its deliveries")
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/webhooks/{webhook}/secret", Admin, rotate)
            .operation(
                "replaceWebhookSecret",
                "Give a webhook a new secret, which only this response contains; for a day the one before signs too",
            )
            .rejects_idempotency_key()
            .returns::<WebhookCreated>(200),
        Route::new(Method::POST, "/v1/webhooks/{webhook}/test", Admin, test)
            .operation("testWebhook", "Send a message of the type `webhook.test` at once, and report the answer")
            .returns::<WebhookTest>(200),
        Route::new(Method::GET, "/v1/webhooks/{webhook}/deliveries", Admin, deliveries)
            .operation("listWebhookDeliveries", "List deliveries of a webhook, newest first")
            .query(PAGE_BY_NUMBER)
            .query(DELIVERIES)
            .returns_page::<DeliveryView>(200),
        Route::new(Method::POST, "/v1/webhooks/{webhook}/redeliver", Admin, redeliver)
            .operation(
                "redeliverWebhook",
                "Deliver again: one delivery, all that were given up, or all events after a number",
            )
            .json_body::<RedeliverRequest>()
            .returns::<Redelivered>(202),
    ]
}

async fn create(call: Call) -> CallResult {
    let request: WebhookCreate = call.json()?;
    let tenant = tenant_of(&call, &request)?;
    check_url(&request.url)?;
    check_texts(request.events.as_deref(), request.description.as_deref())?;
    if let Some(id) = &request.sandbox {
        let record = call.sandbox_by(id.as_str()).await?;
        if tenant.as_ref().is_some_and(|tenant| *tenant != record.owner.tenant) {
            return Err(CallError::invalid("sandbox", "must be a sandbox of the tenant of the webhook"));
        }
    }
    let (created_by, now_ms) = (call.caller.principal.to_string(), call.api.now_ms());
    let WebhookCreate { url, events, sandbox, project, description, .. } = request;
    let events = events.unwrap_or_else(|| vec![WebhookEvents::all()]);
    let of = tenant.clone();
    let new = |id, sealed| NewWebhook {
        id,
        tenant: of,
        created_by,
        url,
        events,
        sandbox,
        project,
        description,
        sealed,
        now_ms,
    };
    let Some((row, secret)) = call.api.webhooks.create(new, tenant.as_ref()).await? else {
        let most = store::WEBHOOKS_OF_TENANT_MAX;
        let message =
            format!("a tenant has at most {most} webhooks, and a host a limited number; remove some");
        return Err(CallError::new(ApiErrorCode::TooMany, message));
    };
    let answer = WebhookCreated { view: view(&call, &row, WebhookCounts::default()), secret };
    Ok(views::json(StatusCode::CREATED, &answer))
}

async fn list(call: Call) -> CallResult {
    let named = call.query.text("tenant").map(Label::parse).transpose();
    let named = named.map_err(|_| CallError::invalid("tenant", "must be the name of a tenant"))?;
    let tenant = match (call.caller.operator, named) {
        (true, named) => named,
        (false, Some(named)) if named != call.caller.tenant => {
            return Err(forbidden("tenant", "only the operator lists webhooks of other tenants"));
        }
        (false, _) => Some(call.caller.tenant.clone()),
    };
    let after = call.query.text("after").map(str::to_ascii_lowercase);
    let limit = call.query.limit()?;
    let rows = call.api.store.webhooks(tenant.as_ref(), after, limit).await?;
    let mut counted = Vec::with_capacity(rows.len());
    for row in rows {
        let counts = call.api.store.webhook_counts(&row.id).await?;
        counted.push((row, counts));
    }
    let next = |(row, _): &(WebhookRow, WebhookCounts)| row.id.clone();
    Ok(ok(&views::page(&counted, limit, |(row, counts)| view(&call, row, *counts), next)))
}

async fn get(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    respond(&call, &row).await
}

async fn update(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    let WebhookChange { url, events, description, enabled } = call.json()?;
    url.as_deref().map(check_url).transpose()?;
    check_texts(events.as_deref(), description.as_deref())?;
    let state = enabled.map(|enabled| match (enabled, row.state) {
        (true, _) => WebhookState::Enabled,
        // A reason that is there stays.
        (false, WebhookState::Disabled(reason)) => WebhookState::Disabled(reason),
        (false, WebhookState::Enabled) => WebhookState::Disabled(WebhookDisabledReason::Caller),
    });
    let update = WebhookUpdate { url, events, description, state, secret: None };
    let updated = call.api.store.update_webhook(&row.id, update, call.api.now_ms()).await?;
    call.api.webhooks.notify();
    respond(&call, &updated.ok_or_else(CallError::not_found)?).await
}

async fn remove(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    if !call.api.store.remove_webhook(&row.id).await? {
        return Err(CallError::not_found());
    }
    call.api.webhooks.notify();
    Ok(no_content())
}

async fn rotate(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    let rotated = call.api.webhooks.rotate(&row).await?;
    let (row, secret) = rotated.ok_or_else(CallError::not_found)?;
    let counts = call.api.store.webhook_counts(&row.id).await?;
    Ok(ok(&WebhookCreated { view: view(&call, &row, counts), secret }))
}

async fn test(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    let tested = call.api.webhooks.test(&row).await;
    let busy = || CallError::new(ApiErrorCode::TooMany, "too many webhooks are being tested; try again");
    Ok(ok(&tested.ok_or_else(busy)?))
}

async fn deliveries(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    let state = match call.query.text("state") {
        None => None,
        Some("waiting") => Some(DeliveryState::Waiting),
        Some("delivered") => Some(DeliveryState::Delivered),
        Some("dead") => Some(DeliveryState::Dead),
        Some(_) => return Err(CallError::invalid("state", "must be waiting, delivered or dead")),
    };
    let (after, limit) = (call.query.number("after")?, call.query.limit()?);
    let filter = DeliveryFilter { webhook: row.id, state };
    let rows = call.api.store.deliveries(filter, after, limit).await?;
    Ok(ok(&views::page(&rows, limit, delivery_view, |row| row.number.to_string())))
}

async fn redeliver(call: Call) -> CallResult {
    let row = addressed(&call).await?;
    let (store, now_ms) = (&call.api.store, call.api.now_ms());
    let redelivered = match call.json()? {
        RedeliverRequest { delivery: Some(id), dead: None, since: None } => {
            match store.redeliver(&row.id, Some(id), now_ms).await? {
                0 => return Err(CallError::invalid("delivery", "the webhook has no delivery with this id")),
                deliveries => Redelivered { deliveries, cursor: None },
            }
        }
        RedeliverRequest { delivery: None, dead: Some(true), since: None } => {
            Redelivered { deliveries: store.redeliver(&row.id, None, now_ms).await?, cursor: None }
        }
        RedeliverRequest { delivery: None, dead: None, since: Some(since) } => {
            let cursor = store.rewind_webhook(&row.id, since, now_ms).await?;
            Redelivered { deliveries: 0, cursor: Some(cursor.ok_or_else(CallError::not_found)?) }
        }
        RedeliverRequest { .. } => {
            return Err(CallError::invalid("delivery", "give one of delivery, dead (true) and since"));
        }
    };
    call.api.webhooks.notify();
    Ok(views::json(StatusCode::ACCEPTED, &redelivered))
}

/// The tenant that a request names, else that of the caller; `None` is all of them.
fn tenant_of(call: &Call, request: &WebhookCreate) -> Result<Option<Label>, CallError> {
    let own = &call.caller.tenant;
    match (&request.tenant, request.all_tenants) {
        (Some(_), true) => Err(CallError::invalid("all_tenants", "excludes tenant")),
        (_, true) if !call.caller.operator => {
            Err(forbidden("all_tenants", "only the operator is told of events of all tenants"))
        }
        (None, true) => Ok(None),
        (Some(named), false) if !call.caller.operator && named != own => {
            Err(forbidden("tenant", "only the operator makes webhooks of other tenants"))
        }
        (named, false) => Ok(Some(named.as_ref().unwrap_or(own).clone())),
    }
}

/// Returns the webhook in the path, if it is of the caller's tenant.
async fn addressed(call: &Call) -> Result<WebhookRow, CallError> {
    let id = call.param("webhook")?.to_ascii_lowercase();
    let row = call.api.store.webhook(&id).await?.ok_or_else(CallError::not_found)?;
    let is_own = row.tenant.as_ref() == Some(&call.caller.tenant);
    if call.caller.operator || is_own { Ok(row) } else { Err(CallError::foreign()) }
}

fn check_url(url: &str) -> Result<(), CallError> {
    Endpoint::parse(url).map(drop).map_err(|error| CallError::invalid("url", error.to_string()))
}

fn check_texts(events: Option<&[WebhookEvents]>, description: Option<&str>) -> Result<(), CallError> {
    if events.is_some_and(|events| !(1..=WEBHOOK_EVENTS_MAX).contains(&events.len())) {
        return Err(CallError::invalid(
            "events",
            format!("must be 1 to {WEBHOOK_EVENTS_MAX} patterns of events"),
        ));
    }
    let is_line = |text: &str| {
        let few = text.chars().count() <= WEBHOOK_DESCRIPTION_MAX_CHARS;
        few && !text.trim().is_empty() && !text.chars().any(char::is_control)
    };
    if description.is_some_and(|text| !is_line(text)) {
        let message = format!("must be a line of 1 to {WEBHOOK_DESCRIPTION_MAX_CHARS} characters");
        return Err(CallError::invalid("description", message));
    }
    Ok(())
}

async fn respond(call: &Call, row: &WebhookRow) -> CallResult {
    let counts = call.api.store.webhook_counts(&row.id).await?;
    Ok(ok(&view(call, row, counts)))
}

fn view(call: &Call, row: &WebhookRow, counts: WebhookCounts) -> WebhookView {
    let (status, disabled_reason) = match row.state {
        WebhookState::Enabled => (WebhookStatus::Enabled, None),
        WebhookState::Disabled(reason) => (WebhookStatus::Disabled, Some(reason)),
    };
    let now_ms = call.api.now_ms();
    let overlap = row.sealed_before.as_ref().map(|(_, until_ms)| *until_ms);
    WebhookView {
        id: row.id.clone(),
        tenant: row.tenant.clone(),
        url: row.url.clone(),
        events: row.events.clone(),
        sandbox: row.sandbox,
        project: row.project.clone(),
        description: row.description.clone(),
        status,
        disabled_reason,
        created_by: row.created_by.clone(),
        created_at: rfc3339(row.created_ms),
        updated_at: rfc3339(row.updated_ms),
        cursor: row.cursor,
        waiting: counts.waiting,
        dead: counts.dead,
        dropped: row.dropped,
        last_delivery_at: row.delivered_ms.map(rfc3339),
        last_failure: row
            .failure
            .clone()
            .map(|(failed_ms, error)| WebhookFailure { at: rfc3339(failed_ms), error }),
        previous_secret_until: overlap.filter(|until_ms| *until_ms > now_ms).map(rfc3339),
    }
}

fn delivery_view(row: &DeliveryRow) -> DeliveryView {
    let waits = row.state == DeliveryState::Waiting;
    DeliveryView {
        id: row.id.clone(),
        seq: row.seq,
        kind: row.kind.clone(),
        sandbox: row.sandbox.parse().ok(),
        state: row.state,
        attempts: row.attempts,
        created_at: rfc3339(row.created_ms),
        next_attempt_at: waits.then(|| rfc3339(row.due_ms)),
        ended_at: row.ended_ms.map(rfc3339),
        last_status: row.last_status,
        last_error: row.last_error.clone(),
    }
}

impl From<SecretProblem> for CallError {
    fn from(error: SecretProblem) -> Self {
        match error {
            SecretProblem::Seal(_) | SecretProblem::Open(_) | SecretProblem::Damaged => {
                Self::new(ApiErrorCode::Conflict, error.to_string())
            }
            SecretProblem::Random(_) => Self::internal(&error),
            SecretProblem::Store(error) => error.into(),
        }
    }
}
