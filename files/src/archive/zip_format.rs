//! Words that the reader and the writer of zip archives share.
//!
//! ```text
//! (local header, content [, descriptor])*   directory: (central header)*   [zip64 end, locator]   end
//! ```
//! The `zip` crate is not used: it writes no names that are not UTF-8, and holds the directory of an archive, or what
//! one claims to be its zip64 end, in memory.

pub const LOCAL_HEADER: u32 = 0x0403_4b50;
pub const DESCRIPTOR: u32 = 0x0807_4b50;
pub const CENTRAL_HEADER: u32 = 0x0201_4b50;
pub const ZIP64_END: u32 = 0x0606_4b50;
pub const ZIP64_LOCATOR: u32 = 0x0706_4b50;
pub const END: u32 = 0x0605_4b50;

pub const LOCAL_HEADER_BYTES: usize = 30;
pub const CENTRAL_HEADER_BYTES: usize = 46;
pub const ZIP64_END_BYTES: usize = 56;
pub const ZIP64_LOCATOR_BYTES: usize = 20;
pub const END_BYTES: usize = 22;

/// Flags: the content is encrypted; sizes follow the content; the name is UTF-8.
pub const ENCRYPTED: u16 = 1;
pub const DESCRIPTOR_FOLLOWS: u16 = 1 << 3;
pub const UTF8: u16 = 1 << 11;

pub const STORED: u16 = 0;
pub const DEFLATED: u16 = 8;

/// Extra fields: large sizes; the time in seconds since the Unix epoch.
pub const EXTRA_ZIP64: u16 = 0x0001;
pub const EXTRA_TIME: u16 = 0x5455;
/// The flag of [`EXTRA_TIME`] for the time of modification.
pub const EXTRA_TIME_MODIFIED: u8 = 1;

/// The number in a field of 32 bits whose value is in [`EXTRA_ZIP64`].
pub const IN_ZIP64: u32 = u32::MAX;
/// As [`IN_ZIP64`], for the number of entries.
pub const ENTRIES_IN_ZIP64: u16 = u16::MAX;

/// Systems whose attributes hold a Unix mode.
pub const UNIX: u8 = 3;
pub const MAC_OS: u8 = 19;

const DAY_SECONDS: i64 = 86_400;
/// Days from the first of March of the year 0 to the Unix epoch, and of 400 years.
const EPOCH_DAY: i64 = 719_468;
const ERA_DAYS: i64 = 146_097;

/// Time and date as MS-DOS has them, in UTC: from 1980 to 2107, in steps of two seconds.
pub fn dos_time(seconds: i64) -> (u16, u16) {
    let (year, month, day) = date_of(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    match year {
        ..1980 => (0, 1 << 5 | 1),
        1980..2108 => {
            let time = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
            let date = (year - 1980) << 9 | month << 5 | day;
            (u16::try_from(time).unwrap_or(0), u16::try_from(date).unwrap_or(0))
        }
        2108.. => (23 << 11 | 59 << 5 | 29, 127 << 9 | 12 << 5 | 31),
    }
}

/// Seconds since the Unix epoch.
pub fn unix_time(time: u16, date: u16) -> i64 {
    let (time, date) = (i64::from(time), i64::from(date));
    let days = day_of(1980 + (date >> 9), (date >> 5 & 15).clamp(1, 12), (date & 31).max(1));
    days * DAY_SECONDS + (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2
}

/// Year, month and day, of a day since the Unix epoch. Years begin in March here, so that leap days end them.
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day.saturating_add(EPOCH_DAY);
    let (era, of_era) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The day since the Unix epoch.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_after_its_two_words() {
        // 1980-01-01, 2000-02-29 12:34:56, 2024-12-31 23:59:58, 2100-03-01, 2107-12-31 23:59:58.
        for seconds in [315_532_800, 951_827_696, 1_735_689_598, 4_107_542_400, 4_354_819_198] {
            let (time, date) = dos_time(seconds);
            assert_eq!(unix_time(time, date), seconds, "{time:x} {date:x}");
        }
        assert_eq!(dos_time(951_827_696), (12 << 11 | 34 << 5 | 28, 20 << 9 | 2 << 5 | 29));
        for (seconds, clamped) in [(-1, 315_532_800), (i64::MIN, 315_532_800), (i64::MAX, 4_354_819_198)] {
            let (time, date) = dos_time(seconds);
            assert_eq!(unix_time(time, date), clamped, "{seconds}");
        }
    }
}
