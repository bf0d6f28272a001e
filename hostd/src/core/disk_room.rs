//! How full the disk of the data directory is, as a level, and which sandbox makes it so.
//!
//! ```text
//!         free < floor          free < floor / 2
//!   Ok ─────────────────▶ Low ─────────────────▶ Full
//!      ◀─────────────────     ◀─────────────────
//!        a quarter above        a quarter above
//! ```
//!
//! `Low`: creates and wakes are refused, but for one sandbox that may wake so that files are deleted in it.
//! `Full`: sandboxes that grow are stopped, and hostd lives on the room that it has set aside.

use protocol::api::DiskLevel;

/// The floor, as a part of the file system, at least and at most.
const FLOOR_PART: u64 = 20;
const FLOOR_MIN_BYTES: u64 = 1 << 20;
const FLOOR_MAX_BYTES: u64 = 2 << 30;
/// The reserve: released, piece by piece, for the verbs that make room.
const RESERVE_PART: u64 = 32;
const RESERVE_MIN_BYTES: u64 = 1 << 20;
const RESERVE_MAX_BYTES: u64 = 64 << 20;
/// Room in front of the write-ahead log of the database.
const JOURNAL_PART: u64 = 64;
const JOURNAL_MIN_BYTES: u64 = 256 << 10;
const JOURNAL_MAX_BYTES: u64 = 8 << 20;
/// Inodes that are kept free, where a file system has a fixed number of them.
const INODES_PART: u64 = 200;
const INODES_MIN: u64 = 64;
const INODES_MAX: u64 = 10_000;
/// How far above a mark a level is left again, as a part of the mark: so that it does not flap.
const HYSTERESIS_PART: u64 = 4;
/// A workspace that has grown by less is not stopped.
const GROWTH_MIN_BYTES: u64 = 1 << 20;

/// What the file system says of itself. `free_bytes` is what would be free with the reserve in place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSample {
    pub free_bytes: u64,
    /// Zero where the number of inodes is not limited.
    pub inodes: u64,
    pub free_inodes: u64,
}

/// How much room is kept, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskThresholds {
    pub floor_bytes: u64,
    pub reserve_bytes: u64,
    pub journal_bytes: u64,
}

impl DiskThresholds {
    /// For a file system of this size. `floor_bytes`: as configured.
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
        // A file system with hardly more inodes than that is small, not full.
        let inodes = inodes.min(sample.inodes / 4);
        bytes.max(level_of(before, sample.free_inodes, inodes))
    }
}

fn level_of(before: DiskLevel, free: u64, floor: u64) -> DiskLevel {
    // A level that was reached is left only well above its mark.
    let below = |mark: u64, reached: bool| {
        free < mark.saturating_add(if reached { mark / HYSTERESIS_PART } else { 0 })
    };
    if below(floor / 2, before == DiskLevel::Full) {
        DiskLevel::Full
    } else if below(floor, before != DiskLevel::Ok) {
        DiskLevel::Low
    } else {
        DiskLevel::Ok
    }
}

/// A workspace, measured twice while the disk is full.
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

/// The one that has grown most, the largest of several; none where nothing of note has grown: then stopping
/// helps nobody.
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
    fn room_is_kept_in_proportion_to_the_file_system() {
        let table = [
            // total, floor, reserve, journal
            (4 * MB, (MB, MB, MB / 4)),
            (320 * MB, (16 * MB, 10 * MB, 5 * MB)),
            (1 << 40, (2048 * MB, 64 * MB, 8 * MB)),
        ];
        for (total, (floor, reserve, journal)) in table {
            let marks = DiskThresholds { floor_bytes: floor, reserve_bytes: reserve, journal_bytes: journal };
            assert_eq!(DiskThresholds::of(total, None), marks, "{total}");
            for (given, floor_bytes) in [(0, MB), (7 * MB, 7 * MB)] {
                assert_eq!(DiskThresholds::of(total, Some(given)), DiskThresholds { floor_bytes, ..marks });
            }
        }
    }

    #[test]
    fn a_level_is_entered_at_its_mark_and_left_well_above_it() {
        let marks = DiskThresholds::of(2000 * MB, None);
        assert_eq!(marks.floor_bytes, 100 * MB);
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
            assert_eq!(marks.level(before, sample), expected, "{before:?} {free_mb}");
        }
    }

    #[test]
    fn a_disk_without_inodes_is_full() {
        let marks = DiskThresholds::of(2000 * MB, None);
        let table = [(0, 0, Ok), (100_000, 500, Ok), (100_000, 499, Low), (100_000, 249, Full), (40, 10, Ok)];
        for (inodes, free_inodes, expected) in table {
            let sample = DiskSample { free_bytes: 1000 * MB, inodes, free_inodes };
            assert_eq!(marks.level(Ok, sample), expected, "{inodes} {free_inodes}");
        }
    }

    #[test]
    fn only_what_grows_is_heavy() {
        let one = |sandbox, before_mb, now_mb| Growth {
            sandbox,
            before_bytes: before_mb * MB,
            now_bytes: now_mb * MB,
        };
        let table: [(&[Growth<char>], Option<char>); 5] = [
            (&[], None),
            // Large and still, shrunk.
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
