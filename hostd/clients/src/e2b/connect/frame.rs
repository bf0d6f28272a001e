//! Frames of streams: bytes to messages and back. No IO.

use super::{Code, ConnectError};
use bytes::{Buf, BufMut, Bytes, BytesMut};

const HEADER_BYTES: usize = 5;
const COMPRESSED: u8 = 0b01;
const END_STREAM: u8 = 0b10;

/// Why bytes are no frame that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the frame is compressed, and no compression was agreed on")]
    Compressed,
    #[error("the flags {0:#04x} of the frame are not known")]
    UnknownFlags(u8),
    #[error("the message has {bytes} bytes, more than {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("the stream ended within a frame")]
    Cut,
}

impl From<FrameError> for ConnectError {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::Compressed => Code::Unimplemented,
            FrameError::TooLarge { .. } => Code::ResourceExhausted,
            FrameError::UnknownFlags(_) | FrameError::Cut => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

/// A message as a frame.
pub fn message(text: &[u8]) -> Bytes {
    encode(0, text)
}

/// The last frame.
pub fn end(text: &[u8]) -> Bytes {
    encode(END_STREAM, text)
}

fn encode(flags: u8, text: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + text.len());
    frame.put_u8(flags);
    frame.put_u32(
        u32::try_from(text.len()).expect("messages of ours are parts of output and small documents"),
    );
    frame.put_slice(text);
    frame.freeze()
}

/// Splits bytes into messages.
#[derive(Debug)]
pub struct Decoder {
    rest: BytesMut,
    max_bytes: usize,
}

impl Decoder {
    pub fn new(max_bytes: usize) -> Self {
        Self { rest: BytesMut::new(), max_bytes }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next whole message. A header is judged before its message has arrived.
    pub fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((header, _)) = self.rest.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [flags, a, b, c, d] = *header;
        match flags {
            0 => {}
            COMPRESSED => return Err(FrameError::Compressed),
            other => return Err(FrameError::UnknownFlags(other)),
        }
        let bytes = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if bytes > self.max_bytes {
            return Err(FrameError::TooLarge { bytes, max: self.max_bytes });
        }
        if self.rest.len() < HEADER_BYTES + bytes {
            return Ok(None);
        }
        self.rest.advance(HEADER_BYTES);
        Ok(Some(self.rest.split_to(bytes).freeze()))
    }

    /// Checks that no part of a frame is left at the end of the stream.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FrameError::Cut) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut Decoder) -> Result<Vec<Bytes>, FrameError> {
        std::iter::from_fn(|| decoder.take().transpose()).collect()
    }

    #[test]
    fn a_frame_that_is_not_accepted_is_refused_by_its_header() {
        let table: [(&[u8], FrameError); 5] = [
            (&[1, 0, 0, 0, 2], FrameError::Compressed),
            (&[2, 0, 0, 0, 2], FrameError::UnknownFlags(2)),
            (&[3, 0, 0, 0, 2], FrameError::UnknownFlags(3)),
            (&[0, 0, 0, 0, 9], FrameError::TooLarge { bytes: 9, max: 8 }),
            (&[0, 255, 255, 255, 255], FrameError::TooLarge { bytes: u32::MAX as usize, max: 8 }),
        ];
        for (bytes, expected) in table {
            let mut decoder = Decoder::new(8);
            decoder.push(bytes);
            assert_eq!(decoder.take(), Err(expected), "{bytes:?}");
        }
    }

    #[test]
    fn half_a_frame_waits_and_is_an_error_at_the_end() {
        for length in 1..7 {
            let mut decoder = Decoder::new(8);
            decoder.push(&message(b"{}")[..length]);
            let whole = length == 7;
            assert_eq!(decoder.take().map(|found| found.is_some()), Ok(whole));
            assert_eq!(decoder.finish().is_ok(), whole, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_the_bytes_are_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..20, 1..40),
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|text| message(text)).collect();
            let (mut decoder, mut found, mut rest) = (Decoder::new(64), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.push(now);
                found.extend(all(&mut decoder).expect("frames of ours"));
                rest = later;
            }
            prop_assert_eq!(found, messages);
            prop_assert!(decoder.finish().is_ok());
        }

        #[test]
        fn any_bytes_are_messages_or_an_error(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(16);
            decoder.push(&bytes);
            let _ = all(&mut decoder);
        }
    }
}
