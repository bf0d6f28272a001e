//! Random commands × faults of the driver × changes from outside × crashes of hostd, over the real reconciler and the
//! real store. Invariants are checked throughout; in the end the faults stop, and every sandbox must come to rest at
//! its goal. A failure prints its seed: `SLIPWAY_SEED=… cargo test -p hostd simulation`.

use super::fixture::{new_sandbox, open, timing};
use crate::reconcile::{Fleet, SandboxCommand};
use hostd_core::{Goal, State};
use hostd_drivers::fake::{FakeContainer, FakeDriver, Faults, SeededRng};
use hostd_edge::traffic::PreviewStream;
use hostd_store::{EventFilter, SandboxRecord};
use protocol::api::{DeathCause, IdlePolicy, ProblemCode, SandboxId, SandboxSpec, SandboxStatus};
use serde_json::json;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

struct Simulation {
    rng: SeededRng,
    driver: Arc<FakeDriver>,
    fleet: Fleet,
    directory: tempfile::TempDir,
    sandboxes: Vec<SandboxId>,
    idle_ms: u64,
    /// Streams of browsers; they do not survive hostd.
    streams: Vec<PreviewStream>,
}

/// No sandbox falls asleep within a test: longer than the fake runtimed reports as idle.
const NEVER_MS: u64 = 24 * 3_600_000;

/// Bounds a test that hangs; a seed takes about a second.
const SEED_MAX: Duration = Duration::from_secs(300);
/// Bounds the wait for one sandbox.
const PATIENCE: Duration = Duration::from_secs(60);

impl Simulation {
    async fn new(seed: u64, idle_ms: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(FakeDriver::default());
        driver.inject_faults(Faults::new(seed, 15));
        let fleet = open(&driver, directory.path(), timing(idle_ms)).await;
        let (sandboxes, streams) = (Vec::new(), Vec::new());
        Self { rng: SeededRng(seed), driver, fleet, directory, sandboxes, idle_ms, streams }
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..=3 if self.sandboxes.len() < 6 => self.create().await,
            4 => self.crash().await,
            5 => self.change_externally(),
            6 => self.browse(),
            7..=8 => tokio::time::sleep(Duration::from_millis(self.rng.below(20))).await,
            _ => self.command().await,
        }
        let violations = self.driver.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// Changes a sandbox from outside, or makes the backend unavailable for a while.
    fn change_externally(&mut self) {
        let Some(id) = self.pick() else { return };
        let causes = [DeathCause::Killed, DeathCause::Oom, DeathCause::Removed, DeathCause::ShutDown];
        match self.rng.below(10) {
            cause @ 0..=3 => {
                self.driver
                    .set_externally(&id, FakeContainer::Dead(causes[usize::try_from(cause).expect("a few")]));
            }
            4 => self.driver.freeze_externally(&id, true),
            5 => self.driver.freeze_externally(&id, false),
            6 => self.driver.start_externally(&id),
            7 => self.driver.restart_externally(&id),
            8 => self.driver.unavailable.store(true, Ordering::Relaxed),
            _ => self.driver.unavailable.store(false, Ordering::Relaxed),
        }
    }

    async fn create(&mut self) {
        let spec = SandboxSpec {
            idle_policy: (self.rng.below(3) == 0).then_some(IdlePolicy::AlwaysOn),
            ..SandboxSpec::default()
        };
        let new = new_sandbox(&self.fleet, self.rng.next_u64(), &spec);
        let id = new.id;
        self.fleet.create(new).await.expect("a create is accepted");
        self.sandboxes.push(id);
    }

    async fn command(&mut self) {
        let Some(id) = self.pick() else { return };
        let command = match self.rng.below(9) {
            0 | 1 => SandboxCommand::Start,
            2 | 3 => SandboxCommand::Stop,
            4 => SandboxCommand::Pause,
            5 => SandboxCommand::Resume,
            6 => SandboxCommand::Recreate { keep_workspace: self.rng.below(2) == 0 },
            7 => SandboxCommand::Destroy { keep_workspace: false },
            _ => {
                let _ = self.fleet.wake(&id).await;
                return;
            }
        };
        let accepted = self.fleet.command(&id, command).await;
        if matches!(command, SandboxCommand::Destroy { .. }) {
            accepted.expect("destroy is always accepted");
        }
    }

    /// Opens a stream of a browser, moves bytes on one, or closes one.
    fn browse(&mut self) {
        let Some(traffic) = self.pick().and_then(|id| self.fleet.traffic(&id)) else { return };
        match (self.rng.below(3), self.streams.last_mut()) {
            (0, Some(stream)) => stream.record_bytes(1_000),
            (1, Some(_)) => drop(self.streams.pop()),
            _ => self.streams.push(traffic.stream()),
        }
    }

    /// Kills hostd and starts another one.
    async fn crash(&mut self) {
        self.fleet.close().await;
        self.fleet.store().clone().close().await;
        self.streams.clear();
        self.fleet = open(&self.driver, self.directory.path(), timing(self.idle_ms)).await;
    }

    fn pick(&mut self) -> Option<SandboxId> {
        let count = u64::try_from(self.sandboxes.len()).expect("a few");
        (count > 0).then(|| self.sandboxes[usize::try_from(self.rng.below(count)).expect("a few")])
    }

