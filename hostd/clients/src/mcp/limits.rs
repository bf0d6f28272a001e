//! Limits of the Model Context Protocol.

/// The largest body of a request.
pub const BODY_MAX_BYTES: usize = 8 << 20;
/// The longest id of a request, and progress token, of a client.
pub const REQUEST_ID_MAX_BYTES: usize = 128;
/// The longest id of a session or event that is looked at.
pub const SIGNED_ID_MAX_BYTES: usize = 4_096;
/// How long a session is valid. Its client then initializes again.
pub const SESSION_MAX_MS: u64 = 30 * 24 * 3_600_000;
/// The longest line of an event or of output that the API sends.
pub const LINE_MAX_BYTES: usize = 32 << 20;
/// Interval of comments on a silent stream.
pub const HEARTBEAT_MS: u64 = 15_000;
/// How long a client waits before it connects again.
pub const RETRY_MS: u64 = 2_000;
/// How long one call waits for the end of a command, before it asks again.
pub const EXEC_WAIT_S: u64 = 60;
/// How often a sandbox is looked at that has an operation in progress, beside its events, and a command that runs.
pub const LOOK_EVERY_MS: u64 = 200;
/// How often a stream of the API that broke is opened again before the call fails.
pub const REOPEN_MAX: u32 = 8;
/// How often a stream breaks without anything new, before its client has to resume.
pub const CUTS_MAX: u32 = 2;
/// Pause before a stream is opened again, times the number of the attempt.
pub const REOPEN_PAUSE_MS: u64 = 100;

/// Characters of the output of a command in a result; the beginning and the end are kept.
pub const OUTPUT_MAX_CHARS: usize = 48_000;
/// Characters of a list, or of an error page, in the text of a result.
pub const TEXT_MAX_CHARS: usize = 48_000;
/// Bytes of a file that one call reads, unless it says otherwise.
pub const READ_BYTES: u64 = 64 << 10;
/// Bytes of a file that one call reads at most.
pub const READ_MAX_BYTES: u64 = 1 << 20;
/// The largest content that one call writes.
pub const WRITE_MAX_BYTES: usize = 4 << 20;
/// The largest file that is edited.
pub const EDIT_MAX_BYTES: usize = 4 << 20;
/// The largest file or log that is read as a resource.
pub const RESOURCE_MAX_BYTES: usize = 4 << 20;
/// Lines of a log, unless the call says otherwise.
pub const LOG_LINES: u32 = 100;
/// Bytes of a log in one result.
pub const LOG_MAX_BYTES: usize = 256 << 10;
/// Sandboxes on one page of the list of resources.
pub const RESOURCE_PAGE_SANDBOXES: u32 = 10;
/// Newest commands of a sandbox in the list of resources.
pub const RESOURCE_EXECS: u32 = 5;
/// Time limit of a command whose call names none.
pub const EXEC_TIMEOUT_S: f64 = 600.0;
