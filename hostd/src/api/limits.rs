//! Limits that only the API uses, with their units.

use hostd_core::Rate;

/// How long requests in flight may take at shutdown, and then the work they started.
pub const DRAIN_MAX_MS: u64 = 10_000;
/// How long a call may go on after the shutdown began before it gets an error.
pub const CLOSING_MS: u64 = 3_000;
/// The head of a request.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// How long a call waits for a settled state: default and maximum.
pub const WAIT_DEFAULT_MS: u64 = 60_000;
pub const WAIT_MAX_MS: u64 = 10 * 60_000;
/// How long a repeated `Idempotency-Key` waits for the first call with it.
pub const KEY_WAIT_MS: u64 = 60_000;
pub const KEY_MAX_BYTES: usize = 255;
/// A response that is kept for a repeated `Idempotency-Key`.
pub const KEPT_RESPONSE_MAX_BYTES: usize = 8 << 20;
pub const REQUEST_ID_MAX_BYTES: usize = 64;
/// Queued audit rows.
pub const AUDIT_QUEUE_MAX: usize = 1024;
/// The name of an object in the audit log, and rows that an export reads at once.
pub const AUDIT_OBJECT_MAX_CHARS: usize = 128;
pub const AUDIT_EXPORT_ROWS: usize = 500;
/// Audit rows written together.
pub const AUDIT_BATCH_MAX: usize = 64;
/// Rate of refused calls that are audited.
pub const AUDIT_REFUSALS_RATE: Rate = Rate { burst: 100, per_second: 10 };
/// TCP connections may use one in this many file descriptors, connections on the Unix socket as many again;
/// and the minimum of connections.
pub const CONNECTION_FD_FRACTION: u64 = 8;
pub const CONNECTIONS_MIN: usize = 64;
/// A single IP address other than loopback may use one in this many connections.
pub const PER_IP_FRACTION: usize = 2;
/// How long sent data may stay unacknowledged before a connection is closed.
pub const TCP_USER_TIMEOUT_MS: u32 = 5 * 60_000;
/// Requests at a time on one HTTP/2 connection, and the header list of each.
pub const HTTP2_STREAMS_MAX: u32 = 100;
pub const HTTP2_HEADERS_MAX_BYTES: u32 = 64 << 10;
/// Streams of an HTTP/2 connection that its client reset before they were looked at, and those that hostd reset because
/// of a protocol error: more of them end the connection.
pub const HTTP2_PENDING_RESETS_MAX: usize = 20;
pub const HTTP2_LOCAL_RESETS_MAX: usize = 128;
/// What an HTTP/2 client may send before it is read: of one request body, and of all on its connection.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// What is held of one HTTP/2 response beside its next chunk.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 32 << 10;
/// Interval of pings on a silent HTTP/2 connection, and how long an answer may take.
pub const HTTP2_PING_MS: u64 = 20_000;
pub const HTTP2_PONG_MAX_MS: u64 = 20_000;
/// Event kinds in the filter of one stream or page.
pub const KINDS_MAX: usize = 32;
/// A page of events ends at this size, however few they are.
pub const EVENTS_PAGE_MAX_BYTES: usize = 4 << 20;
/// Characters of a prompt in lists.
pub const PROMPT_SHOWN_CHARS: usize = 200;
/// A chunk sent to one SSE subscriber.
pub const SSE_CHUNK_MAX_BYTES: usize = 64 << 10;
/// Attempts of `ensure` before it gives up: each one means that a concurrent call changed the sandbox.
pub const ENSURE_ATTEMPTS_MAX: usize = 16;
/// How long standard input may be streamed in one request.
pub const STDIN_MAX_MS: u64 = 24 * 3_600_000;
/// Interval of pings on a WebSocket, and how long its client may be silent.
pub const WEBSOCKET_PING_MS: u64 = 20_000;
pub const WEBSOCKET_SILENT_MAX_MS: u64 = 60_000;
/// A frame of a terminal's output.
pub const TERMINAL_FRAME_MAX_BYTES: usize = 256 << 10;
/// How long the exit of a terminal's exec may take to be known, and the poll interval.
pub const EXIT_KNOWN_MAX_MS: u64 = 3_000;
pub const EXIT_POLL_MS: u64 = 50;
/// Pause before a request is sent again to a sandbox whose connection broke.
pub const EXEC_RETRY_MS: u64 = 100;
/// How long `readyz` waits for the store and the driver.
pub const READY_MAX_MS: u64 = 2_000;
/// How long drivers may take to list stale resources, and how many are returned.
pub const STALE_MAX_MS: u64 = 15_000;
pub const STALE_MAX: usize = 1000;
/// How long a hold by `keepalive` lasts: it only has to be noticed.
pub const KEEPALIVE_HOLD_S: u64 = 1;
/// Sandboxes whose listening ports a list queries concurrently, and how long all queries may take.
pub const LISTENING_CONCURRENCY: usize = 16;
pub const LISTENING_TIMEOUT_MS: u64 = 1_000;
/// Sandboxes whose cost is measured at once, and how long measuring the files of a page may take.
pub const COSTS_AT_ONCE: usize = 16;
/// Between two samples of what quotas and sandboxes use, and how long one may take.
pub const USAGE_SAMPLE_MIN_MS: u64 = 5_000;
pub const USAGE_SAMPLE_MAX_MS: u64 = 10_000;
/// Connections to the listener of metrics, the head of a request on one, and how long sent data may stay
/// unacknowledged there.
pub const METRICS_CONNECTIONS_MAX: usize = 16;
pub const METRICS_HEAD_MAX_BYTES: usize = 16 << 10;
pub const METRICS_USER_TIMEOUT_MS: u32 = 30_000;
pub const COSTS_DISK_MAX_MS: u64 = 3_000;
/// Verbs on files at once: of one sandbox, and of all. Each has a thread.
pub const FILES_VERBS_OF_SANDBOX_MAX: usize = 64;
pub const FILES_VERBS_MAX: usize = 256;
/// Trees watched at once: of one sandbox, and of all.
pub const FILE_WATCHES_OF_SANDBOX_MAX: usize = 8;
pub const FILE_WATCHES_MAX: usize = 256;
/// Changes that a watch keeps for subscribers that reconnect, and how long it waits for them.
pub const FILE_CHANGES_KEPT: usize = 16_384;
pub const FILE_WATCH_LINGER_MS: u64 = 60_000;
/// How long a process inside a sandbox may work before it replies. Unpacking takes longest.
pub const FILES_REPLY_MAX_MS: u64 = 15 * 60_000;
/// Snapshots that are exported, imported and verified at once: of one tenant, and of all. Each has a thread or two.
pub const SNAPSHOT_TRANSFERS_OF_TENANT_MAX: usize = 4;
pub const SNAPSHOT_TRANSFERS_MAX: usize = 16;
/// Snapshots that are taken at once: of one tenant, and of all. Those that are copied wait for each other.
pub const SNAPSHOT_CAPTURES_OF_TENANT_MAX: usize = 8;
pub const SNAPSHOT_CAPTURES_MAX: usize = 64;
/// The longest silence in the middle of an upload.
pub const UPLOAD_IDLE_MAX_MS: u64 = 60_000;
/// What is read of an upload after it was refused.
pub const UPLOAD_DRAIN_MAX_BYTES: usize = 16 << 20;
pub const UPLOAD_DRAIN_MAX_MS: u64 = 2_000;
/// Lifetime of a signed URL: default and maximum.
pub const FILE_LINK_TTL_DEFAULT_MS: u64 = 15 * 60_000;
pub const FILE_LINK_TTL_MAX_MS: u64 = 7 * 24 * 3_600_000;
/// Bytes of an upload by a signed URL that names none.
pub const FILE_LINK_UPLOAD_DEFAULT_BYTES: u64 = 1 << 30;
/// Patterns of `exclude` in one request, and the bytes of all of them.
pub const EXCLUDES_MAX: usize = 64;
pub const EXCLUDES_MAX_CHARS: usize = 4096;
/// Characters of a pattern to search for.
pub const PATTERN_MAX_CHARS: usize = 1024;
/// Pulls of images that are known, running or ended.
pub const IMAGE_PULLS_KEPT_MAX: usize = 64;
