//! Memory that runs out, and limits that change, over the real reconciler and a driver in memory.

use super::fixture::{new_sandbox, open_on, patient};
use crate::reconcile::{Fleet, FleetError, SandboxCommand, sandbox_command::EvictionCause};
use futures_util::future::join_all;
use hostd_core::{MemorySample, State};
use hostd_drivers::{
    DriverError, Drivers, Leftover,
    fake::{FakeContainer, FakeDriver},
    host_memory::{HostMemory, MemorySettings},
};
use hostd_store::SandboxUpdate;
use protocol::api::{
    IdlePolicy, LeftoverKind, Limits, LimitsChange, LimitsSpec, ProblemCode, Quota, SandboxId, SandboxSpec,
    SandboxStatus,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

const MB: u64 = 1 << 20;
/// Longer than the sandboxes of the fake claim to be idle: none falls asleep by itself.
const IDLE_MS: u64 = 24 * 3_600_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// A fleet on a host of 1000 MB, of which 100 are kept free and a test says how many are available.
struct SmallHost {
    driver: Arc<FakeDriver>,
    available: Arc<AtomicU64>,
    memory: HostMemory,
    directory: tempfile::TempDir,
    fleet: Fleet,
}

impl SmallHost {
    async fn new(available_mb: u64) -> Self {
        let (driver, directory) =
            (Arc::new(FakeDriver::default()), tempfile::tempdir().expect("a directory"));
        let available = Arc::new(AtomicU64::new(available_mb));
        let shared = available.clone();
        let sampler = move || MemorySample {
            total_bytes: 1000 * MB,
            available_bytes: shared.load(Ordering::Relaxed) * MB,
            stalls: None,
        };
        let settings = MemorySettings {
            reserve_bytes: Some(100 * MB),
            admission_bytes: 32 * MB,
            ..MemorySettings::default()
        };
        let memory = HostMemory::of_samples(sampler, settings);
        let fleet =
            open_on(Drivers::new(vec![driver.clone()]), directory.path(), patient(IDLE_MS), memory.clone())
                .await;
        Self { driver, available, memory, directory, fleet }
    }

    fn has(&self, available_mb: u64) {
        self.available.store(available_mb, Ordering::Relaxed);
    }

    /// A sandbox that runs.
    async fn running(&self, number: u64, idle_policy: IdlePolicy) -> SandboxId {
        let limits = LimitsSpec { memory_mb: Some(256), ..LimitsSpec::default() };
        let spec = SandboxSpec { idle_policy: Some(idle_policy), limits, ..SandboxSpec::default() };
        let id = self.fleet.create(new_sandbox(&self.fleet, number, &spec)).await.expect("there is room").id;
        self.becomes(&id, "running", |state| state.is_up()).await;
        id
    }

    async fn becomes(&self, id: &SandboxId, what: &str, wanted: impl Fn(&State) -> bool) {
        let becomes = async {
            loop {
                let record = self.fleet.record(id).await.expect("a record");
                if record.state.operation.is_none() && wanted(&record.state) {
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        if timeout(PATIENCE, becomes).await.is_err() {
            panic!("never {what}: {:?}", self.fleet.record(id).await);
        }
    }

    async fn stop(&self, id: &SandboxId) {
        self.fleet.command(id, SandboxCommand::Stop).await.expect("it is stopped");
        self.becomes(id, "stopped", |state| state.status == SandboxStatus::Stopped).await;
    }

    /// Runs the watch of memory while something is awaited.
    async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            () = self.fleet.watch_memory() => panic!("it never ends"),
            done = work => done,
        }
    }
}

fn evicted(state: &State) -> bool {
    state.evicted().is_some_and(|problem| problem.code == ProblemCode::MemoryPressure)
}

#[tokio::test]
async fn nothing_is_brought_up_without_memory_and_a_frozen_one_is_thawed() {
    let host = SmallHost::new(500).await;
    let [stopped, frozen] =
        [host.running(1, IdlePolicy::Sleep).await, host.running(2, IdlePolicy::Sleep).await];
    host.stop(&stopped).await;
    host.fleet.command(&frozen, SandboxCommand::Pause).await.expect("it is paused");
    host.becomes(&frozen, "paused", |state| state.status == SandboxStatus::Paused).await;
    host.has(110);
    let refused = host.fleet.create(new_sandbox(&host.fleet, 3, &SandboxSpec::default())).await;
    let Err(FleetError::Capacity(detail)) = refused else { panic!("{refused:?}") };
    assert_eq!((detail.needed_bytes, detail.available_bytes), (32 * MB, 110 * MB));
    assert!(matches!(host.fleet.wake(&stopped).await, Err(FleetError::Capacity(_))));
    let recreate = SandboxCommand::Recreate { keep_workspace: false };
    assert!(matches!(host.fleet.command(&stopped, recreate).await, Err(FleetError::Capacity(_))));
    host.fleet.wake(&frozen).await.expect("it has its memory");
    host.has(500);
    host.fleet.wake(&stopped).await.expect("there is room");
}

#[tokio::test]
async fn of_many_wakes_at_once_as_many_pass_as_there_is_room_for() {
    let host = SmallHost::new(900).await;
    let mut ids = Vec::new();
    for number in 0..7 {
        let id = host.running(number, IdlePolicy::Sleep).await;
        host.stop(&id).await;
        ids.push(id);
    }
    // Launches that do not end keep their memory, however slow the machine is.
    host.driver.hanging.lock().expect("no panic while held").insert("launch");
    host.has(200);
    let starts = ids.iter().map(|id| host.fleet.command(id, SandboxCommand::Start));
    let admitted = join_all(starts).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(admitted, 3);
    assert_eq!((host.memory.state().admitted_bytes, host.memory.refusals()), (96 * MB, 4));
    // One that gives up makes room for another.
    let up = ids.iter().find(|id| host.fleet.all_up().iter().any(|record| record.id == **id)).expect("one");
    host.fleet.command(up, SandboxCommand::Stop).await.expect("a stop is accepted");
    let again =
        join_all(ids.iter().filter(|id| *id != up).map(|id| host.fleet.command(id, SandboxCommand::Start)));
    assert_eq!(again.await.into_iter().filter(Result::is_ok).count(), 3, "two were admitted before");
}

#[tokio::test]
async fn a_launch_that_a_quota_refuses_keeps_no_memory() {
    let host = SmallHost::new(500).await;
    let id = host.running(1, IdlePolicy::Sleep).await;
    host.stop(&id).await;
    let tenant = host.fleet.record(&id).await.expect("a record").owner.tenant.clone();
    let quota = Quota { running: Some(0), ..Quota::default() };
    host.fleet.store().put_quota(tenant.clone(), None, quota, 1).await.expect("it is set");
    let before = host.memory.state().admitted_bytes;
    for command in [
        SandboxCommand::Start,
        SandboxCommand::Resume,
        SandboxCommand::Recreate { keep_workspace: true },
        SandboxCommand::Recreate { keep_workspace: false },
    ] {
        let refused = host.fleet.command(&id, command).await;
        assert!(matches!(refused, Err(FleetError::QuotaExceeded(_))), "{command:?}: {refused:?}");
        assert_eq!(host.memory.state().admitted_bytes, before, "{command:?}");
    }
    host.fleet.store().remove_quota(&tenant, None).await.expect("it is removed");
    host.driver.hanging.lock().expect("no panic while held").insert("launch");
    host.fleet.command(&id, SandboxCommand::Start).await.expect("there is room");
    assert_eq!(host.memory.state().admitted_bytes, before + 32 * MB);
}

#[tokio::test]
async fn idle_ones_are_paused_then_stopped_and_one_in_use_never() {
    let host = SmallHost::new(500).await;
    let [idle, used] = [host.running(1, IdlePolicy::Sleep).await, host.running(2, IdlePolicy::Sleep).await];
    let always = host.running(3, IdlePolicy::AlwaysOn).await;
    let (_, lease) = host.fleet.wake(&used).await.expect("it runs");
    host.has(90);
    host.watched(host.becomes(&idle, "dozing", State::dozes)).await;
    assert_eq!(host.driver.container(&always), Some(FakeContainer::Running { frozen: false }));
    host.has(10);
    host.watched(host.becomes(&idle, "evicted", evicted)).await;
    host.watched(host.becomes(&always, "evicted", evicted)).await;
    assert!(host.fleet.record(&used).await.expect("a record").state.is_up(), "a client uses it");
    drop(lease);
    host.watched(host.becomes(&used, "evicted", evicted)).await;
    // What should always run comes back by itself; the others wake when they are used.
    host.has(500);
    host.watched(host.becomes(&always, "running", State::is_up)).await;
    assert!(evicted(&host.fleet.record(&idle).await.expect("a record").state));
    host.fleet.wake(&idle).await.expect("there is room");
    assert_eq!(host.fleet.record(&idle).await.expect("a record").state.problem, None);
}

#[tokio::test]
async fn one_with_an_open_stream_is_paused_and_not_stopped_while_there_is_another() {
    let host = SmallHost::new(500).await;
    let viewed = host.running(1, IdlePolicy::Sleep).await;
    let stream = host.fleet.traffic(&viewed).expect("it lives").stream();
    host.has(10);
    host.watched(host.becomes(&viewed, "dozing", State::dozes)).await;
    host.has(500);
    let idle = host.running(2, IdlePolicy::AlwaysOn).await;
    host.has(10);
    host.watched(host.becomes(&idle, "evicted", evicted)).await;
    assert!(host.fleet.record(&viewed).await.expect("a record").state.dozes(), "its stream is open");
    let cause = EvictionCause::MemoryPressure { available_bytes: 10, reserve_bytes: 100 };
    let refused = host.fleet.command(&viewed, SandboxCommand::Evict(cause)).await;
    assert!(matches!(refused, Err(FleetError::InUse)), "{refused:?}");
    drop(stream);
    host.watched(host.becomes(&viewed, "evicted", evicted)).await;
}

#[tokio::test]
async fn one_that_needs_too_much_does_not_keep_others_from_coming_back() {
    let host = SmallHost::new(500).await;
    let [large, small] =
        [host.running(1, IdlePolicy::AlwaysOn).await, host.running(2, IdlePolicy::AlwaysOn).await];
    host.fleet.command(&large, memory(300)).await.expect("it is resized");
    host.driver.memory_used_mb.lock().expect("no panic while held").insert(large, 250);
    host.has(10);
    host.watched(host.becomes(&large, "evicted", evicted)).await;
    host.watched(host.becomes(&small, "evicted", evicted)).await;
    // Above the reserve there is room for 200 MB.
    host.has(300);
    host.watched(host.becomes(&small, "running", State::is_up)).await;
    assert!(evicted(&host.fleet.record(&large).await.expect("a record").state));
    host.has(500);
    host.watched(host.becomes(&large, "running", State::is_up)).await;
}

fn memory(memory_mb: u64) -> SandboxCommand {
    SandboxCommand::Resize(LimitsChange { memory_mb: Some(memory_mb), ..LimitsChange::default() })
}

#[tokio::test]
async fn new_limits_are_in_force_recorded_and_kept_or_nothing_is_changed() {
    let host = SmallHost::new(900).await;
    let id = host.running(1, IdlePolicy::Sleep).await;
    let in_force = || host.driver.limits_in_force(&id).map(|limits| limits.memory_mb);
    let recorded = async || host.fleet.record(&id).await.expect("a record").blueprint.limits.memory_mb;
    host.fleet.command(&id, memory(300)).await.expect("it is resized");
    assert_eq!((in_force(), recorded().await), (Some(300), 300));
    host.driver.memory_used_mb.lock().expect("no panic while held").insert(id, 200);
    let refused = host.fleet.command(&id, memory(100)).await;
    assert!(matches!(
        refused,
        Err(FleetError::Driver(DriverError::MemoryInUse { used_mb: 200, wanted_mb: 100 }))
    ));
    assert_eq!((in_force(), recorded().await), (Some(300), 300));
    host.stop(&id).await;
    host.fleet.command(&id, memory(128)).await.expect("only the row is changed");
    assert_eq!((in_force(), recorded().await), (Some(300), 128));
    host.fleet.wake(&id).await.expect("there is room");
    assert_eq!((in_force(), recorded().await), (Some(128), 128));
}

#[tokio::test]
async fn the_row_never_says_less_than_is_in_force_and_grows_only_within_the_quota() {
    let host = SmallHost::new(900).await;
    let id = host.running(1, IdlePolicy::Sleep).await;
    let quota = Quota { memory_mb: Some(500), ..Quota::default() };
    let owner = host.fleet.record(&id).await.expect("a record").owner.clone();
    assert!(host.fleet.store().put_quota(owner.tenant, None, quota, 1).await.expect("it is set"));
    let refused = host.fleet.command(&id, memory(501)).await;
    assert!(matches!(refused, Err(FleetError::QuotaExceeded(_))), "{refused:?}");
    assert_eq!(
        host.driver.limits_in_force(&id).map(|limits| limits.memory_mb),
        Some(256),
        "nothing was changed"
    );
    host.fleet.command(&id, memory(300)).await.expect("it is resized");
    // While the driver has not applied a smaller limit, nothing else gets the room.
    host.driver.hanging.lock().expect("no panic while held").insert("resize");
    let shrink = host.fleet.command(&id, memory(64));
    let limits = LimitsSpec { memory_mb: Some(256), ..LimitsSpec::default() };
    let spec = SandboxSpec { limits, ..SandboxSpec::default() };
    let create = async {
        while !host.driver.is_hanging("resize") {
            sleep(Duration::from_millis(1)).await;
        }
        host.fleet.create(new_sandbox(&host.fleet, 2, &spec)).await
    };
    tokio::select! {
        shrunk = shrink => panic!("{shrunk:?}"),
        refused = create => assert!(matches!(refused, Err(FleetError::QuotaExceeded(_))), "{refused:?}"),
    }
    assert_eq!(host.fleet.record(&id).await.expect("a record").blueprint.limits.memory_mb, 300);
}

#[tokio::test]
async fn limits_that_a_dead_hostd_only_recorded_are_put_in_force_by_the_next() {
    let host = SmallHost::new(900).await;
    let id = host.running(1, IdlePolicy::Sleep).await;
    let before = host.fleet.record(&id).await.expect("a record").blueprint.limits.clone();
    let limits = Some(Limits { memory_mb: 333, ..before });
    let change = SandboxUpdate { limits, ..SandboxUpdate::default() };
    host.fleet.store().update_sandbox(&id, change, 1).await.expect("it is written");
    host.fleet.close().await;
    host.fleet.store().clone().close().await;
    let drivers = Drivers::new(vec![host.driver.clone()]);
    let fleet = open_on(drivers, host.directory.path(), patient(IDLE_MS), host.memory.clone()).await;
    let applied = async {
        while host.driver.limits_in_force(&id).map(|limits| limits.memory_mb) != Some(333) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, applied).await.expect("it is put in force");
    fleet.close().await;
}

#[tokio::test]
async fn only_what_a_destroyed_sandbox_left_is_reaped() {
    let host = SmallHost::new(900).await;
    let [gone, live] = [host.running(1, IdlePolicy::Sleep).await, host.running(2, IdlePolicy::Sleep).await];
    host.fleet.command(&gone, SandboxCommand::Destroy { keep_workspace: false }).await.expect("accepted");
    host.becomes(&gone, "destroyed", |state| state.status == SandboxStatus::Destroyed).await;
    let unknown = new_sandbox(&host.fleet, 9, &SandboxSpec::default()).id;
    let left = |sandbox: SandboxId| Leftover {
        kind: LeftoverKind::Workspace,
        name: sandbox.to_string(),
        sandbox: Some(sandbox),
        thrown_ms: None,
    };
    let all = [gone, live, unknown].map(left);
    host.driver.leftovers.lock().expect("no panic while held").extend(all.clone());
    for (apply, stays) in [(false, &all[..]), (true, &all[1..])] {
        let report = host.fleet.reap(apply).await.expect("a report");
        let names: Vec<&str> = report.items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, [gone.as_str()], "{report:?}");
        assert_eq!(*host.driver.leftovers.lock().expect("no panic while held"), stays);
    }
    assert!(host.fleet.reap(true).await.expect("a report").items.is_empty());
}
