//! Requests and replies on a byte stream, for a verb that is performed by another process.
//!
//! ```text
//! frame: kind (1 byte), length (4 bytes, big-endian), bytes
//! to the process:   Head {FilesRequest}, Data*, End
//! from the process: Head {FilesReply}, Data*, End    or    Failed {FilesFailure} at any point
//! ```
//! A request without a body ends at once. The length of a frame is limited on both sides: neither trusts the other.

mod exchange;

pub use exchange::FramedExchange;

use protocol::files::FilesRequest;
use std::io;

/// The name of this protocol in an `Upgrade`.
pub const PROTOCOL: &str = "slipway-files";
/// Bytes of one frame. A head with a page of entries is the largest.
pub const FRAME_MAX_BYTES: usize = 64 << 20;
/// Bytes of a request.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;
/// Bytes of data in one frame.
pub const DATA_MAX_BYTES: usize = 256 << 10;
/// Bytes of a failure.
pub const FAILED_MAX_BYTES: usize = 64 << 10;
pub const HEADER_BYTES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Head,
    Data,
    End,
    Failed,
}

impl FrameKind {
    fn code(self) -> u8 {
        match self {
            Self::Head => b'H',
            Self::Data => b'D',
            Self::End => b'E',
            Self::Failed => b'F',
        }
    }

    fn max_bytes(self) -> usize {
        match self {
            Self::Head => FRAME_MAX_BYTES,
            Self::Data => DATA_MAX_BYTES,
            Self::End => 0,
            Self::Failed => FAILED_MAX_BYTES,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::Head, Self::Data, Self::End, Self::Failed].into_iter().find(|kind| kind.code() == code)
    }
}

/// The header of a frame with this many bytes.
pub fn header(kind: FrameKind, bytes: usize) -> io::Result<[u8; HEADER_BYTES]> {
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= kind.max_bytes());
    let [a, b, c, d] = length.ok_or_else(|| invalid("a frame is too large"))?.to_be_bytes();
    Ok([kind.code(), a, b, c, d])
}

/// The kind and the length of the frame that a header begins.
pub fn parse_header(header: [u8; HEADER_BYTES]) -> io::Result<(FrameKind, usize)> {
    let [kind, length @ ..] = header;
    let kind = FrameKind::of(kind).ok_or_else(|| invalid("a frame has an unknown kind"))?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length <= kind.max_bytes() { Ok((kind, length)) } else { Err(invalid("a frame is too large")) }
}

/// Whether data may follow the request.
pub fn has_body(request: &FilesRequest) -> bool {
    match request {
        FilesRequest::Write(_) | FilesRequest::WriteMany | FilesRequest::Unpack { .. } => true,
        FilesRequest::Stat { .. }
        | FilesRequest::List(_)
        | FilesRequest::Read { .. }
        | FilesRequest::Delete { .. }
        | FilesRequest::Mkdir { .. }
        | FilesRequest::Move { .. }
        | FilesRequest::Copy { .. }
        | FilesRequest::Install { .. }
        | FilesRequest::Pack { .. }
        | FilesRequest::Search(_)
        | FilesRequest::Watch { .. } => false,
    }
}

pub fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_the_same_after_its_bytes_and_others_are_refused() {
        for (kind, bytes) in [
            (FrameKind::Head, FRAME_MAX_BYTES),
            (FrameKind::Data, DATA_MAX_BYTES),
            (FrameKind::End, 0),
            (FrameKind::Failed, FAILED_MAX_BYTES),
        ] {
            assert_eq!(parse_header(header(kind, bytes).unwrap()).unwrap(), (kind, bytes));
        }
        assert!(header(FrameKind::Head, FRAME_MAX_BYTES + 1).is_err());
        for wrong in [*b"E\0\0\0\x01", *b"F\0\x02\0\0", *b"X\0\0\0\0", *b"H\xff\xff\xff\xff", *b"D\0\x10\0\0"]
        {
            assert!(parse_header(wrong).is_err(), "{wrong:?}");
        }
    }
}
