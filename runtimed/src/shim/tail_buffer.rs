//! A buffer of the last bytes of an output.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{Encoding, Payload};

pub struct TailBuffer {
    bytes: Vec<u8>,
    max_bytes: usize,
    cut: bool,
}

impl TailBuffer {
    pub fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes, cut: false }
    }

    pub fn append(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(2 * self.max_bytes)..];
        self.cut |= kept.len() < bytes.len();
        self.bytes.extend_from_slice(kept);
        // Shortens rarely, so that appending stays linear.
        if self.bytes.len() > 4 * self.max_bytes {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let over = self.bytes.len().saturating_sub(self.max_bytes);
        self.cut |= over > 0;
        self.bytes.drain(..over);
    }

    /// The end without trailing blank lines; whole lines where there are any, whole characters at least.
    pub fn payload(&mut self) -> Option<Payload> {
        self.shorten();
        let mut bytes = self.bytes.trim_ascii_end();
        if self.cut {
            let line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let character = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            bytes = &bytes[line.unwrap_or(character)..];
        }
        if bytes.is_empty() {
            return None;
        }
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => Payload { data: text.to_owned(), encoding: Encoding::Utf8 },
            Err(_) => Payload { data: STANDARD.encode(bytes), encoding: Encoding::Base64 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_whole_lines_within_the_bound() {
        for (pieces, expected) in [
            (vec!["one\ntwo\n"], Some("one\ntwo")),
            (vec![], None),
            (vec!["\n \n"], None),
            (vec!["0123456789\n", "abc\n"], Some("abc")),
            (vec!["0123456789abcdef"], Some("89abcdef")),
            (vec!["ééééé\u{20ac}"], Some("éé€")),
        ] {
            let mut tail = TailBuffer::new(8);
            pieces.iter().for_each(|piece| tail.append(piece.as_bytes()));
            assert_eq!(tail.payload().map(|payload| payload.data).as_deref(), expected, "{pieces:?}");
        }
        let mut long = TailBuffer::new(8);
        (0..1000).for_each(|_| long.append(&[b'x'; 100]));
        assert!(long.bytes.len() <= 32);
    }
}
