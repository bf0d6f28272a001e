//! Parses durations and formats times.

/// Parses `90s`, `15m`, `4h`, `7d`: a positive number and one letter.
pub fn parse_duration_ms(text: &str) -> Result<u64, &'static str> {
    const WRONG: &str = "must be a positive number and one of s, m, h, d, as in 90s or 4h";
    let unit_ms: u64 = match text.as_bytes().last() {
        Some(b's') => 1_000,
        Some(b'm') => 60_000,
        Some(b'h') => 3_600_000,
        Some(b'd') => 86_400_000,
        _ => return Err(WRONG),
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(WRONG);
    }
    let number: u64 = digits.parse().map_err(|_| WRONG)?;
    number.checked_mul(unit_ms).filter(|ms| *ms > 0).ok_or(WRONG)
}

/// Formats milliseconds since the epoch as `2026-01-31T23:59:59.123Z`.
pub fn rfc3339(time_ms: u64) -> String {
    let (days, rest_ms) = (time_ms / 86_400_000, time_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (s, ms) = (rest_ms / 1000, rest_ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z", s / 3600, s / 60 % 60, s % 60)
}

/// Converts days since 1970-01-01 into a Gregorian date (Hinnant's algorithm; years start in March).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        let table = [
            ("90s", Some(90_000)),
            ("15m", Some(900_000)),
            ("4h", Some(14_400_000)),
            ("7d", Some(604_800_000)),
        ];
        for (text, expected) in table {
            assert_eq!(parse_duration_ms(text).ok(), expected, "{text}");
        }
        for bad in [
            "",
            "s",
            "0h",
            "04h",
            "4hours",
            "-1s",
            "+1s",
            "1.5h",
            "4",
            "é",
            "99999999999999999999d",
            "300000000000d",
        ] {
            assert!(parse_duration_ms(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_read_as_the_calendar_says() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_798_761_599_123, "2026-12-31T23:59:59.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, expected) in table {
            assert_eq!(rfc3339(ms), expected);
        }
    }
}
