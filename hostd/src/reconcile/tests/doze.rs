//! Idle sandboxes that doze or stop, over the real reconciler and a driver in memory.

use super::fixture::{new_sandbox, open, patient};
use crate::reconcile::{Fleet, SandboxCommand};
use hostd_core::{State, limits};
use hostd_drivers::fake::{FakeContainer, FakeDriver};
use hostd_edge::traffic::PreviewStream;
use hostd_store::EventFilter;
use protocol::api::{SandboxId, SandboxSpec, SandboxStatus};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// A short idle window; eight of them are long enough for a test to see it dozing.
const IDLE_MS: u64 = 400;

struct DozeFixture {
    driver: Arc<FakeDriver>,
    fleet: Fleet,
    directory: tempfile::TempDir,
    id: SandboxId,
}

async fn create(fleet: &Fleet, number: u64) -> SandboxId {
    let new = new_sandbox(fleet, number, &SandboxSpec::default());
    fleet.create(new).await.expect("a create is accepted").id
}

impl DozeFixture {
    /// A fleet with one running sandbox without activity.
    async fn new(idle_ms: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(FakeDriver::default());
        let fleet = open(&driver, directory.path(), patient(idle_ms)).await;
        let id = create(&fleet, 1).await;
        Self { driver, fleet, directory, id }
    }

    fn stream(&self, id: &SandboxId) -> PreviewStream {
        self.fleet.traffic(id).expect("it lives").stream()
    }

    /// Waits for a settled state.
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

    async fn dozes(&self, id: &SandboxId) {
        self.becomes(id, "dozing", State::dozes).await;
        assert_eq!(self.driver.container(id), Some(FakeContainer::Running { frozen: true }));
    }

    async fn is_stopped(&self, id: &SandboxId) {
        self.becomes(id, "stopped", |state| state.status == SandboxStatus::Stopped).await;
    }

    async fn has_dozed(&self) -> bool {
        let filter = EventFilter { kinds: vec!["sandbox.paused".to_owned()], ..EventFilter::default() };
        !self.fleet.store().events(filter, 0, 1).await.expect("events").is_empty()
    }

    async fn kinds(&self) -> Vec<String> {
        let filter = EventFilter::default();
        let events = self.fleet.store().events(filter, 0, 1_000).await.expect("events");
        events.into_iter().map(|event| event.kind).collect()
    }
}

#[tokio::test]
async fn without_a_stream_it_is_stopped_and_with_one_it_dozes_until_that_is_closed() {
    let fixture = DozeFixture::new(IDLE_MS).await;
    fixture.is_stopped(&fixture.id).await;
    assert!(!fixture.kinds().await.contains(&"sandbox.paused".to_owned()));
    let stream = fixture.stream(&fixture.id);
    fixture.fleet.wake(&fixture.id).await.expect("it wakes");
    fixture.dozes(&fixture.id).await;
    drop(stream);
    fixture.is_stopped(&fixture.id).await;
}

#[tokio::test]
async fn a_client_thaws_a_dozing_sandbox_and_it_dozes_off_again() {
    // Long windows: however slow the machine, this ends within the eight after which it is stopped.
    let fixture = DozeFixture::new(4 * IDLE_MS).await;
    let _stream = fixture.stream(&fixture.id);
    for _ in 0..3 {
        fixture.dozes(&fixture.id).await;
        let (record, _control) = fixture.fleet.wake(&fixture.id).await.expect("it wakes");
        assert!(record.state.is_up() && !record.state.dozing, "{record:?}");
        assert_eq!(record.attempt, 1, "it was never launched again");
    }
}

#[tokio::test]
async fn streams_that_are_silent_for_very_long_do_not_keep_its_memory() {
    let fixture = DozeFixture::new(IDLE_MS).await;
    let traffic = fixture.fleet.traffic(&fixture.id).expect("it lives");
    let _stream = traffic.stream();
    fixture.dozes(&fixture.id).await;
    fixture.is_stopped(&fixture.id).await;
    assert_eq!(traffic.streams(), 1);
    let windows = hostd_core::DOZE_MAX_WINDOWS * IDLE_MS;
    assert!(traffic.silent_for() >= Duration::from_millis(windows), "{:?}", traffic.quiet());
}

