//! Services of a sandbox.

use super::{
    call::Call,
    failure::Answer,
    pass::{self, WITHIN},
    views::ok,
};
use crate::{
    core::undress,
    store::{Change, Secret},
};
use hyper::Method;
use protocol::{ServiceView, ServicesRequest, api::Page};

pub async fn list(call: Call) -> Answer {
    let (_, control) = call.control().await?;
    let items: Vec<ServiceView> = control.get(&pass::path(&["services"]), WITHIN).await?;
    Ok(ok(&Page { items, next: None }))
}

/// The whole set of services that come from the API: told to runtimed, which checks it, and kept for the
/// next time the sandbox is brought up.
pub async fn put(call: Call) -> Answer {
    let request: ServicesRequest = call.json()?;
    let (record, control) = call.control().await?;
    let (services, environment) = undress(&request.services, &record.env.0.all)?;
    let told = ServicesRequest { services: environment.dress(&services) };
    let path = pass::path(&["services"]);
    let (_, items) = control.json::<Vec<ServiceView>>(Method::PUT, &path, Some(&told), WITHIN).await?;
    // What else was changed while runtimed was asked stays.
    let change = Change { services: Some(services), env: Some(Secret(environment)), ..Change::default() };
    let changed = call.api.fleet.store().change_sandbox(&record.id, change, call.api.now_ms()).await?;
    call.api.fleet.publish_change(changed);
    Ok(ok(&Page { items, next: None }))
}

pub async fn start(call: Call) -> Answer {
    drive(call, "start").await
}

pub async fn stop(call: Call) -> Answer {
    drive(call, "stop").await
}

pub async fn restart(call: Call) -> Answer {
    drive(call, "restart").await
}

async fn drive(call: Call, verb: &str) -> Answer {
    let name = call.service()?;
    let (_, control) = call.control().await?;
    let path = pass::path(&["services", name.as_str(), verb]);
    let (_, view) = control.json::<ServiceView>(Method::POST, &path, None::<&()>, WITHIN).await?;
    Ok(ok(&view))
}

pub async fn logs(call: Call) -> Answer {
    let name = call.service()?;
    let query = call.query.passed_on(super::params::READING)?;
    let (_, control) = call.control().await?;
    pass::down(&call, control, &format!("{}{query}", pass::path(&["services", name.as_str(), "logs"]))).await
}
