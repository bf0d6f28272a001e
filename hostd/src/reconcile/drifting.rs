//! What others do to sandboxes behind our back, what launches tell, and a backend that is away: over the real
//! reconciler and a driver in memory.

use super::{
    Ask, Fleet, FleetError, Timing,
    fixture::{self, new_sandbox, open, timing},
};
use crate::{
    core::{Effort, Goal},
    driver::{
        DriverError,
        fake::{Body, Fake, Faults},
    },
    store::{Change, EventFilter, EventRecord, SandboxRecord},
};
use protocol::api::{DeathCause, IdlePolicy, Problem, ProblemCode, SandboxId, SandboxSpec, SandboxStatus};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// More than the hour that a runtimed in memory says it was idle for.
pub(super) const NEVER_MS: u64 = 7_200_000;

/// For what is meant to pass: time enough for everything before it, however slow the machine.
pub(super) const PASSES_MS: u64 = 2_000;

/// Nobody looks by himself: whatever is noticed was told by the driver. No deadline is meant to pass.
pub(super) fn patient() -> Timing {
    Timing { look_every_ms: NEVER_MS, ..fixture::patient(NEVER_MS) }
}

pub(super) struct World {
    pub(super) driver: Arc<Fake>,
    pub(super) fleet: Fleet,
    directory: tempfile::TempDir,
    pub(super) id: SandboxId,
}

impl World {
    /// With one sandbox that runs.
    pub(super) async fn new(idle_policy: IdlePolicy, timing: Timing) -> Self {
        let world = Self::making(idle_policy, timing, Fake::default()).await;
        world.is(SandboxStatus::Running).await;
        world
    }

