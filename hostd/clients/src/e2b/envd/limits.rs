//! Limits of requests to one sandbox.

/// Bytes of output before the newest that went to a connection that may not have reached the client: what the buffers of a
/// kernel, a proxy and a client hold. A client that reconnects gets them again.
pub const UNCERTAIN_OUTPUT_BYTES: u64 = 8 << 20;
/// Processes whose delivered output is remembered. Of one that is forgotten everything is sent again.
pub const DELIVERIES_MAX: usize = 4_096;
/// A line of output from Slipway's API.
pub const OUTPUT_LINE_MAX_BYTES: usize = 1 << 20;
/// Bytes of the tag of a process: with it, its id is still a name.
pub const TAG_MAX_BYTES: usize = 24;
/// Processes in one answer.
pub const PROCESSES_MAX: usize = 1_000;

/// Entries of one listing, over all its pages.
pub const LISTED_ENTRIES_MAX: usize = 100_000;
/// Entries of one page of Slipway's API.
pub const LIST_PAGE: usize = 10_000;
/// Levels of directories of one listing.
pub const LIST_DEPTH_MAX: u32 = 512;
/// Bytes of a path.
pub const PATH_MAX_BYTES: usize = 4_095;

/// Watchers that are polled, of one sandbox, of one tenant and of all.
pub const WATCHERS_OF_SANDBOX_MAX: usize = 32;
pub const WATCHERS_OF_TENANT_MAX: usize = 256;
pub const WATCHERS_MAX: usize = 4_096;
/// Changes that wait for a poll. The watcher says so when it lost some.
pub const WATCHER_EVENTS_MAX: usize = 16_384;
/// The longest wait of a poll for changes that are on their way: clients poll right after what they did.
pub const WATCHER_POLL_MS: u64 = 250;
/// A poll that has changes ends when none came for this long.
pub const WATCHER_QUIET_MS: u64 = 20;
/// A watcher that is not polled for so long is removed.
pub const WATCHER_IDLE_S: u64 = 3_600;

/// Bytes of a body that are read although the request is refused, so that the connection can be used again, and how long.
pub const DRAINED_MAX_BYTES: usize = 1 << 20;
pub const DRAIN_MAX_MS: u64 = 5_000;

/// Files of one upload.
pub const UPLOAD_FILES_MAX: usize = 1_000;
/// Bytes of the headers of one part of an upload.
pub const PART_HEADERS_MAX_BYTES: usize = 16 << 10;
/// Sources of one composed file, and bytes of the request.
pub const COMPOSE_SOURCES_MAX: usize = 1_000;
pub const COMPOSE_BODY_MAX_BYTES: usize = 4 << 20;
