//! Counts the bytes of a transfer, and shows them on a terminal.

use crate::{humanize, output::Output, progress::Progress, text::truncate};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Columns of a name in the line.
const NAME_COLUMNS: usize = 40;
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// One transfer. Shows nothing before it has taken a while.
pub struct Transfer {
    name: String,
    total_bytes: Option<u64>,
    done_bytes: AtomicU64,
    started: Instant,
    progress: Option<Progress>,
    shown: Mutex<Instant>,
}

impl Transfer {
    /// `total_bytes`: where it is known.
    pub fn new(output: Output, name: &str, total_bytes: Option<u64>) -> Self {
        let name = truncate(name, NAME_COLUMNS);
        let progress = Progress::start(output, name.clone());
        Self { progress: Some(progress), ..Self::named(name, total_bytes) }
    }

    /// A transfer that shows nothing.
    pub fn silent() -> Self {
        Self::named(String::new(), None)
    }

    fn named(name: String, total_bytes: Option<u64>) -> Self {
        let (done_bytes, started) = (AtomicU64::new(0), Instant::now());
        Self { name, total_bytes, done_bytes, started, progress: None, shown: Mutex::new(started) }
    }

    pub fn add(&self, bytes: usize) {
        let done = self.done_bytes.fetch_add(bytes as u64, Ordering::Relaxed).saturating_add(bytes as u64);
        let (Some(progress), Ok(mut shown)) = (&self.progress, self.shown.lock()) else { return };
        if shown.elapsed() >= SHOW_EVERY {
            *shown = Instant::now();
            progress.set_text(line(&self.name, done, self.total_bytes, self.started.elapsed()));
        }
    }
}

fn line(name: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = (done as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let amount = match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = done.min(total).saturating_mul(100) / total;
            format!("{percent}% of {}", humanize::bytes(total))
        }
        None => humanize::bytes(done),
    };
    format!("{name}  {amount}  {}/s", humanize::bytes(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_and_how_fast() {
        let second = Duration::from_secs(1);
        let table = [
            (line("a", 512, Some(1024), second), "a  50% of 1.0 KiB  512 B/s"),
            // A file that grows meanwhile.
            (line("a", 4096, Some(1024), second * 2), "a  100% of 1.0 KiB  2.0 KiB/s"),
            (line("a", 2048, None, second), "a  2.0 KiB  2.0 KiB/s"),
            (line("a", 0, Some(0), Duration::ZERO), "a  0 B  0 B/s"),
        ];
        for (shown, expected) in table {
            assert_eq!(shown, expected);
        }
    }
}
