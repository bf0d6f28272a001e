//! Adoption after the database was lost, over the real reconciler and a driver in memory.

use super::fixture::{new_sandbox, open, patient};
use crate::reconcile::{Fleet, SandboxCommand};
use hostd_core::{TaskEnding, limits};
use hostd_drivers::fake::{FakeContainer, FakeDriver};
use hostd_store::{
    EventFilter, NewSandbox, NewTask, SandboxRecord, TaskBegun, TaskRecord, fixture::new_task,
};
use protocol::{
    Cursor, FailureReason, Stream, TaskEvent, TaskFact, TaskId, TaskPhase, TaskStatus, Text,
    api::{DeathCause, SandboxId, SandboxSpec, SandboxStatus},
    log_line,
};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the hour that the fake runtimed reports as idle.
const NEVER_MS: u64 = 7_200_000;

struct AdoptionFixture {
    driver: Arc<FakeDriver>,
    home: tempfile::TempDir,
}

impl AdoptionFixture {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let driver = FakeDriver::default();
        *driver.logs.lock().expect("no panic while held") = Some(home.path().join("logs"));
        Self { driver: Arc::new(driver), home }
    }

    async fn open(&self) -> Fleet {
        open(&self.driver, self.home.path(), patient(NEVER_MS)).await
    }

    /// Starts another hostd, without the database.
    async fn lose_database(&self, fleet: Fleet) -> Fleet {
        fleet.close().await;
        drop(fleet);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(self.home.path().join(format!("slipway.db{end}")));
        }
        self.open().await
    }

    fn task_dir(&self, sandbox: &SandboxId, task: &str) -> PathBuf {
        self.home.path().join("logs").join(sandbox.as_str()).join("tasks").join(task)
    }

    /// Writes a task as runtimed does.
    fn write_task(&self, sandbox: &SandboxId, task: &str, created_ms: u64, facts: Vec<TaskFact>) {
        let dir = self.task_dir(sandbox, task);
        std::fs::create_dir_all(&dir).expect("made");
        let start =
            format!(r#"{{"agent":"acp","name":"opencode","created_ms":{created_ms},"fingerprint":1}}"#);
        std::fs::write(dir.join("task.json"), start).expect("written");
        let mut bytes = Vec::new();
        for (number, fact) in (1..).zip(facts) {
            let (cursor, kind) = (Cursor { epoch: 0, seq: number }, fact.kind());
            let event = TaskEvent { seq: number, time_ms: created_ms + number, fact };
            log_line::push(&mut bytes, cursor, kind, &event).expect("JSON");
        }
        let name = log_line::file_name(Cursor { epoch: 0, seq: 1 });
        std::fs::write(dir.join(name), bytes).expect("written");
    }
}

async fn create(fleet: &Fleet, number: u64) -> SandboxId {
    let id = fleet.create(new_sandbox(fleet, number, &SandboxSpec::default())).await.expect("accepted").id;
    fleet.wait_settled(&id, PATIENCE).await.expect("it runs");
    id
}

async fn until(fleet: &Fleet, id: &SandboxId, so: impl Fn(&SandboxRecord) -> bool) -> Arc<SandboxRecord> {
    let becomes = async {
        loop {
            match fleet.record(id).await {
                Ok(record) if so(&record) => return record,
                Ok(_) | Err(_) => sleep(Duration::from_millis(2)).await,
            }
        }
    };
    timeout(PATIENCE, becomes).await.expect("it becomes so")
}

async fn task(fleet: &Fleet, sandbox: &SandboxId, name: &str) -> TaskRecord {
    let id = TaskId::parse(name).expect("a good name");
    fleet.store().task(sandbox, &id).await.expect("readable").expect("it is there")
}

async fn ended(fleet: &Fleet, sandbox: &SandboxId, name: &str) -> TaskRecord {
    let ends = async {
        loop {
            match task(fleet, sandbox, name).await {
                task if task.done_seq.is_some() => return task,
                _ => sleep(Duration::from_millis(2)).await,
            }
        }
    };
    timeout(PATIENCE, ends).await.expect("it ends")
}

