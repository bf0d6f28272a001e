//! Limits of the API that nobody else needs, with their units.

use crate::core::Rate;

/// How long requests in flight may take when hostd shuts down, and then what they started.
pub const DRAIN_MAX_MS: u64 = 10_000;
/// How long a call may go on after the shutdown began, before it is told so.
pub const CLOSING_MS: u64 = 3_000;
/// The head of a request.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// How long a call waits for a settled state unless it says so, and at most.
pub const WAIT_DEFAULT_MS: u64 = 60_000;
pub const WAIT_MAX_MS: u64 = 10 * 60_000;
/// How long a repeated `Idempotency-Key` waits for the first call with it.
pub const KEY_WAIT_MS: u64 = 60_000;
pub const KEY_MAX_BYTES: usize = 255;
/// An answer that is kept for a repetition.
pub const KEPT_RESPONSE_MAX_BYTES: usize = 8 << 20;
pub const REQUEST_ID_MAX_BYTES: usize = 64;
/// Audit rows that wait to be written.
pub const AUDIT_QUEUE_MAX: usize = 1024;
/// Audit rows written together.
pub const AUDIT_BATCH_MAX: usize = 64;
/// Refused calls that are audited: so many at once, then so many a second.
pub const AUDIT_REFUSALS_RATE: Rate = Rate { burst: 100, per_second: 10 };
/// Between two comments on a silent stream of events.
pub const SSE_HEARTBEAT_MS: u64 = 15_000;
/// The part of all descriptors that connections over TCP may have, and those over the Unix socket; and how many
/// connections there are at least.
pub const CONNECTION_FD_FRACTION: u64 = 8;
pub const CONNECTIONS_MIN: usize = 64;
/// The part of all connections that one address that is not loopback may have.
pub const PER_IP_FRACTION: usize = 2;
/// How long a peer may take nothing of what is sent to it before its connection is ended.
pub const TCP_USER_TIMEOUT_MS: u32 = 5 * 60_000;
/// Kinds of events that one stream or page may choose.
pub const KINDS_MAX: usize = 32;
/// A page of events ends here, however few they are.
pub const EVENTS_PAGE_MAX_BYTES: usize = 4 << 20;
/// What lists show of a prompt.
pub const PROMPT_SHOWN_CHARS: usize = 200;
/// What is sent to one subscriber at once.
pub const SSE_CHUNK_MAX_BYTES: usize = 64 << 10;
/// Rounds of `ensure` before it gives up: each one means that somebody else changed the sandbox.
pub const ENSURE_ATTEMPTS_MAX: usize = 16;
/// How long standard input may be streamed in one request.
pub const STDIN_MAX_MS: u64 = 24 * 3_600_000;
/// Between two pings to a viewer, and how long he may be silent.
pub const TERMINAL_PING_MS: u64 = 20_000;
pub const TERMINAL_SILENT_MAX_MS: u64 = 60_000;
/// How long a viewer may take to part.
pub const TERMINAL_CLOSE_MAX_MS: u64 = 1_000;
/// One piece of a terminal's output.
pub const TERMINAL_FRAME_MAX_BYTES: usize = 256 << 10;
/// How long the end of an exec may take to be known, and between two looks for it.
pub const EXIT_KNOWN_MAX_MS: u64 = 3_000;
pub const EXIT_POLL_MS: u64 = 50;
/// Between two questions to a sandbox whose connection broke.
pub const EXEC_RETRY_MS: u64 = 100;
/// How long `readyz` waits for the store and the driver.
pub const READY_MAX_MS: u64 = 2_000;
/// How long drivers are asked what they found, and how much of it is listed.
pub const STALE_MAX_MS: u64 = 15_000;
pub const STALE_MAX: usize = 1000;
/// How long a hold by `keepalive` lasts: it only has to be seen.
pub const KEEPALIVE_HOLD_S: u64 = 1;
/// A list of sandboxes asks so many of them at once what listens in them, and answers after so long.
pub const LISTENING_CONCURRENCY: usize = 16;
pub const LISTENING_TIMEOUT_MS: u64 = 1_000;
