//! What hostd uses while the load goes on, and how that grows.

use super::Load;
use anyhow::Result;
use nix::unistd::Pid;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tests::processes::memory_bytes;
use tokio::time::{Instant, sleep};

/// Samples of one run.
const COUNT: u32 = 200;
/// Of the samples of a slope.
const SLOPE_MIN_S: f64 = 20.0;
const INTERVAL_MIN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sample {
    pub at_s: f64,
    /// Which hostd it was, by its process id.
    pub hostd: i32,
    pub memory_mb: f64,
    pub descriptors: usize,
    pub database_mb: f64,
}

#[derive(Debug, Default, Serialize)]
pub struct Samples(pub Vec<Sample>);

/// Takes samples until the load is over.
pub async fn sample(load: &Load, data: &Path) -> Result<Samples> {
    let begun = Instant::now();
    let interval = (load.deadline.duration_since(begun) / COUNT).max(INTERVAL_MIN);
    let mut samples = Samples::default();
    while !load.over.load(Ordering::Relaxed) {
        // hostd may be dead, or dying.
        samples.0.extend(take(load, data, begun));
        sleep(interval).await;
    }
    Ok(samples)
}

fn take(load: &Load, data: &Path, begun: Instant) -> Option<Sample> {
    let hostd = Pid::from_raw(load.hostd.load(Ordering::Relaxed));
    let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Some(Sample {
        at_s: begun.elapsed().as_secs_f64(),
        hostd: hostd.as_raw(),
        memory_mb: mb(memory_bytes(hostd, "Rss").ok()?),
        descriptors: std::fs::read_dir(format!("/proc/{hostd}/fd")).ok()?.count(),
        database_mb: mb(database_bytes(data)),
    })
}

pub fn database_bytes(data: &Path) -> u64 {
    let length = |name: &str| std::fs::metadata(data.join(name)).map_or(0, |meta| meta.len());
    length("slipway.db") + length("slipway.db-wal")
}

impl Samples {
    /// The samples of the last hostd, without its first half, in which caches and pools fill.
    pub fn of_last_hostd(&self) -> &[Sample] {
        let Some(last) = self.0.last() else { return &[] };
        let first = self.0.iter().rposition(|sample| sample.hostd != last.hostd).map_or(0, |at| at + 1);
        let own = &self.0[first..];
        &own[own.len() / 2..]
    }
}

/// How fast a value grows, by least squares, in its unit per hour; nothing where the time is too short to say.
pub fn slope_per_hour(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Option<f64> {
    let count = samples.len() as f64;
    let (first, last) = (samples.first()?, samples.last()?);
    if last.at_s - first.at_s < SLOPE_MIN_S {
        return None;
    }
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (time, size) = (mean(&|sample| sample.at_s), mean(&value));
    let both: f64 = samples.iter().map(|sample| (sample.at_s - time) * (value(sample) - size)).sum();
    let square: f64 = samples.iter().map(|sample| (sample.at_s - time).powi(2)).sum();
    Some(both / square * 3600.0)
}

#[test]
fn a_slope_is_what_a_value_grows_in_an_hour() {
    let sample = |at_s: f64| Sample {
        at_s,
        hostd: if at_s < 60.0 { 1 } else { 2 },
        memory_mb: 10.0 + at_s / 3600.0,
        descriptors: 3,
        database_mb: 1.0,
    };
    let samples = Samples([0.0, 30.0, 60.0, 90.0, 120.0, 150.0].map(sample).to_vec());
    assert_eq!(samples.of_last_hostd().len(), 2);
    let near = |slope: Option<f64>, expected: f64| slope.is_some_and(|slope| (slope - expected).abs() < 1e-6);
    assert!(near(slope_per_hour(&samples.0, |sample| sample.memory_mb), 1.0));
    assert!(near(slope_per_hour(samples.of_last_hostd(), |sample| sample.database_mb), 0.0));
    assert_eq!(slope_per_hour(&samples.0[..1], |sample| sample.memory_mb), None);
}
