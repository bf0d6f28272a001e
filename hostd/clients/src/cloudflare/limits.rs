//! Limits of the bridge.

/// The body of a request that is a JSON document; the arguments of a command are most of it.
pub const JSON_MAX_BYTES: usize = 4 << 20;
/// Silence of a command after which a comment is sent, so that nothing in between takes the connection for dead.
pub const KEEPALIVE_MS: u64 = 15_000;
/// The longest timeout of a command, as the API has it.
pub const TIMEOUT_MAX_MS: u64 = 7 * 86_400_000;
/// A message of a terminal's client, as the API has it.
pub const TERMINAL_MESSAGE_MAX_BYTES: usize = 64 << 10;
/// Output that waits for the client of a terminal.
pub const TERMINAL_BUFFER_MAX_BYTES: usize = 2 << 20;
pub const TERMINAL_PING_MS: u64 = 20_000;
/// Silence of a terminal's client, which answers pings, after which it counts as gone.
pub const TERMINAL_SILENT_MAX_MS: u64 = 60_000;
/// Between the signals that end the shell of a terminal whose client left.
pub const TERMINAL_GRACE_MS: u64 = 500;
/// Lifetime of the link to a private preview that a tunnel is.
pub const TUNNEL_TTL: &str = "7d";
pub const TUNNEL_NAME_MAX_CHARS: usize = 128;
/// Links of a sandbox that are looked through when a tunnel is closed.
pub const TUNNEL_LINKS_MAX: usize = 1_000;
/// Paths that an archive leaves out, as the API has it.
pub const EXCLUDES_MAX: usize = 64;
/// Sandboxes that the numbers of the pool count.
pub const POOL_COUNTED_MAX: usize = 10_000;
