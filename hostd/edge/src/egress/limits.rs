//! Every limit of the egress proxy, with its unit.

use hostd_core::Rate;

/// Concurrent connections of one sandbox: fewer than its door admits, so that its agents still reach their
/// models when something floods the proxy.
pub const CONNECTIONS_MAX: usize = 224;
/// Rate of requests of one sandbox.
pub const REQUESTS: Rate = Rate { burst: 20_000, per_second: 20_000 };
/// Time without a byte after which a connection is cut, and how often that is checked.
pub const IDLE_MAX_MS: u64 = 300_000;
pub const IDLE_CHECK_MS: u64 = 15_000;
/// Buffer of a tunnel: small at first, large once it was filled.
pub const BUFFER_MIN_BYTES: usize = 8 << 10;
pub const BUFFER_MAX_BYTES: usize = 32 << 10;
/// Capacity of a splice pipe, and the number of pipes of all sandboxes.
pub const PIPE_BYTES: usize = 256 << 10;
pub const PIPES_MAX: usize = 256;
/// Idle connections to `http://` servers: of one sandbox, of all, and how long they are kept.
pub const POOLED_MAX: usize = 16;
pub const POOLED_ALL_MAX: usize = 512;
pub const POOLED_IDLE_MAX_MS: u64 = 4_000;
/// Head of a response.
pub const HEAD_MAX_BYTES: usize = 256 << 10;
pub const HEADERS_MAX: usize = 256;
/// How long the addresses of the host are cached.
pub const HOST_ADDRESSES_FRESH_MS: u64 = 2_000;
/// Number of profiles on a host.
pub const PROFILES_MAX: usize = 256;
/// Time between writes of byte counts to the store: what moves in it is lost when hostd is killed.
pub const BYTES_FLUSH_MS: u64 = 2_000;
/// Time to write the last events when hostd shuts down.
pub const FINAL_FLUSH_MAX_MS: u64 = 2_000;
