//! A verb on files that the runtimed of a sandbox performs: the frames of [`files::frames`] on an upgraded connection.
//!
//! The process at the other end runs as the sandbox's user. Nothing it sends is trusted: lengths are limited before a
//! byte is held, and memory grows with the bytes that came, not with those that were announced.

use super::{Control, ControlError};
use crate::Stream;
use bytes::{Bytes, BytesMut};
use files::frames::{self, DATA_MAX_BYTES, FrameKind, HEADER_BYTES};
use hostd_core::limits;
use hyper_util::rt::TokioIo;
use protocol::files::{FilesFailure, FilesReply, FilesRequest, FilesTop};
use std::{io, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Why a verb has no reply, or what follows the reply broke off.
#[derive(Debug, thiserror::Error)]
pub enum FilesConnectionError {
    /// The process says why.
    #[error("{}", .0.message)]
    Failed(FilesFailure),
    #[error("the sandbox sent an invalid frame: {0}")]
    Malformed(String),
    #[error("the connection to the sandbox broke")]
    Broken(#[source] io::Error),
}

/// One verb: its body, its reply, the bytes that follow. Dropping it ends the verb.
pub struct FilesConnection {
    stream: Box<dyn Stream>,
    /// Whether the body was sent to its end.
    body_ended: bool,
    /// Whether the last frame was read.
    ended: bool,
}

impl Control {
    /// Begins a verb. The body, where the request has one, is sent next.
    pub async fn files(
        &self,
        top: FilesTop,
        request: &FilesRequest,
    ) -> Result<FilesConnection, ControlError> {
        let path = match (matches!(request, FilesRequest::Watch { .. }), top) {
            (false, FilesTop::Workspace) => "/v1/files",
            (true, FilesTop::Workspace) => "/v1/files?watch=1",
            (false, FilesTop::Root) => "/v1/files?anywhere=1",
            (true, FilesTop::Root) => "/v1/files?watch=1&anywhere=1",
        };
        let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
        let stream = self.upgrade(path, frames::PROTOCOL, within).await?;
        FilesConnection::open(TokioIo::new(stream), request).await.map_err(ControlError::Unreachable)
    }
}

impl FilesConnection {
    /// Sends the request, and the end of the body where it has none.
    pub async fn open(stream: impl Stream, request: &FilesRequest) -> io::Result<Self> {
        let mut connection = Self { stream: Box::new(stream), body_ended: false, ended: false };
        connection.write(FrameKind::Head, &serde_json::to_vec(request)?).await?;
        if !frames::has_body(request) {
            connection.finish().await?;
        }
        Ok(connection)
    }

    /// Sends a piece of the body. After an error the reply may still say why.
    pub async fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        for chunk in bytes.chunks(DATA_MAX_BYTES) {
            self.write(FrameKind::Data, chunk).await?;
        }
        Ok(())
    }

    /// Ends the body.
    pub async fn finish(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.body_ended, true) {
            return Ok(());
        }
        self.write(FrameKind::End, &[]).await
    }

    /// Reads the reply.
    pub async fn reply(&mut self) -> Result<FilesReply, FilesConnectionError> {
        match self.frame().await? {
            (FrameKind::Head, bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| FilesConnectionError::Malformed(error.to_string())),
            (FrameKind::Data | FrameKind::End | FrameKind::Failed, _) => {
                Err(FilesConnectionError::Malformed("the first frame is a reply".to_owned()))
            }
        }
    }

    /// Reads the next bytes after the reply; `None` at their end. An end without its frame is an error.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        match self.frame().await.map_err(io::Error::other)? {
            (FrameKind::Data, bytes) => Ok(Some(bytes)),
            (FrameKind::End, _) => {
                self.ended = true;
                Ok(None)
            }
            (FrameKind::Head | FrameKind::Failed, _) => Err(frames::invalid("data or an end follow a reply")),
        }
    }

    async fn write(&mut self, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frames::header(kind, bytes.len())?).await?;
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// The next frame; a failure is an error.
    async fn frame(&mut self) -> Result<(FrameKind, Bytes), FilesConnectionError> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await.map_err(FilesConnectionError::Broken)?;
        let malformed = |error: io::Error| FilesConnectionError::Malformed(error.to_string());
        let (kind, length) = frames::parse_header(header).map_err(malformed)?;
        let bytes = self.bytes(length).await.map_err(FilesConnectionError::Broken)?;
        if kind != FrameKind::Failed {
            return Ok((kind, bytes));
        }
        match serde_json::from_slice(&bytes) {
            Ok(failure) => Err(FilesConnectionError::Failed(failure)),
            Err(error) => Err(FilesConnectionError::Malformed(error.to_string())),
        }
    }

    async fn bytes(&mut self, length: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::with_capacity(length.min(DATA_MAX_BYTES));
        let mut frame = (&mut self.stream).take(length as u64);
        while bytes.len() < length {
            bytes.reserve(1);
            if frame.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::files::{FilesErrorCode, WriteRequest};

    fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], bytes].concat()
    }

    /// A connection whose peer sends these bytes and hangs up.
    async fn answered(request: &FilesRequest, bytes: &[u8]) -> FilesConnection {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(bytes).await.unwrap();
        let connection = FilesConnection::open(ours, request).await.unwrap();
        theirs.shutdown().await.unwrap();
        connection
    }

    fn mkdir() -> FilesRequest {
        FilesRequest::Mkdir { path: "d".into(), mode: None }
    }

    #[tokio::test]
    async fn a_body_is_sent_and_what_follows_the_reply_is_read_to_its_end() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let request = FilesRequest::Write(WriteRequest::default());
        let mut connection = FilesConnection::open(ours, &request).await.unwrap();
        connection.send(Bytes::from(vec![7; DATA_MAX_BYTES + 1])).await.unwrap();
        connection.finish().await.unwrap();
        connection.finish().await.unwrap();
        let reply = [frame(b'H', br#"{"reply":"done"}"#), frame(b'D', b"some"), frame(b'E', b"")].concat();
        theirs.write_all(&reply).await.unwrap();
        assert_eq!(connection.reply().await.unwrap(), FilesReply::Done);
        assert_eq!(connection.next().await.unwrap().as_deref(), Some(&b"some"[..]));
        assert_eq!((connection.next().await.unwrap(), connection.next().await.unwrap()), (None, None));
        drop(connection);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.unwrap();
        let head = frame(b'H', &serde_json::to_vec(&request).unwrap());
        let data = [frame(b'D', &vec![7; DATA_MAX_BYTES]), frame(b'D', &[7]), frame(b'E', b"")].concat();
        assert_eq!(sent, [head, data].concat());
    }

    #[tokio::test]
    async fn a_failure_is_told_before_and_after_the_reply() {
        let failed = frame(b'F', br#"{"code":"not_found","message":"gone","path":"a"}"#);
        match answered(&mkdir(), &failed).await.reply().await {
            Err(FilesConnectionError::Failed(failure)) => assert_eq!(failure.code, FilesErrorCode::NotFound),
            other => panic!("{other:?}"),
        }
        let later = [frame(b'H', br#"{"reply":"archive"}"#), failed].concat();
        let mut connection = answered(&mkdir(), &later).await;
        assert_eq!(connection.reply().await.unwrap(), FilesReply::Archive);
        let error = connection.next().await.expect_err("broken off");
        assert_eq!(error.to_string(), "gone");
    }

    #[tokio::test]
    async fn a_peer_that_lies_is_an_error() {
        for (what, bytes) in [
            ("nothing", vec![]),
            ("half a header", b"H\0".to_vec()),
            ("an unknown kind", frame(b'X', b"")),
            ("data first", frame(b'D', b"x")),
            ("an end first", frame(b'E', b"")),
            ("no JSON", frame(b'H', b"{")),
            ("an unknown reply", frame(b'H', br#"{"reply":"formatted"}"#)),
            ("a failure that is none", frame(b'F', b"{}")),
            ("a long failure", b"F\0\x02\0\0".to_vec()),
            ("a length that is not there", b"H\x03\xff\xff\xffabc".to_vec()),
            ("a length beyond all", b"H\xff\xff\xff\xff".to_vec()),
        ] {
            assert!(answered(&mkdir(), &bytes).await.reply().await.is_err(), "{what}");
        }
        let done = frame(b'H', br#"{"reply":"done"}"#);
        for (what, bytes) in [
            ("no end", vec![]),
            ("data that is cut", b"D\0\0\0\x02x".to_vec()),
            ("large data", b"D\0\x04\0\x01".to_vec()),
            ("a second reply", done.clone()),
        ] {
            let mut connection = answered(&mkdir(), &[&done[..], &bytes].concat()).await;
            assert_eq!(connection.reply().await.unwrap(), FilesReply::Done);
            assert!(connection.next().await.is_err(), "{what}");
        }
    }
}
