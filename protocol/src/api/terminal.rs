//! Text messages of a terminal's WebSocket. Binary messages are terminal input and output as they are.

use crate::Exit;
use serde::{Deserialize, Serialize};

/// A message from a viewer to hostd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ViewerText {
    Resize { cols: u16, rows: u16 },
}

/// A message from hostd to a viewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalText {
    /// Position of the next byte in the output: sent first, and whenever bytes were skipped.
    Position(u64),
    /// The last message: how the process ended.
    Exit(Exit),
}

/// The WebSocket subprotocol, and the prefix of a token that is sent as a subprotocol.
pub const SUBPROTOCOL: &str = "slipway.terminal";
pub const TOKEN_SUBPROTOCOL: &str = "slipway.token.";
/// Longest message that a viewer may send.
pub const VIEWER_MESSAGE_MAX_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_the_wire() {
        let text = |said: &TerminalText| serde_json::to_string(said).expect("no map in it");
        assert_eq!(text(&TerminalText::Position(7)), r#"{"position":7}"#);
        let exit = TerminalText::Exit(Exit::Exited { code: 3 });
        assert_eq!(text(&exit), r#"{"exit":{"kind":"exited","code":3}}"#);
        let said = |text| serde_json::from_str::<ViewerText>(text).ok();
        let resize = ViewerText::Resize { cols: 80, rows: 24 };
        assert_eq!(said(r#"{"resize":{"cols":80,"rows":24}}"#), Some(resize));
        for wrong in
            ["", "{}", r#"{"resize":{"cols":80}}"#, r#"{"resize":{"cols":80,"rows":24,"x":1}}"#, "\"hi\""]
        {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