    /// Stops the faults. Every sandbox must come to rest, as its record says.
    async fn calm(&mut self) {
        self.driver.inject_faults(Faults::default());
        self.driver.unavailable.store(false, Ordering::Relaxed);
        if self.idle_ms != NEVER_MS {
            // A sandbox that falls asleep meanwhile would prove nothing.
            self.idle_ms = NEVER_MS;
            self.crash().await;
        }
        for id in self.sandboxes.clone() {
            let record = self.at_rest(&id).await;
            let written = self.fleet.store().sandbox(&id).await.expect("readable").expect("there");
            assert_eq!(
                written.state, record.state,
                "{id}: the record that is shown is the one that is written"
            );
            self.check_post_mortem(&record).await;
            assert!(!record.state.dozing || record.state.status == SandboxStatus::Paused, "{record:?}");
            assert!(
                record.state.status != SandboxStatus::Destroyed || !self.driver.has_files(&id),
                "{id} leaks files"
            );
        }
    }

    /// Checks that a death has a post-mortem, in the record, on an attempt and in its event.
    async fn check_post_mortem(&self, record: &SandboxRecord) {
        let filter = EventFilter { sandbox: Some(record.id), ..EventFilter::default() };
        let events = self.fleet.store().events(filter, 0, 10_000).await.expect("readable");
        let told = events.iter().rev().find_map(|event| event.data.get("post_mortem"));
        assert_eq!(told, record.post_mortem.as_ref().map(|told| json!(told)).as_ref());
        let code = record.state.problem.as_ref().map(|problem| problem.code);
        if matches!(code, Some(ProblemCode::Died | ProblemCode::Oom)) {
            let attempts = self.fleet.store().attempts(&record.id, None, 1_000).await.expect("readable");
            assert!(attempts.iter().any(|attempt| attempt.post_mortem == record.post_mortem), "{record:?}");
            assert!(record.post_mortem.is_some(), "{record:?}");
        }
    }

    /// Waits until no operation is under way and record and container agree. A death may not be noticed yet, and the
    /// container is removed after an error is recorded: so both are polled.
    async fn at_rest(&self, id: &SandboxId) -> Arc<SandboxRecord> {
        let agree = async {
            loop {
                let record = self.fleet.record(id).await.expect("a record");
                let fits = self.driver.container(id) == container_at(record.state.status);
                if record.state.operation.is_none() && fits && !awaits_retry(&record) {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, agree).await {
            Ok(record) => record,
            Err(_) => {
                let record = self.fleet.record(id).await.expect("a record");
                panic!(
                    "{id} does not come to rest: {:?}, and there is {:?}",
                    record.state,
                    self.driver.container(id)
                );
            }
        }
    }
}

/// Whether an always-on sandbox is about to be tried again because its backend was away.
fn awaits_retry(record: &SandboxRecord) -> bool {
    let State { goal, status, problem, .. } = &record.state;
    let away = problem.as_ref().is_some_and(|problem| problem.code == ProblemCode::DriverUnavailable);
    let down = matches!(status, SandboxStatus::Stopped | SandboxStatus::Error);
    record.blueprint.idle_policy == IdlePolicy::AlwaysOn && *goal == Goal::Running && down && away
}

fn container_at(status: SandboxStatus) -> Option<FakeContainer> {
    match status {
        SandboxStatus::Running => Some(FakeContainer::Running { frozen: false }),
        SandboxStatus::Paused => Some(FakeContainer::Running { frozen: true }),
        SandboxStatus::Creating
        | SandboxStatus::Stopped
        | SandboxStatus::Error
        | SandboxStatus::Destroyed => None,
    }
}

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("SLIPWAY_SEED") {
        return vec![seed.parse().expect("SLIPWAY_SEED is a number")];
    }
    let count = if std::env::var_os("SLIPWAY_SOAK").is_some() { 400 } else { 12 };
    let start = u64::from(std::process::id());
    (0..count).map(|n| start * 1_000 + n).collect()
}

#[tokio::test]
async fn whatever_happens_every_sandbox_reaches_its_goal() {
    simulate(NEVER_MS).await;
}

#[tokio::test]
async fn whatever_happens_every_sandbox_that_falls_asleep_reaches_its_goal() {
    simulate(20).await;
}

async fn simulate(idle_ms: u64) {
    for seed in seeds() {
        // Shown only when this fails.
        println!("SLIPWAY_SEED={seed}");
        let done = tokio::time::timeout(SEED_MAX, live(seed, idle_ms)).await;
        done.unwrap_or_else(|_| panic!("seed {seed} hangs"));
    }
}

async fn live(seed: u64, idle_ms: u64) {
    let mut simulation = Simulation::new(seed, idle_ms).await;
    for _ in 0..60 {
        simulation.step().await;
    }
    simulation.calm().await;
    for id in simulation.sandboxes.clone() {
        simulation
            .fleet
            .command(&id, SandboxCommand::Destroy { keep_workspace: false })
            .await
            .expect("always accepted");
        let record = simulation.fleet.wait_settled(&id, PATIENCE).await.expect("destroyed");
        assert_eq!((record.state.goal, record.state.status), (Goal::Destroyed, SandboxStatus::Destroyed));
        assert!(
            !simulation.driver.has_files(&id) && simulation.driver.container(&id).is_none(),
            "{id} leaks"
        );
    }
    simulation.fleet.close().await;
}
