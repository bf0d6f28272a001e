//! The records of a PAX header: `<length> <key>=<value>\n`, where the length counts the whole record.

use super::{
    TarError,
    member::{Mtime, Xattr},
};

const XATTR_PREFIX: &[u8] = b"SCHILY.xattr.";
const SPARSE_PREFIX: &[u8] = b"GNU.sparse.";
const NANOSECOND_DIGITS: usize = 9;

/// The records that are used. A record without a value counts as missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PaxRecords {
    pub path: Option<Vec<u8>>,
    pub link_path: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    pub mtime: Option<Mtime>,
    pub xattrs: Vec<Xattr>,
    pub is_sparse: bool,
}

pub fn parse(mut bytes: &[u8]) -> Result<PaxRecords, TarError> {
    let mut records = PaxRecords::default();
    // Some archivers fill up with zeros.
    while bytes.first().is_some_and(|byte| *byte != 0) {
        let (key, value, rest) = record(bytes).ok_or(TarError::Damaged("a PAX header is not valid"))?;
        records.add(key, value).ok_or(TarError::Damaged("a PAX header has an invalid value"))?;
        bytes = rest;
    }
    Ok(records)
}

/// Splits the first record into key and value, and returns the records after it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(&bytes[..space])?).ok()?;
    let (whole, rest) = bytes.split_at_checked(length)?;
    let pair = whole.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..], rest))
}

impl PaxRecords {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if let Some(name) = key.strip_prefix(XATTR_PREFIX) {
            self.xattrs.push((name.to_vec(), value.to_vec()));
        } else if key.starts_with(SPARSE_PREFIX) {
            self.is_sparse = true;
        } else if !value.is_empty() {
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link_path = Some(value.to_vec()),
                b"size" => self.size = Some(number(value)?),
                b"uid" => self.uid = Some(number(value)?),
                b"gid" => self.gid = Some(number(value)?),
                b"mtime" => self.mtime = Some(mtime(value)?),
                _ => {}
            }
        }
        Some(())
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Parses seconds with an optional sign and fraction.
fn mtime(text: &[u8]) -> Option<Mtime> {
    let (is_negative, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let dot = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let seconds = i64::try_from(number(&text[..dot])?).ok()?;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    let mut digits = [b'0'; NANOSECOND_DIGITS];
    let length = fraction.len().min(NANOSECOND_DIGITS);
    digits[..length].copy_from_slice(&fraction[..length]);
    let nanoseconds = u32::try_from(number(&digits)?).ok()?;
    Some(match (is_negative, nanoseconds) {
        (false, _) => Mtime { seconds, nanoseconds },
        (true, 0) => Mtime { seconds: -seconds, nanoseconds },
        (true, _) => Mtime { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar_fixture::pax_body;

    #[test]
    fn records_are_taken_by_their_length() {
        let value = b"a\nb=\0\n9 path=x\n";
        let records: [(&[u8], &[u8]); 6] = [
            (b"SCHILY.xattr.user.x", value),
            (b"path", b"a b"),
            (b"mtime", b"1700000000.25"),
            (b"uid", b"900"),
            (b"gid", b""),
            (b"comment", b"ignored"),
        ];
        let mut bytes = pax_body(&records.map(|(key, value)| (key.to_vec(), value.to_vec())));
        bytes.extend(b"\0\0");
        let expected = PaxRecords {
            path: Some(b"a b".to_vec()),
            uid: Some(900),
            mtime: Some(Mtime { seconds: 1_700_000_000, nanoseconds: 250_000_000 }),
            xattrs: vec![(b"user.x".to_vec(), value.to_vec())],
            ..PaxRecords::default()
        };
        assert_eq!(parse(&bytes).expect("valid"), expected);
        assert!(parse(b"22 GNU.sparse.major=1\n").expect("valid").is_sparse);
    }

    #[test]
    fn invalid_records_are_damage() {
        for bytes in [
            &b"x"[..],
            b"6 a=b\n7",
            b"5 a=b\n",
            b"7 a=b\n",
            b"6 ab\n\n",
            b"0 a=b\n",
            b"-6 a=b\n",
            b"99999999999999999999999 a=b\n",
            b"18446744073709551615 a=b\n",
            b"11 size=-1\n",
            b"10 uid=x1\n",
            b"13 mtime=1.x\n",
        ] {
            assert!(parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn times_may_be_negative_and_have_fractions() {
        type Parsed = Option<(i64, u32)>;
        let table: [(&[u8], Parsed); 7] = [
            (b"12", Some((12, 0))),
            (b"12.000000001999", Some((12, 1))),
            (b"-1.5", Some((-2, 500_000_000))),
            (b"-3", Some((-3, 0))),
            (b".5", None),
            (b"", None),
            (b"99999999999999999999", None),
        ];
        for (text, expected) in table {
            let found = mtime(text).map(|mtime| (mtime.seconds, mtime.nanoseconds));
            assert_eq!(found, expected, "{}", text.escape_ascii());
        }
    }
}
