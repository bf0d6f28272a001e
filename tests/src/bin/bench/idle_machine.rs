//! Waits for an idle machine before each measurement, so that deferred work of the previous one (dockerd
//! cleans up after it has answered) is not measured.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(60);
const IDLE: f64 = 0.85;
/// On a machine that others use there may be no such moment.
const PATIENCE: Duration = Duration::from_millis(1_500);

pub async fn calm() -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let (idle, all) = jiffies()?;
        tokio::time::sleep(WINDOW).await;
        let (idle_then, all_then) = jiffies()?;
        if (idle_then - idle) / (all_then - all).max(1.0) >= IDLE {
            break;
        }
    }
    Ok(())
}

/// Idle and all time since the machine started.
fn jiffies() -> Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("a first line")?;
    let numbers: Vec<f64> =
        line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
    Ok((numbers.get(3).copied().context("the idle time")?, numbers.iter().sum()))
}
