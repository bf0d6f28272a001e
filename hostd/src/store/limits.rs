//! Every limit of the store, with its unit in its name.

/// Writes that wait for the writer; a caller that finds the queue full waits for a place.
pub const WRITE_QUEUE_MAX: usize = 1024;
/// How long it waits for that place.
pub const WRITE_WAIT_MAX_MS: u64 = 5_000;
/// Writes in one transaction.
pub const BATCH_MAX_JOBS: usize = 256;
/// Events in one write; more are written in several.
pub const APPEND_MAX_EVENTS: usize = 512;
/// Events of a task that make one row. They are sent as one piece.
pub const FRAMES_MAX_BYTES: usize = 64 << 10;
/// What is kept of what one agent prints. Beyond that only what happens to its task is.
pub const TASK_OUTPUT_MAX_BYTES: u64 = 512 << 20;
/// Tasks of one sandbox that have no end yet.
pub const TASKS_OPEN_MAX: usize = 64;
/// Permissions of one task that nobody has decided about and that its record names.
pub const OPEN_PERMISSIONS_MAX: usize = 64;
/// What is read from the log at once for one reader.
pub const LOG_READ_MAX_BYTES: usize = 64 << 10;
/// What is kept in memory of the newest events: for all that are followed, for one of them at least and at
/// most.
pub const FEED_MAX_BYTES: usize = 64 << 20;
pub const FEED_TOPIC_MIN_BYTES: usize = 64 << 10;
pub const FEED_TOPIC_MAX_BYTES: usize = 4 << 20;
/// Connections that read.
pub const READERS_MAX: usize = 4;
/// How long SQLite waits for a lock that another program holds, as a backup may.
pub const LOCK_WAIT_MAX_MS: u64 = 5_000;
/// Rows of one list.
pub const LIST_MAX_ROWS: usize = 1_000;
/// Prepared statements that a connection keeps.
pub const STATEMENTS_MAX: usize = 64;
/// How long a secret that is not needed any more may stay in the write-ahead log, if nobody reads it.
pub const WAL_TRUNCATE_AFTER_MS: u64 = 1_000;
/// What is written in bulk before it is folded into the database, beside the writer; and when the writer does
/// it itself, because that did not keep up.
pub const CHECKPOINT_AFTER_BYTES: usize = 4 << 20;
pub const CHECKPOINT_AT_COMMIT_PAGES: i64 = 16_384;
/// What the database grows by at once.
pub const DATABASE_CHUNK_BYTES: i32 = 256 << 10;

/// A database that is looked through for damage whenever it is opened.
pub const QUICK_CHECK_MAX_BYTES: u64 = 64 << 20;

/// How long an answer is kept for a repeated `Idempotency-Key`.
pub const IDEMPOTENCY_RETENTION_MS: u64 = 24 * 3600 * 1000;
/// How long calls stay in the audit.
pub const AUDIT_RETENTION_MS: u64 = 90 * 24 * 3600 * 1000;
/// How long execs of a destroyed sandbox stay.
pub const EXECS_OF_DESTROYED_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long tasks of a destroyed sandbox and their events stay.
pub const TASKS_OF_DESTROYED_RETENTION_MS: u64 = 30 * 24 * 3600 * 1000;
/// How long a token stays after it was revoked or expired: as long as the audit names it.
pub const DEAD_TOKENS_RETENTION_MS: u64 = AUDIT_RETENTION_MS;
/// Links to previews of one sandbox that are good.
pub const LINKS_OF_SANDBOX_MAX: u64 = 1_000;
/// How long a link stays after it expired, or its sandbox was destroyed.
pub const DEAD_LINKS_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Rows that one write of `tidy` takes away, so that other writes get their turn.
pub const RETENTION_BATCH_MAX_ROWS: usize = 2_000;
/// The same for rows of many events.
pub const RETENTION_BATCH_MAX_EVENT_ROWS: usize = 64;
/// Providers of models, budgets of tenants.
pub const PROVIDERS_MAX: u64 = 1_000;
pub const BUDGETS_MAX: u64 = 10_000;
/// Calls of models of one task that are told as events. Those after them are only counted.
pub const CALL_EVENTS_MAX: u64 = 10_000;
/// What is counted of one measure on one day: two such sums are still a number of SQLite.
pub const USED_MAX: u64 = 1 << 62;
