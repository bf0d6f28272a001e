//! Reads the frames of a terminal from runtimed. Input is untrusted: the length of a frame is bounded. Parts
//! of a frame are returned as they come, so that at most one read is buffered for a viewer.

use super::limits;
use bytes::{Buf as _, Bytes, BytesMut};
use hostd_net::backpressure::read_chunk;
use protocol::TerminalFrameHeader;
use std::io;
use tokio::io::AsyncRead;

pub struct TerminalFrames<R> {
    from: R,
    buffer: BytesMut,
    /// The rest of the frame whose head was read: its position and length.
    rest: TerminalFrameHeader,
}

impl<R: AsyncRead + Unpin> TerminalFrames<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new(), rest: TerminalFrameHeader { at: 0, length: 0 } }
    }

    /// Returns position and bytes of the next frame, or of the part of it that was received; `None` at the
    /// end. Safe to cancel: received bytes are kept.
    pub async fn next(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        loop {
            if let Some(part) = self.part()? {
                return Ok(Some(part));
            }
            let received = read_chunk(&mut self.from).await?;
            if received.is_empty() {
                return Ok(None);
            }
            self.buffer.extend_from_slice(&received);
        }
    }

    fn part(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        if self.rest.length == 0 {
            let Some(head) = self.buffer.first_chunk::<{ TerminalFrameHeader::BYTES }>() else {
                return Ok(None);
            };
            let head = TerminalFrameHeader::from_bytes(*head);
            if usize::try_from(head.length).unwrap_or(usize::MAX) > limits::TERMINAL_FRAME_MAX_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "terminal frame over the size limit"));
            }
            self.buffer.advance(TerminalFrameHeader::BYTES);
            self.rest = head;
            if head.length == 0 {
                return Ok(Some((head.at, Bytes::new())));
            }
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let received = self.buffer.len().min(self.rest.length as usize);
        let at = self.rest.at;
        self.rest = TerminalFrameHeader {
            at: at.saturating_add(received as u64),
            length: self.rest.length.saturating_sub(u32::try_from(received).unwrap_or(u32::MAX)),
        };
        Ok(Some((at, self.buffer.split_to(received).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_net::backpressure::CHUNK_BYTES;

    #[tokio::test]
    async fn no_byte_of_a_frame_is_lost_however_it_is_cut() {
        let mut wire = Vec::new();
        for (at, text) in [(5, "hello"), (10, ""), (99, "far")] {
            wire.extend(TerminalFrameHeader { at, length: text.len() as u32 }.to_bytes());
            wire.extend(text.as_bytes());
        }
        for size in 1..wire.len() {
            let mut cut = in_chunks(&wire, size);
            let mut frames = TerminalFrames::new(&mut cut);
            let mut seen = Vec::new();
            while let Some((at, bytes)) = frames.next().await.unwrap() {
                seen.extend((at..).zip(bytes.iter().copied().map(char::from)));
            }
            let text = [(5, 'h'), (6, 'e'), (7, 'l'), (8, 'l'), (9, 'o'), (99, 'f'), (100, 'a'), (101, 'r')];
            assert_eq!(seen, text, "{size}");
        }
    }

    #[tokio::test]
    async fn the_longest_frame_comes_in_parts_of_one_read() {
        let length = limits::TERMINAL_FRAME_MAX_BYTES;
        let mut wire = TerminalFrameHeader { at: 7, length: length as u32 }.to_bytes().to_vec();
        wire.resize(TerminalFrameHeader::BYTES + length, b'x');
        let mut frames = TerminalFrames::new(wire.as_slice());
        let mut next = 7;
        while let Some((at, bytes)) = frames.next().await.unwrap() {
            assert!(at == next && bytes.len() <= CHUNK_BYTES, "{} bytes at {at}", bytes.len());
            next += bytes.len() as u64;
        }
        assert_eq!(next, 7 + length as u64);
    }

    /// Yields the bytes in chunks of this size.
    fn in_chunks(wire: &[u8], size: usize) -> impl AsyncRead + Unpin {
        let chunks: Vec<io::Result<Bytes>> =
            wire.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        tokio_util::io::StreamReader::new(futures_util::stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_rejected() {
        let head = TerminalFrameHeader { at: 0, length: u32::MAX }.to_bytes();
        assert!(TerminalFrames::new(head.as_slice()).next().await.is_err());
    }
}
