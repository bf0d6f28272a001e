//! Injects the faults: hostd, PID 1 of sandboxes and dockerd are killed, and the disk is nearly full for a while.

use super::Load;
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tests::engines::Engine;
use tests::small_disk::SmallDisk;
use tests::{Hostd, Random};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Between two faults: so many in a run, and not more often than hostd starts.
const FAULTS: u32 = 40;
const PAUSE_MIN: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// How long the disk stays nearly full.
const FULL_MAX_MS: u64 = 1000;
/// Space that is left on the disk then.
const LEFT_MAX_BYTES: u64 = 1 << 20;

/// The times at which hostd is dead: a connection that is cut off then is not its fault.
#[derive(Debug, Default)]
pub struct Outages {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Sandboxes that were killed: only that can cut off the response of an app.
    deaths: AtomicU64,
}

impl Outages {
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::SeqCst)
    }

    /// Whether hostd was dead at any time since so many outages had ended.
    pub fn since(&self, ended: u64) -> bool {
        self.begun.load(Ordering::SeqCst) > ended
    }
}

/// What a fault is injected into.
pub struct Surroundings {
    pub hostd: Hostd,
    pub disk: SmallDisk,
    pub engine: Option<Arc<Engine>>,
}

/// How often each was injected.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct FaultCounts {
    pub hostd_killed: u64,
    pub sandboxes_killed: u64,
    pub engine_killed: u64,
    pub disk_filled: u64,
}

pub struct Faults {
    at: Surroundings,
    random: Random,
    counts: FaultCounts,
}

impl Faults {
    pub fn new(at: Surroundings, random: Random) -> Self {
        Self { at, random, counts: FaultCounts::default() }
    }

    pub fn end(self) -> (Surroundings, FaultCounts) {
        (self.at, self.counts)
    }

    pub async fn go_on(&mut self, load: &Load) -> Result<()> {
        let pause = load.deadline.duration_since(Instant::now()) / FAULTS;
        let most_ms = pause.clamp(PAUSE_MIN, PAUSE_MAX).as_millis() as u64;
        let mut count = 0;
        while !load.over.load(Ordering::Relaxed) {
            self.moments(most_ms).await;
            let calm = Instant::now() >= load.calm_from;
            // One of each comes first.
            match if count < 9 { count } else { self.random.below(10) } {
                0..3 if !calm => self.kill_hostd(load).await?,
                3 if !calm && self.at.engine.is_some() => self.kill_engine().await?,
                0..7 => self.kill_sandbox(load).await?,
                _ => self.fill().await?,
            }
            count += 3;
        }
        Ok(())
    }

    async fn moments(&mut self, most_ms: u64) {
        sleep(Duration::from_millis(self.random.below(most_ms))).await;
    }

    async fn kill_hostd(&mut self, load: &Load) -> Result<()> {
        self.counts.hostd_killed += 1;
        load.operations.note("SIGKILL for hostd".to_owned());
        load.outages.begun.fetch_add(1, Ordering::SeqCst);
        self.at.hostd.crash().await?;
        load.hostd.store(self.at.hostd.pid()?.as_raw(), Ordering::Relaxed);
        load.outages.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// SIGKILL for PID 1 of any sandbox that runs.
    async fn kill_sandbox(&mut self, load: &Load) -> Result<()> {
        let running = super::all(&load.caller, "/v1/sandboxes").await?;
        let ids: Vec<&str> = running
            .iter()
            .filter(|view| view["status"] == "running")
            .filter_map(|view| view["id"].as_str())
            .collect();
        let Some(id) = ids.get(self.random.below(ids.len() as u64) as usize) else { return Ok(()) };
        // The pid of a dead process may have been used again.
        if let Ok(init) = self.at.hostd.init(id)
            && self.at.hostd.processes()?.contains(&init.as_raw())
        {
            self.counts.sandboxes_killed += 1;
            load.operations.note(format!("SIGKILL for PID 1 of {id}"));
            // On both sides: a request between them counts as before.
            load.outages.deaths.fetch_add(1, Ordering::SeqCst);
            let _ = kill(init, Signal::SIGKILL);
            load.outages.deaths.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn kill_engine(&mut self) -> Result<()> {
        let Some(engine) = self.at.engine.clone() else { return Ok(()) };
        self.counts.engine_killed += 1;
        let killed = engine.clone();
        spawn_blocking(move || killed.kill()).await??;
        self.moments(FULL_MAX_MS).await;
        spawn_blocking(move || engine.again()).await?
    }

    async fn fill(&mut self) -> Result<()> {
        self.counts.disk_filled += 1;
        self.at.disk.fill_but(self.random.below(LEFT_MAX_BYTES))?;
        self.moments(FULL_MAX_MS).await;
        self.at.disk.empty()
    }
}
