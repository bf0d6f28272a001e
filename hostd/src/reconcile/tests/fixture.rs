//! A fleet over a driver in memory, with short deadlines.

use crate::{
    agents::Agents,
    git::{GitGateway, GitSettings},
    inside::InsideServer,
    reconcile::{Fleet, FleetParts, Timing},
};
use hostd_core::{
    BudgetBounds, Defaults, DiskThresholds, Previews, Provisioning, Scheme, State, blueprint,
    egress::Exceptions,
};
use hostd_drivers::{Drivers, fake::FakeDriver, host_memory::HostMemory};
use hostd_edge::{
    PreviewTargets,
    egress::{Egress, EgressParts, Profiles},
};
use hostd_models::{Models, gateway::Gateway};
use hostd_net::outbound::{DnsResolver, OutboundConnector};
use hostd_store::{Clock, NewSandbox, Secret, Secrets, Store, disk_space::DiskSpace};
use protocol::api::{Label, Network, Owner, SandboxId, SandboxSpec, Visibility};
use std::{path::Path, sync::Arc};

/// No deadline is meant to pass, however slow the machine.
pub(crate) fn patient(idle_ms: u64) -> Timing {
    Timing { up_ms: 30_000, freeze_ms: 30_000, down_ms: 30_000, ..timing(idle_ms) }
}

/// Short deadlines: a verb that hangs costs one of them.
pub(crate) fn timing(idle_ms: u64) -> Timing {
    Timing {
        up_ms: 120,
        freeze_ms: 60,
        down_ms: 80,
        grace_ms: 10,
        inspect_every_ms: 40,
        retry_min_ms: 1,
        inspect_unseen_ms: 20,
        progress_every_ms: 10,
        progress_max_ms: 400,
        restart_min_ms: 1,
        restart_max_ms: 8,
        idle_ms,
        doze_after_ms: 5,
    }
}

pub(crate) async fn open(driver: &Arc<FakeDriver>, directory: &Path, timing: Timing) -> Fleet {
    open_with(Drivers::new(vec![driver.clone()]), directory, timing).await
}

pub(crate) async fn open_with(drivers: Drivers, directory: &Path, timing: Timing) -> Fleet {
    open_on(drivers, directory, timing, HostMemory::plenty()).await
}

/// A fleet on a host with this memory.
pub(crate) async fn open_on(drivers: Drivers, directory: &Path, timing: Timing, memory: HostMemory) -> Fleet {
    let store = Store::open(&directory.join("slipway.db")).expect("the store opens");
    let previews = Previews {
        domain: "localhost".into(),
        scheme: Scheme::Http,
        port: 80,
        visibility: Visibility::Private,
    };
    let models =
        Models::load(store.clone(), directory, BudgetBounds::default()).await.expect("nothing is there");
    let inside = inside(previews, (&store, directory), &models).await;
    let (disk, agents) = (endless(directory), Agents::default());
    let (targets, clock) = (PreviewTargets::default(), Clock::new());
    let parts = FleetParts {
        store,
        drivers,
        timing,
        inside,
        models,
        agents,
        disk,
        memory,
        targets,
        snapshot_retention: hostd_store::SnapshotRetention::default(),
        clock,
    };
    Fleet::open(parts).await.expect("the fleet opens")
}

/// A disk that is never full, without a reserve.
pub(crate) fn endless(directory: &Path) -> DiskSpace {
    DiskSpace::with(directory, DiskThresholds { floor_bytes: 0, reserve_bytes: 0, journal_bytes: 0 })
}

async fn inside(previews: Previews, (store, directory): (&Store, &Path), models: &Models) -> InsideServer {
    let (gateway, egress) = gateway_and_egress(&previews, store, models).await;
    InsideServer::new(previews, gateway, git_gateway(store, directory), egress)
}

/// A git gateway for which no name resolves.
pub(crate) fn git_gateway(store: &Store, directory: &Path) -> GitGateway {
    let nowhere = OutboundConnector::with_resolver(DnsResolver::fixed(|_| Vec::new()));
    GitGateway::new(
        store.clone(),
        Secrets::new(store.clone(), directory),
        nowhere,
        Clock::new(),
        GitSettings { known_hosts: directory.join("known_hosts"), ..GitSettings::default() },
    )
}

/// A gateway and an egress proxy for which no name resolves.
pub(crate) async fn gateway_and_egress(
    previews: &Previews,
    store: &Store,
    models: &Models,
) -> (Gateway, Egress) {
    let outside = OutboundConnector::with_resolver(DnsResolver::fixed(|_| vec![]));
    let parts = EgressParts {
        connector: outside.clone(),
        previews: previews.clone(),
        profiles: Profiles::load(store.clone()).await.expect("profiles"),
        exceptions: Exceptions::default(),
        store: store.clone(),
    };
    (Gateway::new(models.clone(), outside), Egress::new(parts))
}

fn defaults() -> Defaults {
    Defaults {
        driver: "fake".into(),
        image: "host".into(),
        memory_max_mb: 1024,
        cpus_max: 1.0,
        pids_max: 4096,
        network: Network::Proxy,
    }
}

/// A sandbox to create; the number makes its id unique.
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
        dotfiles: None,
        provisioning: Provisioning::default(),
        state: State::new(now_ms + fleet.timing().up_ms),
        created_ms: now_ms,
        expires_ms: None,
    }
}
