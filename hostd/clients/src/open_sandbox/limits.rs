//! Limits of both halves of the protocol.

/// The body of a request that is a JSON document.
pub const JSON_MAX_BYTES: usize = 4 << 20;
/// How long a create waits for the sandbox to run; its client goes on waiting by itself.
pub const CREATE_WAIT: &str = "20s";
pub const PAGE_SIZE_DEFAULT: usize = 20;
pub const PAGE_SIZE_MAX: usize = 200;
/// Sandboxes that a list looks at.
pub const LISTED_MAX: usize = 10_000;
/// Lifetime of the pass of an endpoint of a private app.
pub const ENDPOINT_TTL: &str = "7d";
/// Silence of a command after which a `ping` is sent.
pub const KEEPALIVE_MS: u64 = 15_000;
/// The longest timeout of a command, as the API has it.
pub const TIMEOUT_MAX_MS: u64 = 7 * 86_400_000;
/// Between the signals that end an interrupted command.
pub const INTERRUPT_GRACE_MS: u64 = 3_000;
/// Output of one request for the log of a command.
pub const LOGS_MAX_BYTES: usize = 8 << 20;
/// Paths in one request.
pub const PATHS_MAX: usize = 1_000;
/// Output of one command that lists or searches.
pub const LISTING_MAX_BYTES: usize = 16 << 20;
pub const LIST_DEPTH_MAX: u32 = 64;
/// How long a verb on files may take.
pub const FILES_TIMEOUT_S: f64 = 900.0;
/// A file whose content is replaced.
pub const REPLACE_MAX_BYTES: usize = 16 << 20;
/// Files of one upload.
pub const UPLOAD_FILES_MAX: usize = 1_000;
/// The metadata of one file of an upload.
pub const UPLOAD_METADATA_MAX_BYTES: usize = 64 << 10;
/// Between the two samples of CPU use that metrics need.
pub const METRICS_SAMPLE_MS: u64 = 100;
pub const METRICS_PERIOD_MS: u64 = 1_000;
