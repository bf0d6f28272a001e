//! Deadlines and intervals of the reconciler, as a value, so that tests can shorten them.

use hostd_core::{Goal, IdleWindow, limits};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Timing {
    pub up_ms: u64,
    pub freeze_ms: u64,
    pub down_ms: u64,
    pub grace_ms: u64,
    pub inspect_every_ms: u64,
    pub retry_min_ms: u64,
    /// Between inspections of a container that cannot be seen, or not be watched.
    pub inspect_unseen_ms: u64,
    /// How often the progress of a launch is recorded, and how long it extends the deadline in all.
    pub progress_every_ms: u64,
    pub progress_max_ms: u64,
    pub restart_min_ms: u64,
    pub restart_max_ms: u64,
    /// Time without activity after which an idle sandbox sleeps.
    pub idle_ms: u64,
    /// Time since the last byte after which an idle sandbox with open streams dozes.
    pub doze_after_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            up_ms: limits::UP_MAX_MS,
            freeze_ms: limits::FREEZE_MAX_MS,
            down_ms: limits::DOWN_MAX_MS,
            grace_ms: limits::TERMINATE_GRACE_MS,
            inspect_every_ms: limits::INSPECT_EVERY_MS,
            retry_min_ms: limits::RETRY_MIN_MS,
            inspect_unseen_ms: limits::INSPECT_UNSEEN_MS,
            progress_every_ms: limits::PROGRESS_EVERY_MS,
            progress_max_ms: limits::PROGRESS_MAX_MS,
            restart_min_ms: limits::RESTART_MIN_MS,
            restart_max_ms: limits::RESTART_MAX_MS,
            idle_ms: limits::IDLE_DEFAULT_S * 1000,
            doze_after_ms: limits::DOZE_AFTER_MS,
        }
    }
}

impl Timing {
    /// The time that an operation towards a goal has.
    pub(super) fn towards_ms(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Running => self.up_ms,
            Goal::Paused => self.freeze_ms,
            Goal::Stopped | Goal::Destroyed => self.down_ms,
        }
    }

    pub(super) fn progress_every(&self) -> Duration {
        Duration::from_millis(self.progress_every_ms)
    }

    /// The idle window.
    pub fn window(&self) -> IdleWindow {
        IdleWindow { idle_ms: self.idle_ms, doze_after_ms: self.doze_after_ms }
    }

    /// The time until the next idle check, within its bounds.
    pub(super) fn idle_check_ms(&self, wanted_ms: u64) -> u64 {
        let max_ms = self.inspect_every_ms.min(self.idle_ms);
        wanted_ms.max(limits::IDLE_CHECK_MIN_MS).min(max_ms)
    }

    /// The pause after so many failures in a row.
    pub(super) fn retry_pause(&self, failures: u32) -> Duration {
        Duration::from_millis(self.retry_min_ms << failures.min(6))
    }

    /// The pause before a sandbox that died so many times in a row is launched again.
    pub(super) fn restart_pause(&self, deaths: u32) -> Duration {
        let ms = self.restart_min_ms.saturating_mul(1 << deaths.min(16));
        Duration::from_millis(ms.min(self.restart_max_ms))
    }
}
