//! A backend that hangs or is away: what is recorded, tried again and reported.

use super::{
    drift::{NEVER_MS, PASSES_MS, PATIENCE, SandboxFixture, drift, patient},
    fixture::{new_sandbox, open_with, timing},
};
use crate::reconcile::{FleetError, SandboxCommand, Timing};
use hostd_core::{Goal, limits};
use hostd_drivers::{
    Drivers,
    fake::{FakeContainer, FakeDriver},
};
use hostd_store::{EventFilter, NewTask, SandboxRecord, TaskBegun, fixture::new_task};
use protocol::{
    FailureReason,
    api::{DeathCause, IdlePolicy, ProblemCode, SandboxSpec, SandboxStatus},
};
use serde_json::Value;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Time enough for something that must not happen.
const WHILE: Duration = Duration::from_millis(300);

impl SandboxFixture {
    fn set_hanging(&self, verb: &'static str, hangs: bool) {
        let mut hanging = self.driver.hanging.lock().expect("no panic while held");
        if hangs {
            hanging.insert(verb)
        } else {
            hanging.remove(verb)
        };
    }

    fn refuse_launches(&self, refuse: bool) {
        self.driver.no_launches.store(refuse, Ordering::Relaxed);
    }

    fn set_unhealthy(&self, unhealthy: bool) {
        self.driver.unhealthy.store(unhealthy, Ordering::Relaxed);
    }

    /// Waits until the operation was given up because of the backend.
    async fn gave_up(&self) -> Arc<SandboxRecord> {
        let code = |record: &SandboxRecord| record.state.problem.as_ref().map(|problem| problem.code);
        self.until(|record, _| {
            record.state.operation.is_none() && code(record) == Some(ProblemCode::DriverUnavailable)
        })
        .await
    }

    async fn count_events(&self) -> usize {
        self.fleet.store().events(EventFilter::default(), 0, 10_000).await.expect("readable").len()
    }
}

#[tokio::test]
async fn a_launch_that_hangs_is_a_backend_that_does_not_answer() {
    let fixture = SandboxFixture::new(IdlePolicy::AlwaysOn, timing(NEVER_MS)).await;
    fixture.set_hanging("launch", true);
    fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(DeathCause::Killed));
    let record = fixture.gave_up().await;
    let message = record.state.problem.as_ref().map(|problem| problem.message.as_str());
    assert_eq!(message, Some("the backend did not answer in time"));
    fixture.set_hanging("launch", false);
    fixture.is(SandboxStatus::Running).await;
}

#[tokio::test]
async fn a_sandbox_that_could_not_be_recreated_is_stopped_without_a_death() {
    let timing = Timing { up_ms: PASSES_MS, down_ms: PASSES_MS, ..patient() };
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, timing).await;
    fixture.refuse_launches(true);
    fixture
        .fleet
        .command(&fixture.id, SandboxCommand::Recreate { keep_workspace: true })
        .await
        .expect("accepted");
    fixture.gave_up().await;
    let record = fixture.is(SandboxStatus::Stopped).await;
    assert_eq!((record.post_mortem.as_ref(), fixture.drifts().await), (None, vec![]));
    fixture.refuse_launches(false);
    fixture.fleet.wake(&fixture.id).await.expect("it wakes");
}

#[tokio::test]
async fn a_sandbox_that_died_unseen_while_stopping_is_not_brought_back() {
    let fixture = SandboxFixture::new(IdlePolicy::AlwaysOn, timing(NEVER_MS)).await;
    fixture.set_away(true);
    fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(DeathCause::Killed));
    fixture.fleet.command(&fixture.id, SandboxCommand::Stop).await.expect("accepted");
    let record = fixture.gave_up().await;
    assert_eq!((record.state.goal, record.state.status), (Goal::Stopped, SandboxStatus::Error));
    fixture.set_away(false);
    let record = fixture.until(|_, found| found.is_none()).await;
    assert_eq!((record.post_mortem.as_ref(), fixture.drifts().await), (None, vec![]));
    sleep(WHILE).await;
    assert_eq!(fixture.driver.container(&fixture.id), None);
}

#[tokio::test]
async fn nothing_is_written_while_an_always_on_sandbox_waits_for_its_backend() {
    let timing = Timing { up_ms: PASSES_MS, ..timing(NEVER_MS) };
    let fixture = SandboxFixture::new(IdlePolicy::AlwaysOn, timing).await;
    fixture.refuse_launches(true);
    fixture.set_unhealthy(true);
    fixture.driver.set_externally(&fixture.id, FakeContainer::Dead(DeathCause::Backend));
    fixture.gave_up().await;
    let before = fixture.count_events().await;
    sleep(WHILE).await;
    assert_eq!(fixture.count_events().await, before);
    fixture.refuse_launches(false);
    fixture.set_unhealthy(false);
    fixture.is(SandboxStatus::Running).await;
    let attempts = fixture.fleet.store().attempts(&fixture.id, None, 9).await.expect("readable");
    assert_eq!(attempts.len(), 3);
}

