//! Line format of event logs on disk: `checksum cursor kind json`. The checksum covers the rest of the line, so that a
//! torn or damaged line is detected; cursor and kind can be read without parsing JSON.
//!
//! A file is named after the cursor of its first event. docs/runtimed.md lists the files.

use crate::{Cursor, Event};
use serde::Serialize;

/// Largest epoch in a file name. Epochs count boots or seconds, so that a next one always exists.
const EPOCH_MAX: u64 = u64::MAX >> 1;
const SUM_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    pub cursor: Cursor,
    pub kind: &'a str,
    pub json: &'a str,
}

/// Encodes an event as a line, with its line feed.
pub fn encode(event: &Event) -> Result<String, serde_json::Error> {
    let mut line = Vec::new();
    push(&mut line, event.cursor, event.fact.kind(), event)?;
    Ok(String::from_utf8(line).expect("JSON is text, and so is the rest"))
}

/// Appends the line of an event, with its line feed; appends nothing on error.
pub fn push(
    out: &mut Vec<u8>,
    cursor: Cursor,
    kind: &str,
    event: &impl Serialize,
) -> Result<(), serde_json::Error> {
    let open_line = begin(out, cursor, kind);
    if let Err(error) = serde_json::to_writer(&mut *out, event) {
        out.truncate(open_line.start);
        return Err(error);
    }
    open_line.end(out);
    Ok(())
}

/// A line whose JSON is not written yet.
#[must_use = "a line that is not ended is torn"]
pub struct OpenLine {
    start: usize,
}

/// Begins a line. The caller appends the JSON, without a line feed, and then calls [`OpenLine::end`].
pub fn begin(out: &mut Vec<u8>, cursor: Cursor, kind: &str) -> OpenLine {
    let start = out.len();
    out.extend_from_slice(b"00000000 ");
    push_number(out, cursor.epoch);
    out.push(b'.');
    push_number(out, cursor.seq);
    out.push(b' ');
    out.extend_from_slice(kind.as_bytes());
    out.push(b' ');
    OpenLine { start }
}

/// Appends a number in decimal digits. `format!` would cost more than the rest of the line.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

impl OpenLine {
    pub fn end(self, out: &mut Vec<u8>) {
        let sum = crc32fast::hash(&out[self.start + SUM_BYTES + 1..]);
        for (place, shift) in out[self.start..self.start + SUM_BYTES].iter_mut().zip((0..32).step_by(4).rev())
        {
            *place = b"0123456789abcdef"[(sum >> shift) as usize & 0xf];
        }
        out.push(b'\n');
    }
}

/// Decodes a line without its line feed; `None` where the checksum is wrong.
pub fn decode(line: &[u8]) -> Option<LogLine<'_>> {
    let (sum, rest) = line.split_at_checked(SUM_BYTES)?;
    let rest = rest.strip_prefix(b" ")?;
    let expected = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    if crc32fast::hash(rest) != expected {
        return None;
    }
    let mut parts = std::str::from_utf8(rest).ok()?.splitn(3, ' ');
    Some(LogLine { cursor: parts.next()?.parse().ok()?, kind: parts.next()?, json: parts.next()? })
}

/// Returns the complete lines with valid checksums of a file, skipping torn and damaged ones.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = LogLine<'_>> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| decode(line.strip_suffix(b"\n")?))
}

/// Returns the length of the prefix that is complete lines with valid checksums, and the cursor of the last one.
pub fn sound_prefix(bytes: &[u8]) -> (usize, Option<Cursor>) {
    let mut sound = 0;
    let mut last = None;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let Some(line_cursor) = line.strip_suffix(b"\n").and_then(decode).map(|l| l.cursor) else { break };
        sound += line.len();
        last = Some(line_cursor);
    }
    (sound, last)
}

/// Returns the name of the file that begins with this event. Names sort like events.
pub fn file_name(first: Cursor) -> String {
    format!("{:016x}-{:016x}.log", first.epoch, first.seq)
}

/// Returns the first cursor of a file with exactly such a name; `None` for any other file.
pub fn parse_file_name(name: &str) -> Option<Cursor> {
    let (epoch, seq) = name.strip_suffix(".log")?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let first = Cursor { epoch: number(epoch)?, seq: number(seq)? };
    (first.epoch <= EPOCH_MAX && file_name(first) == name).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fact;
    use proptest::prelude::*;

    fn event(seq: u64, reason: &str) -> Event {
        Event {
            cursor: Cursor { epoch: 1, seq },
            time_ms: 0,
            fact: Fact::Shutdown { reason: reason.to_owned() },
        }
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_and_reads_back(seq: u64, reason: String) {
            let event = event(seq, &reason);
            let line = encode(&event).expect("events are JSON");
            prop_assert_eq!(line.matches('\n').count(), 1);
            let decoded = decode(line.trim_end_matches('\n').as_bytes()).expect("just encoded");
            prop_assert_eq!(decoded.cursor, event.cursor);
            prop_assert_eq!(decoded.kind, "shutdown");
            prop_assert_eq!(serde_json::from_str::<Event>(decoded.json).expect("our JSON"), event);
        }

        #[test]
        fn a_number_is_its_digits(number: u64, shift in 0u32..64) {
            let mut out = Vec::new();
            push_number(&mut out, number >> shift);
            prop_assert_eq!(out, (number >> shift).to_string().into_bytes());
        }

        #[test]
        fn a_torn_tail_never_hides_what_is_before_it(cut in 0usize..400, noise: Vec<u8>) {
            let whole: String = (1..=4).map(|seq| encode(&event(seq, "x")).expect("JSON")).collect();
            let cut = cut.min(whole.len());
            let lines_before_cut = whole[..cut].matches('\n').count();
            let (sound, last) = sound_prefix(&whole.as_bytes()[..cut]);
            prop_assert_eq!(whole[..sound].matches('\n').count(), lines_before_cut);
            prop_assert_eq!(last.map_or(0, |c| c.seq), lines_before_cut as u64);
            prop_assert_eq!(lines(&whole.as_bytes()[..cut]).count(), lines_before_cut);
            prop_assert!(sound_prefix(&noise).0 <= noise.len());
            // A damaged line does not affect the lines after it.
            let damaged = [&whole.as_bytes()[..cut], b"\n", whole.as_bytes()].concat();
            prop_assert!(lines(&damaged).count() >= lines_before_cut + 4);
        }

        #[test]
        fn a_file_is_named_after_its_first_event(epoch in 0..=EPOCH_MAX, seq: u64, text in "[0-9a-f+-]{0,40}(\\.log)?") {
            let first = Cursor { epoch, seq };
            prop_assert_eq!(parse_file_name(&file_name(first)), Some(first));
            if let Some(parsed) = parse_file_name(&text) {
                prop_assert_eq!(file_name(parsed), text);
            }
        }
    }

    #[test]
    fn a_damaged_line_is_no_line() {
        let line = encode(&event(1, "x")).expect("JSON");
        let line = line.trim_end().as_bytes();
        assert!(decode(line).is_some());
        for at in 0..line.len() {
            let mut damaged = line.to_vec();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn other_names_are_not_of_our_files() {
        for name in ["done.room", "task.json", "1-1.log", "000000000000000A-0000000000000001.log", ".log"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
