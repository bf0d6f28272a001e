//! What runtimed shows of a terminal, piece by piece. Nothing of it is believed: a piece has a bound.

use super::limits;
use bytes::{Buf as _, Bytes, BytesMut};
use protocol::PieceHead;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

pub struct Pieces<R> {
    from: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Pieces<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new() }
    }

    /// The position and the bytes of the next piece; `None` at the end. Safe to cancel: what was read of a
    /// piece is kept.
    pub async fn next(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        loop {
            if let Some(piece) = self.whole()? {
                return Ok(Some(piece));
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn whole(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        let Some(head) = self.buffer.first_chunk::<{ PieceHead::BYTES }>() else { return Ok(None) };
        let head = PieceHead::from_bytes(*head);
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        if length > limits::VIEWER_PIECE_MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a piece that is too long"));
        }
        if self.buffer.len() < PieceHead::BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PieceHead::BYTES);
        Ok(Some((head.at, self.buffer.split_to(length).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_whole_however_they_are_cut() {
        let mut wire = Vec::new();
        for (at, text) in [(5, "hello"), (10, ""), (99, "far")] {
            wire.extend(PieceHead { at, length: text.len() as u32 }.to_bytes());
            wire.extend(text.as_bytes());
        }
        for size in 1..wire.len() {
            let mut cut = in_chunks(&wire, size);
            let mut pieces = Pieces::new(&mut cut);
            let mut seen = Vec::new();
            while let Some((at, bytes)) = pieces.next().await.unwrap() {
                seen.push((at, String::from_utf8(bytes.to_vec()).unwrap()));
            }
            assert_eq!(seen, [(5, "hello".into()), (10, String::new()), (99, "far".into())], "{size}");
        }
    }

    /// Gives so many bytes at a time.
    fn in_chunks(wire: &[u8], size: usize) -> impl AsyncRead + Unpin {
        let chunks: Vec<io::Result<Bytes>> =
            wire.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        tokio_util::io::StreamReader::new(futures_util::stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_piece_without_bound_is_refused() {
        let head = PieceHead { at: 0, length: u32::MAX }.to_bytes();
        assert!(Pieces::new(head.as_slice()).next().await.is_err());
    }
}
