//! Drivers of this host, and the resources they found that belong to no sandbox.

use super::{
    call::Call,
    error::{CallResult, error_chain},
    limits,
    views::ok,
};
use futures_util::future::join_all;
use hostd_core::UNSUPPORTED_DRIVERS;
use hostd_drivers::{Driver, DriverError, Drivers, FoundSandbox};
use protocol::api::{DriverView, Page, StaleList, StaleView, Unasked};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

pub async fn list(call: Call) -> CallResult {
    let items = views(&call.api.drivers, &call.api.defaults.driver);
    Ok(ok(&Page { items, next: None }))
}

/// Views of all driver names that users may know: opened drivers, drivers that hostd was started without, and
/// unsupported ones.
pub fn views(drivers: &Drivers, default: &str) -> Vec<DriverView> {
    let ours = drivers
        .all()
        .iter()
        .map(|driver| DriverView { default: driver.name() == default, ..opened(driver.as_ref()) });
    let absent = drivers.absent().iter().map(|absent| {
        let present = absent.backend_present();
        let missing = vec![absent.why.clone()];
        DriverView { name: absent.name.to_owned(), present, missing, ..DriverView::default() }
    });
    let unsupported = UNSUPPORTED_DRIVERS.iter().map(|known| DriverView {
        name: known.name.to_owned(),
        unsupported: true,
        missing: vec![known.reason.to_owned()],
        ..DriverView::default()
    });
    ours.chain(absent).chain(unsupported).collect()
}

fn opened(driver: &dyn Driver) -> DriverView {
    let health = driver.health();
    DriverView {
        name: driver.name().to_owned(),
        present: driver.present(),
        usable: health.is_ok(),
        version: health.is_ok().then(|| driver.describe()),
        missing: problems(driver),
        capabilities: Some(driver.capabilities()),
        ..DriverView::default()
    }
}

/// Reasons why a driver is unusable, and its warnings.
pub fn problems(driver: &dyn Driver) -> Vec<String> {
    driver.health().err().iter().map(ToString::to_string).chain(driver.warnings()).collect()
}

/// Lists all drivers at once. A driver that does not answer is reported as unasked: what it has is unknown.
pub async fn stale(call: Call) -> CallResult {
    let drivers = call.api.drivers.all();
    let listings = join_all(drivers.iter().map(|driver| list_driver(driver.clone()))).await;
    Ok(ok(&stale_list(listings)))
}

/// The resources one driver found, and the error if the list may be incomplete.
struct DriverListing {
    driver: &'static str,
    found: Vec<FoundSandbox>,
    incomplete: Option<DriverError>,
}

fn stale_list(listings: Vec<DriverListing>) -> StaleList {
    let mut list = StaleList::default();
    for DriverListing { driver, found, incomplete } in listings {
        list.items.extend(found.into_iter().filter_map(|one| suspect(driver, one)));
        let why = incomplete.map(|error| Unasked { driver: driver.to_owned(), why: error_chain(&error) });
        list.unasked.extend(why);
    }
    list.more = list.items.len() > limits::STALE_MAX;
    list.items.truncate(limits::STALE_MAX);
    list
}

async fn list_driver(driver: Arc<dyn Driver>) -> DriverListing {
    let late = || DriverError::TimedOut { what: "a list of sandboxes", after_ms: limits::STALE_MAX_MS };
    let listed = timeout(Duration::from_millis(limits::STALE_MAX_MS), driver.list()).await;
    let (found, failed) = match listed.unwrap_or_else(|_| Err(late())) {
        Ok(found) => (found, None),
        Err(error) => (vec![], Some(error)),
    };
    // Without its backend a driver lists from memory.
    DriverListing { driver: driver.name(), found, incomplete: failed.or_else(|| driver.health().err()) }
}

fn suspect(driver: &str, found: FoundSandbox) -> Option<StaleView> {
    match found {
        FoundSandbox::Suspect { name, why } => Some(StaleView { driver: driver.to_owned(), name, why }),
        FoundSandbox::Ours { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_drivers::fake::FakeDriver;
    use std::sync::atomic::Ordering;

    #[tokio::test]
    async fn a_driver_whose_backend_is_down_is_listed_as_unasked_though_it_lists_from_memory() {
        let driver = Arc::new(FakeDriver::named("docker"));
        assert_eq!(stale_list(vec![list_driver(driver.clone()).await]).unasked.len(), 0);
        driver.unhealthy.store(true, Ordering::Relaxed);
        let list = stale_list(vec![list_driver(driver).await]);
        let unasked = list.unasked.first().expect("it is away");
        assert_eq!((unasked.driver.as_str(), unasked.why.as_str()), ("docker", "gone fishing"));
    }

    #[test]
    fn drivers_that_do_not_answer_are_listed_as_unasked() {
        let suspects = |count: usize| {
            let one =
                |n| FoundSandbox::Suspect { name: format!("c{n}"), why: "its seal is wrong".to_owned() };
            (0..count).map(one).collect::<Vec<_>>()
        };
        let away = || DriverError::Unavailable { message: "no response".to_owned() };
        let listing =
            |driver, count, incomplete| DriverListing { driver, found: suspects(count), incomplete };
        let list = stale_list(vec![listing("oci", 1, None), listing("docker", 1, Some(away()))]);
        let expected = serde_json::json!({
            "items": [
                {"driver": "oci", "name": "c0", "why": "its seal is wrong"},
                {"driver": "docker", "name": "c0", "why": "its seal is wrong"},
            ],
            "unasked": [{"driver": "docker", "why": "no response"}],
        });
        assert_eq!(serde_json::to_value(&list).expect("JSON"), expected);
        let list = stale_list(vec![listing("oci", limits::STALE_MAX + 1, None)]);
        assert_eq!((list.items.len(), list.more), (limits::STALE_MAX, true));
    }
}
