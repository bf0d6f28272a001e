//! How much memory is left for sandboxes, as a level, and what is done about it.
//!
//! ```text
//!         available < reserve        available < reserve / 2
//!   Ok ───────────────────────▶ Tight ───────────────────────▶ Critical
//!      ◀───────────────────────       ◀───────────────────────
//!         a quarter above                a quarter above
//! ```
//!
//! While processes stall for memory (PSI), both marks are twice as high. Stalls alone are no pressure: a sandbox that
//! thrashes within its own limit causes them on a host with plenty of memory.
//!
//! `Tight`: creates and wakes are refused, and idle sandboxes are paused. `Critical`: idle sandboxes are stopped, the
//! idlest first, one at a time. One with an open stream comes after all others and is only paused; it is stopped when
//! there is no other measure left and its streams are idle too. A sandbox that is busy is left to the kernel.

use crate::IdleTimes;
use protocol::api::MemoryLevel;

/// The reserve: its part of the memory, its minimum and its maximum.
const RESERVE_PART: u64 = 20;
const RESERVE_MIN_BYTES: u64 = 32 << 20;
const RESERVE_MAX_BYTES: u64 = 1 << 30;
/// How far above a mark a level is left again, as a part of the mark: so that it does not flap.
const HYSTERESIS_PART: u64 = 4;
/// Stalls begin to count at these parts of time, in hundredths of a percent, and cease to at half of them.
const STALL_SOME: u32 = 2_000;
const STALL_FULL: u32 = 1_000;
/// A sandbox that was active a moment ago is not paused or stopped.
pub const PRESSURE_IDLE_MIN_MS: u64 = 2_000;
/// Open streams without activity for so long are idle. Heartbeats are no activity.
pub const STREAMS_IDLE_MIN_MS: u64 = 60_000;

/// The memory of the host, or of the tightest control group above the sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemorySample {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// Absent where the kernel does not measure it.
    pub stalls: Option<MemoryStalls>,
}

/// Time in which processes waited for memory, over ten seconds, in hundredths of a percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStalls {
    /// At least one process waited.
    pub some: u32,
    /// Every process waited.
    pub full: u32,
}

impl MemoryStalls {
    /// Parses `/proc/pressure/memory`, or `memory.pressure` of a control group.
    pub fn parse(text: &str) -> Option<Self> {
        let average = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let field = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
            let percent: f64 = field.parse().ok()?;
            Some((percent * 100.0).clamp(0.0, 10_000.0) as u32)
        };
        Some(Self { some: average("some ")?, full: average("full ")? })
    }
}

/// How much memory is kept free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryThresholds {
    /// `None`: a share of the memory.
    pub reserve_bytes: Option<u64>,
}

/// A level, and whether stalls raise its marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCondition {
    pub level: MemoryLevel,
    pub stalled: bool,
}

impl MemoryThresholds {
    pub fn reserve_bytes(&self, total_bytes: u64) -> u64 {
        let share = (total_bytes / RESERVE_PART).clamp(RESERVE_MIN_BYTES, RESERVE_MAX_BYTES);
        self.reserve_bytes.unwrap_or(share)
    }

    /// The condition after `before`.
    pub fn condition(&self, before: MemoryCondition, sample: &MemorySample) -> MemoryCondition {
        let stalled = is_stalled(before.stalled, sample.stalls.unwrap_or_default());
        let reserve = self.reserve_bytes(sample.total_bytes);
        let mark = if stalled { reserve.saturating_mul(2) } else { reserve };
        MemoryCondition { level: level_of(before.level, sample.available_bytes, mark), stalled }
    }
}

fn is_stalled(before: bool, stalls: MemoryStalls) -> bool {
    let part = if before { 2 } else { 1 };
    stalls.some >= STALL_SOME / part || stalls.full >= STALL_FULL / part
}

fn level_of(before: MemoryLevel, available: u64, mark: u64) -> MemoryLevel {
    // A level that was reached is left only well above its mark.
    let below = |mark: u64, reached: bool| {
        available < mark.saturating_add(if reached { mark / HYSTERESIS_PART } else { 0 })
    };
    if below(mark / 2, before == MemoryLevel::Critical) {
        MemoryLevel::Critical
    } else if below(mark, before != MemoryLevel::Ok) {
        MemoryLevel::Tight
    } else {
        MemoryLevel::Ok
    }
}

/// What a sandbox that is up does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupation {
    /// A task, a live exec or terminal, a hold, CPU use, a client; or it did not answer. Never paused or stopped.
    Busy,
    /// Nothing, for so long.
    Idle { idle_ms: u64 },
}

/// The open responses and upgraded connections of its previews, which a stop cuts and a pause does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenStreams {
    None,
    /// Browsers may still wait for something.
    InUse,
    /// A forgotten tab, as far as is known.
    Idle,
}

