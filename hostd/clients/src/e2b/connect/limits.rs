//! Limits of Connect calls.

/// Bytes of one message from a client.
pub const MESSAGE_MAX_BYTES: usize = 8 << 20;
/// Digits of `Connect-Timeout-Ms`, as the protocol says.
pub const TIMEOUT_MAX_DIGITS: usize = 10;
/// Seconds between keepalives, where the client asks for them.
pub const KEEPALIVE_MIN_S: u64 = 1;
pub const KEEPALIVE_MAX_S: u64 = 3_600;
/// Messages of one stream that wait for the connection.
pub const QUEUED_MESSAGES_MAX: usize = 1;
