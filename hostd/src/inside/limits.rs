//! Limits of what hostd serves inside sandboxes, with their units.

use hostd_core::Rate;

/// Connections of one sandbox at once. The first ones are always its own; the others come from those that all
/// sandboxes share. More wait in the kernel's queue. The proxy takes fewer (`egress::limits`), so some are
/// left for models and the status page.
pub const CONNECTIONS_OWN: usize = 4;
pub const CONNECTIONS_MORE: usize = 252;
/// The shared connections are a part of the descriptor limit: each may have another connection to the
/// outside.
pub const CONNECTIONS_SHARED_PART: u64 = 8;
pub const CONNECTIONS_SHARED_MIN: usize = 256;
pub const CONNECTIONS_SHARED_MAX: usize = 16_384;
/// Requests of one sandbox; their cost is not accounted to the sandbox.
pub const REQUESTS: Rate = Rate { burst: 100, per_second: 50 };
/// How long a connection may be silent between requests, and a request head may take.
pub const HEAD_MAX_MS: u64 = 5_000;
pub const HEAD_MAX_BYTES: usize = 64 << 10;
pub const HEADERS_MAX: usize = 128;
pub const BODY_MAX_BYTES: usize = 64 << 10;
pub const BODY_MAX_MS: u64 = 10_000;
/// After `CONNECTION_MAX_MS` a connection takes no further request. A response in flight goes on: its sender
/// ends it when nothing moves; `LAST_RESPONSE_MAX_MS` only bounds unforeseen cases.
pub const CONNECTION_MAX_MS: u64 = 300_000;
pub const LAST_RESPONSE_MAX_MS: u64 = 6 * 3_600_000;
/// Pause after a listener could not be opened: first, longest.
pub const AGAIN_MIN_MS: u64 = 20;
pub const AGAIN_MAX_MS: u64 = 5_000;
/// How long a launch waits for its listener. Then the sandbox comes up without it, and opening is tried on.
pub const OPEN_WAIT_MAX_MS: u64 = 5_000;
/// Pause after an accept that failed for want of descriptors.
pub const ACCEPT_PAUSE_MS: u64 = 50;
/// How long runtimed may take to report its status, and how long that is cached.
pub const STATUS_MAX_MS: u64 = 2_000;
pub const STATUS_FRESH_MS: u64 = 100;