#[tokio::test]
async fn a_paused_sandbox_stays_paused_and_so_does_one_that_dozed_when_a_client_paused_it() {
    let fixture = DozeFixture::new(IDLE_MS).await;
    let stream = fixture.stream(&fixture.id);
    fixture.dozes(&fixture.id).await;
    let record =
        fixture.fleet.command(&fixture.id, SandboxCommand::Pause).await.expect("it is frozen already");
    assert!(!record.state.dozing, "{record:?}");
    drop(stream);
    // Another sandbox, created later, has the time to doze and to be stopped.
    let other = create(&fixture.fleet, 2).await;
    let stream = fixture.stream(&other);
    fixture.dozes(&other).await;
    drop(stream);
    fixture.is_stopped(&other).await;
    let record = fixture.fleet.record(&fixture.id).await.expect("a record");
    assert_eq!((record.state.status, record.state.dozing), (SandboxStatus::Paused, false));
}

#[tokio::test]
async fn a_sandbox_that_dozed_when_hostd_died_is_stopped_by_the_next() {
    let mut fixture = DozeFixture::new(IDLE_MS).await;
    let _stream = fixture.stream(&fixture.id);
    fixture.dozes(&fixture.id).await;
    fixture.fleet.close().await;
    fixture.fleet.store().clone().close().await;
    fixture.fleet = open(&fixture.driver, fixture.directory.path(), patient(IDLE_MS)).await;
    fixture.is_stopped(&fixture.id).await;
}

/// A client with a lease talks to a sandbox that is not frozen, however its coming and the sandbox's falling asleep
/// interleave.
#[tokio::test]
async fn no_client_with_a_lease_finds_the_sandbox_frozen() {
    let fixture = DozeFixture::new(2).await;
    let traffic = fixture.fleet.traffic(&fixture.id).expect("it lives");
    for round in 0..3_000_u64 {
        // On a machine that is slow to write, no sandbox falls asleep between two clients that come in short order.
        let slow = 1 + round / 300;
        let stream = (round % 3 != 0).then(|| traffic.stream());
        let (_, control) = fixture.fleet.wake(&fixture.id).await.expect("it wakes");
        for _ in 0..3 {
            assert_eq!(
                fixture.driver.container(&fixture.id),
                Some(FakeContainer::Running { frozen: false }),
                "in round {round}"
            );
            sleep(Duration::from_micros(300)).await;
        }
        drop(control);
        sleep(Duration::from_micros((round * 37) % (6_000 * slow))).await;
        drop(stream);
        if round % 300 == 299 && fixture.has_dozed().await {
            return;
        }
    }
    panic!("it never dozed");
}

#[tokio::test]
async fn a_thaw_starts_no_sandbox_that_is_being_stopped() {
    let fixture = DozeFixture::new(600_000).await;
    fixture.fleet.wake(&fixture.id).await.expect("it comes up");
    fixture.fleet.command(&fixture.id, SandboxCommand::Pause).await.expect("it runs");
    let (record, _control) = fixture.fleet.thaw(&fixture.id).await.expect("it is only frozen");
    assert!(record.state.is_up(), "{record:?}");
    fixture.fleet.command(&fixture.id, SandboxCommand::Stop).await.expect("legal");
    assert!(fixture.fleet.thaw(&fixture.id).await.is_err(), "on its way down");
    fixture.is_stopped(&fixture.id).await;
    assert!(fixture.fleet.thaw(&fixture.id).await.is_err(), "down");
    fixture.is_stopped(&fixture.id).await;
    assert_eq!(fixture.fleet.record(&fixture.id).await.expect("a record").attempt, 1);
}

#[tokio::test]
async fn a_sandbox_frozen_during_the_activity_request_is_not_waited_for() {
    let fixture = DozeFixture::new(7_200_000).await;
    fixture.fleet.wake(&fixture.id).await.expect("it comes up");
    let begun = Instant::now();
    let (freeze, running) =
        (&fixture.driver.freeze_on_status, Some(FakeContainer::Running { frozen: false }));
    freeze.store(true, Ordering::Relaxed);
    let thawed = async {
        while freeze.load(Ordering::Relaxed) || fixture.driver.container(&fixture.id) != running {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, thawed).await.expect("it is thawed");
    assert!(
        begun.elapsed() < Duration::from_millis(limits::CONTROL_TIMEOUT_MS),
        "not only after the request timed out"
    );
}
