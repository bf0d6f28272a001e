//! Drift, deaths, the progress of launches and a backend that is away, over the real reconciler and a driver in memory.

use super::fixture::{self, new_sandbox, open, timing};
use crate::reconcile::{Fleet, FleetError, SandboxCommand, Timing};
use hostd_core::{Goal, Operation};
use hostd_drivers::{
    DriverError,
    fake::{FakeContainer, FakeDriver, Faults},
};
use hostd_store::{EventFilter, EventRecord, SandboxRecord, SandboxUpdate};
use protocol::api::{DeathCause, IdlePolicy, Problem, ProblemCode, SandboxId, SandboxSpec, SandboxStatus};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than the hour that the fake runtimed reports as idle.
pub(super) const NEVER_MS: u64 = 7_200_000;

/// A deadline that is meant to pass, with time enough for everything before it, however slow the machine.
pub(super) const PASSES_MS: u64 = 2_000;

/// No periodic inspection: every change that is noticed was signalled by the driver. No deadline is meant to pass.
pub(super) fn patient() -> Timing {
    Timing { inspect_every_ms: NEVER_MS, ..fixture::patient(NEVER_MS) }
}

pub(super) struct SandboxFixture {
    pub(super) driver: Arc<FakeDriver>,
    pub(super) fleet: Fleet,
    directory: tempfile::TempDir,
    pub(super) id: SandboxId,
}

impl SandboxFixture {
    /// A fleet with one running sandbox.
    pub(super) async fn new(idle_policy: IdlePolicy, timing: Timing) -> Self {
        let fixture = Self::creating(idle_policy, timing, FakeDriver::default()).await;
        fixture.is(SandboxStatus::Running).await;
        fixture
    }

    /// A fleet with one sandbox that is being created.
    pub(super) async fn creating(idle_policy: IdlePolicy, timing: Timing, driver: FakeDriver) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(driver);
        let fleet = open(&driver, directory.path(), timing).await;
        let spec = SandboxSpec { idle_policy: Some(idle_policy), ..SandboxSpec::default() };
        let id = fleet.create(new_sandbox(&fleet, 1, &spec)).await.expect("accepted").id;
        Self { driver, fleet, directory, id }
    }

    /// Waits until the record is settled in this status, and the container agrees.
    pub(super) async fn is(&self, status: SandboxStatus) -> Arc<SandboxRecord> {
        let expected = match status {
            SandboxStatus::Running => Some(FakeContainer::Running { frozen: false }),
            SandboxStatus::Paused => Some(FakeContainer::Running { frozen: true }),
            SandboxStatus::Creating
            | SandboxStatus::Stopped
            | SandboxStatus::Error
            | SandboxStatus::Destroyed => None,
        };
        self.until(|record, found| {
            record.state.operation.is_none() && record.state.status == status && found == expected
        })
        .await
    }

    pub(super) async fn until(
        &self,
        is_so: impl Fn(&SandboxRecord, Option<FakeContainer>) -> bool,
    ) -> Arc<SandboxRecord> {
        let becomes = async {
            loop {
                let record = self.fleet.record(&self.id).await.expect("a record");
                if is_so(&record, self.driver.container(&self.id)) {
                    return record;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        match timeout(PATIENCE, becomes).await {
            Ok(record) => record,
            Err(_) => panic!("{:?} {:?}", self.fleet.record(&self.id).await, self.driver.container(&self.id)),
        }
    }

    pub(super) async fn command(&self, command: SandboxCommand) {
        self.fleet.command(&self.id, command).await.expect("accepted");
        self.fleet.wait_settled(&self.id, PATIENCE).await.expect("settles");
    }

    pub(super) async fn events(&self, kind: &str) -> Vec<EventRecord> {
        let filter = EventFilter { kinds: vec![kind.to_owned()], ..EventFilter::default() };
        self.fleet.store().events(filter, 0, 1_000).await.expect("readable")
    }

    pub(super) async fn drifts(&self) -> Vec<Value> {
        self.events("sandbox.drift").await.into_iter().map(|event| event.data).collect()
    }

    pub(super) fn set_away(&self, away: bool) {
        self.driver.unavailable.store(away, Ordering::Relaxed);
    }
}

pub(super) fn drift(expected: &str, found: &str, doing: &str) -> Value {
    json!({ "expected": expected, "found": found, "doing": doing })
}

#[tokio::test]
async fn an_external_change_is_seen_at_once_reported_once_and_repaired() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, patient()).await;
    let id = fixture.id;
    fixture.driver.freeze_externally(&id, true);
    fixture.is(SandboxStatus::Running).await;

    fixture.command(SandboxCommand::Pause).await;
    fixture.driver.freeze_externally(&id, false);
    fixture.is(SandboxStatus::Paused).await;

    fixture.command(SandboxCommand::Stop).await;
    fixture.is(SandboxStatus::Stopped).await;
    fixture.driver.start_externally(&id);
    fixture.until(|_, found| found.is_none()).await;
    let expected = [
        drift("running", "paused", "thaw"),
        drift("paused", "running", "freeze"),
        drift("stopped", "running", "terminate"),
    ];
    assert_eq!(fixture.drifts().await, expected);
}

