//! Parts of a blob: the header `Content-Range`. Pure.

/// The part of a blob that a response holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    pub first: u64,
    pub last: u64,
    /// Size of the whole blob, where it is said.
    pub total: Option<u64>,
}

impl ContentRange {
    /// Parses `bytes 0-9/10` or `bytes 0-9/*`.
    pub fn parse(header: &str) -> Option<Self> {
        let (unit, range) = header.trim().split_once(' ')?;
        let (range, total) = range.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        let valid = unit.eq_ignore_ascii_case("bytes") && first <= last;
        valid.then_some(Self { first, last, total })
    }

    /// Whether this is what is missing of a blob of `size` bytes, of which `from` are there already. A server may send
    /// less than was asked for.
    pub fn continues(&self, from: u64, size: u64) -> bool {
        self.first == from && self.last < size && self.total.is_none_or(|total| total == size)
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_must_continue_the_blob() {
        for (header, expected) in [
            ("bytes 4-9/10", Some(true)),
            ("Bytes 4-9/*", Some(true)),
            ("bytes 4-7/10", Some(true)),
            ("bytes 3-9/10", Some(false)),
            ("bytes 5-9/10", Some(false)),
            ("bytes 4-10/10", Some(false)),
            ("bytes 4-9/11", Some(false)),
            ("bytes 4-18446744073709551615/*", Some(false)),
            ("bytes 9-4/10", None),
            ("bytes */10", None),
            ("bytes +4-9/10", None),
            ("items 4-9/10", None),
            ("bytes 4-99999999999999999999/10", None),
            ("", None),
        ] {
            let found = ContentRange::parse(header).map(|range| range.continues(4, 10));
            assert_eq!(found, expected, "{header}");
        }
    }
}
