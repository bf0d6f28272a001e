//! A stream with a peeked prefix: reads return the prefix first.

use crate::delegate_write::delegate_write;
use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

pub struct PeekedStream<T> {
    prefix: Bytes,
    stream: T,
}

impl<T: AsyncRead + Unpin> PeekedStream<T> {
    /// Reads until it is certain whether the client speaks HTTP/2.
    pub async fn detect_http2(mut stream: T) -> io::Result<(bool, Self)> {
        let (mut prefix, mut length) = ([0; PREFACE.len()], 0);
        loop {
            let read = stream.read(&mut prefix[length..]).await?;
            length += read;
            let http2 = length == PREFACE.len();
            if read == 0 || http2 || prefix[..length] != PREFACE[..length] {
                let http2 = http2 && prefix == PREFACE;
                return Ok((http2, Self { prefix: Bytes::copy_from_slice(&prefix[..length]), stream }));
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PeekedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..length]);
        self.prefix.advance(length);
        if self.prefix.is_empty() {
            self.prefix = Bytes::new();
            // hyper wants the bytes behind the prefix in the same read.
            if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) {
                read?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

delegate_write!(PeekedStream<T>);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    /// Writes these chunks, closes, and returns what was detected and read.
    async fn detected(chunks: &[&[u8]]) -> (bool, Vec<u8>) {
        let (mut theirs, ours) = duplex(1);
        let write = async {
            for chunk in chunks {
                theirs.write_all(chunk).await.unwrap();
            }
            drop(theirs);
        };
        let read = async {
            let (http2, mut peeked) = PeekedStream::detect_http2(ours).await.unwrap();
            let mut all = Vec::new();
            peeked.read_to_end(&mut all).await.unwrap();
            (http2, all)
        };
        tokio::join!(write, read).1
    }

    #[tokio::test]
    async fn both_versions_are_detected_and_no_byte_is_lost() {
        for (sent, http2) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
            (b"GET / HTTP/1.1\r\n\r\n", false),
            (b"PRINT / HTTP/1.1\r\n\r\n", false),
            (b"PRI * HTTP/2.1\r\n\r\n", false),
            (b"PRI", false),
            (b"", false),
        ] {
            assert_eq!(detected(&[sent]).await, (http2, sent.to_vec()), "{sent:?}");
        }
    }
}
