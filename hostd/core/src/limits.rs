//! Limits of hostd, with their units. All input from outside has one.

// ---- start ----

/// How long to wait for the lock of the data directory, and the poll interval.
pub const LOCK_WAIT_MAX_MS: u64 = 1_000;
pub const LOCK_POLL_MS: u64 = 5;
/// How long to retry opening the database on a full disk, and the retry interval.
pub const STORE_OPEN_FULL_MAX_MS: u64 = 5_000;
pub const STORE_OPEN_RETRY_MS: u64 = 20;

// ---- requests ----

/// Body of an ordinary request. Standard input is streamed and has no limit of its own.
pub const BODY_MAX_BYTES: usize = 2 << 20;
/// Concurrent connections to the API.
pub const CONNECTIONS_MAX: usize = 8192;
/// Sandboxes that may have metrics of their own: each is a label of a few series.
pub const METRICS_SANDBOXES_MAX: usize = 1_000;
/// How long a client may take to send its request head, and then a body that is not streamed.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;
pub const BODY_TIMEOUT_MS: u64 = 30_000;
/// Entries of a page: default and maximum.
pub const PAGE_DEFAULT: usize = 100;
pub const PAGE_MAX: usize = 1000;
/// Longest wait for the exit of an exec in one request.
pub const EXEC_WAIT_MAX_MS: u64 = 30 * 60 * 1000;

// ---- specs ----

pub const NAME_MAX_CHARS: usize = 120;
pub const PORTS_MAX: usize = 64;
pub use protocol::limits::SERVICES_MAX;
pub const ENV_MAX_COUNT: usize = 256;
pub const ENV_MAX_BYTES: usize = 256 << 10;
/// Variables of an image that jobs get: the kernel takes 128 KiB for one variable.
pub const IMAGE_ENV_MAX_COUNT: usize = 256;
pub const IMAGE_ENV_MAX_BYTES: usize = 32 << 10;
pub const METADATA_MAX_COUNT: usize = 64;
pub const METADATA_MAX_BYTES: usize = 16 << 10;
pub const MEMORY_DEFAULT_MB: u64 = 1024;
pub const MEMORY_MIN_MB: u64 = 32;
pub const CPUS_MIN: f64 = 0.05;
pub const TEMPLATE_NAME_MAX_BYTES: usize = 64;
pub const DISK_MIN_MB: u64 = 16;
pub const PIDS_DEFAULT: u64 = 512;
pub const PIDS_MIN: u64 = 16;
pub const PIDS_MAX: u64 = 32_768;
/// TTL of a link to a private preview: default and maximum.
pub const LINK_TTL_DEFAULT_MS: u64 = 86_400_000;
pub const LINK_TTL_MAX_MS: u64 = 30 * 86_400_000;
/// Links cached as valid, without asking the store.
pub const LINKS_CACHED_MAX: usize = 16_384;
/// Link lookups in the store for one preview request.
pub const LINK_LOOKUPS_MAX: usize = 8;
/// An API token.
pub const TOKEN_MAX_BYTES: usize = 256;
/// Setup of a new sandbox: steps, the command line, name and paths of one, and how long it may take.
pub const SETUP_STEPS_MAX: usize = 16;
pub const SETUP_RUN_MAX_BYTES: usize = 16 << 10;
pub const SETUP_NAME_MAX_CHARS: usize = 80;
pub const SETUP_PATH_MAX_BYTES: usize = 1024;
pub const SETUP_TIMEOUT_DEFAULT_MS: u64 = 10 * 60_000;
pub const SETUP_TIMEOUT_MAX_MS: u64 = 60 * 60_000;
/// Last lines of a step that failed, and the length of one.
pub const SETUP_LINES_MAX: usize = 20;
pub const SETUP_LINE_MAX_CHARS: usize = 400;
/// Values of an environment that are replaced in those lines.
pub const REDACTED_MIN_BYTES: usize = 6;
/// Commits of a shallow clone, and how long a clone may take.
pub const SOURCE_DEPTH_MAX: u32 = 1_000_000;
pub const SOURCE_MAX_MS: u64 = 30 * 60_000;
/// Inline archive of dotfiles; base64, it fits into the body of a request.
pub const DOTFILES_ARCHIVE_MAX_BYTES: usize = 1 << 20;
/// How long the installation of dotfiles may take.
pub const DOTFILES_MAX_MS: u64 = 5 * 60_000;
pub const TTL_MAX_MS: u64 = 365 * 86_400_000;
/// How long a pulled image is kept that no sandbox gets, unless configured.
pub const IMAGE_KEEP_DEFAULT_DAYS: u64 = 14;
/// Attempts to deliver to a webhook: default and maximum. They end after a day anyway.
pub const WEBHOOK_ATTEMPTS_DEFAULT: u64 = 20;
pub const WEBHOOK_ATTEMPTS_MAX: u64 = 100;
/// Days that the audit log is kept.
pub const AUDIT_KEEP_DEFAULT_DAYS: u64 = 90;
pub const IMAGE_UNUSED_DEFAULT_MS: u64 = IMAGE_KEEP_DEFAULT_DAYS * 86_400_000;