    /// With one sandbox that is being made.
    pub(super) async fn making(idle_policy: IdlePolicy, timing: Timing, driver: Fake) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(driver);
        let fleet = open(&driver, directory.path(), timing).await;
        let spec = SandboxSpec { idle_policy: Some(idle_policy), ..SandboxSpec::default() };
        let id = fleet.create(new_sandbox(&fleet, 1, &spec)).await.expect("accepted").id;
        Self { driver, fleet, directory, id }
    }

    /// Waits until it is settled so, and is there as it should be.
    pub(super) async fn is(&self, status: SandboxStatus) -> Arc<SandboxRecord> {
        let body = match status {
            SandboxStatus::Running => Some(Body::Running { frozen: false }),
            SandboxStatus::Paused => Some(Body::Running { frozen: true }),
            _ => None,
        };
        self.until(|record, found| {
            record.state.effort.is_none() && record.state.status == status && found == body
        })
        .await
    }

    pub(super) async fn until(
        &self,
        so: impl Fn(&SandboxRecord, Option<Body>) -> bool,
    ) -> Arc<SandboxRecord> {
        let becomes = async {
            loop {
                let record = self.fleet.record(&self.id).await.expect("a record");
                if so(&record, self.driver.body(&self.id)) {
                    return record;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        match timeout(PATIENCE, becomes).await {
            Ok(record) => record,
            Err(_) => panic!("{:?} {:?}", self.fleet.record(&self.id).await, self.driver.body(&self.id)),
        }
    }

    pub(super) async fn ask(&self, ask: Ask) {
        self.fleet.ask(&self.id, ask).await.expect("accepted");
        self.fleet.settled(&self.id, PATIENCE).await.expect("settles");
    }

    pub(super) async fn events(&self, kind: &str) -> Vec<EventRecord> {
        let filter = EventFilter { kinds: vec![kind.to_owned()], ..EventFilter::default() };
        self.fleet.store().events(filter, 0, 1_000).await.expect("readable")
    }

    pub(super) async fn drifts(&self) -> Vec<Value> {
        self.events("sandbox.drift").await.into_iter().map(|event| event.data).collect()
    }

    pub(super) fn away(&self, so: bool) {
        self.driver.away.store(so, Ordering::Relaxed);
    }
}

pub(super) fn drift(expected: &str, found: &str, doing: &str) -> Value {
    json!({ "expected": expected, "found": found, "doing": doing })
}

#[tokio::test]
async fn what_somebody_else_did_is_seen_at_once_told_once_and_mended() {
    let world = World::new(IdlePolicy::Sleep, patient()).await;
    let id = world.id;
    world.driver.freeze_behind(&id, true);
    world.is(SandboxStatus::Running).await;

    world.ask(Ask::Pause).await;
    world.driver.freeze_behind(&id, false);
    world.is(SandboxStatus::Paused).await;

    world.ask(Ask::Stop).await;
    world.is(SandboxStatus::Stopped).await;
    world.driver.start(&id);
    world.until(|_, found| found.is_none()).await;
    let expected = [
        drift("running", "paused", "thaw"),
        drift("paused", "running", "freeze"),
        drift("stopped", "running", "terminate"),
    ];
    assert_eq!(world.drifts().await, expected);
}

#[tokio::test]
async fn each_death_is_told_with_its_reason_and_leads_where_it_should() {
    let table = [
        (DeathCause::Killed, SandboxStatus::Error, "died", "give_up"),
        (DeathCause::Oom, SandboxStatus::Error, "died", "give_up"),
        (DeathCause::Removed, SandboxStatus::Error, "removed", "give_up"),
        (DeathCause::ShutDown, SandboxStatus::Stopped, "ended", "stop"),
        (DeathCause::Backend, SandboxStatus::Stopped, "died", "stop"),
    ];
    let world = World::new(IdlePolicy::Sleep, patient()).await;
    for (number, (cause, leads_to, found, doing)) in table.into_iter().enumerate() {
        world.driver.meddle(&world.id, Body::Dead(cause));
        let record = world.is(leads_to).await;
        let told = record.post_mortem.as_deref().expect("a post-mortem");
        assert_eq!(told.cause, cause);
        assert_eq!(world.drifts().await[number], drift("running", found, doing));
        let kind = if leads_to == SandboxStatus::Error { "sandbox.error" } else { "sandbox.ended" };
        let newest = world.events(kind).await.pop().expect("an event");
        assert_eq!(newest.data["post_mortem"], json!(told), "{cause:?}");
        if leads_to == SandboxStatus::Stopped {
            // Nothing was wrong with it: whoever needs it wakes it.
            world.fleet.awake(&world.id).await.expect("it wakes");
        } else {
            assert!(matches!(world.fleet.awake(&world.id).await, Err(FleetError::Failed { .. })));
            world.ask(Ask::Start).await;
        }
        // The last word stays.
        let record = world.is(SandboxStatus::Running).await;
        assert_eq!(record.post_mortem.as_ref().map(|told| told.cause), Some(cause));
    }
    let attempts = world.fleet.store().attempts(&world.id, None, 9).await.expect("readable");
    let causes: Vec<_> =
        attempts.iter().rev().map(|each| each.post_mortem.as_ref().map(|told| told.cause)).collect();
    let expected: Vec<_> = table.iter().map(|(cause, ..)| Some(*cause)).chain([None]).collect();
    assert_eq!(causes, expected);
}

#[tokio::test]
async fn one_that_should_always_run_comes_back_from_every_death() {
    let world = World::new(IdlePolicy::AlwaysOn, patient()).await;
    for cause in [DeathCause::Removed, DeathCause::ShutDown, DeathCause::Backend, DeathCause::Oom] {
        world.driver.meddle(&world.id, Body::Dead(cause));
        world.until(|record, _| record.post_mortem.as_ref().is_some_and(|told| told.cause == cause)).await;
        world.is(SandboxStatus::Running).await;
    }
}

#[tokio::test]
async fn an_occurrence_that_is_hard_to_mend_is_told_once() {
    let timing = Timing { freeze_ms: 20, ..patient() };
    let world = World::new(IdlePolicy::Sleep, timing).await;
    // Every verb goes wrong, so that it takes many tries.
    world.driver.misbehave(Faults::new(7, 100));
    world.driver.freeze_behind(&world.id, true);
    sleep(Duration::from_millis(300)).await;
    world.driver.misbehave(Faults::default());
    world.is(SandboxStatus::Running).await;
    assert_eq!(world.drifts().await.len(), 1);
}

#[tokio::test]
async fn our_own_verbs_are_no_drift_however_they_go_wrong() {
    // Time to come up, however slow the machine; not so much that a launch that hangs takes for ever.
    let timing = Timing { up_ms: PASSES_MS, ..timing(NEVER_MS) };
    for seed in 0..8 {
        let world = World::new(IdlePolicy::Sleep, timing.clone()).await;
        world.driver.misbehave(Faults::new(seed, 25));
        for ask in
            [Ask::Pause, Ask::Resume, Ask::Pause, Ask::Stop, Ask::Start, Ask::Pause, Ask::Start, Ask::Stop]
        {
            // What is refused from where it stands is no matter.
            let _ = world.fleet.ask(&world.id, ask).await;
            let _ = world.fleet.settled(&world.id, PATIENCE).await;
        }
        world.driver.misbehave(Faults::default());
        world.until(|record, _| record.state.effort.is_none()).await;
        assert_eq!(world.drifts().await, [] as [Value; 0], "seed {seed}");
    }
}

#[tokio::test]
async fn a_launch_that_tells_what_it_does_is_waited_for_and_shown() {
    let driver = Fake::default();
    let tells = (1..=20).map(|layer| (Duration::from_millis(200), format!("layer {layer}\nof 20"))).collect();
    *driver.tells.lock().expect("nobody panicked") = tells;
    // Half of what the launch takes.
    let timing = Timing { up_ms: PASSES_MS, progress_max_ms: NEVER_MS, ..patient() };
    let world = World::making(IdlePolicy::Sleep, timing, driver).await;
    let shown = world.until(|record, _| record.progress.is_some()).await;
    let text = shown.progress.as_deref().expect("shown");
    assert!(text.starts_with("layer ") && text.ends_with(" of 20"), "{text:?}");
    assert!(shown.state.effort.is_some());
    let record = world.is(SandboxStatus::Running).await;
    assert_eq!(record.progress, None);
    let told = world.events("sandbox.progress").await;
    assert!((1..=20).contains(&told.len()), "{}", told.len());
    assert!(told[0].data["text"].as_str().is_some_and(|text| text.starts_with("layer ")), "{told:?}");
}

#[tokio::test]
async fn a_launch_that_only_talks_is_given_up() {
    let driver = Fake::default();
    let tells = (0..100_000).map(|_| (Duration::from_millis(10), "still at it".to_owned())).collect();
    *driver.tells.lock().expect("nobody panicked") = tells;
    let timing = Timing { up_ms: 100, progress_max_ms: 300, ..patient() };
    let world = World::making(IdlePolicy::Sleep, timing, driver).await;
    let record = world.is(SandboxStatus::Error).await;
    assert_eq!(record.state.problem.as_ref().map(|problem| problem.code), Some(ProblemCode::DeadlinePassed));
    assert_eq!(record.progress, None);
}

#[tokio::test]
async fn while_the_backend_is_away_records_are_served_and_what_slept_sleeps_on() {
    let world = World::new(IdlePolicy::Sleep, Timing { up_ms: PASSES_MS, ..patient() }).await;
    world.ask(Ask::Stop).await;
    world.away(true);
    let woken = world.fleet.awake(&world.id).await.map(|_| ());
    let Err(FleetError::Failed { problem, .. }) = woken else { panic!("{woken:?}") };
    assert_eq!((problem.code, problem.message.as_str()), (ProblemCode::DriverUnavailable, "gone fishing"));
    let record = world.until(|record, _| record.state.effort.is_none()).await;
    assert_eq!(record.state.status, SandboxStatus::Stopped);
    world.away(false);
    let (record, _) = world.fleet.awake(&world.id).await.expect("it wakes");
    assert_eq!(record.state.problem, None);
}

#[tokio::test]
async fn a_launch_that_finds_nobody_is_one_attempt_however_often_it_is_tried() {
    let world = World::new(IdlePolicy::Sleep, Timing { up_ms: PASSES_MS, ..patient() }).await;
    world.ask(Ask::Stop).await;
    world.driver.no_launches.store(true, Ordering::Relaxed);
    assert!(matches!(world.fleet.awake(&world.id).await, Err(FleetError::Failed { .. })));
    let record = world.until(|record, _| record.state.effort.is_none()).await;
    let code = |problem: &Problem| problem.code;
    assert_eq!(record.state.status, SandboxStatus::Stopped);
    assert_eq!(record.state.problem.as_ref().map(code), Some(ProblemCode::DriverUnavailable));
    let attempts = world.fleet.store().attempts(&world.id, None, 9).await.expect("readable");
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].problem.as_ref().map(code), Some(ProblemCode::DriverUnavailable));
    world.driver.no_launches.store(false, Ordering::Relaxed);
    world.fleet.awake(&world.id).await.expect("it wakes");
}

