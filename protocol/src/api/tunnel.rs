//! The WebSocket of a tunnel to a port of a sandbox. Binary messages are the bytes as they are, and an empty one is the
//! end of its direction; there are no text messages.

/// The WebSocket subprotocol of tunnels.
pub const TUNNEL_SUBPROTOCOL: &str = "slipway.tunnel";
/// Longest message that a client may send.
pub const TUNNEL_MESSAGE_MAX_BYTES: usize = 64 << 10;