#[tokio::test]
async fn each_death_is_reported_with_its_cause_and_leads_where_it_should() {
    let table = [
        (DeathCause::Killed, SandboxStatus::Error, "died", "give_up"),
        (DeathCause::Oom, SandboxStatus::Error, "died", "give_up"),
        (DeathCause::Removed, SandboxStatus::Error, "removed", "give_up"),
        (DeathCause::ShutDown, SandboxStatus::Stopped, "ended", "stop"),
        (DeathCause::Backend, SandboxStatus::Stopped, "died", "stop"),
    ];
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, patient()).await;
    for (number, (cause, leads_to, found, doing)) in table.into_iter().enumerate() {
        fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(cause));
        let record = fixture.is(leads_to).await;
        let told = record.post_mortem.as_deref().expect("a post-mortem");
        assert_eq!(told.cause, cause);
        assert_eq!(fixture.drifts().await[number], drift("running", found, doing));
        let kind = if leads_to == SandboxStatus::Error { "sandbox.error" } else { "sandbox.ended" };
        let newest = fixture.events(kind).await.pop().expect("an event");
        assert_eq!(newest.data["post_mortem"], json!(told), "{cause:?}");
        if leads_to == SandboxStatus::Stopped {
            // Nothing was wrong with the sandbox: the next client wakes it.
            fixture.fleet.wake(&fixture.id).await.expect("it wakes");
        } else {
            assert!(matches!(fixture.fleet.wake(&fixture.id).await, Err(FleetError::Failed { .. })));
            fixture.command(SandboxCommand::Start).await;
        }
        // The newest post-mortem stays.
        let record = fixture.is(SandboxStatus::Running).await;
        assert_eq!(record.post_mortem.as_ref().map(|told| told.cause), Some(cause));
    }
    let attempts = fixture.fleet.store().attempts(&fixture.id, None, 9).await.expect("readable");
    let causes: Vec<_> =
        attempts.iter().rev().map(|each| each.post_mortem.as_ref().map(|told| told.cause)).collect();
    let expected: Vec<_> = table.iter().map(|(cause, ..)| Some(*cause)).chain([None]).collect();
    assert_eq!(causes, expected);
}

#[tokio::test]
async fn an_always_on_sandbox_comes_back_from_every_death() {
    let fixture = SandboxFixture::new(IdlePolicy::AlwaysOn, patient()).await;
    for cause in [DeathCause::Removed, DeathCause::ShutDown, DeathCause::Backend, DeathCause::Oom] {
        fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(cause));
        fixture.until(|record, _| record.post_mortem.as_ref().is_some_and(|told| told.cause == cause)).await;
        fixture.is(SandboxStatus::Running).await;
    }
}

#[tokio::test]
async fn a_drift_that_is_hard_to_repair_is_reported_once() {
    let timing = Timing { freeze_ms: 20, ..patient() };
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, timing).await;
    // Every verb fails, so that the repair takes many tries.
    fixture.driver.inject_faults(Faults::new(7, 100));
    fixture.driver.freeze_externally(&fixture.id, true);
    sleep(Duration::from_millis(300)).await;
    fixture.driver.inject_faults(Faults::default());
    fixture.is(SandboxStatus::Running).await;
    assert_eq!(fixture.drifts().await.len(), 1);
}

#[tokio::test]
async fn verbs_of_hostd_are_no_drift_however_they_fail() {
    // Time to come up, however slow the machine; not so much that a launch that hangs takes for ever.
    let timing = Timing { up_ms: PASSES_MS, ..timing(NEVER_MS) };
    for seed in 0..8 {
        let fixture = SandboxFixture::new(IdlePolicy::Sleep, timing.clone()).await;
        fixture.driver.inject_faults(Faults::new(seed, 25));
        for ask in [
            SandboxCommand::Pause,
            SandboxCommand::Resume,
            SandboxCommand::Pause,
            SandboxCommand::Stop,
            SandboxCommand::Start,
            SandboxCommand::Pause,
            SandboxCommand::Start,
            SandboxCommand::Stop,
        ] {
            // A command may be refused in this state.
            let _ = fixture.fleet.command(&fixture.id, ask).await;
            let _ = fixture.fleet.wait_settled(&fixture.id, PATIENCE).await;
        }
        fixture.driver.inject_faults(Faults::default());
        fixture.until(|record, _| record.state.operation.is_none()).await;
        assert_eq!(fixture.drifts().await, [] as [Value; 0], "seed {seed}");
    }
}

