//! When an idle sandbox goes to sleep, and how deeply.
//!
//! ```text
//!              a window, no stream open
//!   running ─────────────────────────────────────────────▶ stopped
//!      ▲ └── a window, streams open ──▶ dozing (frozen) ──────▲
//!      └────────── the first byte ────────┘ └ no stream for a window, or silence for `DOZE_MAX_WINDOWS`
//! ```
//!
//! Freezing keeps the connections of browsers, and thawing takes no time. Stopping frees the memory.

use protocol::Activity;

/// Open streams put off the stop for so many windows of silence.
pub const DOZE_MAX_WINDOWS: u64 = 8;

/// How long a sandbox has been idle, by each kind of activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTimes {
    /// Open responses and upgraded connections of its previews.
    pub streams: usize,
    /// Since a browser did something that counts as activity.
    pub silent_ms: u64,
    /// Since a byte moved at all, or the sandbox was woken.
    pub still_ms: u64,
    /// Since the last stream was closed; 0 while one is open.
    pub alone_ms: u64,
    /// Since the last activity inside, as far as is known.
    pub inside_ms: u64,
}

/// How long a sandbox must be idle before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleWindow {
    /// Time without activity.
    pub idle_ms: u64,
    /// Time after a byte that is no activity: enough to answer it, and not to freeze between two of many.
    pub doze_after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepDecision {
    /// Without activity until then, the sandbox may sleep after this time.
    NotYet {
        check_after_ms: u64,
    },
    Doze,
    Stop,
}

impl IdleTimes {
    /// Since the last activity of either kind.
    pub fn idle_ms(&self) -> u64 {
        self.silent_ms.min(self.inside_ms)
    }
}

impl IdleWindow {
    /// The decision for a running sandbox.
    pub fn when_running(&self, quiet: &IdleTimes) -> SleepDecision {
        let idle_ms = quiet.idle_ms();
        // A configured window may be shorter than the time to answer.
        let doze_after_ms = self.doze_after_ms.min(self.idle_ms);
        if idle_ms < self.idle_ms {
            SleepDecision::NotYet { check_after_ms: self.idle_ms - idle_ms }
        } else if quiet.streams == 0 || idle_ms >= self.doze_max_ms() {
            SleepDecision::Stop
        } else if quiet.still_ms < doze_after_ms {
            SleepDecision::NotYet { check_after_ms: doze_after_ms - quiet.still_ms }
        } else {
            SleepDecision::Doze
        }
    }

    /// The decision for a dozing sandbox.
    pub fn when_dozing(&self, quiet: &IdleTimes) -> SleepDecision {
        let silence_left_ms = self.doze_max_ms().saturating_sub(quiet.idle_ms());
        let left_ms = match quiet.streams {
            0 => silence_left_ms.min(self.idle_ms.saturating_sub(quiet.alone_ms)),
            _ => silence_left_ms,
        };
        if left_ms == 0 { SleepDecision::Stop } else { SleepDecision::NotYet { check_after_ms: left_ms } }
    }

    fn doze_max_ms(&self) -> u64 {
        self.idle_ms.saturating_mul(DOZE_MAX_WINDOWS)
    }
}

impl SleepDecision {
    /// The time until the sandbox may sleep.
    pub fn check_after_ms(self) -> u64 {
        match self {
            Self::NotYet { check_after_ms } => check_after_ms,
            Self::Doze | Self::Stop => 0,
        }
    }
}

/// The time since the last activity inside, as runtimed reports it.
pub fn idle_inside_ms(activity: &Activity, now_ms: u64) -> u64 {
    // An older runtimed only reports wall-clock time, which may jump.
    let by_wall_clock = || now_ms.saturating_sub(activity.since_ms);
    if activity.busy { 0 } else { activity.for_ms.unwrap_or_else(by_wall_clock) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: IdleWindow = IdleWindow { idle_ms: 100, doze_after_ms: 3 };

    fn quiet(streams: usize, silent_ms: u64, inside_ms: u64) -> IdleTimes {
        IdleTimes { streams, silent_ms, still_ms: silent_ms, alone_ms: 0, inside_ms }
    }

    fn again(check_after_ms: u64) -> SleepDecision {
        SleepDecision::NotYet { check_after_ms }
    }

    #[test]
    fn streams_decide_how_deeply_it_sleeps_and_heartbeats_only_when() {
        let beat = |still_ms, silent_ms| IdleTimes { still_ms, ..quiet(1, silent_ms, 900) };
        let table = [
            (quiet(0, 0, 0), again(100)),
            (quiet(0, 500, 99), again(1)),
            (quiet(0, 99, 500), again(1)),
            (quiet(0, 100, 100), SleepDecision::Stop),
            (quiet(0, u64::MAX, 100), SleepDecision::Stop),
            (quiet(2, 500, 99), again(1)),
            (quiet(2, 100, 500), SleepDecision::Doze),
            // A sandbox woken by a heartbeat does not get another window.
            (beat(0, 300), again(3)),
            (beat(2, 300), again(1)),
            (beat(3, 300), SleepDecision::Doze),
            // A sandbox kept from dozing by heartbeats is stopped in the end.
            (beat(0, 800), SleepDecision::Stop),
            (quiet(2, 900, 799), SleepDecision::Doze),
        ];
        for (quiet, sleep) in table {
            assert_eq!(WINDOW.when_running(&quiet), sleep, "{quiet:?}");
        }
        let short = IdleWindow { idle_ms: 2, doze_after_ms: 3 };
        assert_eq!(short.when_running(&quiet(1, 2, 2)), SleepDecision::Doze);
    }

    #[test]
    fn a_dozing_sandbox_is_stopped_when_its_streams_are_closed_or_silent_for_very_long() {
        let alone = |alone_ms, idle_ms| IdleTimes { alone_ms, ..quiet(0, idle_ms, idle_ms) };
        let table = [
            (quiet(1, 100, 100), again(700)),
            (quiet(1, 800, 799), again(1)),
            (quiet(1, 800, 800), SleepDecision::Stop),
            (quiet(1, u64::MAX, u64::MAX), SleepDecision::Stop),
            (alone(0, 300), again(100)),
            (alone(99, 300), again(1)),
            (alone(100, 300), SleepDecision::Stop),
            (alone(10, 790), again(10)),
        ];
        for (quiet, sleep) in table {
            assert_eq!(WINDOW.when_dozing(&quiet), sleep, "{quiet:?}");
        }
    }
}
