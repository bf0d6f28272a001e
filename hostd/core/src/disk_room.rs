//! How full the disk of the data directory is, as a level, and which sandbox fills it.
//!
//! ```text
//!         free < floor          free < floor / 2
//!   Ok ─────────────────▶ Low ─────────────────▶ Full
//!      ◀─────────────────     ◀─────────────────
//!        a quarter above        a quarter above
//! ```
//!
//! `Low`: creates and wakes are refused, except that one sandbox may wake so that files are deleted in it.
//! `Full`: the sandbox that grows fastest is evicted, and hostd lives on its reserve.

use protocol::api::DiskLevel;

/// The floor: its part of the file system, its minimum and its maximum.
const FLOOR_PART: u64 = 20;
const FLOOR_MIN_BYTES: u64 = 1 << 20;
const FLOOR_MAX_BYTES: u64 = 2 << 30;
/// The reserve: released piece by piece for the verbs that free space.
const RESERVE_PART: u64 = 32;
const RESERVE_MIN_BYTES: u64 = 1 << 20;
const RESERVE_MAX_BYTES: u64 = 64 << 20;
/// Blocks allocated ahead of the database's write-ahead log.
const JOURNAL_PART: u64 = 64;
const JOURNAL_MIN_BYTES: u64 = 256 << 10;
const JOURNAL_MAX_BYTES: u64 = 8 << 20;
/// Inodes to keep free, where a file system has a fixed number of them.
const INODES_PART: u64 = 200;
const INODES_MIN: u64 = 64;
const INODES_MAX: u64 = 10_000;
/// How far above a mark a level is left again, as a part of the mark: so that it does not flap.
const HYSTERESIS_PART: u64 = 4;
/// A sandbox whose workspace has grown by less is not evicted.
const GROWTH_MIN_BYTES: u64 = 1 << 20;

/// The numbers of a file system. `free_bytes` does not count the reserve, released or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSample {
    pub free_bytes: u64,
    /// Zero where the number of inodes is not limited.
    pub inodes: u64,
    pub free_inodes: u64,
}

/// How much space is kept free, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskThresholds {
    pub floor_bytes: u64,
    pub reserve_bytes: u64,
    pub journal_bytes: u64,
}

impl DiskThresholds {
    /// The thresholds for a file system of this size; `floor_bytes` as configured.
    pub fn of(total_bytes: u64, floor_bytes: Option<u64>) -> Self {
        let part = |part: u64, min: u64, max: u64| (total_bytes / part).clamp(min, max);
        let floor = part(FLOOR_PART, FLOOR_MIN_BYTES, FLOOR_MAX_BYTES);
        Self {
            floor_bytes: floor_bytes.unwrap_or(floor).max(FLOOR_MIN_BYTES),
            reserve_bytes: part(RESERVE_PART, RESERVE_MIN_BYTES, RESERVE_MAX_BYTES),
            journal_bytes: part(JOURNAL_PART, JOURNAL_MIN_BYTES, JOURNAL_MAX_BYTES),
        }
    }

    /// The level of a disk that was at `before`.
    pub fn level(&self, before: DiskLevel, sample: DiskSample) -> DiskLevel {
        let bytes = level_of(before, sample.free_bytes, self.floor_bytes);
        if sample.inodes == 0 {
            return bytes;
        }
        let inodes = (sample.inodes / INODES_PART).clamp(INODES_MIN, INODES_MAX);
        // A file system with hardly more inodes than the threshold is small, not full.
        let inodes = inodes.min(sample.inodes / 4);
        bytes.max(level_of(before, sample.free_inodes, inodes))
    }
}

fn level_of(before: DiskLevel, free: u64, floor: u64) -> DiskLevel {
    // A level that was reached is left only well above its threshold.
    let below = |threshold: u64, reached: bool| {
        free < threshold.saturating_add(if reached { threshold / HYSTERESIS_PART } else { 0 })
    };
    if below(floor / 2, before == DiskLevel::Full) {
        DiskLevel::Full
    } else if below(floor, before != DiskLevel::Ok) {
        DiskLevel::Low
    } else {
        DiskLevel::Ok
    }
}

