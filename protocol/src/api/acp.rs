//! The WebSocket of an editor: one JSON-RPC message of the Agent Client Protocol in each text message.

/// The WebSocket subprotocol of editors.
pub const ACP_SUBPROTOCOL: &str = "slipway.acp";
/// Longest message that an editor may send.
pub const ACP_MESSAGE_MAX_BYTES: usize = 1 << 20;
