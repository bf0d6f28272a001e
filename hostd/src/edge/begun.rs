//! A connection of which something was read already: that is read first.

use crate::through::write_through;
use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// What HTTP/2 says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

pub struct Begun<T> {
    first: Bytes,
    stream: T,
}

impl<T: AsyncRead + Unpin> Begun<T> {
    /// Reads until it is certain whether HTTP/2 is spoken.
    pub async fn hear(mut stream: T) -> io::Result<(bool, Self)> {
        let (mut first, mut length) = ([0; PREFACE.len()], 0);
        loop {
            let read = stream.read(&mut first[length..]).await?;
            length += read;
            let second = length == PREFACE.len();
            if read == 0 || second || first[..length] != PREFACE[..length] {
                let second = second && first == PREFACE;
                return Ok((second, Self { first: Bytes::copy_from_slice(&first[..length]), stream }));
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Begun<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..length]);
        self.first.advance(length);
        if self.first.is_empty() {
            self.first = Bytes::new();
            // The rest of what came is wanted in the same piece.
            if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) {
                read?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(Begun<T>);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    /// Said in these pieces, and then closed.
    async fn heard(pieces: &[&[u8]]) -> (bool, Vec<u8>) {
        let (mut theirs, ours) = duplex(1);
        let said = async {
            for piece in pieces {
                theirs.write_all(piece).await.unwrap();
            }
            drop(theirs);
        };
        let heard = async {
            let (second, mut begun) = Begun::hear(ours).await.unwrap();
            let mut all = Vec::new();
            begun.read_to_end(&mut all).await.unwrap();
            (second, all)
        };
        tokio::join!(said, heard).1
    }

    #[tokio::test]
    async fn the_two_are_told_apart_and_nothing_is_lost() {
        for (said, second) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
            (b"GET / HTTP/1.1\r\n\r\n", false),
            (b"PRINT / HTTP/1.1\r\n\r\n", false),
            (b"PRI * HTTP/2.1\r\n\r\n", false),
            (b"PRI", false),
            (b"", false),
        ] {
            assert_eq!(heard(&[said]).await, (second, said.to_vec()), "{said:?}");
        }
    }
}