#[tokio::test]
async fn one_that_runs_is_left_alone_while_its_backend_is_away() {
    let world = World::new(IdlePolicy::Sleep, Timing { look_every_ms: 5, ..patient() }).await;
    world.away(true);
    sleep(Duration::from_millis(300)).await;
    let record = world.fleet.record(&world.id).await.expect("a record");
    assert!(record.state.is_up(), "{:?}", record.state);
    // It died meanwhile: seen as soon as it can be, without anybody's help.
    world.driver.meddle(&world.id, Body::Dead(DeathCause::Backend));
    sleep(Duration::from_millis(50)).await;
    world.away(false);
    world.is(SandboxStatus::Stopped).await;
}

#[tokio::test]
async fn one_that_should_always_run_comes_back_with_its_backend() {
    let world = World::new(IdlePolicy::AlwaysOn, timing(NEVER_MS)).await;
    world.driver.meddle(&world.id, Body::Dead(DeathCause::Backend));
    world.away(true);
    let gave_up = |record: &SandboxRecord, _| record.state.problem.is_some() && record.state.effort.is_none();
    // Its death may be seen before the backend goes, or after.
    let _ = timeout(Duration::from_millis(600), world.until(gave_up)).await;
    world.away(false);
    world.is(SandboxStatus::Running).await;
}

