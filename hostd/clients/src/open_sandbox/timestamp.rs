//! Reads a time as clients write it: RFC 3339, in any offset.

const MS_PER_MINUTE: i64 = 60_000;

/// Returns milliseconds since 1970; `None` for anything but a time from then to the year 9999.
pub fn parse(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let separators = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    let fits = separators.iter().all(|(at, sign)| text.get(*at..*at + 1) == Some(*sign))
        && matches!(text.get(10..11), Some("T" | "t" | " "))
        && (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let rest = text.get(19..).filter(|_| fits)?;
    let (fraction_ms, zone) = fraction(rest)?;
    let ms = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * MS_PER_MINUTE + second * 1000;
    u64::try_from(ms + fraction_ms - offset_minutes(zone)? * MS_PER_MINUTE).ok()
}

/// Splits a fraction of a second off.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let ms: String = rest.get(..digits)?.chars().chain("000".chars()).take(3).collect();
    (digits > 0).then_some((ms.parse().ok()?, rest.get(digits..)?))
}

fn offset_minutes(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |text: &str| (text.len() == 2).then(|| text.parse::<i64>().ok())?.filter(|number| *number >= 0);
    Some(sign * (two(hours)? * 60 + two(minutes)?))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts days of the Gregorian calendar; years start in March, so that the leap day is last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_any_offset() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:30:15.250Z", Some(951_827_415_250)),
            ("2026-11-19T05:00:00+00:00", Some(1_795_064_400_000)),
            ("2026-11-19T06:30:00+01:30", Some(1_795_064_400_000)),
            ("2026-11-18T21:00:00.5-08:00", Some(1_795_064_400_500)),
            ("2026-11-19T05:00:00.123456+00:00", Some(1_795_064_400_123)),
            ("2026-02-29T00:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-19", None),
            ("2026-11-19T05:00:00", None),
            ("2026-11-19T05:00:00.Z", None),
            ("2026-11-19T05:00:00+1:00", None),
            ("ümlaut", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_hostd_writes_is_read_back() {
        for time_ms in (0..4_000_000_000_000_u64).step_by(86_399_999 * 97) {
            let text = hostd_core::rfc3339(time_ms);
            assert_eq!(parse(&text), Some(time_ms), "{text}");
        }
    }
}
