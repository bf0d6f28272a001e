//! A verb's way to its caller over a socket, for a process that performs one request. Blocks; a peer that stalls is gone.

use super::{
    DATA_MAX_BYTES, FAILED_MAX_BYTES, FrameKind, HEADER_BYTES, REQUEST_MAX_BYTES, has_body, header, invalid,
    parse_header,
};
use crate::{Exchange, FilesError, limits::PEER_STALL_MAX_MS};
use bytes::{Bytes, BytesMut};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::files::{FilesFailure, FilesReply, FilesRequest};
use std::{
    io::{self, IoSlice, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// The peer sends no more; nix has no name for it.
const POLLRDHUP: PollFlags = PollFlags::from_bits_retain(0x2000);
/// Bytes of the message of a failure; escaped, with its path, it fits into a frame.
const MESSAGE_MAX_BYTES: usize = 4 << 10;

pub struct FramedExchange {
    stream: UnixStream,
    /// Whether the body was read to its end.
    body_ended: bool,
}

impl FramedExchange {
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let stall = Some(Duration::from_millis(PEER_STALL_MAX_MS));
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(stall)?;
        stream.set_write_timeout(stall)?;
        Ok(Self { stream, body_ended: false })
    }

    /// Reads the request; where it has no body, also the end of that.
    pub fn request(&mut self) -> io::Result<FilesRequest> {
        let (kind, length) = self.read_header()?;
        if kind != FrameKind::Head || length > REQUEST_MAX_BYTES {
            return Err(invalid("the first frame is a request"));
        }
        let request = serde_json::from_slice(&self.read_bytes(length)?)?;
        if !has_body(&request) && self.receive()?.is_some() {
            return Err(invalid("this request has no body"));
        }
        Ok(request)
    }

    /// Ends the exchange as the verb ended.
    pub fn finish(mut self, done: Result<(), FilesError>) -> io::Result<()> {
        match done {
            Ok(()) => self.write(FrameKind::End, &[]),
            Err(error) => {
                let mut failure = error.failure();
                failure.message.truncate(failure.message.floor_char_boundary(MESSAGE_MAX_BYTES));
                self.write(FrameKind::Failed, &failure_bytes(failure)?)
            }
        }
    }

    fn read_header(&mut self) -> io::Result<(FrameKind, usize)> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        parse_header(header)
    }

    fn read_bytes(&mut self, length: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(length);
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes.freeze())
    }

    fn write(&mut self, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
        let header = header(kind, bytes.len())?;
        let whole = header.len() + bytes.len();
        let mut written = 0;
        while written < whole {
            let parts = if written < header.len() {
                [IoSlice::new(&header[written..]), IoSlice::new(bytes)]
            } else {
                [IoSlice::new(&bytes[written - header.len()..]), IoSlice::new(&[])]
            };
            match self.stream.write_vectored(&parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The failure, without its path where that is too long for a frame.
fn failure_bytes(failure: FilesFailure) -> io::Result<Vec<u8>> {
    let bytes = serde_json::to_vec(&failure)?;
    if bytes.len() <= FAILED_MAX_BYTES {
        return Ok(bytes);
    }
    Ok(serde_json::to_vec(&FilesFailure { path: None, ..failure })?)
}

impl Exchange for FramedExchange {
    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        if self.body_ended {
            return Ok(None);
        }
        let (kind, length) = self.read_header()?;
        match kind {
            FrameKind::Data => self.read_bytes(length).map(Some),
            FrameKind::End => {
                self.body_ended = true;
                Ok(None)
            }
            FrameKind::Head | FrameKind::Failed => Err(invalid("a body is data and an end")),
        }
    }

    fn reply(&mut self, reply: FilesReply) -> io::Result<()> {
        self.write(FrameKind::Head, &serde_json::to_vec(&reply)?)
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        bytes.chunks(DATA_MAX_BYTES).try_for_each(|chunk| self.write(FrameKind::Data, chunk))
    }

    fn is_cancelled(&self) -> bool {
        // Nothing follows a body.
        let more = if self.body_ended { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = [PollFd::new(self.stream.as_fd(), more | POLLRDHUP)];
        poll(&mut fds, PollTimeout::ZERO).is_ok() && fds[0].any().unwrap_or(true)
    }

    fn cancel_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::files::{FilesErrorCode, WriteRequest};

    fn pair() -> (UnixStream, FramedExchange) {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        (ours, FramedExchange::new(theirs).expect("exchange"))
    }

    fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], bytes].concat()
    }

    fn stat() -> Vec<u8> {
        serde_json::to_vec(&FilesRequest::Stat { path: "a".into(), follow: true }).unwrap()
    }

    fn write() -> Vec<u8> {
        serde_json::to_vec(&FilesRequest::Write(WriteRequest::default())).unwrap()
    }

    #[test]
    fn a_request_its_body_and_what_follows_are_frames() {
        let (mut peer, mut exchange) = pair();
        let body = [frame(b'H', &write()), frame(b'D', b"one"), frame(b'D', b""), frame(b'E', b"")].concat();
        peer.write_all(&body).unwrap();
        assert_eq!(exchange.request().unwrap(), FilesRequest::Write(WriteRequest::default()));
        assert_eq!(exchange.receive().unwrap().as_deref(), Some(&b"one"[..]));
        assert!(!exchange.is_cancelled());
        assert_eq!(exchange.receive().unwrap().as_deref(), Some(&b""[..]));
        assert_eq!((exchange.receive().unwrap(), exchange.receive().unwrap()), (None, None));
        assert!(!exchange.is_cancelled());
        exchange.reply(FilesReply::Done).unwrap();
        exchange.send(Bytes::from_static(b"some")).unwrap();
        exchange.finish(Ok(())).unwrap();
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        let expected = [frame(b'H', br#"{"reply":"done"}"#), frame(b'D', b"some"), frame(b'E', b"")].concat();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_large_piece_is_several_frames() {
        let (mut peer, mut exchange) = pair();
        let piece = Bytes::from(vec![7; DATA_MAX_BYTES + 1]);
        let sent = std::thread::spawn(move || exchange.send(piece));
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        sent.join().unwrap().unwrap();
        assert_eq!(all.len(), DATA_MAX_BYTES + 1 + 2 * HEADER_BYTES);
        assert_eq!(all[HEADER_BYTES + DATA_MAX_BYTES..], frame(b'D', &[7]));
    }

    #[test]
    fn malformed_frames_are_errors() {
        let large = vec![b' '; REQUEST_MAX_BYTES + 1];
        let table: &[(&str, Vec<u8>)] = &[
            ("nothing", vec![]),
            ("half a header", b"H\0\0".to_vec()),
            ("an unknown kind", frame(b'X', b"")),
            ("a body first", frame(b'D', b"x")),
            ("no JSON", frame(b'H', b"{")),
            ("an unknown verb", frame(b'H', br#"{"verb":"format"}"#)),
            ("a large request", frame(b'H', &large)),
            ("a length that is not there", b"H\0\0\0\x09abc".to_vec()),
            ("a length beyond all", b"H\xff\xff\xff\xff".to_vec()),
            ("no end", frame(b'H', &stat())),
            ("an end with bytes", [frame(b'H', &stat()), frame(b'E', b"x")].concat()),
            ("a body that none has", [frame(b'H', &stat()), frame(b'D', b"x")].concat()),
        ];
        for (what, bytes) in table {
            let (mut peer, mut exchange) = pair();
            let bytes = bytes.clone();
            // More than the socket holds.
            let sent = std::thread::spawn(move || drop(peer.write_all(&bytes)));
            assert!(exchange.request().is_err(), "{what}");
            drop(exchange);
            sent.join().unwrap();
        }
        for (what, bytes) in [
            ("a second request", frame(b'H', &write())),
            ("a failure", frame(b'F', b"{}")),
            ("large data", b"D\0\x04\0\x01".to_vec()),
            ("data that is cut", b"D\0\0\0\x02x".to_vec()),
            ("no end", vec![]),
        ] {
            let (mut peer, mut exchange) = pair();
            peer.write_all(&[frame(b'H', &write()), bytes].concat()).unwrap();
            drop(peer);
            exchange.request().unwrap();
            assert!(exchange.receive().is_err(), "{what}");
            assert!(exchange.is_cancelled(), "{what}");
        }
    }

    #[test]
    fn a_failure_is_a_frame_however_long_its_text() {
        for (error, code) in [
            (FilesError::NotFound { path: "a".into() }, FilesErrorCode::NotFound),
            (FilesError::invalid("é\0".repeat(100_000)), FilesErrorCode::InvalidRequest),
            (
                FilesError::NotFound { path: protocol::files::FilePath(vec![0xff; 50_000]) },
                FilesErrorCode::NotFound,
            ),
        ] {
            let (mut peer, exchange) = pair();
            exchange.finish(Err(error)).unwrap();
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            let (header, rest) = all.split_first_chunk().unwrap();
            assert_eq!(parse_header(*header).unwrap(), (FrameKind::Failed, rest.len()));
            assert_eq!(serde_json::from_slice::<FilesFailure>(rest).unwrap().code, code);
        }
    }
}