#[tokio::test]
async fn a_destroy_that_waits_for_the_backend_reports_that_once() {
    let down_ms = 1_000;
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { down_ms, ..patient() }).await;
    fixture.command(SandboxCommand::Stop).await;
    fixture.set_away(true);
    fixture
        .fleet
        .command(&fixture.id, SandboxCommand::Destroy { keep_workspace: false })
        .await
        .expect("accepted");
    // Two deadlines pass.
    sleep(Duration::from_millis(2 * down_ms) + WHILE).await;
    assert!(fixture.events("sandbox.delayed").await.len() <= 1);
    fixture.set_away(false);
    fixture.fleet.wait_settled(&fixture.id, PATIENCE).await.expect("destroyed");
    assert!(!fixture.driver.has_files(&fixture.id));
}

#[tokio::test]
async fn a_driver_that_hangs_does_not_hold_up_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let slow = Arc::new(FakeDriver::named("slow"));
    slow.hanging.lock().expect("no panic while held").insert("launch");
    let drivers = Drivers::new(vec![slow, Arc::new(FakeDriver::default())]);
    let fleet = open_with(drivers, directory.path(), patient()).await;
    let of = |driver: &str| SandboxSpec { driver: Some(driver.to_owned()), ..SandboxSpec::default() };
    for number in 0..=u64::try_from(limits::LAUNCHES_MAX).expect("a few") {
        fleet.create(new_sandbox(&fleet, number, &of("slow"))).await.expect("accepted");
    }
    let quick = fleet.create(new_sandbox(&fleet, 99, &of("fake"))).await.expect("accepted").id;
    // Far less than the others hang.
    let up = fleet.wait_settled(&quick, Duration::from_secs(20)).await.expect("it comes up");
    assert!(up.state.is_up());
    fleet.close().await;
}

#[tokio::test]
async fn a_task_whose_sandbox_cannot_be_launched_ends_and_says_why() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { up_ms: PASSES_MS, ..patient() }).await;
    fixture.command(SandboxCommand::Stop).await;
    fixture.refuse_launches(true);
    let new = NewTask { sandbox: fixture.id, ..new_task("t1") };
    let TaskBegun::New(task) = fixture.fleet.submit(new).await.expect("submitted") else {
        panic!("it is new")
    };
    let ends = async {
        loop {
            let task = fixture.fleet.store().task_by_number(task.number).await.expect("readable");
            match task.filter(|task| task.done_seq.is_some()) {
                Some(task) => return task,
                None => sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let task = timeout(PATIENCE, ends).await.expect("it ends");
    assert_eq!(task.failure_reason, Some(FailureReason::SandboxFailed));
    let message = task.result.and_then(|result| result.message);
    assert_eq!(message.as_deref(), Some("the sandbox could not be brought up: gone fishing"));
}

#[tokio::test]
async fn a_pause_that_takes_effect_late_is_no_drift_and_the_next_one_is() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { freeze_ms: 50, ..patient() }).await;
    fixture.set_hanging("freeze", true);
    fixture.fleet.command(&fixture.id, SandboxCommand::Pause).await.expect("accepted");
    fixture.is(SandboxStatus::Running).await;
    fixture.set_hanging("freeze", false);
    fixture.driver.freeze_externally(&fixture.id, true);
    fixture.is(SandboxStatus::Running).await;
    assert_eq!(fixture.drifts().await, [] as [Value; 0]);
    // Reported once the sandbox was at rest, which may be a moment after it runs.
    let reported = async {
        while fixture.drifts().await.is_empty() {
            fixture.driver.freeze_externally(&fixture.id, true);
            fixture.is(SandboxStatus::Running).await;
        }
    };
    timeout(PATIENCE, reported).await.expect("a later pause is reported");
    assert_eq!(fixture.drifts().await, [drift("running", "paused", "thaw")]);
}

#[tokio::test]
async fn a_sandbox_that_the_backend_does_not_thaw_stays_paused_and_is_not_stopped() {
    // The thaw before the operation has the time of a freeze, the operation that of a launch.
    let timing = Timing { up_ms: PASSES_MS, freeze_ms: PASSES_MS, ..patient() };
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, timing).await;
    fixture.command(SandboxCommand::Pause).await;
    fixture.set_hanging("thaw", true);
    fixture.fleet.command(&fixture.id, SandboxCommand::Resume).await.expect("accepted");
    let record = fixture.gave_up().await;
    assert_eq!(record.state.status, SandboxStatus::Paused);
    fixture.set_hanging("thaw", false);
    fixture.command(SandboxCommand::Resume).await;
    fixture.is(SandboxStatus::Running).await;
    assert_eq!(fixture.drifts().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_sandbox_restarted_from_outside_is_taken_over_and_reported() {
    let fixture = SandboxFixture::new(IdlePolicy::Sleep, Timing { inspect_every_ms: 5, ..patient() }).await;
    // The sandbox was at rest, which the drift of a pause proves.
    fixture.driver.freeze_externally(&fixture.id, true);
    fixture.is(SandboxStatus::Running).await;
    sleep(WHILE).await;
    fixture.driver.restart_externally(&fixture.id);
    let reported = async {
        while fixture.drifts().await.len() < 2 {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, reported).await.expect("it is reported");
    assert_eq!(fixture.drifts().await[1], drift("running", "restarted", "take_over"));
    let record = fixture.is(SandboxStatus::Running).await;
    assert!(record.state.problem.is_none());
    let woken = fixture.fleet.wake(&fixture.id).await.map(|_| ());
    assert!(!matches!(woken, Err(FleetError::Failed { .. })), "{woken:?}");
}
