//! Encodes log output for a client: NDJSON, server-sent events, or raw bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use protocol::{Chunk, Encoding, Payload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Sse,
    Raw,
}

impl Format {
    /// The format that the client accepts; NDJSON by default.
    pub fn of(headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accept.contains("text/event-stream") {
            Self::Sse
        } else if accept.contains("application/octet-stream") {
            Self::Raw
        } else {
            Self::Ndjson
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => "text/event-stream",
            Self::Raw => "application/octet-stream",
        }
    }

    /// Encodes a chunk; empty in the raw format.
    pub fn encode(self, chunk: &Chunk) -> Bytes {
        let json = serde_json::to_string(chunk).unwrap_or_default();
        match self {
            Self::Ndjson => Bytes::from(json + "\n"),
            Self::Sse => {
                Bytes::from(format!("id: {}\nevent: {}\ndata: {json}\n\n", cursor(chunk), name(chunk)))
            }
            Self::Raw => Bytes::new(),
        }
    }
}

fn cursor(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Output { cursor, .. } | Chunk::Gap { cursor, .. } | Chunk::End { cursor, .. } => *cursor,
    }
}

fn name(chunk: &Chunk) -> &'static str {
    match chunk {
        Chunk::Output { .. } => "output",
        Chunk::Gap { .. } => "gap",
        Chunk::End { .. } => "end",
    }
}

/// Bytes as a JSON payload, and how many of them were used. A character that is cut at the end is left for
/// the next payload, unless nothing else is left; the rest of a character that was cut before is a payload of
/// its own, so that text stays text after it.
pub fn payload(bytes: &[u8]) -> (Payload, usize) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Payload { data: text.to_owned(), encoding: Encoding::Utf8 }, bytes.len()),
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            payload(&bytes[..error.valid_up_to()])
        }
        Err(_) => {
            let (rest_of_character, text) = bytes.split_at(continued(bytes));
            let strange = if is_text(text) { rest_of_character } else { bytes };
            (Payload { data: STANDARD.encode(strange), encoding: Encoding::Base64 }, strange.len())
        }
    }
}

/// The number of leading UTF-8 continuation bytes.
fn continued(bytes: &[u8]) -> usize {
    const CHARACTER_MAX_BYTES: usize = 4;
    bytes.iter().take(CHARACTER_MAX_BYTES - 1).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// Whether the bytes are text that is at most cut at its end.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .map_or_else(|error| error.valid_up_to() > 0 && error.error_len().is_none(), |text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_text_though_a_character_is_cut_before_or_after_it() {
        for (bytes, encoding, used) in [
            (&b"text"[..], Encoding::Utf8, 4),
            (b"cut \xe2\x82", Encoding::Utf8, 4),
            (b"\xe2\x82", Encoding::Base64, 2),
            (b"\x82\xac text", Encoding::Base64, 2),
            (b"\x82\xac cut \xe2", Encoding::Base64, 2),
            (b"\x82\xac", Encoding::Base64, 2),
            (b"\x82\x82\x82\x82 text", Encoding::Base64, 9),
            (b"\x82 \xff binary", Encoding::Base64, 10),
            (b"", Encoding::Utf8, 0),
        ] {
            let (got, got_used) = payload(bytes);
            assert_eq!((got.encoding, got_used), (encoding, used), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_altered(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            let mut back = Vec::new();
            while !rest.is_empty() {
                let (payload, used) = payload(rest);
                prop_assert!(used > 0);
                match payload.encoding {
                    Encoding::Utf8 => back.extend(payload.data.bytes()),
                    Encoding::Base64 => back.extend(STANDARD.decode(payload.data).expect("our base64")),
                }
                rest = &rest[used..];
            }
            prop_assert_eq!(back, bytes);
        }
    }
}
