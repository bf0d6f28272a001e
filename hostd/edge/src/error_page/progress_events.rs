//! The event stream of a page that waits: its path and its server-sent events.

use bytes::Bytes;
use hostd_core::{WaitMode, WaitProgress};
use serde::Serialize;

/// Path on the preview's own host; `wait.js` has it too.
pub const WAKE_PATH: &str = "/.slipway/wake";
/// Query of a page that has already said what is wrong.
const PATIENT: &str = "patient";
/// First bytes of a stream: how long a browser waits before it reconnects.
pub const OPENING: &[u8] = b"retry: 1000\n\n";
/// Comment that keeps the connection alive.
pub const HEARTBEAT: &[u8] = b":\n\n";

pub fn wait_mode(query: Option<&str>) -> WaitMode {
    if query == Some(PATIENT) { WaitMode::WhileUp } else { WaitMode::UntilProblem }
}

#[derive(Serialize)]
struct Step<'a> {
    word: &'a str,
    text: &'a str,
}

/// Formats one event. `ready`, `asleep` and `failed` are the last of a stream.
pub fn frame(progress: &WaitProgress) -> Bytes {
    match progress {
        WaitProgress::Step { word, text } => {
            // JSON has no line breaks of its own and escapes those of the text, so the text cannot end the
            // event.
            let data = serde_json::to_string(&Step { word, text }).unwrap_or_default();
            format!("event: step\ndata: {data}\n\n").into()
        }
        WaitProgress::Ready => Bytes::from_static(b"event: ready\ndata: {}\n\n"),
        WaitProgress::Asleep => Bytes::from_static(b"event: asleep\ndata: {}\n\n"),
        WaitProgress::Failed => Bytes::from_static(b"event: failed\ndata: {}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_page::csp::SCRIPT;

    #[test]
    fn whatever_the_text_a_frame_is_one_event() {
        let text = "a\nb\r\n\nevent: ready\u{2028}\"\\".to_owned();
        let framed = frame(&WaitProgress::Step { word: "service", text });
        let framed = std::str::from_utf8(&framed).expect("text");
        assert_eq!(
            framed,
            "event: step\ndata: {\"word\":\"service\",\"text\":\"a\\nb\\r\\n\\nevent: ready\u{2028}\\\"\\\\\"}\n\n"
        );
        for (progress, name) in [
            (WaitProgress::Ready, "ready"),
            (WaitProgress::Asleep, "asleep"),
            (WaitProgress::Failed, "failed"),
        ] {
            assert_eq!(frame(&progress), format!("event: {name}\ndata: {{}}\n\n"));
        }
    }

    #[test]
    fn the_script_asks_where_the_stream_is() {
        assert!(SCRIPT.contains(&format!("'{WAKE_PATH}'")) && SCRIPT.contains(&format!("'?{PATIENT}'")));
        for name in ["step", "ready", "asleep", "failed"] {
            assert!(SCRIPT.contains(&format!("on('{name}'")), "{name}");
        }
        assert_eq!(wait_mode(Some("patient")), WaitMode::WhileUp);
        assert_eq!(wait_mode(None), WaitMode::UntilProblem);
        assert_eq!(wait_mode(Some("x=patient")), WaitMode::UntilProblem);
    }
}
