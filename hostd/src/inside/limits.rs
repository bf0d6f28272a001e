//! Every limit of what is offered inside, with its unit.

use crate::core::Rate;

/// Connections of one sandbox at once, for all that is offered. The first ones it always gets; the others come
/// out of what all sandboxes share. More wait in the kernel's queue. The proxy takes fewer (`egress::limits`), so
/// some are left for models and the status page.
pub const CONNECTIONS_OWN: usize = 4;
pub const CONNECTIONS_MORE: usize = 252;
/// What is shared is a part of the descriptors there are: each connection may have another one to the world.
pub const CONNECTIONS_SHARED_PART: u64 = 8;
pub const CONNECTIONS_SHARED_MIN: usize = 256;
pub const CONNECTIONS_SHARED_MAX: usize = 16_384;
/// Requests of one sandbox: what they cost is not counted as the sandbox's.
pub const REQUESTS: Rate = Rate { burst: 100, per_second: 50 };
/// How long a connection may be silent between requests, and a request head may take.
pub const HEAD_MAX_MS: u64 = 5_000;
pub const HEAD_MAX_BYTES: usize = 64 << 10;
pub const HEADERS_MAX: usize = 128;
pub const BODY_MAX_BYTES: usize = 64 << 10;
pub const BODY_MAX_MS: u64 = 10_000;
/// AfterHttp this a connection takes no further request. The answer that is on its way goes on: whoever gives it ends
/// it when nothing moves, and this is only for what nobody thought of.
pub const CONNECTION_MAX_MS: u64 = 300_000;
pub const LAST_ANSWER_MAX_MS: u64 = 6 * 3_600_000;
/// AfterHttp a listener could not be opened: first, longest.
pub const AGAIN_MIN_MS: u64 = 20;
pub const AGAIN_MAX_MS: u64 = 5_000;
/// How long a sandbox that comes up waits for its door. Then it comes up without, and it is tried on.
pub const OPEN_WAIT_MAX_MS: u64 = 5_000;
/// Pause after an accept that failed for want of descriptors.
pub const ACCEPT_PAUSE_MS: u64 = 50;
/// How long runtimed may take to tell its status, and how long what it told is good.
pub const STATUS_MAX_MS: u64 = 2_000;
pub const STATUS_FRESH_MS: u64 = 100;
