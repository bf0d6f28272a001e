//! Mixed load, as on a busy machine, while everything around hostd fails: it is killed, sandboxes are, the disk is
//! nearly full, clients are slow. In the end no event is lost or seen twice, no answered write is forgotten, every
//! refusal had a code, and nothing is left of what was destroyed. `scripts/soak mixed` runs it for an hour and writes a
//! report; docs/reliability.md says how to read that.

mod faults;
mod follower;
mod leaks;
mod operations;
mod report;
mod samples;
mod worker;

use anyhow::{Context, Result, ensure};
use faults::{Faults, Outages, Surroundings};
use follower::{Follower, compare_with_log};
use operations::Operations;
use report::Report;
use samples::sample;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tests::engines::Engine;
use tests::launch::directory;
use tests::random::seed;
use tests::small_disk::SmallDisk;
use tests::{Caller, Hostd, Random, scaled};
use tokio::time::Instant;
use worker::Worker;

/// Sandboxes that are used at the same time.
const WORKERS: usize = 4;
/// Small enough to be filled often.
const DISK_MB: usize = 384;
/// Keeps a created sandbox possible at most times.
const FLOOR_MB: &str = "8";

/// What the parts of a run share.
pub struct Load {
    pub caller: Caller,
    pub operations: Operations,
    pub outages: Outages,
    pub driver: &'static str,
    /// The process id of hostd.
    pub hostd: AtomicI32,
    /// Nothing new is begun after this.
    pub deadline: Instant,
    /// hostd is not killed after this, so that its memory can be followed.
    pub calm_from: Instant,
    pub over: AtomicBool,
}

impl Load {
    fn new(hostd: &Hostd, driver: &'static str) -> Result<Self> {
        let length = Duration::from_secs(length_s());
        let now = Instant::now();
        Ok(Self {
            caller: hostd.local(),
            operations: Operations::default(),
            outages: Outages::default(),
            driver,
            hostd: AtomicI32::new(hostd.pid()?.as_raw()),
            deadline: now + length,
            calm_from: now + length * 2 / 3,
            over: AtomicBool::new(false),
        })
    }

    pub fn goes_on(&self) -> bool {
        Instant::now() < self.deadline
    }
}

/// How long the load lasts: `SLIPWAY_MIXED_SECONDS`, or short.
fn length_s() -> u64 {
    let given = std::env::var("SLIPWAY_MIXED_SECONDS").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(scaled(10, 600) as u64)
}

/// A dockerd of its own where `SLIPWAY_MIXED_DRIVER` is `docker`.
fn engine() -> Result<Option<Arc<Engine>>> {
    let docker = std::env::var("SLIPWAY_MIXED_DRIVER").is_ok_and(|driver| driver == "docker");
    docker.then(|| Engine::docker().map(Arc::new)).transpose()
}

async fn start(data: &std::path::Path, engine: Option<&Engine>) -> Result<Hostd> {
    let mut variables = vec![("SLIPWAY_DISK_FLOOR_MB".to_owned(), FLOOR_MB.to_owned())];
    if let Some(engine) = engine {
        variables.push(("SLIPWAY_DRIVER".to_owned(), "docker".to_owned()));
        variables.push(("SLIPWAY_DOCKER_SOCKET".to_owned(), engine.socket().display().to_string()));
    }
    Hostd::start_in(directory()?, data.to_owned(), variables).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_mixed_load_and_faults_nothing_is_lost_doubled_or_leaked() -> Result<()> {
    let seed = seed();
    let mut random = Random::from_seed(seed);
    // Dropped last, after hostd, the engine and the mount.
    let outside = directory()?;
    let data = outside.path().join("data");
    let disk = SmallDisk::mount(&data, DISK_MB)?;
    let engine = engine()?;
    let hostd = start(&data, engine.as_deref()).await?;
    let before = leaks::footprint(&hostd)?;
    let load = Arc::new(Load::new(&hostd, if engine.is_some() { "docker" } else { "oci" })?);

    let last = Arc::new(AtomicU64::new(u64::MAX));
    let followers = [false, true].map(|flaky| {
        let follower = Follower::new(load.clone(), last.clone(), flaky.then(|| random.branch()));
        tokio::spawn(follower.run())
    });
    let workers: Vec<_> =
        (0..WORKERS).map(|number| tokio::spawn(Worker::new(&load, number, random.branch()).run())).collect();
    let mut faults = Faults::new(Surroundings { hostd, disk, engine }, random.branch());
    let working = async {
        let mut tasks = Vec::new();
        for worker in workers {
            tasks.extend(worker.await??);
        }
        load.over.store(true, Ordering::Relaxed);
        Ok(tasks)
    };
    let (samples, stalled) = (sample(&load, &data), follower::stalled(&load));
    let worked = tokio::try_join!(working, faults.go_on(&load), samples, stalled);
    let (surroundings, counts) = faults.end();
    let hostd = surroundings.hostd;
    let (tasks, (), samples, ()) = worked.with_context(|| hostd.said())?;

    let left = leaks::after_cleanup(&hostd, &load, &before).await.with_context(|| hostd.said())?;
    last.store(follower::last_event(&load.caller).await?, Ordering::Relaxed);
    let mut seen = Vec::new();
    for follower in followers {
        seen.push(follower.await??);
    }
    let events = compare_with_log(&load.caller, &seen, &tasks).await?;
    let report = Report { load: &load, counts, events, left, samples, length_s: length_s(), seed };
    report.write()?;
    report.check().with_context(|| errors_of(&hostd))
}

/// What hostd logged as an error.
fn errors_of(hostd: &Hostd) -> String {
    let said = hostd.said();
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("\"ERROR\"")).collect();
    format!("hostd logged {} errors:\n{}", errors.len(), errors.join("\n"))
}

/// A page of a list, and the next ones, as values.
pub async fn all(caller: &Caller, path: &str) -> Result<Vec<serde_json::Value>> {
    let page: serde_json::Value = caller.get(&format!("{path}?limit=1000")).await?.expect(200)?;
    ensure!(page["next"].is_null(), "{path} has more than a page");
    Ok(page["items"].as_array().context("items")?.clone())
}

/// Deletes, until it is answered: hostd may be on its way.
pub async fn delete(caller: &Caller, path: &str) -> Result<()> {
    tests::host::until(path, async || {
        let reply = caller.delete(path).await?;
        Ok((reply.status < 300 || reply.status == 404).then_some(()))
    })
    .await
}

/// What a sandbox of the load is made of: an app that answers at port 8000.
pub fn spec(name: &str) -> serde_json::Value {
    let serve = "mkdir -p /tmp/www && echo up >/tmp/www/index.html && exec busybox httpd -f -p 127.0.0.1:8000 -h /tmp/www";
    json!({
        "name": name,
        "ports": [8000],
        "limits": {"memory_mb": 256},
        "services": [{"name": "site", "command": serve, "port": 8000}],
    })
}
