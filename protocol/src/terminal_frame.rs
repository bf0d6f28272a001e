//! Framing of terminal output from runtimed to hostd: a header, then that many bytes. A frame that does not start where
//! the previous one ended means that the bytes between them were skipped.

/// Position of the first byte in the output log, and number of bytes; both big-endian on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalFrameHeader {
    pub at: u64,
    pub length: u32,
}

impl TerminalFrameHeader {
    pub const BYTES: usize = 12;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.at.to_be_bytes());
        bytes[8..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (mut at, mut length) = ([0; 8], [0; 4]);
        at.copy_from_slice(&bytes[..8]);
        length.copy_from_slice(&bytes[8..]);
        Self { at: u64::from_be_bytes(at), length: u32::from_be_bytes(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_the_same_on_both_sides() {
        let head = TerminalFrameHeader { at: 0x0102_0304_0506_0708, length: 0x090a_0b0c };
        assert_eq!(head.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(TerminalFrameHeader::from_bytes(head.to_bytes()), head);
    }
}
