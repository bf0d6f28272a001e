//! Output within a response: both streams of a short exec, up to a limit each.

use super::stream_format::payload;
use crate::limits::{CHUNK_MAX_BYTES, INLINE_OUTPUT_MAX_BYTES};
use crate::log::{Read, Reader};
use crate::supervisor::LogHandle;
use protocol::{ExecView, Payload, Stream};

/// Bytes of a log that are searched for output that fits.
const LOOK_MAX_BYTES: u64 = 4 * INLINE_OUTPUT_MAX_BYTES as u64;

/// Adds the output of an exec to its view.
pub fn add(view: &mut ExecView, log: &LogHandle) {
    let end = view.output_end.unwrap_or_else(|| log.head.borrow().end);
    let mut reader = Reader::new(&log.dir, log.oldest);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut truncated = log.oldest > 0;
    while reader.position() < end {
        if reader.position() - log.oldest >= LOOK_MAX_BYTES {
            break;
        }
        // Later output of leftover processes is in the log, not in the response.
        let max = (end - reader.position()).min(CHUNK_MAX_BYTES as u64) as usize;
        match reader.read(max, end) {
            Ok(Read::Bytes { stream, bytes, .. }) => {
                let kept = if stream == Stream::Stderr { &mut stderr } else { &mut stdout };
                let room = INLINE_OUTPUT_MAX_BYTES - kept.len();
                kept.extend(&bytes[..bytes.len().min(room)]);
                truncated |= bytes.len() > room;
            }
            Ok(Read::Gap { .. }) => truncated = true,
            Ok(Read::End) | Err(_) => break,
        }
    }
    truncated |= reader.position() < end;
    view.stdout = Some(whole(&stdout));
    view.stderr = Some(whole(&stderr));
    view.truncated = truncated;
}

/// All bytes in one payload: text only if all of it is. Output that was cut at the limit may lose the rest of
/// a character.
fn whole(bytes: &[u8]) -> Payload {
    let (all, used) = payload(bytes);
    let cut_text = bytes.len() == INLINE_OUTPUT_MAX_BYTES && all.encoding == protocol::Encoding::Utf8;
    if used == bytes.len() || cut_text { all } else { payload_base64(bytes) }
}

fn payload_base64(bytes: &[u8]) -> Payload {
    use base64::Engine;
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Payload { data, encoding: protocol::Encoding::Base64 }
}
