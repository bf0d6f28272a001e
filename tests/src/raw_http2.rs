//! HTTP/2 written by hand, frame by frame, for clients that no library would let one be.

use crate::https::Certificate;
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// The setting of the window that every stream starts with.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: Vec<u8>) -> Self {
        Self { kind, flags, stream, payload }
    }

    /// A request without a body.
    pub fn get(stream: u32, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::new(HEADERS, END_STREAM | END_HEADERS, stream, header_block(path, headers))
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// The header list of a GET, without compression.
pub fn header_block(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    // :method GET and :scheme https are in the static table, and so are the names :path and :authority.
    let mut block = vec![0x82, 0x87, 0x04];
    push_text(&mut block, path);
    block.push(0x01);
    push_text(&mut block, "localhost");
    for (name, value) in headers {
        block.push(0x00);
        push_text(&mut block, name);
        push_text(&mut block, value);
    }
    block
}

/// A text without Huffman coding; its length has a prefix of seven bits.
fn push_text(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(length as u8);
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push((length % 128 + 128) as u8);
            length /= 128;
        }
        block.push(length as u8);
    }
    block.extend(text.as_bytes());
}

/// A connection to the API of a hostd, with which anything can be sent.
pub struct RawHttp2(TlsStream<TcpStream>);

impl RawHttp2 {
    /// Connects, with settings of the test's own.
    pub async fn connect(certificate: &Certificate, address: &str, settings: &[(u16, u32)]) -> Result<Self> {
        let mut stream = certificate.connect_for(b"h2", address, "localhost").await?;
        let payload = settings
            .iter()
            .flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes()));
        let settings = Frame::new(SETTINGS, 0, 0, payload.collect());
        stream.write_all(&[PREFACE, &settings.bytes()].concat()).await?;
        stream.flush().await?;
        Ok(Self(stream))
    }

    /// Sends frames; an error once the other side has hung up.
    pub async fn send(&mut self, frames: &[Frame]) -> Result<()> {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let sending = async {
            self.0.write_all(&bytes).await?;
            self.0.flush().await
        };
        Ok(timeout(PATIENCE, sending).await.context("nothing is taken")??)
    }

    /// The next frame; none when the other side hung up.
    pub async fn next(&mut self) -> Result<Option<Frame>> {
        timeout(PATIENCE, self.read_frame()).await.context("no frame comes")
    }

    async fn read_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.ok()?;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads until a frame is as wanted; none when the other side hung up first.
    pub async fn until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Result<Option<Frame>> {
        while let Some(frame) = self.next().await? {
            if wanted(&frame) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}
