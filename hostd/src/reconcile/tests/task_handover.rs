//! A hostd that died between the reply of runtimed to a task and recording it: the next one asks runtimed first.

use super::fixture::{new_sandbox, open, patient};
use hostd_drivers::fake::FakeDriver;
use hostd_store::{NewTask, TaskBegun, TaskRecord, fixture::new_task};
use protocol::{FailureReason, api::SandboxSpec};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
const IDLE_MS: u64 = 3_600_000;

/// Returns the end of a task whose agent is not installed, and which an earlier hostd was delivering.
async fn delivered_twice(runtimed_has_it: bool) -> TaskRecord {
    let dir = tempfile::tempdir().expect("a directory");
    let driver = Arc::new(FakeDriver::default());
    driver.has_task.store(runtimed_has_it, Ordering::Relaxed);
    // The task ends as soon as it is followed.
    driver.end_tasks();
    let fleet = open(&driver, dir.path(), patient(IDLE_MS)).await;
    let sandbox = fleet.create(new_sandbox(&fleet, 1, &SandboxSpec::default())).await.expect("made").id;
    let new = NewTask { sandbox, agent: "opencode".to_owned(), ..new_task("t1") };
    let TaskBegun::New(task) = fleet.store().begin_task(new).await.expect("written") else { panic!("new") };
    fleet.store().mark_task_dispatched(task.number).await.expect("written");
    fleet.close().await;
    let fleet = open(&driver, dir.path(), patient(IDLE_MS)).await;
    let done = async {
        loop {
            let found = fleet.store().task_by_number(task.number).await.expect("read");
            match found.filter(|task| task.done_seq.is_some()) {
                Some(task) => return task,
                None => sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let done = timeout(PATIENCE, done).await.expect("it ends");
    fleet.close().await;
    done
}

#[tokio::test]
async fn a_running_task_is_followed_though_its_agent_is_gone() {
    assert_eq!(
        delivered_twice(true).await.failure_reason,
        Some(FailureReason::Cancelled),
        "as runtimed reports"
    );
    assert_eq!(delivered_twice(false).await.failure_reason, Some(FailureReason::SpawnFailed));
}
