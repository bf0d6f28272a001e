//! Random commands × faults of the driver × deaths × crashes of hostd, over the real reconciler and the
//! real store. Invariants are checked throughout; in the end the faults stop, and everything must come to
//! rest where its owner wants it. A failure prints its seed: `SLIPWAY_SEED=… cargo test -p hostd simulation`.

use super::{
    Ask, Fleet,
    fixture::{new_sandbox, open, timing},
};
use crate::{
    core::Goal,
    driver::fake::{Body, Dice, Fake, Faults},
    store::SandboxRecord,
    traffic::Stream,
};
use protocol::api::{SandboxId, SandboxSpec, SandboxStatus};
use std::{sync::Arc, time::Duration};

struct World {
    dice: Dice,
    driver: Arc<Fake>,
    fleet: Fleet,
    directory: tempfile::TempDir,
    sandboxes: Vec<SandboxId>,
    idle_ms: u64,
    /// Of browsers; they do not survive hostd.
    streams: Vec<Stream>,
}

/// Nobody falls asleep within a test.
const NEVER_MS: u64 = 3_600_000;

impl World {
    async fn new(seed: u64, idle_ms: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let driver = Arc::new(Fake::default());
        driver.misbehave(Faults::new(seed, 15));
        let fleet = open(&driver, directory.path(), timing(idle_ms)).await;
        let (sandboxes, streams) = (Vec::new(), Vec::new());
        Self { dice: Dice(seed), driver, fleet, directory, sandboxes, idle_ms, streams }
    }

    async fn step(&mut self) {
        match self.dice.below(20) {
            0..=3 if self.sandboxes.len() < 6 => self.create().await,
            4 => self.crash().await,
            5 => {
                if let Some(id) = self.pick() {
                    self.driver.kill(&id);
                }
            }
            6 => self.browse(),
            7..=8 => tokio::time::sleep(Duration::from_millis(self.dice.below(20))).await,
            _ => self.ask().await,
        }
        let violations = self.driver.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }

    async fn create(&mut self) {
        let spec = SandboxSpec {
            idle_policy: (self.dice.below(3) == 0).then_some(protocol::api::IdlePolicy::AlwaysOn),
            ..SandboxSpec::default()
        };
        let new = new_sandbox(&self.fleet, self.dice.next(), &spec);
        let id = new.id;
        self.fleet.create(new).await.expect("a create is accepted");
        self.sandboxes.push(id);
    }

    async fn ask(&mut self) {
        let Some(id) = self.pick() else { return };
        let ask = match self.dice.below(9) {
            0 | 1 => Ask::Start,
            2 | 3 => Ask::Stop,
            4 => Ask::Pause,
            5 => Ask::Resume,
            6 => Ask::Recreate { keep_workspace: self.dice.below(2) == 0 },
            7 => Ask::Destroy { keep_workspace: false },
            _ => {
                let _ = self.fleet.awake(&id).await;
                return;
            }
        };
        let asked = self.fleet.ask(&id, ask).await;
        if matches!(ask, Ask::Destroy { .. }) {
            asked.expect("destroy is always accepted");
        }
    }

    /// A browser opens a stream, says something on one, or closes one.
    fn browse(&mut self) {
        let Some(traffic) = self.pick().and_then(|id| self.fleet.traffic(&id)) else { return };
        match (self.dice.below(3), self.streams.last_mut()) {
            (0, Some(stream)) => stream.moved(1_000),
            (1, Some(_)) => drop(self.streams.pop()),
            _ => self.streams.push(traffic.stream()),
        }
    }

    /// hostd dies: nothing of it runs on. A new one takes over.
    async fn crash(&mut self) {
        self.fleet.close().await;
        self.fleet.store().clone().close().await;
        self.streams.clear();
        self.fleet = open(&self.driver, self.directory.path(), timing(self.idle_ms)).await;
    }

    fn pick(&mut self) -> Option<SandboxId> {
        let count = u64::try_from(self.sandboxes.len()).expect("a few");
        (count > 0).then(|| self.sandboxes[usize::try_from(self.dice.below(count)).expect("a few")])
    }

    /// The faults stop. Everything must come to rest, and be what its record says.
    async fn calm(&mut self) {
        self.driver.misbehave(Faults::default());
        if self.idle_ms != NEVER_MS {
            // What falls asleep while it is looked at says nothing.
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
            assert!(!record.state.dozing || record.state.status == SandboxStatus::Paused, "{record:?}");
            assert!(
                record.state.status != SandboxStatus::Destroyed || !self.driver.has_files(&id),
                "{id} leaks files"
            );
        }
    }

    /// Waits until nothing is being done and record and backend agree. A death may not be noticed yet, and
    /// clearing away goes on after an error is recorded: so both are looked at again.
    async fn at_rest(&self, id: &SandboxId) -> Arc<SandboxRecord> {
        let agree = async {
            loop {
                let record = self.fleet.record(id).await.expect("a record");
                if record.state.effort.is_none() && self.driver.body(id) == body_at(record.state.status) {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), agree).await {
            Ok(record) => record,
            Err(_) => {
                let record = self.fleet.record(id).await.expect("a record");
                panic!(
                    "{id} does not come to rest: {:?}, and there is {:?}",
                    record.state,
                    self.driver.body(id)
                );
            }
        }
    }
}

fn body_at(status: SandboxStatus) -> Option<Body> {
    match status {
        SandboxStatus::Running => Some(Body::Running { frozen: false }),
        SandboxStatus::Paused => Some(Body::Running { frozen: true }),
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
async fn whatever_happens_every_sandbox_ends_where_its_owner_wants_it() {
    simulate(NEVER_MS).await;
}

#[tokio::test]
async fn so_does_one_that_falls_asleep_again_and_again() {
    simulate(20).await;
}

async fn simulate(idle_ms: u64) {
    for seed in seeds() {
        // Shown only when this fails.
        println!("SLIPWAY_SEED={seed}");
        let mut world = World::new(seed, idle_ms).await;
        for _ in 0..60 {
            world.step().await;
        }
        world.calm().await;
        for id in world.sandboxes.clone() {
            world.fleet.ask(&id, Ask::Destroy { keep_workspace: false }).await.expect("always accepted");
            let record = world.fleet.settled(&id, Duration::from_secs(20)).await.expect("destroyed");
            assert_eq!((record.state.goal, record.state.status), (Goal::Destroyed, SandboxStatus::Destroyed));
            assert!(!world.driver.has_files(&id) && world.driver.body(&id).is_none(), "{id} leaks");
        }
        world.fleet.close().await;
    }
}
