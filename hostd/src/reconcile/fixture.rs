//! A fleet over a driver in memory, in a hurry: for tests.

use super::{Fleet, FleetParts, Timing};
use crate::{
    core::{Defaults, Previews, Scheme, State, blueprint},
    driver::{Drivers, fake::Fake},
    inside::Inside,
    store::{NewSandbox, Secret, Store},
};
use protocol::api::{Label, Owner, SandboxId, SandboxSpec, Visibility};
use std::{path::Path, sync::Arc};

/// In a hurry: a fault that hangs costs one of these.
pub(crate) fn timing(idle_ms: u64) -> Timing {
    Timing {
        up_ms: 120,
        freeze_ms: 60,
        down_ms: 80,
        grace_ms: 10,
        look_every_ms: 40,
        look_again_ms: 1,
        restart_min_ms: 1,
        restart_max_ms: 8,
        idle_ms,
        doze_after_ms: 5,
    }
}

pub(crate) async fn open(driver: &Arc<Fake>, directory: &Path, timing: Timing) -> Fleet {
    let store = Store::open(&directory.join("slipway.db")).expect("the store opens");
    let drivers = Drivers::new(vec![driver.clone()]);
    let inside = Inside::new(Previews {
        domain: "localhost".into(),
        scheme: Scheme::Http,
        port: 80,
        visibility: Visibility::Private,
    });
    let defaults = defaults();
    Fleet::open(FleetParts { store, drivers, defaults, timing, inside }).await.expect("the fleet opens")
}

fn defaults() -> Defaults {
    Defaults {
        driver: "fake".into(),
        image: "host".into(),
        memory_max_mb: 1024,
        cpus_max: 1.0,
        pids_max: 4096,
    }
}

/// What a create asks for; the number makes the id another one.
pub(crate) fn new_sandbox(fleet: &Fleet, number: u64, spec: &SandboxSpec) -> NewSandbox {
    let (blueprint, environment) = blueprint(spec, &defaults()).expect("a good spec");
    let now_ms = fleet.clock().now_ms();
    let id: SandboxId =
        ulid::Ulid::from_parts(now_ms, u128::from(number)).to_string().parse().expect("an id");
    let label = |text: &str| Label::parse(text).expect("a label");
    NewSandbox {
        id,
        name: id.to_string(),
        owner: Owner { tenant: label("t"), principal: label("p"), project: label("default") },
        scope: None,
        blueprint: Arc::new(blueprint),
        metadata: Default::default(),
        env: Secret(environment),
        state: State::new(now_ms + fleet.timing().up_ms),
        created_ms: now_ms,
        expires_ms: None,
    }
}
