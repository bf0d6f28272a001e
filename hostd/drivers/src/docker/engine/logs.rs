//! Container logs: frames of stdout and stderr, each with an eight-byte header.

use super::{
    EngineError,
    client::{Engine, EngineRequest},
    limits::{LIST_DEADLINE, LOG_IDLE_TIMEOUT, LOG_LINE_MAX_BYTES, LOG_MAX_BYTES},
    request_path,
};
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::Method;
use tokio::time::timeout;

const WHAT: &str = "return the logs of the container";
/// Stream number, three zeros, length.
const HEADER_BYTES: usize = 8;

impl Engine {
    /// Returns the last lines of a container's output; none when the container is gone.
    pub async fn logs(&self, container: &str, lines: usize) -> Result<Vec<String>, EngineError> {
        let query = format!("/logs?stdout=true&stderr=true&tail={lines}");
        let request = EngineRequest::new(WHAT, Method::GET, request_path::container(container, &query)?)
            .deadline(LIST_DEADLINE);
        let mut body = match self.stream(request).await {
            Err(EngineError::NotFound(_)) => return Ok(vec![]),
            opened => opened?,
        };
        let mut bytes = BytesMut::new();
        // A partial log is worth more than an error.
        while bytes.len() < LOG_MAX_BYTES {
            let Ok(Some(Ok(frame))) = timeout(LOG_IDLE_TIMEOUT, body.frame()).await else { break };
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        bytes.truncate(LOG_MAX_BYTES);
        Ok(last_lines(&bytes, lines))
    }
}

/// The lines of both streams, in the order in which they ended.
fn last_lines(bytes: &[u8], max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = [Vec::new(), Vec::new()];
    let mut rest = bytes;
    while let Some((stream, data, after)) = frame(rest) {
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            open[stream].extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                lines.push(text(&std::mem::take(&mut open[stream])));
            }
        }
        rest = after;
    }
    lines.extend(open.iter().filter(|line| !line.is_empty()).map(|line| text(line)));
    lines.split_off(lines.len().saturating_sub(max))
}

/// Splits off one frame: stream, data, rest. Data without a header is taken as it is.
fn frame(bytes: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let Some((&[stream @ 0..=2, 0, 0, 0, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER_BYTES>()
    else {
        // Podman discovers only after the 200 status that the container is gone, and sends the error as the
        // body.
        return (!bytes.starts_with(br#"{"cause":"#)).then_some((0, bytes, &[]));
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    let (data, after) = rest.split_at(length.min(rest.len()));
    Some((usize::from(stream == 2), data, after))
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(&line[..line.len().min(LOG_LINE_MAX_BYTES)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(stream: u8, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&[stream, 0, 0, 0], &length[..], data].concat()
    }

    #[test]
    fn streams_are_demultiplexed_and_lines_joined() {
        let log =
            [framed(1, b"one\nhalf"), framed(2, b"error\n"), framed(1, b" a line\r\n"), framed(2, b"no end")]
                .concat();
        assert_eq!(last_lines(&log, 10), ["one", "error", "half a line", "no end"]);
        assert_eq!(last_lines(&log, 2), ["half a line", "no end"]);
        assert_eq!(last_lines(&log, 0), [""; 0]);
    }

    #[test]
    fn malformed_logs_are_read_as_far_as_possible() {
        assert_eq!(last_lines(b"", 3), [""; 0]);
        assert_eq!(last_lines(b"plain\ntext", 3), ["plain", "text"]);
        assert_eq!(last_lines(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'x'], 3), ["x"]);
        assert_eq!(last_lines(&[1, 0, 0], 3), ["\u{1}\0\0"]);
        assert_eq!(last_lines(&framed(1, &b"x".repeat(100_000)), 3)[0].len(), LOG_LINE_MAX_BYTES);
        let late = br#"{"cause":"no such container","message":"...","response":500}"#;
        assert!(last_lines(late, 3).is_empty());
    }
}
