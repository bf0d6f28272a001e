//! One event as a line of text: `checksum cursor kind json`. The checksum covers the rest of the line,
//! so a torn or damaged line is known as such, and cursor and kind are there without parsing JSON.

use protocol::{Cursor, Event};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub cursor: Cursor,
    pub kind: &'a str,
    pub json: &'a str,
}

/// The line of an event, with its line feed.
pub fn encode(event: &Event) -> Result<String, serde_json::Error> {
    let rest = format!("{} {} {}", event.cursor, event.fact.kind(), serde_json::to_string(event)?);
    Ok(format!("{:08x} {rest}\n", crc32fast::hash(rest.as_bytes())))
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
