//! Whether the sandbox is busy or idle, since when, and why.

use crate::limits::CPU_IDLE_PERCENT;
use protocol::{Activity, Reason};

/// Tracks since when the sandbox is busy or idle.
#[derive(Debug, Clone)]
pub struct Tracker {
    busy: bool,
    since: Now,
    cpu: Option<CpuSample>,
    cpu_percent: u32,
}

/// One moment on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub wall_ms: u64,
    pub monotonic_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct CpuSample {
    at_ms: u64,
    used_us: u64,
}

/// Two samples of the CPU counter closer than this are not compared.
const CPU_WINDOW_MIN_MS: u64 = 500;

impl Tracker {
    pub fn new(now: Now) -> Self {
        Self { busy: false, since: now, cpu: None, cpu_percent: 0 }
    }

    /// Takes a sample of the CPU counter. The share is the average since the last sample, so short bursts
    /// between rare samples still count.
    pub fn cpu(&mut self, used_us: u64, now_ms: u64) {
        let now = CpuSample { at_ms: now_ms, used_us };
        let Some(before) = self.cpu else {
            self.cpu = Some(now);
            return;
        };
        let window_ms = now_ms.saturating_sub(before.at_ms);
        if window_ms >= CPU_WINDOW_MIN_MS {
            let percent = used_us.saturating_sub(before.used_us) / (window_ms * 10);
            self.cpu_percent = u32::try_from(percent).unwrap_or(u32::MAX);
            self.cpu = Some(now);
        }
    }

    /// Takes all reasons but CPU use.
    pub fn update(&mut self, mut reasons: Vec<Reason>, now: Now) -> Activity {
        if self.cpu_percent >= CPU_IDLE_PERCENT {
            reasons.push(Reason::Cpu { percent: self.cpu_percent });
        }
        let busy = !reasons.is_empty();
        if busy != self.busy {
            self.busy = busy;
            self.since = now;
        }
        let for_ms = Some(now.monotonic_ms.saturating_sub(self.since.monotonic_ms));
        Activity { busy, since_ms: self.since.wall_ms, for_ms, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { wall_ms: 1_000_000 + ms, monotonic_ms: ms }
    }

    #[test]
    fn cpu_use_is_a_reason_and_idleness_has_a_beginning() {
        let mut tracker = Tracker::new(at(0));
        tracker.cpu(0, 0);
        assert_eq!(tracker.update(vec![], at(5)).since_ms, 1_000_000);
        tracker.cpu(500_000, 1_000);
        let busy = tracker.update(vec![], at(1_000));
        assert_eq!((busy.busy, busy.since_ms, busy.for_ms), (true, 1_001_000, Some(0)));
        assert_eq!(busy.reasons, [Reason::Cpu { percent: 50 }]);
        tracker.cpu(500_000, 1_100);
        assert!(tracker.update(vec![], at(1_100)).busy, "too close to the look before to say anything new");
        tracker.cpu(510_000, 2_000);
        let idle = tracker.update(vec![], at(2_000));
        assert_eq!((idle.busy, idle.since_ms, idle.reasons), (false, 1_002_000, vec![]));
    }

    #[test]
    fn a_clock_that_jumps_does_not_change_how_long_it_was_idle() {
        let mut tracker = Tracker::new(at(0));
        for wall_ms in [0, 500, 1_000_000, 900_000_000] {
            let idle = tracker.update(vec![], Now { wall_ms, monotonic_ms: 70 });
            assert_eq!(idle.for_ms, Some(70), "at {wall_ms}");
        }
    }

    #[test]
    fn a_counter_that_goes_back_is_idle_not_a_panic() {
        let mut tracker = Tracker::new(at(0));
        tracker.cpu(900, 0);
        tracker.cpu(0, 10_000);
        assert!(!tracker.update(vec![], at(10_000)).busy);
    }
}
