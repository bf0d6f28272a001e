//! Lines of a response that is a stream: NDJSON, or the data of server-sent events.

use super::limits;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

/// The stream ended, or broke; what follows is read by opening it again.
#[derive(Debug)]
pub struct Cut;

pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes of the buffer that have no end of line.
    searched: usize,
}

impl Lines {
    pub fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// Returns the next line, without its end.
    pub async fn next(&mut self) -> Result<Bytes, Cut> {
        loop {
            if let Some(found) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + found + 1).freeze();
                self.searched = 0;
                return Ok(line.slice(..line.len() - 1));
            }
            self.searched = self.buffer.len();
            if self.searched > limits::LINE_MAX_BYTES {
                return Err(Cut);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return Err(Cut),
            }
        }
    }

    /// Returns the data of the next server-sent event. The API writes it in one line.
    pub async fn next_event(&mut self) -> Result<Bytes, Cut> {
        loop {
            let line = self.next().await?;
            if line.starts_with(b"data: ") {
                return Ok(line.slice(6..));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    #[tokio::test]
    async fn lines_are_found_however_the_stream_is_cut() {
        let text = "id: 1\nevent: a\ndata: {\"x\":1}\n\n: comment\n\nid: 2\ndata: {}\n\nrest";
        for size in 1..text.len() {
            let parts: Vec<Result<Bytes, std::io::Error>> =
                text.as_bytes().chunks(size).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let mut lines = Lines::new(Body::from_stream(stream::iter(parts)));
            assert_eq!(lines.next_event().await.expect("an event"), "{\"x\":1}");
            assert_eq!(lines.next_event().await.expect("an event"), "{}");
            assert!(lines.next_event().await.is_err(), "an unfinished line is none");
        }
    }
}
