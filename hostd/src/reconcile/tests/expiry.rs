//! The end of a TTL, over the real reconciler and a driver in memory.

use super::fixture::{new_sandbox, open, patient};
use crate::reconcile::{Fleet, SandboxCommand};
use hostd_drivers::fake::{FakeContainer, FakeDriver};
use hostd_store::{NewSandbox, SandboxRecord, SandboxUpdate};
use protocol::api::{OnTtl, SandboxId, SandboxSpec, SandboxStatus};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// So long that no TTL ends by itself.
const LONG_MS: u64 = 3_600_000;

struct ExpiryFixture {
    driver: Arc<FakeDriver>,
    fleet: Fleet,
    directory: tempfile::TempDir,
    id: SandboxId,
}

impl ExpiryFixture {
    /// A fleet with one running sandbox that has a TTL.
    async fn new(on_ttl: OnTtl) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(FakeDriver::default());
        let fleet = open(&driver, directory.path(), patient(LONG_MS)).await;
        let spec = SandboxSpec { ttl: Some("1h".into()), on_ttl: Some(on_ttl), ..SandboxSpec::default() };
        let new = new_sandbox(&fleet, 1, &spec);
        let expires_ms = Some(fleet.clock().now_ms() + LONG_MS);
        let id = fleet.create(NewSandbox { expires_ms, ..new }).await.expect("a create is accepted").id;
        let fixture = Self { driver, fleet, directory, id };
        fixture.becomes(SandboxStatus::Running).await;
        fixture
    }

    /// Waits for a settled status.
    async fn becomes(&self, status: SandboxStatus) -> Arc<SandboxRecord> {
        let becomes = async {
            loop {
                let record = self.fleet.record(&self.id).await.expect("a record");
                if record.state.operation.is_none() && record.state.status == status {
                    return record;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        match timeout(PATIENCE, becomes).await {
            Ok(record) => record,
            Err(_) => panic!("never {status:?}: {:?}", self.fleet.record(&self.id).await),
        }
    }

    async fn set(&self, change: SandboxUpdate) {
        let now_ms = self.fleet.clock().now_ms();
        let record = self.fleet.store().update_sandbox(&self.id, change, now_ms).await.expect("it lives");
        self.fleet.publish_change(record);
    }

    /// Lets the TTL end now.
    async fn expire(&self) {
        let now_ms = self.fleet.clock().now_ms();
        self.set(SandboxUpdate { expires_ms: Some(Some(now_ms)), ..SandboxUpdate::default() }).await;
    }

    async fn command(&self, command: SandboxCommand) {
        self.fleet.command(&self.id, command).await.expect("it is accepted");
    }
}

#[tokio::test]
async fn at_the_end_of_its_ttl_a_sandbox_is_destroyed_paused_or_stopped() {
    let table = [
        (OnTtl::Destroy, SandboxStatus::Destroyed, false),
        (OnTtl::Pause, SandboxStatus::Paused, true),
        (OnTtl::Stop, SandboxStatus::Stopped, false),
    ];
    for (on_ttl, status, is_frozen) in table {
        let fixture = ExpiryFixture::new(on_ttl).await;
        fixture.expire().await;
        let record = fixture.becomes(status).await;
        let container = fixture.driver.container(&fixture.id);
        assert_eq!(container == Some(FakeContainer::Running { frozen: true }), is_frozen, "{on_ttl:?}");
        assert_eq!(record.expires_ms.is_none(), on_ttl != OnTtl::Destroy, "{on_ttl:?}: {record:?}");
    }
}

#[tokio::test]
async fn a_sandbox_that_its_ttl_paused_gets_it_anew_when_it_is_resumed() {
    let fixture = ExpiryFixture::new(OnTtl::Pause).await;
    for _ in 0..2 {
        fixture.expire().await;
        fixture.becomes(SandboxStatus::Paused).await;
        let before_ms = fixture.fleet.clock().now_ms();
        fixture.command(SandboxCommand::Resume).await;
        let record = fixture.becomes(SandboxStatus::Running).await;
        assert!(record.expires_ms.is_some_and(|ms| ms >= before_ms + LONG_MS), "{record:?}");
    }
    // Without a TTL it runs on.
    let unlimited = SandboxUpdate { expires_ms: Some(None), ttl_ms: Some(None), ..SandboxUpdate::default() };
    fixture.set(unlimited).await;
    fixture.command(SandboxCommand::Pause).await;
    fixture.becomes(SandboxStatus::Paused).await;
    fixture.command(SandboxCommand::Resume).await;
    assert_eq!(fixture.becomes(SandboxStatus::Running).await.expires_ms, None);
}

/// A client paused it before its TTL ended: it stays as it is, and is not touched by its end.
#[tokio::test]
async fn a_ttl_that_ends_while_the_sandbox_is_paused_leaves_it_paused() {
    let fixture = ExpiryFixture::new(OnTtl::Pause).await;
    fixture.command(SandboxCommand::Pause).await;
    fixture.becomes(SandboxStatus::Paused).await;
    fixture.expire().await;
    let cleared = async {
        while fixture.fleet.record(&fixture.id).await.expect("a record").expires_ms.is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, cleared).await.expect("the TTL is over");
    assert_eq!(fixture.driver.container(&fixture.id), Some(FakeContainer::Running { frozen: true }));
}

#[tokio::test]
async fn a_ttl_that_ended_while_no_hostd_ran_is_done_at_the_next_start() {
    let fixture = ExpiryFixture::new(OnTtl::Pause).await;
    fixture.fleet.close().await;
    let now_ms = fixture.fleet.clock().now_ms();
    let over = SandboxUpdate { expires_ms: Some(Some(now_ms)), ..SandboxUpdate::default() };
    fixture.fleet.store().update_sandbox(&fixture.id, over, now_ms).await.expect("it lives");
    let ExpiryFixture { driver, fleet, directory, id } = fixture;
    drop(fleet);
    let fleet = open(&driver, directory.path(), patient(LONG_MS)).await;
    let fixture = ExpiryFixture { driver, fleet, directory, id };
    fixture.becomes(SandboxStatus::Paused).await;
}