// ---- sandboxes ----

/// Interval of disk checks, and while the disk is low. Workspaces are measured then: the pause after a
/// measurement is at least this many times its duration.
pub const DISK_POLL_MS: u64 = 1_000;
pub const DISK_POLL_LOW_MS: u64 = 250;
/// How often use is measured for quotas of disk and events. Measuring rests for a multiple of its duration, but not
/// longer than the maximum, unless it took longer itself.
pub const QUOTA_POLL_MS: u64 = 2_000;
pub const QUOTA_PAUSE_FACTOR: u32 = 20;
pub const QUOTA_PAUSE_MAX_MS: u64 = 15_000;
pub const MEASURE_PAUSE_FACTOR: u32 = 4;
/// Interval of memory checks, and while memory is short.
pub const MEMORY_POLL_MS: u64 = 1_000;
pub const MEMORY_POLL_SHORT_MS: u64 = 250;
/// The pause after a measure against memory pressure, in which it takes effect.
pub const MEMORY_SETTLE_MS: u64 = 1_000;
/// How long a sandbox may take to say whether it is busy, and how many are asked at once.
pub const MEMORY_ACTIVITY_MAX_MS: u64 = 1_000;
pub const MEMORY_ASKED_AT_ONCE: usize = 16;
/// The least memory that a sandbox which is brought up is expected to need, unless configured.
pub const MEMORY_ADMISSION_DEFAULT_MB: u64 = 32;
/// Growth of workspaces is compared over this window when the disk is full.
pub const GROWTH_WINDOW_MS: u64 = 10_000;
/// Live sandboxes on one host.
pub const SANDBOXES_MAX: usize = 4096;
/// Queued commands of one sandbox.
pub const SANDBOX_REQUESTS_MAX: usize = 256;
/// How long an operation may take: launch, freeze or thaw, stop.
pub const UP_MAX_MS: u64 = 60_000;
pub const FREEZE_MAX_MS: u64 = 15_000;
pub const DOWN_MAX_MS: u64 = 30_000;
/// How long PID 1 gets between SIGTERM and SIGKILL: more than runtimed's own shutdown.
pub const TERMINATE_GRACE_MS: u64 = 10_000;
/// Concurrent launches; others are queued.
pub const LAUNCHES_MAX: usize = 8;
/// Interval of inspections of an idle sandbox.
pub const INSPECT_EVERY_MS: u64 = 60_000;
/// Retry interval while another process works on the sandbox, or the driver has no result yet.
pub const RETRY_MIN_MS: u64 = 10;
/// Interval of inspections while a sandbox cannot be inspected or watched: its backend is down.
pub const INSPECT_UNSEEN_MS: u64 = 5_000;
/// A launch that reports progress has its deadline extended, up to this total.
pub const PROGRESS_MAX_MS: u64 = 30 * 60 * 1000;
/// Interval between recorded progress messages, how many are recorded for an attempt, and the length of one.
pub const PROGRESS_EVERY_MS: u64 = 1_000;
pub const PROGRESS_EVENTS_MAX: u32 = 600;
pub const PROGRESS_MAX_CHARS: usize = 300;
/// Backoff before a sandbox that died is restarted: first and longest.
pub const RESTART_MIN_MS: u64 = 1_000;
pub const RESTART_MAX_MS: u64 = 60_000;