#[tokio::test]
async fn a_launch_that_reports_progress_gets_more_time_and_shows_it() {
    let driver = FakeDriver::default();
    let script =
        (1..=20).map(|layer| (Duration::from_millis(200), format!("layer {layer}\nof 20"))).collect();
    *driver.progress_script.lock().expect("no panic while held") = script;
    // Half the time that the launch takes.
    let timing = Timing { up_ms: PASSES_MS, progress_max_ms: NEVER_MS, ..patient() };
    let fixture = SandboxFixture::creating(IdlePolicy::Sleep, timing, driver).await;
    let shown = fixture.until(|record, _| record.progress.is_some()).await;
    let text = shown.progress.as_deref().expect("shown");
    assert!(text.starts_with("layer ") && text.ends_with(" of 20"), "{text:?}");
    assert!(shown.state.operation.is_some());
    let record = fixture.is(SandboxStatus::Running).await;
    assert_eq!(record.progress, None);
    let told = fixture.events("sandbox.progress").await;
    assert!((1..=20).contains(&told.len()), "{}", told.len());
    assert!(told[0].data["text"].as_str().is_some_and(|text| text.starts_with("layer ")), "{told:?}");
}

#[tokio::test]
async fn a_launch_that_only_reports_progress_is_given_up() {
    let driver = FakeDriver::default();
    let script = (0..100_000).map(|_| (Duration::from_millis(10), "still at it".to_owned())).collect();
    *driver.progress_script.lock().expect("no panic while held") = script;
    let timing = Timing { up_ms: 100, progress_max_ms: 300, ..patient() };
    let fixture = SandboxFixture::creating(IdlePolicy::Sleep, timing, driver).await;
    let record = fixture.is(SandboxStatus::Error).await;
    assert_eq!(record.state.problem.as_ref().map(|problem| problem.code), Some(ProblemCode::DeadlinePassed));
    assert_eq!(record.progress, None);
}

#[tokio::test]
async fn while_the_backend_is_away_records_are_served_and_stopped_sandboxes_stay_stopped() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { up_ms: PASSES_MS, ..patient() }).await;
    fixture.command(SandboxCommand::Stop).await;
    fixture.set_away(true);
    let woken = fixture.fleet.wake(&fixture.id).await.map(|_| ());
    let Err(FleetError::Failed { problem, .. }) = woken else { panic!("{woken:?}") };
    assert_eq!((problem.code, problem.message.as_str()), (ProblemCode::DriverUnavailable, "gone fishing"));
    let record = fixture.until(|record, _| record.state.operation.is_none()).await;
    assert_eq!(record.state.status, SandboxStatus::Stopped);
    fixture.set_away(false);
    let (record, _) = fixture.fleet.wake(&fixture.id).await.expect("it wakes");
    assert_eq!(record.state.problem, None);
}

#[tokio::test]
async fn launches_without_a_backend_are_one_attempt_however_many_there_are() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { up_ms: PASSES_MS, ..patient() }).await;
    fixture.command(SandboxCommand::Stop).await;
    fixture.driver.no_launches.store(true, Ordering::Relaxed);
    assert!(matches!(fixture.fleet.wake(&fixture.id).await, Err(FleetError::Failed { .. })));
    let record = fixture.until(|record, _| record.state.operation.is_none()).await;
    let code = |problem: &Problem| problem.code;
    assert_eq!(record.state.status, SandboxStatus::Stopped);
    assert_eq!(record.state.problem.as_ref().map(code), Some(ProblemCode::DriverUnavailable));
    let attempts = fixture.fleet.store().attempts(&fixture.id, None, 9).await.expect("readable");
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].problem.as_ref().map(code), Some(ProblemCode::DriverUnavailable));
    fixture.driver.no_launches.store(false, Ordering::Relaxed);
    fixture.fleet.wake(&fixture.id).await.expect("it wakes");
}

#[tokio::test]
async fn a_running_sandbox_is_left_alone_while_its_backend_is_away() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { inspect_every_ms: 5, ..patient() }).await;
    fixture.set_away(true);
    sleep(Duration::from_millis(300)).await;
    let record = fixture.fleet.record(&fixture.id).await.expect("a record");
    assert!(record.state.is_up(), "{:?}", record.state);
    // A death meanwhile is seen as soon as the backend is back, without a command.
    fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(DeathCause::Backend));
    sleep(Duration::from_millis(50)).await;
    fixture.set_away(false);
    fixture.is(SandboxStatus::Stopped).await;
}

