//! Every limit of hostd, with its unit in its name. Nothing that comes from outside is without one.

// ---- start ----

/// How long the lock of the data directory is waited for, and between two looks at it.
pub const LOCK_WAIT_MAX_MS: u64 = 1_000;
pub const LOCK_POLL_MS: u64 = 5;
/// How long the database is tried to be opened on a full disk, and between two tries.
pub const STORE_OPEN_FULL_MAX_MS: u64 = 5_000;
pub const STORE_OPEN_RETRY_MS: u64 = 20;

// ---- requests ----

/// Body of an ordinary request. Standard input is streamed and has no limit of its own.
pub const BODY_MAX_BYTES: usize = 2 << 20;
/// Connections to the API at once.
pub const CONNECTIONS_MAX: usize = 8192;
/// How long a client may take to send its request head, and then a body that is not streamed.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;
pub const BODY_TIMEOUT_MS: u64 = 30_000;
/// Entries of a list, unless asked for, and at most.
pub const PAGE_DEFAULT: usize = 100;
pub const PAGE_MAX: usize = 1000;
/// Longest wait for the end of an exec in one request.
pub const EXEC_WAIT_MAX_MS: u64 = 30 * 60 * 1000;

// ---- specs ----

pub const NAME_MAX_CHARS: usize = 120;
pub const PORTS_MAX: usize = 64;
pub const SERVICES_MAX: usize = 64;
pub const ENV_MAX_COUNT: usize = 256;
pub const ENV_MAX_BYTES: usize = 256 << 10;
pub const METADATA_MAX_COUNT: usize = 64;
pub const METADATA_MAX_BYTES: usize = 16 << 10;
pub const MEMORY_DEFAULT_MB: u64 = 1024;
pub const MEMORY_MIN_MB: u64 = 32;
pub const CPUS_MIN: f64 = 0.05;
pub const PIDS_DEFAULT: u64 = 512;
pub const PIDS_MIN: u64 = 16;
pub const PIDS_MAX: u64 = 32_768;
/// How long a link to a private preview is good unless it says so, and at most.
pub const LINK_TTL_DEFAULT_MS: u64 = 86_400_000;
pub const LINK_TTL_MAX_MS: u64 = 30 * 86_400_000;
/// Links that are known to be good without asking the store.
pub const LINKS_CACHED_MAX: usize = 16_384;
/// Questions to the store for one request to a preview.
pub const LINK_LOOKUPS_MAX: usize = 8;
/// A token of the API.
pub const TOKEN_MAX_BYTES: usize = 256;
pub const TTL_MAX_MS: u64 = 365 * 86_400_000;

// ---- sandboxes ----

/// Between looks at how full the disk is, and while it is low. Then workspaces are measured: the pause is at least
/// so many times as long as that took.
pub const DISK_POLL_MS: u64 = 1_000;
pub const DISK_POLL_LOW_MS: u64 = 250;
pub const MEASURE_PAUSE_FACTOR: u32 = 4;
/// What a workspace has grown by in so long counts, when the disk is full.
pub const GROWTH_WINDOW_MS: u64 = 10_000;
/// Live sandboxes on one host.
pub const SANDBOXES_MAX: usize = 4096;
/// Asks that wait for one sandbox.
pub const SANDBOX_REQUESTS_MAX: usize = 256;
/// How long a phase may take: up, frozen or thawed, down.
pub const UP_MAX_MS: u64 = 60_000;
pub const FREEZE_MAX_MS: u64 = 15_000;
pub const DOWN_MAX_MS: u64 = 30_000;
/// How long PID 1 gets between SIGTERM and SIGKILL: more than runtimed's own shutdown.
pub const TERMINATE_GRACE_MS: u64 = 10_000;
/// Launches at once; the others wait their turn.
pub const LAUNCHES_MAX: usize = 8;
/// Between looks at a sandbox nobody touches.
pub const INSPECT_EVERY_MS: u64 = 60_000;
/// Between looks while somebody else is at work on it, or the driver cannot tell.
pub const RETRY_MIN_MS: u64 = 10;
/// Between looks at a sandbox that cannot be seen, or not be watched: its backend is away.
pub const INSPECT_UNSEEN_MS: u64 = 5_000;
/// While a launch tells what it does, its deadline is put off, for so long in all.
pub const PROGRESS_MAX_MS: u64 = 30 * 60 * 1000;
/// Between two of its words that are taken down, how many of an attempt are written, and how long one is.
pub const PROGRESS_EVERY_MS: u64 = 1_000;
pub const PROGRESS_EVENTS_MAX: u32 = 600;
pub const PROGRESS_MAX_CHARS: usize = 300;
/// Pause before one that died and should run is started again: first, longest.
pub const RESTART_MIN_MS: u64 = 1_000;
pub const RESTART_MAX_MS: u64 = 60_000;

/// The most that a sandbox can be allowed to send and receive through the proxy.
pub const EGRESS_MAX_MB: u64 = 1 << 30;

/// Without activity for so long a sandbox is put to sleep, unless configured.
pub const IDLE_DEFAULT_S: u64 = 2100;
/// How long a provider of models may say nothing in the middle of an answer, unless configured.
pub const MODEL_IDLE_DEFAULT_S: u64 = 120;

/// After a byte that keeps nothing awake, before a sandbox with open streams is frozen again: a page that
/// says something every half minute costs a tenth of the time.
pub const DOZE_AFTER_MS: u64 = 3_000;
/// Between two looks whether a sandbox may sleep, at least.
pub const IDLE_CHECK_MIN_MS: u64 = 50;

// ---- what comes from a sandbox ----

/// An answer of runtimed that is read whole: two streams of output in base64, and what is around them.
pub const CONTROL_RESPONSE_MAX_BYTES: usize = 8 << 20;
pub const CONTROL_HEAD_MAX_BYTES: usize = 64 << 10;
/// How long runtimed may take to begin its answer.
pub const CONTROL_TIMEOUT_MS: u64 = 10_000;
/// How long a sandbox may take to prove that it is healthy.
pub const HEALTH_PROBE_MS: u64 = 5_000;
/// One event line of runtimed.
pub const EVENT_MAX_BYTES: usize = 256 << 10;
/// One event of a task: a line of an agent, escaped.
pub const TASK_LINE_MAX_BYTES: usize = 1 << 20;
/// Events of a task that are gathered while earlier ones are written.
pub const TASK_GATHER_MAX_BYTES: usize = 512 << 10;
/// Files of a log that are read from a sandbox that is gone, and the size of one.
pub const RECOVERY_FILES_MAX: usize = 4096;
pub const RECOVERY_FILE_MAX_BYTES: u64 = 16 << 20;
/// Tasks that are taken over with a sandbox that the database does not know, and what says of one that it was
/// taken.
pub const FOUND_TASKS_MAX: usize = 1024;
pub const FOUND_TASK_MAX_BYTES: u64 = 16 << 10;
/// A sandbox that is taken up again may be used for so long at least: its owner may have given it longer, which
/// was lost with the database.
pub const ADOPTED_KEEP_MS: u64 = 24 * 3600 * 1000;
/// Events taken over in one transaction.
pub const EVENTS_BATCH: usize = 256;
