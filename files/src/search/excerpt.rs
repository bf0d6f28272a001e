//! The part of a long line that is shown.

use crate::limits::EXCERPT_MAX_BYTES;

/// Bytes shown before a match that lies far into its line.
const BEFORE_BYTES: usize = 128;
const CUT: &str = "…";

/// The line as text: whole where it is short, else a part with the byte `at`, where the match begins.
pub fn excerpt(line: &[u8], at: usize) -> String {
    if line.len() <= EXCERPT_MAX_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let begin = if at < EXCERPT_MAX_BYTES - BEFORE_BYTES { 0 } else { boundary(line, at - BEFORE_BYTES) };
    let end = boundary(line, (begin + EXCERPT_MAX_BYTES).min(line.len())).max(begin);
    let before = if begin > 0 { CUT } else { "" };
    let after = if end < line.len() { CUT } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&line[begin..end]))
}

/// The begin of the character that this byte is in, where the bytes are UTF-8.
fn boundary(line: &[u8], at: usize) -> usize {
    let is_begin = |at: &usize| line.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(is_begin).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(excerpt(b"short \xff", 0), "short \u{fffd}");
        let line = "ü".repeat(5000);
        for at in [0, 1, 1023, 1024, 5000, 9998, 9999] {
            let text = excerpt(line.as_bytes(), at);
            assert!(!text.contains('\u{fffd}'), "{at}: {text}");
            assert!(text.len() <= EXCERPT_MAX_BYTES + 2 * CUT.len(), "{at}");
            assert!(text.ends_with(CUT) || at > 8000, "{at}");
        }
        let mut line = vec![b'a'; 5000];
        line[4000] = b'x';
        assert!(excerpt(&line, 4000).contains('x'));
        // Bytes that are never the begin of a character.
        assert!(excerpt(&[0x80; 5000], 2500).len() <= 3 * EXCERPT_MAX_BYTES + 2 * CUT.len());
    }
}
