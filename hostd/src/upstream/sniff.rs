//! Looks at the first bytes an app answers, as some answer an upgrade with something else than HTTP; and at
//! how much it says before its answer, as some never come to it.

use super::meter::{Hearing, Meter};
use crate::{driver, through::write_through};
use bytes::{Bytes, BytesMut};
use nix::{getsockopt_impl, libc, sockopt_impl, sys::socket::getsockopt};
use std::{
    any::Any,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

sockopt_impl!(
    /// The beginning of what the kernel tells of a connection.
    TcpBrief, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; BRIEF_BYTES]
);
const BRIEF_BYTES: usize = 28;
/// In it: how often what was sent last was sent again, and how much the other end has not confirmed.
const RETRANSMITS: usize = 2;
const UNCONFIRMED: std::ops::Range<usize> = 24..BRIEF_BYTES;

const HTTP: &[u8] = b"HTTP/1.";

/// A stream whose first bytes must be those of an HTTP answer. What is not ends the reading with an error
/// and can be taken out.
pub struct Sniff {
    stream: Box<dyn driver::Stream>,
    /// How many of `HTTP` were seen.
    seen: usize,
    odd: Option<Bytes>,
    meter: Arc<Meter>,
}

impl Sniff {
    pub fn new(stream: Box<dyn driver::Stream>, meter: Arc<Meter>) -> Self {
        Self { stream, seen: 0, odd: None, meter }
    }

    /// The stream, and what it said first if that was odd.
    pub fn into_inner(self) -> (Box<dyn driver::Stream>, Option<Bytes>) {
        (self.stream, self.odd)
    }

    fn hearing(&self) -> Hearing {
        let stream: &dyn Any = &*self.stream;
        let brief = stream.downcast_ref::<TcpStream>().map(|stream| getsockopt(stream, TcpBrief));
        match brief {
            Some(Ok(brief)) => heard(&brief),
            _ => Hearing::Heard,
        }
    }
}

/// Silence alone says nothing: a busy kernel takes a second to send something again.
fn heard(brief: &[u8; BRIEF_BYTES]) -> Hearing {
    match (brief[RETRANSMITS], &brief[UNCONFIRMED]) {
        (1.., _) => Hearing::Deaf,
        (0, [0, 0, 0, 0]) => Hearing::Heard,
        (0, _) => Hearing::Unknown,
    }
}

impl AsyncRead for Sniff {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.meter.is_used_up() {
            // Whoever waits for the head sees that, and does not wait any longer.
            return Poll::Pending;
        }
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else {
            if self.meter.hearing() == Hearing::Asked {
                self.meter.tell(self.hearing());
            }
            return Poll::Pending;
        };
        read?;
        self.meter.came(buf.filled().len() - before);
        let left = &HTTP[self.seen..];
        if left.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let came = &buf.filled()[before..];
        let compared = left.len().min(came.len());
        if came[..compared] == left[..compared] {
            self.seen += compared;
            return Poll::Ready(Ok(()));
        }
        let mut odd = BytesMut::from(&HTTP[..self.seen]);
        odd.extend_from_slice(came);
        buf.set_filled(before);
        self.odd = Some(odd.freeze());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP")))
    }
}

write_through!(Sniff);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// What is read, when the other end says it in pieces of this size.
    async fn read(said: &'static [u8], piece: usize) -> (Vec<u8>, Option<Bytes>) {
        let (near, mut far) = duplex(1024);
        let mut sniff = Sniff::new(Box::new(near), Arc::default());
        let speak = async {
            for part in said.chunks(piece) {
                far.write_all(part).await.expect("written");
                tokio::task::yield_now().await;
            }
            drop(far);
        };
        let mut read = Vec::new();
        let (_, _) = tokio::join!(speak, sniff.read_to_end(&mut read));
        (read, sniff.into_inner().1)
    }

    #[test]
    fn only_what_was_confirmed_was_heard() {
        let table = [
            (0, 0, Hearing::Heard),
            (0, 1, Hearing::Unknown),
            (0, 256, Hearing::Unknown),
            (1, 1, Hearing::Deaf),
            (3, 0, Hearing::Deaf),
        ];
        for (retransmits, unconfirmed, expected) in table {
            let mut brief = [0; BRIEF_BYTES];
            brief[RETRANSMITS] = retransmits;
            brief[UNCONFIRMED].copy_from_slice(&u32::to_ne_bytes(unconfirmed));
            assert_eq!(heard(&brief), expected, "{retransmits} {unconfirmed}");
        }
    }

    #[tokio::test]
    async fn http_passes_and_everything_else_is_kept() {
        for piece in [1, 3, 100] {
            let said = b"HTTP/1.1 101 Switching\r\n\r\nmore";
            assert_eq!(read(said, piece).await, (said.to_vec(), None));
            let (_, odd) = read(b"Unauthorized", piece).await;
            assert!(odd.is_some_and(|odd| b"Unauthorized".starts_with(&odd)), "in pieces of {piece}");
        }
        // The beginning is the same, and what had passed is given back with the rest.
        for piece in [1, 100] {
            let (_, odd) = read(b"HTTP/2 no", piece).await;
            assert!(odd.is_some_and(|odd| odd.starts_with(b"HTTP/2")), "in pieces of {piece}");
        }
    }
}