/// What is wanted of one in another PID namespace is refused, and it goes on where it was when it can be reached.
#[tokio::test]
async fn one_in_another_pid_namespace_is_refused_left_alone_and_taken_up_again() {
    let world = World::new(IdlePolicy::AlwaysOn, Timing { look_blind_ms: 1, ..patient() }).await;
    let refused = |answer: Result<(), FleetError>| {
        assert!(
            matches!(answer, Err(FleetError::Driver(DriverError::OtherPidNamespace { .. }))),
            "{answer:?}"
        );
    };
    world.driver.move_elsewhere(true);
    world.until(|record, _| record.other_pid_namespace).await;
    for ask in [
        Ask::Start,
        Ask::Stop,
        Ask::Pause,
        Ask::Resume,
        Ask::Thaw,
        Ask::Destroy { keep_workspace: false },
        Ask::Recreate { keep_workspace: true },
    ] {
        refused(world.fleet.ask(&world.id, ask).await.map(drop));
    }
    refused(world.fleet.awake(&world.id).await.map(drop));
    refused(world.fleet.control(&world.id).await.map(drop));
    // What is changed of its row meanwhile does not make it reachable.
    let change = Change { name: Some("other".to_owned()), ..Change::default() };
    world.fleet.changed(world.fleet.store().change_sandbox(&world.id, change, 5).await.expect("written"));
    let record = world.fleet.record(&world.id).await.expect("a record");
    assert!(record.name == "other" && record.other_pid_namespace && record.state.is_up(), "{record:?}");
    assert_eq!(world.driver.body(&world.id), Some(Body::Running { frozen: false }));

    world.driver.move_elsewhere(false);
    world.until(|record, _| !record.other_pid_namespace).await;
    world.fleet.awake(&world.id).await.expect("it answers");
    world.ask(Ask::Pause).await;
    world.is(SandboxStatus::Paused).await;
    assert_eq!(world.drifts().await, Vec::<Value>::new());
}

/// What a hostd of the right namespace was doing when it died is neither done nor given up by one that cannot reach
/// it, and has its whole time again afterwards.
#[tokio::test]
async fn what_was_being_done_to_one_in_another_pid_namespace_waits_past_its_deadline() {
    let mut world = World::new(IdlePolicy::Sleep, patient()).await;
    world.driver.hanging.lock().expect("no panic while held").insert("terminate");
    world.fleet.ask(&world.id, Ask::Stop).await.expect("accepted");
    world.fleet.close().await;
    world.driver.hanging.lock().expect("no panic while held").clear();
    world.driver.move_elsewhere(true);
    let timing = Timing { down_ms: PASSES_MS, look_blind_ms: 1, ..patient() };
    world.fleet = open(&world.driver, world.directory.path(), timing).await;
    let clock = world.fleet.clock();
    let record = world
        .until(|record, _| {
            let overdue = |effort: &Effort| effort.deadline_ms + 100 < clock.now_ms();
            record.other_pid_namespace && record.state.effort.as_ref().is_some_and(overdue)
        })
        .await;
    assert_eq!((record.state.status, record.state.goal), (SandboxStatus::Running, Goal::Stopped));
    assert_eq!(world.driver.body(&world.id), Some(Body::Running { frozen: false }));
    world.driver.move_elsewhere(false);
    world.is(SandboxStatus::Stopped).await;
}