impl OpenStreams {
    pub fn of(quiet: &IdleTimes) -> Self {
        match quiet.streams {
            0 => Self::None,
            _ if quiet.silent_ms >= STREAMS_IDLE_MIN_MS => Self::Idle,
            _ => Self::InUse,
        }
    }
}

/// Whether browsers let a sandbox be paused now: not while bytes move, heartbeats included.
pub fn may_pause_for_memory(quiet: &IdleTimes) -> bool {
    quiet.silent_ms.min(quiet.still_ms) >= PRESSURE_IDLE_MIN_MS
}

/// Whether browsers let a sandbox be stopped now.
pub fn may_stop_for_memory(quiet: &IdleTimes) -> bool {
    may_pause_for_memory(quiet) && OpenStreams::of(quiet) != OpenStreams::InUse
}

/// How readily a sandbox is stopped, readily first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attachment {
    /// It may sleep anyway, or dozes already.
    MaySleep,
    /// A client paused it, to keep its processes.
    PausedByClient,
    /// `always_on`.
    AlwaysOn,
}

/// A sandbox that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReliefCandidate<T> {
    pub sandbox: T,
    pub occupation: Occupation,
    pub attachment: Attachment,
    pub streams: OpenStreams,
    pub frozen: bool,
    /// Memory that stopping it frees.
    pub memory_bytes: u64,
}

/// One measure against pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relief<T> {
    /// Freeze it: its memory does not grow, its connections stay, and a byte thaws it.
    Pause(T),
    Stop(T),
}

impl<T: Copy> ReliefCandidate<T> {
    fn idle_ms(&self) -> Option<u64> {
        match self.occupation {
            Occupation::Busy => None,
            Occupation::Idle { idle_ms } => Some(idle_ms).filter(|ms| *ms >= PRESSURE_IDLE_MIN_MS),
        }
    }

    fn may_pause(&self) -> bool {
        !self.frozen && self.attachment == Attachment::MaySleep
    }
}

