//! The name of a local file that lost a conflict. Pure.

use super::tree::Name;

const DAY_S: u64 = 86_400;

/// `NAME.conflict-YYYYMMDD-HHMMSS`, in UTC; with a number where that is taken.
pub fn conflict_name(name: &[u8], now_s: u64, is_taken: impl Fn(&[u8]) -> bool) -> Name {
    let first = [name, format!(".conflict-{}", stamp(now_s)).as_bytes()].concat();
    let numbered = (2..).map(|number| [first.as_slice(), format!("-{number}").as_bytes()].concat());
    std::iter::once(first.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(first)
}

fn stamp(now_s: u64) -> String {
    let (year, month, day) = date(now_s / DAY_S);
    let second = now_s % DAY_S;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// The date of a day since 1970, by the proleptic Gregorian calendar. Years begin in March, so that the leap day is
/// their last.
fn date(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loser_of_a_conflict_is_named_by_the_time() {
        let table = [
            (0, "a.txt.conflict-19700101-000000"),
            (951_782_400, "a.txt.conflict-20000229-000000"),
            (1_709_251_199, "a.txt.conflict-20240229-235959"),
            (1_709_251_200, "a.txt.conflict-20240301-000000"),
            (1_795_003_200, "a.txt.conflict-20261118-120000"),
        ];
        for (now_s, expected) in table {
            assert_eq!(String::from_utf8_lossy(&conflict_name(b"a.txt", now_s, |_| false)), expected);
        }
        let taken = |name: &[u8]| !name.ends_with(b"-3");
        let third = conflict_name(b"a", 0, taken);
        assert_eq!(String::from_utf8_lossy(&third), "a.conflict-19700101-000000-3");
    }
}
