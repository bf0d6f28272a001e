//! Services of a sandbox.

use super::{
    call::Call,
    error::CallResult,
    relay::{self, CONTROL_TIMEOUT},
    views::ok,
};
use hostd_core::{Environment, split_environment};
use hostd_store::{SandboxUpdate, Secret};
use hyper::Method;
use protocol::{ServiceView, ServicesRequest, api::Page};

pub async fn list(call: Call) -> CallResult {
    let (_, control) = call.control().await?;
    let items: Vec<ServiceView> = control.get(&relay::runtimed_path(&["services"]), CONTROL_TIMEOUT).await?;
    Ok(ok(&Page { items, next: None }))
}

/// Replaces all services that come from the API: sent to runtimed, which validates them, and persisted for
/// the next launch.
pub async fn put(call: Call) -> CallResult {
    let request: ServicesRequest = call.json()?;
    let (record, control) = call.control().await?;
    let (services, environment) = split_environment(&request.services, &record.env.0.all)?;
    let environment = Environment { setup: record.env.0.setup.clone(), ..environment };
    let sent = ServicesRequest { services: environment.with_environment(&services) };
    let path = relay::runtimed_path(&["services"]);
    let (_, items) =
        control.json::<Vec<ServiceView>>(Method::PUT, &path, Some(&sent), CONTROL_TIMEOUT).await?;
    // Only these two fields change: concurrent changes of others are kept.
    let change = SandboxUpdate {
        services: Some(services),
        env: Some(Secret(environment)),
        ..SandboxUpdate::default()
    };
    let changed = call.api.store.update_sandbox(&record.id, change, call.api.now_ms()).await?;
    call.api.fleet.publish_change(changed);
    Ok(ok(&Page { items, next: None }))
}

pub async fn start(call: Call) -> CallResult {
    control_service(call, "start").await
}

pub async fn stop(call: Call) -> CallResult {
    control_service(call, "stop").await
}

pub async fn restart(call: Call) -> CallResult {
    control_service(call, "restart").await
}

async fn control_service(call: Call, verb: &str) -> CallResult {
    let name = call.service()?;
    let (_, control) = call.control().await?;
    let path = relay::runtimed_path(&["services", name.as_str(), verb]);
    let (_, view) = control.json::<ServiceView>(Method::POST, &path, None::<&()>, CONTROL_TIMEOUT).await?;
    Ok(ok(&view))
}

pub async fn logs(call: Call) -> CallResult {
    let name = call.service()?;
    let query = call.query.runtimed_query(super::route_params::RUNTIMED_READ_PARAMS)?;
    let (_, control) = call.control().await?;
    relay::response(
        &call,
        control,
        &format!("{}{query}", relay::runtimed_path(&["services", name.as_str(), "logs"])),
    )
    .await
}
