//! Times as clients send them: RFC 3339 with an offset, seconds or milliseconds.

/// Returns milliseconds since the Unix epoch.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date.split('-'))?;
    let offset_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, offset) = time.split_at(offset_at);
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(whole.split(':'))?;
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    if !in_range || second > 60 || year > 9_999 {
        return None;
    }
    let seconds =
        days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_seconds(offset)?;
    u64::try_from(seconds * 1_000 + milliseconds(fraction)?).ok()
}

fn numbers<'a>(parts: impl Iterator<Item = &'a str>) -> Option<[i64; 3]> {
    let digits = |part: &'a str| {
        let good = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        good.then(|| part.parse().ok()).flatten()
    };
    parts.map(digits).collect::<Option<Vec<i64>>>()?.try_into().ok()
}

fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

fn offset_seconds(offset: &str) -> Option<i64> {
    let sign = match offset.as_bytes().first() {
        None | Some(b'Z' | b'z') => return (offset.len() <= 1).then_some(0),
        Some(b'-') => -1,
        Some(_) => 1,
    };
    let [hours, minutes, _] = numbers(offset.get(1..)?.split(':').chain(["0"]))?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Days since 1970-01-01 of a Gregorian date (Hinnant's algorithm; years start in March).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_python_and_javascript_are_read() {
        let table = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-01-31T23:59:59.123Z", Some(1_769_903_999_123)),
            ("2026-02-01T00:59:59.123456+01:00", Some(1_769_903_999_123)),
            ("2026-01-31T13:59:59-10:00", Some(1_769_903_999_000)),
            ("2024-02-29 00:00:00", Some(1_709_164_800_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-31", None),
            ("2026-01-31T24:00:00Z", None),
            ("yesterday", None),
            ("2026-01-31T00:00:00+1", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_rfc3339(text), expected, "{text}");
        }
        for ms in [0, 951_782_400_000, 1_769_903_999_123, 4_102_444_799_999] {
            assert_eq!(parse_rfc3339(&crate::rfc3339(ms)), Some(ms));
        }
    }
}