/// The next measure at this level; `None` where there is none, or none is needed.
pub fn relief<T: Copy>(level: MemoryLevel, candidates: &[ReliefCandidate<T>]) -> Option<Relief<T>> {
    // The larger one of two that have been idle alike, to the second.
    let idlest = |may: fn(&ReliefCandidate<T>) -> bool| {
        let idle = candidates.iter().filter(|one| may(one)).filter_map(|one| Some((one, one.idle_ms()?)));
        let rank = |one: &ReliefCandidate<T>, idle_ms: u64| {
            let without_streams = one.streams == OpenStreams::None;
            (without_streams, std::cmp::Reverse(one.attachment), idle_ms / 1_000, one.memory_bytes)
        };
        idle.max_by_key(|(one, idle_ms)| rank(one, *idle_ms)).map(|(one, _)| one.sandbox)
    };
    let pause = || idlest(ReliefCandidate::may_pause).map(Relief::Pause);
    match level {
        MemoryLevel::Ok => None,
        MemoryLevel::Tight => pause(),
        MemoryLevel::Critical => idlest(|one| one.streams == OpenStreams::None)
            .map(Relief::Stop)
            .or_else(pause)
            .or_else(|| idlest(|one| one.streams == OpenStreams::Idle).map(Relief::Stop)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryLevel::{Critical, Ok, Tight};
    use proptest::prelude::*;

    const MB: u64 = 1 << 20;
    const DEFAULT: MemoryThresholds = MemoryThresholds { reserve_bytes: None };

    fn sample(available_mb: u64, stalls: Option<(u32, u32)>) -> MemorySample {
        let stalls = stalls.map(|(some, full)| MemoryStalls { some, full });
        MemorySample { total_bytes: 2000 * MB, available_bytes: available_mb * MB, stalls }
    }

    #[test]
    fn the_reserve_is_in_proportion_to_the_memory() {
        for (total, reserve) in [(0, 32 * MB), (300 * MB, 32 * MB), (2000 * MB, 100 * MB), (1 << 40, 1 << 30)]
        {
            assert_eq!(DEFAULT.reserve_bytes(total), reserve, "{total}");
            assert_eq!(MemoryThresholds { reserve_bytes: Some(7) }.reserve_bytes(total), 7);
        }
    }

    #[test]
    fn a_level_is_entered_at_its_mark_and_left_well_above_it() {
        let table = [
            (Ok, 100, Ok),
            (Ok, 99, Tight),
            (Ok, 49, Critical),
            (Tight, 124, Tight),
            (Tight, 125, Ok),
            (Tight, 50, Tight),
            (Tight, 49, Critical),
            (Critical, 0, Critical),
            (Critical, 62, Critical),
            (Critical, 63, Tight),
            (Critical, 124, Tight),
            (Critical, 125, Ok),
        ];
        for (level, available_mb, expected) in table {
            let before = MemoryCondition { level, stalled: false };
            let after = DEFAULT.condition(before, &sample(available_mb, None));
            assert_eq!(after.level, expected, "{level:?} {available_mb}");
        }
    }

    #[test]
    fn stalls_raise_the_marks_and_are_no_pressure_while_there_is_memory() {
        let table = [
            // available, some, full, before, level, stalled
            (1500, 9_000, 9_000, false, Ok, true),
            (199, 1_999, 999, false, Ok, false),
            (199, 2_000, 0, false, Tight, true),
            (199, 0, 1_000, false, Tight, true),
            (99, 0, 1_000, false, Critical, true),
            // They are left at half.
            (199, 1_000, 0, true, Tight, true),
            (199, 999, 499, true, Ok, false),
        ];
        for (available_mb, some, full, stalled, level, after) in table {
            let before = MemoryCondition { level: Ok, stalled };
            let found = DEFAULT.condition(before, &sample(available_mb, Some((some, full))));
            assert_eq!(found, MemoryCondition { level, stalled: after }, "{available_mb} {some} {full}");
        }
    }

    #[test]
    fn stalls_are_read_from_the_kernel() {
        let text = "some avg10=12.34 avg60=1.00 avg300=0.00 total=1\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(MemoryStalls::parse(text), Some(MemoryStalls { some: 1234, full: 50 }));
        for wrong in ["", "some avg10=1.00\n", "some avg10=x\nfull avg10=1\n"] {
            assert_eq!(MemoryStalls::parse(wrong), None, "{wrong}");
        }
    }

    fn idle(sandbox: char, seconds: u64, memory_mb: u64) -> ReliefCandidate<char> {
        ReliefCandidate {
            sandbox,
            occupation: Occupation::Idle { idle_ms: seconds * 1_000 },
            attachment: Attachment::MaySleep,
            streams: OpenStreams::None,
            frozen: false,
            memory_bytes: memory_mb * MB,
        }
    }

    #[test]
    fn the_idlest_is_paused_then_stopped_and_a_busy_one_never() {
        let busy = ReliefCandidate { occupation: Occupation::Busy, ..idle('b', 0, 900) };
        let frozen = ReliefCandidate { frozen: true, ..idle('f', 50, 10) };
        let kept =
            ReliefCandidate { attachment: Attachment::PausedByClient, frozen: true, ..idle('p', 99, 10) };
        let always = ReliefCandidate { attachment: Attachment::AlwaysOn, ..idle('a', 99, 10) };
        let (pause, stop) = (Relief::Pause, Relief::Stop);
        type Row<'a> = (&'a [ReliefCandidate<char>], Option<Relief<char>>, Option<Relief<char>>);
        let table: [Row<'_>; 8] = [
            (&[], None, None),
            (&[busy], None, None),
            // Active a moment ago.
            (&[busy, idle('x', 1, 10)], None, None),
            (&[busy, idle('x', 5, 10), idle('y', 9, 1)], Some(pause('y')), Some(stop('y'))),
            (&[idle('x', 5, 10), idle('y', 5, 11), busy], Some(pause('y')), Some(stop('y'))),
            (&[idle('x', 5, 10), frozen], Some(pause('x')), Some(stop('f'))),
            (&[always, kept, idle('x', 3, 1)], Some(pause('x')), Some(stop('x'))),
            (&[always, kept, busy], None, Some(stop('p'))),
        ];
        for (candidates, tight, critical) in table {
            assert_eq!(relief(Ok, candidates), None);
            assert_eq!(relief(Tight, candidates), tight, "{candidates:?}");
            assert_eq!(relief(Critical, candidates), critical, "{candidates:?}");
        }
    }

    #[test]
    fn one_with_open_streams_comes_last_and_is_paused_and_stopped_only_when_they_are_idle_too() {
        let with = |streams, one| ReliefCandidate { streams, ..one };
        let open = with(OpenStreams::InUse, idle('o', 50, 900));
        let tab = with(OpenStreams::Idle, idle('t', 90, 900));
        let always = |one| ReliefCandidate { attachment: Attachment::AlwaysOn, ..one };
        let frozen = |one| ReliefCandidate { frozen: true, ..one };
        let (pause, stop) = (Relief::Pause, Relief::Stop);
        type Row<'a> = (&'a [ReliefCandidate<char>], Option<Relief<char>>, Option<Relief<char>>);
        let table: [Row<'_>; 8] = [
            (&[open, tab, idle('x', 3, 1)], Some(pause('x')), Some(stop('x'))),
            (&[open, always(idle('a', 3, 1))], Some(pause('o')), Some(stop('a'))),
            (&[open], Some(pause('o')), Some(pause('o'))),
            (&[frozen(open)], None, None),
            (&[always(open)], None, None),
            // Pausing comes before cutting a connection.
            (&[open, frozen(tab)], Some(pause('o')), Some(pause('o'))),
            (&[frozen(open), frozen(tab)], None, Some(stop('t'))),
            (&[frozen(open), always(tab)], None, Some(stop('t'))),
        ];
        for (candidates, tight, critical) in table {
            assert_eq!(relief(Tight, candidates), tight, "{candidates:?}");
            assert_eq!(relief(Critical, candidates), critical, "{candidates:?}");
        }
    }

    #[test]
    fn bytes_that_move_put_off_a_pause_and_streams_in_use_a_stop() {
        let quiet = |streams, silent_ms, still_ms| IdleTimes {
            streams,
            silent_ms,
            still_ms,
            alone_ms: 0,
            inside_ms: u64::MAX,
        };
        let table = [
            // streams, silent, still: streams, may pause, may stop
            (quiet(0, 1_999, 1_999), OpenStreams::None, false, false),
            (quiet(0, 2_000, 2_000), OpenStreams::None, true, true),
            (quiet(1, 2_000, 2_000), OpenStreams::InUse, true, false),
            (quiet(1, 59_999, 59_999), OpenStreams::InUse, true, false),
            (quiet(2, 60_000, 60_000), OpenStreams::Idle, true, true),
            // A heartbeat a moment ago.
            (quiet(1, 60_000, 100), OpenStreams::Idle, false, false),
            (quiet(0, 60_000, 100), OpenStreams::None, false, false),
        ];
        for (quiet, streams, pause, stop) in table {
            let found = (OpenStreams::of(&quiet), may_pause_for_memory(&quiet), may_stop_for_memory(&quiet));
            assert_eq!(found, (streams, pause, stop), "{quiet:?}");
        }
    }

    fn any_candidate() -> impl Strategy<Value = ReliefCandidate<usize>> {
        let occupation = prop_oneof![
            Just(Occupation::Busy),
            (0..9_000_u64).prop_map(|idle_ms| Occupation::Idle { idle_ms })
        ];
        let attachment = prop_oneof![
            Just(Attachment::MaySleep),
            Just(Attachment::PausedByClient),
            Just(Attachment::AlwaysOn)
        ];
        let streams = prop_oneof![Just(OpenStreams::None), Just(OpenStreams::InUse), Just(OpenStreams::Idle)];
        (occupation, attachment, streams, any::<bool>(), 0..u64::MAX).prop_map(
            |(occupation, attachment, streams, frozen, memory_bytes)| ReliefCandidate {
                sandbox: 0,
                occupation,
                attachment,
                streams,
                frozen,
                memory_bytes,
            },
        )
    }

    proptest! {
        #[test]
        fn critical_stops_an_idle_one_where_there_is_one_and_none_that_is_busy_or_whose_streams_are_in_use(
            mut all in proptest::collection::vec(any_candidate(), 0..12),
        ) {
            for (number, one) in all.iter_mut().enumerate() {
                one.sandbox = number;
            }
            let idle = |one: &&ReliefCandidate<usize>| one.idle_ms().is_some();
            let without_streams = |one: &&ReliefCandidate<usize>| one.streams == OpenStreams::None;
            let stoppable = |one: &ReliefCandidate<usize>| one.streams != OpenStreams::InUse;
            match relief(Critical, &all) {
                Some(Relief::Stop(chosen)) => {
                    let chosen = &all[chosen];
                    prop_assert!(chosen.idle_ms().is_some() && stoppable(chosen));
                    let rank = |one: &ReliefCandidate<usize>| (one.streams != OpenStreams::None, one.attachment);
                    prop_assert!(!all.iter().filter(idle).any(|one| stoppable(one) && rank(one) < rank(chosen)));
                }
                Some(Relief::Pause(chosen)) => {
                    prop_assert!(all[chosen].may_pause());
                    prop_assert!(!all.iter().filter(idle).any(|one| without_streams(&one)), "stopping frees memory");
                }
                None => prop_assert!(!all.iter().filter(idle).any(stoppable)),
            }
        }

        #[test]
        fn levels_do_not_flap(available_mb in 0..400_u64, noise in proptest::collection::vec(0..10_u64, 20)) {
            // Within a tenth of the reserve around any value, the level changes once at most in each direction.
            let mut condition = MemoryCondition::default();
            let mut changes = 0;
            for more in noise {
                let next = DEFAULT.condition(condition, &sample(available_mb + more, None));
                changes += u32::from(next.level != condition.level);
                condition = next;
            }
            prop_assert!(changes <= 2, "{changes} changes around {available_mb} MB");
        }
    }
}