/// Largest egress quota of a sandbox.
pub const EGRESS_MAX_MB: u64 = 1 << 30;

/// Idle time before a sandbox is put to sleep, unless configured.
pub const IDLE_DEFAULT_S: u64 = 2100;
/// How long a model provider may be silent in the middle of a response, unless configured.
pub const MODEL_IDLE_DEFAULT_S: u64 = 120;

/// Time after a byte that does not count as activity before a sandbox with open streams is paused again: a
/// page that sends something every half minute costs a tenth of the time.
pub const DOZE_AFTER_MS: u64 = 3_000;
/// Minimum interval of checks whether a sandbox may sleep.
pub const IDLE_CHECK_MIN_MS: u64 = 50;

// ---- input from sandboxes ----

/// A response of runtimed that is read whole: two streams of output in base64, and their envelope.
pub const CONTROL_RESPONSE_MAX_BYTES: usize = 8 << 20;
pub const CONTROL_HEAD_MAX_BYTES: usize = 64 << 10;
/// How long runtimed may take to begin its response.
pub const CONTROL_TIMEOUT_MS: u64 = 10_000;
/// How long a health probe of a sandbox may take.
pub const HEALTH_PROBE_MS: u64 = 5_000;
/// An event line of runtimed.
pub const EVENT_MAX_BYTES: usize = 256 << 10;
/// An event of a task: a line of an agent, escaped.
pub const TASK_LINE_MAX_BYTES: usize = 1 << 20;
/// Events of a task that are batched while earlier ones are written.
pub const TASK_GATHER_MAX_BYTES: usize = 512 << 10;
/// Log files read from a sandbox that is gone, and the size of one.
pub const RECOVERY_FILES_MAX: usize = 4096;
pub const RECOVERY_FILE_MAX_BYTES: u64 = 16 << 20;
/// The document of what a task changed, its list of files, one name in it, one number, and the text of a reason.
pub const CHANGES_DOCUMENT_MAX_BYTES: usize = 8 << 20;
pub const CHANGES_FILES_MAX: u64 = 2_000;
pub const CHANGED_PATH_MAX_BYTES: usize = 4 << 10;
pub const CHANGED_COUNT_MAX: u64 = 1 << 48;
pub const CHANGES_REASON_MAX_CHARS: usize = 1_000;
/// How long the document may take, and how often it is tried before the task ends without it.
pub const CHANGES_READ_MAX_MS: u64 = 10_000;
pub const CHANGES_TRIES_MAX: u32 = 3;
/// How long the diff of one file may take that a running sandbox is asked for.
pub const ONE_DIFF_MAX_MS: u64 = 30_000;
/// How long a revert may take, longer than runtimed lets it, and the paths in each list of its response.
pub const REVERT_MAX_MS: u64 = 31 * 60_000;
pub const REVERT_LISTED_MAX: usize = 1_000;
/// Tasks adopted with a sandbox that the database does not know, and the size of the file that records one.
pub const FOUND_TASKS_MAX: usize = 1024;
pub const FOUND_TASK_MAX_BYTES: u64 = 16 << 10;
/// Minimum lifetime of an adopted sandbox: its TTL may have been longer, which was lost with the database.
pub const ADOPTED_KEEP_MS: u64 = 24 * 3600 * 1000;
/// Events stored in one transaction.
pub const EVENTS_BATCH: usize = 256;

/// Patterns that a snapshot leaves out.
pub const SNAPSHOT_EXCLUDES_MAX: usize = 64;
pub const SNAPSHOT_EXCLUDE_MAX_BYTES: usize = 256;
