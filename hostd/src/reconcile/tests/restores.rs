//! Restores and snapshots over the real reconciler and a driver in memory: however a restore fails, its sandbox obeys
//! again, and a snapshot has only the room that there is.

use super::fixture::{new_sandbox, open, patient};
use crate::reconcile::{Fleet, FleetError, SandboxCommand};
use hostd_drivers::{Excludes, fake::FakeDriver};
use hostd_store::{NewSnapshot, SnapshotMade, SnapshotRow};
use protocol::api::{Quota, SandboxId, SandboxSpec, SandboxStatus, SnapshotId};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// More than an actor takes at once.
const CLIENTS: usize = 2 * hostd_core::limits::SANDBOX_REQUESTS_MAX;

struct RestoreFixture {
    driver: Arc<FakeDriver>,
    fleet: Fleet,
    _directory: tempfile::TempDir,
    id: SandboxId,
}

impl RestoreFixture {
    /// A fleet with a sandbox that runs.
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(FakeDriver::default());
        let fleet = open(&driver, directory.path(), patient(3_600_000)).await;
        let new = new_sandbox(&fleet, 1, &SandboxSpec::default());
        let id = fleet.create(new).await.expect("a create is accepted").id;
        fleet.wait_settled(&id, PATIENCE).await.expect("it runs");
        Self { driver, fleet, _directory: directory, id }
    }

    fn fail(&self, verb: &'static str, fails: bool) {
        let mut failing = self.driver.failing.lock().expect("no panic while held");
        if fails {
            failing.insert(verb);
        } else {
            failing.remove(verb);
        }
    }

    async fn restore(&self) -> Result<(), FleetError> {
        self.fleet.restore_snapshot(&self.id, &snapshot_id()).await.map(drop)
    }

    /// Writes the row of a snapshot.
    async fn insert(&self) -> SnapshotRow {
        let record = self.fleet.record(&self.id).await.expect("a record");
        let new = NewSnapshot {
            id: snapshot_id(),
            name: None,
            sandbox: Some(self.id),
            owner: record.owner.clone(),
            excludes: vec![],
            blueprint: record.blueprint.clone(),
            created_ms: 1,
        };
        let made = self.fleet.store().insert_snapshot(new).await.expect("written");
        let SnapshotMade::Made(row) = made else { panic!("{made:?}") };
        *row
    }

    async fn take(&self) -> Result<(), FleetError> {
        let row = self.insert().await;
        self.fleet.take_snapshot(row, (self.id, Excludes::default()), ()).await.map(drop)
    }

    /// Waits until the sandbox obeys, and does it.
    async fn obeys(&self, command: SandboxCommand, status: SandboxStatus) {
        let obeyed = async {
            while let Err(error) = self.fleet.command(&self.id, command).await {
                assert!(matches!(error, FleetError::Restoring), "{error:?}");
                sleep(Duration::from_millis(1)).await;
            }
            self.fleet.wait_settled(&self.id, PATIENCE).await.expect("settled")
        };
        let record = timeout(PATIENCE, obeyed).await.expect("it obeys again");
        assert_eq!(record.state.status, status);
    }

    async fn has_no_backup(&self) {
        let gone = async {
            while !self.driver.replaced.lock().expect("no panic while held").is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("the backup goes");
        assert_eq!(self.driver.violations(), Vec::<String>::new());
    }
}

fn snapshot_id() -> SnapshotId {
    ulid::Ulid::generate().to_string().parse().expect("an id")
}

#[tokio::test]
async fn a_restore_that_fails_while_clients_ask_for_too_much_is_rolled_back() {
    let fixture = RestoreFixture::new().await;
    fixture.fail("replace_workspace", true);
    let flood = Arc::new(AtomicBool::new(true));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (fleet, id, flood) = (fixture.fleet.clone(), fixture.id, flood.clone());
            tokio::spawn(async move {
                while flood.load(Ordering::Relaxed) {
                    // Refused, in one way or another.
                    let _ = fleet.command(&id, SandboxCommand::Start).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let restored = timeout(PATIENCE, fixture.restore()).await.expect("it ends");
    restored.expect_err("the files are not replaced");
    flood.store(false, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no panic");
    }
    fixture.obeys(SandboxCommand::Stop, SandboxStatus::Stopped).await;
    fixture.has_no_backup().await;
}

#[tokio::test]
async fn a_restore_that_cannot_be_rolled_back_yet_ends_by_itself_and_no_snapshot_is_taken_before() {
    let fixture = RestoreFixture::new().await;
    fixture.fail("replace_workspace", true);
    fixture.fail("finish_replacement", true);
    fixture.restore().await.expect_err("the files are not replaced");
    let taken = fixture.take().await.expect_err("of files that may yet go");
    assert!(matches!(taken, FleetError::Restoring), "{taken:?}");
    fixture.fail("finish_replacement", false);
    fixture.obeys(SandboxCommand::Start, SandboxStatus::Running).await;
    fixture.has_no_backup().await;
    fixture.take().await.expect("taken");
}

#[tokio::test]
async fn old_files_that_cannot_be_removed_are_removed_later_and_hold_nothing_up() {
    let fixture = RestoreFixture::new().await;
    fixture.fail("finish_replacement", true);
    fixture.restore().await.expect_err("it is not said to be done");
    fixture.obeys(SandboxCommand::Stop, SandboxStatus::Stopped).await;
    fixture.take().await.expect("of the new files");
    fixture.fail("finish_replacement", false);
    fixture.has_no_backup().await;
}

#[tokio::test]
async fn a_snapshot_whose_turn_to_copy_comes_when_the_quota_is_used_up_is_refused_and_leaves_no_row() {
    let fixture = RestoreFixture::new().await;
    let (row, store) = (fixture.insert().await, fixture.fleet.store());
    let nothing = Quota { disk_mb: Some(0), ..Quota::default() };
    assert!(store.put_quota(row.owner.tenant.clone(), None, nothing, 1).await.expect("written"));
    let id = row.id;
    let taken = fixture.fleet.take_snapshot(row, (fixture.id, Excludes::default()), ()).await;
    assert!(matches!(taken, Err(FleetError::QuotaExceeded(_))), "{taken:?}");
    assert_eq!(store.snapshot(&id).await.expect("read"), None);
}
