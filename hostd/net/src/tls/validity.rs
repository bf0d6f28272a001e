//! The validity period of a certificate, read from its DER. Knows no clock: time is an argument.
//!
//! ```text
//!  Certificate { tbs { [0] version?, serial, algorithm, issuer, validity { notBefore, notAfter }, … }, … }
//! ```

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// A certificate is due for renewal in the last part of its lifetime.
const RENEWAL_PART: i64 = 10;

/// Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before_s: i64,
    pub not_after_s: i64,
}

/// A certificate at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidityState {
    NotYetValid,
    Valid,
    /// Valid, in the last tenth of its lifetime.
    ExpiresSoon,
    Expired,
}

impl Validity {
    /// Reads the period from a certificate in DER.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (tbs, _) = element(certificate, SEQUENCE)?;
        let after_version = element(tbs, VERSION).map_or(tbs, |(_, rest)| rest);
        let after_serial = any_element(after_version)?.2;
        let (_, after_algorithm) = element(after_serial, SEQUENCE)?;
        let (_, after_issuer) = element(after_algorithm, SEQUENCE)?;
        let (validity, _) = element(after_issuer, SEQUENCE)?;
        let (not_before_s, rest) = time(validity)?;
        let (not_after_s, _) = time(rest)?;
        Some(Self { not_before_s, not_after_s })
    }

    pub fn state(&self, now_s: i64) -> ValidityState {
        let renewal_s = self.not_after_s.saturating_sub(self.not_before_s) / RENEWAL_PART;
        if now_s < self.not_before_s {
            ValidityState::NotYetValid
        } else if now_s > self.not_after_s {
            ValidityState::Expired
        } else if now_s > self.not_after_s.saturating_sub(renewal_s) {
            ValidityState::ExpiresSoon
        } else {
            ValidityState::Valid
        }
    }
}

/// Splits off the first element: its tag, its content, and the rest.
fn any_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(short), rest),
        // The long form, of a length that fits into memory.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Splits off the first element, which must have this tag.
fn element(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any_element(der)?;
    (tag == wanted).then_some((content, rest))
}

/// Reads a time of RFC 5280: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, text, rest) = any_element(der)?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = number(text, 2)?;
            // Years from 50 on are of the last century.
            (if year < 50 { 2000 + year } else { 1900 + year }, text)
        }
        GENERALIZED_TIME => number(text, 4)?,
        _ => return None,
    };
    let (month, text) = number(text, 2)?;
    let (day, text) = number(text, 2)?;
    let (hour, text) = number(text, 2)?;
    let (minute, text) = number(text, 2)?;
    let (second, text) = number(text, 2)?;
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && text == b"Z";
    let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    valid.then_some((seconds, rest))
}

fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let number = number
        .iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))?;
    Some((number, rest))
}

/// Days between 1 January 1970 and a day of the Gregorian calendar. Counts years from March, so that a leap day is the
/// last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    /// Days from 1 March of the year 0 to 1 January 1970.
    const BEFORE_1970: i64 = 719_468;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before_year + (153 * month + 2) / 5 + day - 1 - BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tag: u8, text: &str) -> Option<i64> {
        let mut der = vec![tag, u8::try_from(text.len()).unwrap()];
        der.extend_from_slice(text.as_bytes());
        time(&der).map(|(seconds, _)| seconds)
    }

    #[test]
    fn times_are_read_in_both_forms() {
        for (tag, text, expected) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "261118024500Z", Some(1_794_969_900)),
            (UTC_TIME, "000229235959Z", Some(951_868_799)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (UTC_TIME, "261318024500Z", None),
            (UTC_TIME, "261118024500", None),
            (UTC_TIME, "2611180245+0Z", None),
            (0x02, "700101000000Z", None),
        ] {
            assert_eq!(at(tag, text), expected, "{text}");
        }
    }

    #[test]
    fn a_certificate_is_due_in_the_last_tenth_of_its_lifetime() {
        let validity = Validity { not_before_s: 1_000, not_after_s: 2_000 };
        for (now_s, expected) in [
            (999, ValidityState::NotYetValid),
            (1_000, ValidityState::Valid),
            (1_900, ValidityState::Valid),
            (1_901, ValidityState::ExpiresSoon),
            (2_000, ValidityState::ExpiresSoon),
            (2_001, ValidityState::Expired),
        ] {
            assert_eq!(validity.state(now_s), expected, "{now_s}");
        }
    }

    #[test]
    fn a_torn_certificate_has_no_validity() {
        let whole = [&[SEQUENCE, 0x82, 0x01][..], &[0xff; 40]].concat();
        for length in 0..whole.len() {
            assert_eq!(Validity::of_certificate(&whole[..length]), None);
        }
        assert_eq!(Validity::of_certificate(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
