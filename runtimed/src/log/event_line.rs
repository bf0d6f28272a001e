//! One event as a line of text: `checksum cursor kind json`. The checksum covers the rest of the line,
//! so a torn or damaged line is known as such, and cursor and kind are there without parsing JSON.

use protocol::{Cursor, Event};
use serde::Serialize;
use std::io::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub cursor: Cursor,
    pub kind: &'a str,
    pub json: &'a str,
}

/// The line of an event, with its line feed.
pub fn encode(event: &Event) -> Result<String, serde_json::Error> {
    let mut line = Vec::new();
    push(&mut line, event.cursor, event.fact.kind(), event)?;
    Ok(String::from_utf8(line).expect("JSON is text, and so is the rest"))
}

/// Adds the line of an event, with its line feed; nothing of it if it cannot be written.
pub fn push(
    out: &mut Vec<u8>,
    cursor: Cursor,
    kind: &str,
    event: &impl Serialize,
) -> Result<(), serde_json::Error> {
    const SUM_BYTES: usize = 8;
    let start = out.len();
    out.extend_from_slice(b"00000000 ");
    let rest = out.len();
    let written = write!(out, "{cursor} {kind} ").map_err(serde_json::Error::io);
    if let Err(error) = written.and_then(|()| serde_json::to_writer(&mut *out, event)) {
        out.truncate(start);
        return Err(error);
    }
    let sum = format!("{:08x}", crc32fast::hash(&out[rest..]));
    out[start..start + SUM_BYTES].copy_from_slice(sum.as_bytes());
    out.push(b'\n');
    Ok(())
}

/// Reads a line without its line feed; nothing where the checksum is wrong.
pub fn decode(line: &[u8]) -> Option<Line<'_>> {
    let text = std::str::from_utf8(line).ok()?;
    let (sum, rest) = text.split_once(' ')?;
    let expected = u32::from_str_radix(sum, 16).ok().filter(|_| sum.len() == 8)?;
    if crc32fast::hash(rest.as_bytes()) != expected {
        return None;
    }
    let mut parts = rest.splitn(3, ' ');
    Some(Line { cursor: parts.next()?.parse().ok()?, kind: parts.next()?, json: parts.next()? })
}

/// How much of a file is whole lines with right checksums, and the cursor of the last of them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::Fact;

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
        fn a_torn_tail_never_hides_what_is_before_it(cut in 0usize..400, noise: Vec<u8>) {
            let whole: String = (1..=4).map(|seq| encode(&event(seq, "x")).expect("JSON")).collect();
            let cut = cut.min(whole.len());
            let lines_before_cut = whole[..cut].matches('\n').count();
            let (sound, last) = sound_prefix(&whole.as_bytes()[..cut]);
            prop_assert_eq!(whole[..sound].matches('\n').count(), lines_before_cut);
            prop_assert_eq!(last.map_or(0, |c| c.seq), lines_before_cut as u64);
            crate::fuzz::event_line(&noise);
        }
    }
}
