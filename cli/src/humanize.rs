//! Human-readable times, durations and sizes.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats the age of an RFC 3339 time in UTC in one unit, as in `3m`; `-` for any other text.
pub fn age(time: &str) -> String {
    age_at(time, now_ms())
}

/// Formats the time until a moment, as in `in 3m`.
pub fn until(time: &str) -> String {
    until_at(time, now_ms())
}

/// Returns whether a time is in the past.
pub fn has_passed(time: &str) -> bool {
    parse_ms(time).is_some_and(|ms| ms <= now_ms())
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn age_at(time: &str, now_ms: u64) -> String {
    parse_ms(time).map_or_else(|| "-".to_owned(), |ms| duration(now_ms.saturating_sub(ms)))
}

/// Rounds to the nearest unit, so that a day is shown as a day although part of its first second is over or the
/// server's clock is slightly ahead.
fn until_at(time: &str, now_ms: u64) -> String {
    const UNITS: [(u64, u64, char); 3] = [(1_000, 60, 's'), (60_000, 60, 'm'), (3_600_000, 24, 'h')];
    const DAY_MS: u64 = 86_400_000;
    let Some(end_ms) = parse_ms(time) else { return "-".to_owned() };
    let left_ms = end_ms.saturating_sub(now_ms);
    let nearest = |unit_ms: u64| (left_ms + unit_ms / 2) / unit_ms;
    for (unit_ms, most, letter) in UNITS {
        if nearest(unit_ms) < most {
            return format!("in {}{letter}", nearest(unit_ms));
        }
    }
    format!("in {}d", nearest(DAY_MS))
}

/// Formats a duration in its largest unit, rounded down.
pub fn duration(ms: u64) -> String {
    match ms / 1000 {
        0 if ms > 0 => format!("{ms}ms"),
        s @ 0..=59 => format!("{s}s"),
        s @ 60..=3_599 => format!("{}m", s / 60),
        s @ 3_600..=86_399 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// Formats bytes with a binary unit and one decimal.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 999.95 and more would have four digits before the point.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a time in seconds since the epoch, as in `2026-01-31 23:59 UTC`.
pub fn utc(seconds: u64) -> String {
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Years start in March, so that a leap day is the last day (Hinnant's algorithm).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", clock / 3600, clock / 60 % 60)
}

/// Parses a time such as `2026-01-31T23:59:59.123Z` to milliseconds since the epoch; the fraction is optional.
fn parse_ms(time: &str) -> Option<u64> {
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let sane = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sane || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction_ms: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some((((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction_ms)
}

/// Returns the days from 1970-01-01 to a Gregorian date (Hinnant's algorithm; years start in March).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year / 400, year % 400);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_the_calendar_says() {
        let table = [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000)),
            ("2026-12-31T23:59:59.123Z", Some(1_798_761_599_123)),
            ("2100-03-01T00:00:00.000Z", Some(4_107_542_400_000)),
            ("2026-12-31T23:59:59.1Z", Some(1_798_761_599_100)),
            ("yesterday", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-12-31T23:59:59+01:00", None),
        ];
        for (time, expected) in table {
            assert_eq!(parse_ms(time), expected, "{time}");
        }
    }

    #[test]
    fn a_time_is_printed_as_it_was_parsed() {
        for time in [
            "1970-01-01T00:00",
            "2000-02-29T23:59",
            "2026-12-31T12:34",
            "2100-03-01T00:01",
            "9999-12-31T23:59",
        ] {
            let seconds = parse_ms(&format!("{time}:30Z")).expect(time) / 1000;
            assert_eq!(utc(seconds), format!("{} UTC", time.replace('T', " ")));
        }
    }

    #[test]
    fn an_age_has_one_unit() {
        let table =
            [(0, "0s"), (5, "5ms"), (59_999, "59s"), (60_000, "1m"), (3_600_000, "1h"), (90_000_000, "1d")];
        for (ms, expected) in table {
            assert_eq!(age_at("1970-01-01T00:00:00Z", ms), expected);
        }
        assert_eq!(age_at("?", 5), "-");
    }

    #[test]
    fn what_is_left_is_told_to_the_nearest() {
        let end = "1970-01-31T00:00:00Z";
        let table = [
            (0, "in 0s"),
            (499, "in 0s"),
            (59_400, "in 59s"),
            (59_500, "in 1m"),
            (3_599_000, "in 1h"),
            (84_000_000, "in 23h"),
            (86_399_990, "in 1d"),
            (86_400_003, "in 1d"),
            (2_592_000_000, "in 30d"),
        ];
        for (left_ms, expected) in table {
            assert_eq!(until_at(end, 2_592_000_000 - left_ms), expected, "{left_ms}");
        }
        assert_eq!(until_at(end, u64::MAX), "in 0s");
        assert_eq!(until_at("?", 5), "-");
    }

    #[test]
    fn sizes_are_short() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_536_000, "1.5 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (count, expected) in table {
            assert_eq!(bytes(count), expected);
        }
    }
}
