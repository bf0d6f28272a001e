//! Keeps a provider's key out of what goes into a sandbox or an event. Pure.

use super::limits::MESSAGE_MAX_CHARS;
use bytes::Bytes;
use memchr::memmem;
use std::collections::HashSet;

/// A part of the key this long is treated as the key.
const RUN_MIN_BYTES: usize = 8;
const REPLACEMENT: &str = "[key]";

/// Replaces every long enough part of the key. A key shorter than that, which only an earlier version
/// accepted, is not looked for: it would match unrelated words.
pub fn redact(text: &str, key: Option<&str>) -> String {
    let Some(key) = key.filter(|key| key.len() >= RUN_MIN_BYTES) else { return text.to_owned() };
    let run = RUN_MIN_BYTES;
    let runs: HashSet<&[u8]> = key.as_bytes().windows(run).collect();
    let mut hidden = vec![false; text.len()];
    for (at, window) in text.as_bytes().windows(run).enumerate() {
        if runs.contains(window) {
            hidden[at..at + run].fill(true);
        }
    }
    let mut clean = String::with_capacity(text.len());
    let mut in_key = false;
    for (at, c) in text.char_indices() {
        match (hidden[at], in_key) {
            (false, _) => clean.push(c),
            (true, false) => clean.push_str(REPLACEMENT),
            (true, true) => {}
        }
        in_key = hidden[at];
    }
    clean
}

/// Redacts a text to one line of bounded length, for events and messages.
pub fn redacted_line(text: &str, key: Option<&str>) -> String {
    let line = redact(text, key);
    let mut line: String = line
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .fold(String::new(), |mut line, word| {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            line
        });
    if let Some((at, _)) = line.char_indices().nth(MESSAGE_MAX_CHARS) {
        line.truncate(at);
        line.push('…');
    }
    line
}

/// Detects the whole key in a response that is relayed piece by piece, however the pieces split it.
pub struct KeyDetector {
    key: Option<Bytes>,
    /// The end of the previous pieces, as far as a key could begin there.
    before: Vec<u8>,
}

impl KeyDetector {
    pub fn new(key: Option<&str>) -> Self {
        let key = key.filter(|key| key.len() >= RUN_MIN_BYTES);
        Self { key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())), before: Vec::new() }
    }

    /// Whether this piece contains or completes the key.
    pub fn completes_key(&mut self, bytes: &[u8]) -> bool {
        let Some(key) = &self.key else { return false };
        let keep = key.len() - 1;
        if !self.before.is_empty() {
            let edge = bytes.len().min(keep);
            self.before.extend_from_slice(&bytes[..edge]);
            if memmem::find(&self.before, key).is_some() {
                return true;
            }
        }
        if memmem::find(bytes, key).is_some() {
            return true;
        }
        if bytes.len() >= keep {
            self.before.clear();
            self.before.extend_from_slice(&bytes[bytes.len() - keep..]);
        } else if self.before.is_empty() {
            self.before.extend_from_slice(bytes);
        } else {
            // The piece was appended above.
            let over = self.before.len().saturating_sub(keep);
            self.before.drain(..over);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-proj-ABCDEFGHIJKLMNOPQRSTUVWX";

    #[test]
    fn a_key_and_every_long_part_of_it_is_hidden() {
        let table = [
            (format!("bad key {KEY}!"), "bad key [key]!"),
            (format!("{KEY}{KEY}"), "[key]"),
            ("Incorrect key: sk-proj-ABCD****".to_owned(), "Incorrect key: [key]****"),
            ("ends in QRSTUVWX.".to_owned(), "ends in [key]."),
            ("ends in RSTUVWX.".to_owned(), "ends in RSTUVWX."),
            ("nothing of it".to_owned(), "nothing of it"),
            ("ä sk-proj-A ö".to_owned(), "ä [key] ö"),
        ];
        for (text, expected) in table {
            assert_eq!(redact(&text, Some(KEY)), expected, "{text}");
        }
        assert_eq!(redact("a short abc", Some("a")), "a short abc");
        assert_eq!(redact("text", None), "text");
        assert_eq!(redact("text", Some("")), "text");
    }

    #[test]
    fn a_redacted_line_is_one_short_line() {
        assert_eq!(redacted_line("a\r\n  b\u{1b}[31m\tc ", None), "a b [31m c");
        let long = redacted_line(&"wörd ".repeat(1000), None);
        assert_eq!(long.chars().count(), MESSAGE_MAX_CHARS + 1);
    }

    proptest! {
        #[test]
        fn no_run_of_the_key_is_left(
            parts in proptest::collection::vec((0_usize..32, 0_usize..33, "[a-zé ]{0,4}"), 0..8),
        ) {
            let text: String = parts
                .iter()
                .map(|(from, to, between)| format!("{}{between}", KEY.get(*from..*to).unwrap_or("")))
                .collect();
            let clean = redact(&text, Some(KEY));
            for run in KEY.as_bytes().windows(RUN_MIN_BYTES) {
                prop_assert!(memmem::find(clean.as_bytes(), run).is_none(), "{clean}");
            }
        }

        #[test]
        fn the_whole_key_is_seen_however_the_bytes_come(
            before in "[a-z]{0,70}", after in "[a-z]{0,10}",
            cuts in proptest::collection::vec(0_usize..120, 0..40), whole: bool,
        ) {
            let shown = if whole { KEY } else { &KEY[..KEY.len() - 1] };
            let text = format!("{before}{shown}{after}");
            let mut detector = KeyDetector::new(Some(KEY));
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let seen = cuts.windows(2).any(|cut| detector.completes_key(&text.as_bytes()[cut[0]..cut[1]]));
            prop_assert_eq!(seen, whole);
        }
    }
}