#[tokio::test]
async fn an_always_on_sandbox_comes_back_with_its_backend() {
    let fixture = SandboxFixture::new(IdlePolicy::AlwaysOn, timing(NEVER_MS)).await;
    fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(DeathCause::Backend));
    fixture.set_away(true);
    let gave_up =
        |record: &SandboxRecord, _| record.state.problem.is_some() && record.state.operation.is_none();
    // The death may be seen before the backend is away, or after.
    let _ = timeout(Duration::from_millis(600), fixture.until(gave_up)).await;
    fixture.set_away(false);
    fixture.is(SandboxStatus::Running).await;
}

/// Commands to a sandbox in another PID namespace are refused. It goes on where it was when it can be reached.
#[tokio::test]
async fn a_sandbox_in_another_pid_namespace_is_left_alone_and_resumed_later() {
    let fixture =
        SandboxFixture::new(IdlePolicy::AlwaysOn, Timing { inspect_unseen_ms: 1, ..patient() }).await;
    let refused = |answer: Result<(), FleetError>| {
        assert!(
            matches!(answer, Err(FleetError::Driver(DriverError::OtherPidNamespace { .. }))),
            "{answer:?}"
        );
    };
    fixture.driver.set_other_pid_namespace(true);
    fixture.until(|record, _| record.other_pid_namespace).await;
    for ask in [
        SandboxCommand::Start,
        SandboxCommand::Stop,
        SandboxCommand::Pause,
        SandboxCommand::Resume,
        SandboxCommand::Thaw,
        SandboxCommand::Destroy { keep_workspace: false },
        SandboxCommand::Recreate { keep_workspace: true },
    ] {
        refused(fixture.fleet.command(&fixture.id, ask).await.map(drop));
    }
    refused(fixture.fleet.wake(&fixture.id).await.map(drop));
    refused(fixture.fleet.control(&fixture.id).await.map(drop));
    // A change of its row meanwhile does not make it reachable.
    let change = SandboxUpdate { name: Some("other".to_owned()), ..SandboxUpdate::default() };
    fixture
        .fleet
        .publish_change(fixture.fleet.store().update_sandbox(&fixture.id, change, 5).await.expect("written"));
    let record = fixture.fleet.record(&fixture.id).await.expect("a record");
    assert!(record.name == "other" && record.other_pid_namespace && record.state.is_up(), "{record:?}");
    assert_eq!(fixture.driver.container(&fixture.id), Some(FakeContainer::Running { frozen: false }));

    fixture.driver.set_other_pid_namespace(false);
    fixture.until(|record, _| !record.other_pid_namespace).await;
    fixture.fleet.wake(&fixture.id).await.expect("it answers");
    fixture.command(SandboxCommand::Pause).await;
    fixture.is(SandboxStatus::Paused).await;
    assert_eq!(fixture.drifts().await, Vec::<Value>::new());
}

/// The operation of a hostd in the right namespace that died is neither carried out nor given up by one that cannot
/// reach the sandbox, and has its whole time again afterwards.
#[tokio::test]
async fn an_operation_on_a_sandbox_in_another_pid_namespace_waits_past_its_deadline() {
    let mut fixture = SandboxFixture::new(IdlePolicy::Sleep, patient()).await;
    fixture.driver.hanging.lock().expect("no panic while held").insert("terminate");
    fixture.fleet.command(&fixture.id, SandboxCommand::Stop).await.expect("accepted");
    fixture.fleet.close().await;
    fixture.driver.hanging.lock().expect("no panic while held").clear();
    fixture.driver.set_other_pid_namespace(true);
    let timing = Timing { down_ms: PASSES_MS, inspect_unseen_ms: 1, ..patient() };
    fixture.fleet = open(&fixture.driver, fixture.directory.path(), timing).await;
    let clock = fixture.fleet.clock();
    let record = fixture
        .until(|record, _| {
            let overdue = |operation: &Operation| operation.deadline_ms + 100 < clock.now_ms();
            record.other_pid_namespace && record.state.operation.as_ref().is_some_and(overdue)
        })
        .await;
    assert_eq!((record.state.status, record.state.goal), (SandboxStatus::Running, Goal::Stopped));
    assert_eq!(fixture.driver.container(&fixture.id), Some(FakeContainer::Running { frozen: false }));
    fixture.driver.set_other_pid_namespace(false);
    fixture.is(SandboxStatus::Stopped).await;
}