fn log(text: &str) -> TaskFact {
    let text = Text { text: text.to_owned(), ..Text::default() };
    TaskFact::Log { stream: Stream::Stdout, text, lost_events: None }
}

fn phase(phase: TaskPhase) -> TaskFact {
    TaskFact::Status { phase, checkpoint: None }
}

fn done() -> TaskFact {
    let result = TaskEnding::Cancelled.result(true);
    let result = protocol::TaskResult { status: TaskStatus::Succeeded, failure_reason: None, ..result };
    TaskFact::Done { result: Box::new(result), told: None }
}

#[tokio::test]
async fn each_sandbox_is_adopted_in_the_state_it_is_in() {
    let fixture = AdoptionFixture::new();
    let fleet = fixture.open().await;
    let mut ids = Vec::new();
    for number in 1..=5 {
        ids.push(create(&fleet, number).await);
    }
    for (id, ask) in [(ids[1], SandboxCommand::Stop), (ids[2], SandboxCommand::Pause)] {
        fleet.command(&id, ask).await.expect("accepted");
        fleet.wait_settled(&id, PATIENCE).await.expect("done");
    }
    fleet.close().await;
    fixture.driver.set_externally(&ids[3], FakeContainer::Dead(DeathCause::Oom));
    fixture.driver.set_externally(&ids[4], FakeContainer::Dead(DeathCause::ShutDown));
    let fleet = fixture.lose_database(fleet).await;
    use SandboxStatus::{Error, Paused, Running, Stopped};
    for (id, status) in ids.iter().zip([Running, Stopped, Paused, Error, Stopped]) {
        let record = until(&fleet, id, |record| record.state.status == status).await;
        assert!(record.state.operation.is_none(), "{record:?}");
    }
    assert_eq!(
        fixture.driver.container(&ids[2]),
        Some(FakeContainer::Running { frozen: true }),
        "it stays frozen"
    );
    let told = fleet.record(&ids[3]).await.expect("there").post_mortem.clone().expect("a post-mortem");
    assert_eq!(told.cause, DeathCause::Oom);
    fleet.wake(&ids[1]).await.expect("it wakes");
    fleet.wake(&ids[2]).await.expect("it wakes");
    assert_eq!(fixture.driver.violations(), [] as [String; 0]);
    fleet.close().await;
}

#[tokio::test]
async fn tasks_are_adopted_with_their_events_and_those_without_an_end_get_one() {
    let fixture = AdoptionFixture::new();
    let fleet = fixture.open().await;
    let id = create(&fleet, 1).await;
    fleet.command(&id, SandboxCommand::Stop).await.expect("accepted");
    fleet.wait_settled(&id, PATIENCE).await.expect("stopped");
    fixture.write_task(&id, "second", 50, vec![phase(TaskPhase::Preparing), log("half")]);
    fixture.write_task(&id, "first", 20, vec![phase(TaskPhase::Preparing), log("whole"), done()]);
    let torn = fixture.task_dir(&id, "torn");
    std::fs::create_dir_all(&torn).expect("made");
    std::fs::write(torn.join("task.json"), "{").expect("written");
    let fleet = fixture.lose_database(fleet).await;

    let page = fleet.store().tasks(&id, None, 9, 9).await.expect("readable");
    assert_eq!(page.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["second", "first"]);
    let first = task(&fleet, &id, "first").await;
    assert_eq!((first.status, first.agent.as_str(), first.followed), (TaskStatus::Succeeded, "opencode", 3));
    assert_eq!((first.created_ms, first.started_ms, first.ended_ms), (20, Some(21), Some(23)));
    assert!(first.is_recovered() && first.prompt.is_empty() && first.result.is_some());
    let second = ended(&fleet, &id, "second").await;
    assert_eq!(second.failure_reason, Some(FailureReason::Lost));
    assert_eq!(second.followed, 3, "its two events, and the end");
    // The sandbox was not woken for that.
    assert_eq!(fleet.record(&id).await.expect("there").state.status, SandboxStatus::Stopped);
    // The id of an adopted task is taken.
    let again = NewTask { sandbox: id, ..new_task("first") };
    assert_eq!(fleet.store().begin_task(again).await.expect("readable"), TaskBegun::Conflict);
    let adopted = EventFilter { kinds: vec!["sandbox.adopted".to_owned()], ..EventFilter::default() };
    assert_eq!(fleet.store().events(adopted, 0, 9).await.expect("readable").len(), 1);

    // Adopted once: the next hostd knows them.
    fleet.close().await;
    drop(fleet);
    let fleet = fixture.open().await;
    assert_eq!(task(&fleet, &id, "first").await, first);
    assert_eq!(task(&fleet, &id, "second").await, second);
    fleet.close().await;
}

