//! How long things may take. A value, so that a simulation can be in a hurry.

use crate::{core::Goal, limits};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Timing {
    pub up_ms: u64,
    pub freeze_ms: u64,
    pub down_ms: u64,
    pub grace_ms: u64,
    pub look_every_ms: u64,
    pub look_again_ms: u64,
    pub restart_min_ms: u64,
    pub restart_max_ms: u64,
    /// A sandbox that sleeps when idle is stopped after so long without activity.
    pub idle_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            up_ms: limits::UP_MAX_MS,
            freeze_ms: limits::FREEZE_MAX_MS,
            down_ms: limits::DOWN_MAX_MS,
            grace_ms: limits::TERMINATE_GRACE_MS,
            look_every_ms: limits::LOOK_EVERY_MS,
            look_again_ms: limits::LOOK_AGAIN_MS,
            restart_min_ms: limits::RESTART_MIN_MS,
            restart_max_ms: limits::RESTART_MAX_MS,
            idle_ms: limits::IDLE_DEFAULT_S * 1000,
        }
    }
}

impl Timing {
    /// How long the way to a goal may take.
    pub(super) fn towards_ms(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Running => self.up_ms,
            Goal::Paused => self.freeze_ms,
            Goal::Stopped | Goal::Destroyed => self.down_ms,
        }
    }

    /// The pause after so many failures in a row.
    pub(super) fn look_again(&self, failures: u32) -> Duration {
        Duration::from_millis(self.look_again_ms << failures.min(6))
    }

    /// The pause before one that died so many times in a row is started again.
    pub(super) fn restart(&self, deaths: u32) -> Duration {
        let ms = self.restart_min_ms.saturating_mul(1 << deaths.min(16));
        Duration::from_millis(ms.min(self.restart_max_ms))
    }
}
