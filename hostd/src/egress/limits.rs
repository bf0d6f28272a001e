//! Every limit of the way out, with its unit.

use crate::core::Rate;

/// Connections of one sandbox to the world at once: fewer than it has places at its door, so that its agents
/// still reach their models when something floods the proxy.
pub const CONNECTIONS_MAX: usize = 224;
/// Requests of one sandbox.
pub const REQUESTS: Rate = Rate { burst: 20_000, per_second: 20_000 };
/// How long nothing may move.
pub const IDLE_MAX_MS: u64 = 300_000;
pub const IDLE_CHECK_MS: u64 = 15_000;
/// What is read at once: a little at first, and much when much comes.
pub const BUFFER_MIN_BYTES: usize = 8 << 10;
pub const BUFFER_MAX_BYTES: usize = 32 << 10;
/// What is passed on at once where much comes, and how many connections do that at a time, of all sandboxes.
pub const PIPE_BYTES: usize = 256 << 10;
pub const PIPES_MAX: usize = 256;
/// Connections to servers of `http://` that wait for another request: of one sandbox, of all, and how long.
pub const POOLED_MAX: usize = 16;
pub const POOLED_ALL_MAX: usize = 512;
pub const POOLED_IDLE_MAX_MS: u64 = 4_000;
/// Head of an answer from outside.
pub const HEAD_MAX_BYTES: usize = 256 << 10;
pub const HEADERS_MAX: usize = 256;
/// How long the host's own addresses are remembered.
pub const HOST_ADDRESSES_FRESH_MS: u64 = 2_000;
/// Profiles of a host.
pub const PROFILES_MAX: usize = 256;
/// How long bytes flow before they are written down: so much of them is forgotten when hostd is killed.
pub const BYTES_FLUSH_MS: u64 = 2_000;
/// For the last events, when hostd ends.
pub const FINAL_FLUSH_MAX_MS: u64 = 2_000;