#[tokio::test]
async fn a_task_that_still_runs_is_followed_to_its_end() {
    let fixture = AdoptionFixture::new();
    let fleet = fixture.open().await;
    let id = create(&fleet, 1).await;
    fixture.driver.has_task.store(true, Ordering::Relaxed);
    fixture.write_task(&id, "t1", 20, vec![]);
    let fleet = fixture.lose_database(fleet).await;
    assert_eq!(task(&fleet, &id, "t1").await.done_seq, None);
    fixture.driver.end_tasks();
    let task = ended(&fleet, &id, "t1").await;
    assert_eq!(task.failure_reason, Some(FailureReason::Cancelled), "as runtimed reports");
    fleet.close().await;
}

#[tokio::test]
async fn metadata_and_expiry_are_kept_and_no_sandbox_expires_by_being_adopted() {
    let fixture = AdoptionFixture::new();
    let fleet = fixture.open().await;
    let now_ms = fleet.clock().now_ms();
    let metadata = [("external_user_id".to_owned(), "u1".to_owned())];
    let far_ms = now_ms + 10 * limits::ADOPTED_KEEP_MS;
    let mut ids = Vec::new();
    for (number, expires_ms) in [(1, Some(far_ms)), (2, Some(now_ms + 60_000)), (3, None)] {
        let new = new_sandbox(&fleet, number, &SandboxSpec::default());
        let new = NewSandbox { metadata: metadata.clone().into(), expires_ms, ..new };
        ids.push(fleet.create(new).await.expect("accepted").id);
        fleet.wait_settled(ids.last().expect("just made"), PATIENCE).await.expect("it runs");
    }
    let fleet = fixture.lose_database(fleet).await;
    let mut expiries = Vec::new();
    for id in &ids {
        let record = fleet.record(id).await.expect("there");
        assert_eq!(record.metadata, metadata.clone().into());
        assert!(record.env.0.lost, "the record says that its environment is lost");
        expiries.push(record.expires_ms);
    }
    assert_eq!((expiries[0], expiries[2]), (Some(far_ms), None));
    assert!(expiries[1] >= Some(now_ms + limits::ADOPTED_KEEP_MS), "{expiries:?}");
    fleet.close().await;
}

#[tokio::test]
async fn sandboxes_of_a_backend_that_is_away_are_adopted_when_it_is_back() {
    let fixture = AdoptionFixture::new();
    let fleet = fixture.open().await;
    let (running, stopped) = (create(&fleet, 1).await, create(&fleet, 2).await);
    fleet.command(&stopped, SandboxCommand::Stop).await.expect("accepted");
    fleet.wait_settled(&stopped, PATIENCE).await.expect("stopped");
    fixture.write_task(&stopped, "t1", 20, vec![phase(TaskPhase::Preparing)]);
    fleet.close().await;
    fixture.driver.unavailable.store(true, Ordering::Relaxed);
    let fleet = fixture.lose_database(fleet).await;
    assert!(fleet.record(&stopped).await.is_err(), "its state cannot be known yet");
    fixture.driver.unavailable.store(false, Ordering::Relaxed);
    until(&fleet, &running, |record| record.state.is_up()).await;
    until(&fleet, &stopped, |record| record.state.status == SandboxStatus::Stopped).await;
    assert_eq!(ended(&fleet, &stopped, "t1").await.failure_reason, Some(FailureReason::Lost));
    fleet.close().await;
}
