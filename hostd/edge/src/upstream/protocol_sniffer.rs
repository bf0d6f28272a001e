//! Checks the first bytes of a response, as some apps answer an upgrade with something other than HTTP; and
//! counts the bytes before the response, as some apps never send one.

use super::delivery::{Delivery, DeliveryMeter};
use crate::delegate_write::delegate_write;
use bytes::{Bytes, BytesMut};
use hostd_net::http1::ClientStream;
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
    /// The beginning of `tcp_info`.
    TcpInfoHead, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; TCP_INFO_BYTES]
);
const TCP_INFO_BYTES: usize = 28;
/// Offsets in it: retransmissions of the newest segment, and segments not acknowledged.
const RETRANSMITS: usize = 2;
const UNACKED: std::ops::Range<usize> = 24..TCP_INFO_BYTES;

const HTTP: &[u8] = b"HTTP/1.";

/// A stream whose first bytes must be those of an HTTP response. Other bytes end the reading with an error
/// and can be taken out.
pub struct ProtocolSniffer {
    stream: Box<dyn hostd_drivers::Stream>,
    /// How many bytes of `HTTP` were seen.
    seen: usize,
    non_http: Option<Bytes>,
    meter: Arc<DeliveryMeter>,
}

impl ProtocolSniffer {
    pub fn new(stream: Box<dyn hostd_drivers::Stream>, meter: Arc<DeliveryMeter>) -> Self {
        Self { stream, seen: 0, non_http: None, meter }
    }

    /// The stream, and its first bytes if they were not HTTP.
    pub fn into_inner(self) -> (Box<dyn hostd_drivers::Stream>, Option<Bytes>) {
        (self.stream, self.non_http)
    }

    /// None for a tunnel.
    fn tcp_stream(&self) -> Option<&TcpStream> {
        let stream: &dyn Any = &*self.stream;
        stream.downcast_ref()
    }

    fn probe_delivery(&self) -> Delivery {
        let info = self.tcp_stream().map(|stream| getsockopt(stream, TcpInfoHead));
        match info {
            Some(Ok(info)) => delivery_of(&info),
            _ => Delivery::Delivered,
        }
    }
}

/// Missing acknowledgements alone prove nothing: a busy kernel takes a second to retransmit.
fn delivery_of(info: &[u8; TCP_INFO_BYTES]) -> Delivery {
    match (info[RETRANSMITS], &info[UNACKED]) {
        (1.., _) => Delivery::Lost,
        (0, [0, 0, 0, 0]) => Delivery::Delivered,
        (0, _) => Delivery::Unknown,
    }
}

impl AsyncRead for ProtocolSniffer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.meter.is_head_too_large() {
            // `UpstreamConnection::send` sees that too, and gives up.
            return Poll::Pending;
        }
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else {
            if self.meter.delivery() == Delivery::Probing {
                self.meter.set(self.probe_delivery());
            }
            return Poll::Pending;
        };
        read?;
        self.meter.on_bytes(buf.filled().len() - before);
        let left = &HTTP[self.seen..];
        if left.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let received = &buf.filled()[before..];
        let compared = left.len().min(received.len());
        if received[..compared] == left[..compared] {
            self.seen += compared;
            return Poll::Ready(Ok(()));
        }
        let mut non_http = BytesMut::from(&HTTP[..self.seen]);
        non_http.extend_from_slice(received);
        buf.set_filled(before);
        self.non_http = Some(non_http.freeze());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP")))
    }
}

delegate_write!(ProtocolSniffer);

impl ClientStream for ProtocolSniffer {
    fn acknowledge(&self) {
        if let Some(stream) = self.tcp_stream() {
            stream.acknowledge();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Returns what is read when the other end sends `said` in chunks of this size.
    async fn read(said: &'static [u8], chunk: usize) -> (Vec<u8>, Option<Bytes>) {
        let (near, mut far) = duplex(1024);
        let mut sniffer = ProtocolSniffer::new(Box::new(near), Arc::default());
        let write = async {
            for part in said.chunks(chunk) {
                far.write_all(part).await.expect("written");
                tokio::task::yield_now().await;
            }
            drop(far);
        };
        let mut read = Vec::new();
        let (_, _) = tokio::join!(write, sniffer.read_to_end(&mut read));
        (read, sniffer.into_inner().1)
    }

    #[test]
    fn only_acknowledged_bytes_are_delivered() {
        let table = [
            (0, 0, Delivery::Delivered),
            (0, 1, Delivery::Unknown),
            (0, 256, Delivery::Unknown),
            (1, 1, Delivery::Lost),
            (3, 0, Delivery::Lost),
        ];
        for (retransmits, unacked, expected) in table {
            let mut info = [0; TCP_INFO_BYTES];
            info[RETRANSMITS] = retransmits;
            info[UNACKED].copy_from_slice(&u32::to_ne_bytes(unacked));
            assert_eq!(delivery_of(&info), expected, "{retransmits} {unacked}");
        }
    }

    #[tokio::test]
    async fn http_passes_and_everything_else_is_kept() {
        for chunk in [1, 3, 100] {
            let said = b"HTTP/1.1 101 Switching\r\n\r\nmore";
            assert_eq!(read(said, chunk).await, (said.to_vec(), None));
            let (_, non_http) = read(b"Unauthorized", chunk).await;
            assert!(
                non_http.is_some_and(|non_http| b"Unauthorized".starts_with(&non_http)),
                "in chunks of {chunk}"
            );
        }
        // A common beginning that was read already is returned with the rest.
        for chunk in [1, 100] {
            let (_, non_http) = read(b"HTTP/2 no", chunk).await;
            assert!(non_http.is_some_and(|non_http| non_http.starts_with(b"HTTP/2")), "in chunks of {chunk}");
        }
    }
}