/// The size of a workspace at two times while the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth<T> {
    pub sandbox: T,
    pub before_bytes: u64,
    pub now_bytes: u64,
}

impl<T> Growth<T> {
    pub fn grown_bytes(&self) -> u64 {
        self.now_bytes.saturating_sub(self.before_bytes)
    }
}

/// The workspace that has grown most, the larger one where two have grown alike. `None` where none has grown by
/// enough: evicting would not help.
pub fn fastest_growing<T: Copy>(measured: &[Growth<T>]) -> Option<Growth<T>> {
    let growing = measured.iter().filter(|growth| growth.grown_bytes() >= GROWTH_MIN_BYTES);
    growing.max_by_key(|growth| (growth.grown_bytes(), growth.now_bytes)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use DiskLevel::{Full, Low, Ok};

    const MB: u64 = 1 << 20;

    #[test]
    fn thresholds_are_in_proportion_to_the_file_system() {
        let table = [
            // total, floor, reserve, journal
            (4 * MB, (MB, MB, MB / 4)),
            (320 * MB, (16 * MB, 10 * MB, 5 * MB)),
            (1 << 40, (2048 * MB, 64 * MB, 8 * MB)),
        ];
        for (total, (floor, reserve, journal)) in table {
            let thresholds =
                DiskThresholds { floor_bytes: floor, reserve_bytes: reserve, journal_bytes: journal };
            assert_eq!(DiskThresholds::of(total, None), thresholds, "{total}");
            for (given, floor_bytes) in [(0, MB), (7 * MB, 7 * MB)] {
                assert_eq!(
                    DiskThresholds::of(total, Some(given)),
                    DiskThresholds { floor_bytes, ..thresholds }
                );
            }
        }
    }

    #[test]
    fn a_level_is_entered_at_its_threshold_and_left_well_above_it() {
        let thresholds = DiskThresholds::of(2000 * MB, None);
        assert_eq!(thresholds.floor_bytes, 100 * MB);
        let table = [
            (Ok, 100, Ok),
            (Ok, 99, Low),
            (Ok, 49, Full),
            (Low, 124, Low),
            (Low, 125, Ok),
            (Low, 50, Low),
            (Low, 49, Full),
            (Full, 0, Full),
            (Full, 62, Full),
            (Full, 63, Low),
            (Full, 124, Low),
            (Full, 125, Ok),
        ];
        for (before, free_mb, expected) in table {
            let sample = DiskSample { free_bytes: free_mb * MB, ..DiskSample::default() };
            assert_eq!(thresholds.level(before, sample), expected, "{before:?} {free_mb}");
        }
    }

    #[test]
    fn a_disk_without_inodes_is_full() {
        let thresholds = DiskThresholds::of(2000 * MB, None);
        let table = [(0, 0, Ok), (100_000, 500, Ok), (100_000, 499, Low), (100_000, 249, Full), (40, 10, Ok)];
        for (inodes, free_inodes, expected) in table {
            let sample = DiskSample { free_bytes: 1000 * MB, inodes, free_inodes };
            assert_eq!(thresholds.level(Ok, sample), expected, "{inodes} {free_inodes}");
        }
    }

    #[test]
    fn only_a_growing_workspace_is_evicted() {
        let one = |sandbox, before_mb, now_mb| Growth {
            sandbox,
            before_bytes: before_mb * MB,
            now_bytes: now_mb * MB,
        };
        let table: [(&[Growth<char>], Option<char>); 5] = [
            (&[], None),
            // A large one that does not grow, and one that shrank.
            (&[one('a', 500, 500), one('b', 9, 3)], None),
            (&[one('a', 500, 500), one('b', 1, 2)], Some('b')),
            (&[one('a', 500, 501), one('b', 1, 9)], Some('b')),
            (&[one('a', 1, 9), one('b', 2, 10)], Some('b')),
        ];
        for (measured, expected) in table {
            assert_eq!(fastest_growing(measured).map(|growth| growth.sandbox), expected, "{measured:?}");
        }
    }
}
