//! Every limit of the store, with its unit in its name.

/// Jobs in the queue of the writer; a caller that finds it full waits.
pub const WRITE_QUEUE_MAX: usize = 1024;
/// Longest wait of a caller for a free slot in the queue.
pub const WRITE_WAIT_MAX_MS: u64 = 5_000;
/// Jobs in one transaction.
pub const BATCH_MAX_JOBS: usize = 256;
/// Events in one job; longer lists are split.
pub const APPEND_MAX_EVENTS: usize = 512;
/// Task events in one row, which is sent as one chunk.
pub const FRAMES_MAX_BYTES: usize = 64 << 10;
/// Stored output of one task. Beyond it only events other than output are stored.
pub const TASK_OUTPUT_MAX_BYTES: u64 = 512 << 20;
/// Tasks of one sandbox that have not ended.
pub const TASKS_OPEN_MAX: usize = 64;
/// Undecided permissions that the record of one task names.
pub const OPEN_PERMISSIONS_MAX: usize = 64;
/// Bytes that one read of the event log returns.
pub const LOG_READ_MAX_BYTES: usize = 64 << 10;
/// Bytes of the newest events in memory: for all topics, and for one topic at least and at most.
pub const FEED_MAX_BYTES: usize = 64 << 20;
pub const FEED_TOPIC_MIN_BYTES: usize = 64 << 10;
pub const FEED_TOPIC_MAX_BYTES: usize = 4 << 20;
/// Read-only connections.
pub const READERS_MAX: usize = 4;
/// Longest wait for a lock that another process holds, such as a backup.
pub const LOCK_WAIT_MAX_MS: u64 = 5_000;
/// Diffs in one page of a task's changes; a page has at least one file.
pub const CHANGES_PAGE_MAX_BYTES: usize = 1 << 20;
/// Rows of one list.
pub const LIST_MAX_ROWS: usize = 1_000;
/// Prepared statements cached by one connection.
pub const STATEMENTS_MAX: usize = 64;
/// Longest time an overwritten secret stays in the WAL, if no reader holds it.
pub const WAL_TRUNCATE_AFTER_MS: u64 = 1_000;
/// WAL bytes before a background checkpoint, and pages at which the writer itself checkpoints because the
/// background did not keep up.
pub const CHECKPOINT_AFTER_BYTES: usize = 4 << 20;
pub const CHECKPOINT_AT_COMMIT_PAGES: i64 = 16_384;
/// Step by which the database file grows.
pub const DATABASE_CHUNK_BYTES: i32 = 256 << 10;

/// Numbers of events that a restored database leaves out: those after its backup, which clients may have seen.
pub const RESTORE_SKIPS_EVENTS: u64 = 1 << 30;
/// Largest database that is checked for damage when it is opened.
pub const QUICK_CHECK_MAX_BYTES: u64 = 64 << 20;

/// Retention of responses for a repeated `Idempotency-Key`.
pub const IDEMPOTENCY_RETENTION_MS: u64 = 24 * 3600 * 1000;
/// Retention of the audit log, and of revoked and expired tokens that it names, unless configured.
pub const AUDIT_RETENTION_DEFAULT_MS: u64 = 90 * 24 * 3600 * 1000;
/// Retention of execs after their sandbox was destroyed.
pub const EXECS_OF_DESTROYED_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Retention of what protocols of clients knew of a sandbox after it was destroyed.
pub const CLIENT_RECORDS_OF_DESTROYED_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Retention of tasks and their events after their sandbox was destroyed.
pub const TASKS_OF_DESTROYED_RETENTION_MS: u64 = 30 * 24 * 3600 * 1000;
/// Shares of one sandbox.
pub const SHARES_OF_SANDBOX_MAX: usize = 100;
/// Secrets of one tenant.
pub const SECRETS_OF_TENANT_MAX: u64 = 200;
/// How often the last use of a secret is recorded, and of how many it is known when that was.
pub const SECRET_USE_EVERY_MS: u64 = 60_000;
pub const SECRET_USES_NOTED_MAX: usize = 1_000;
/// Live preview links of one sandbox.
pub const LINKS_OF_SANDBOX_MAX: u64 = 1_000;
pub const SNAPSHOTS_OF_SANDBOX_MAX: u64 = 1_000;
/// Retention of preview links after they expired or their sandbox was destroyed.
pub const DEAD_LINKS_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Webhooks of one tenant, or of the operator, and of all.
pub const WEBHOOKS_OF_TENANT_MAX: u64 = 16;
pub const WEBHOOKS_MAX: u64 = 500;
/// Deliveries of one webhook that wait, and the bytes of their bodies: beyond them events stay in the log until there is
/// room. And of one sandbox whose first delivery fails: beyond them the oldest are given up, so that it does not hold back
/// others.
pub const WEBHOOK_WAITING_MAX: u64 = 2_000;
pub const WEBHOOK_WAITING_MAX_BYTES: u64 = 8 << 20;
pub const WEBHOOK_WAITING_OF_SANDBOX_MAX: u64 = 100;
/// Deliveries of one webhook that are kept after their end, and for how long.
pub const WEBHOOK_DELIVERED_MAX: u64 = 200;
pub const WEBHOOK_DEAD_MAX: u64 = 500;
pub const WEBHOOK_DELIVERED_RETENTION_MS: u64 = 3 * 24 * 3600 * 1000;
pub const WEBHOOK_DEAD_RETENTION_MS: u64 = 30 * 24 * 3600 * 1000;
/// Rows that one retention job deletes, so that other jobs run in between.
pub const RETENTION_BATCH_MAX_ROWS: usize = 2_000;
/// The same for `task_events`, whose rows are large.
pub const RETENTION_BATCH_MAX_EVENT_ROWS: usize = 64;
/// Pages that one job of a shrinking database frees, and free pages that it keeps for the next writes.
pub const SHRINK_STEP_PAGES: u64 = 256;
pub const FREE_PAGES_KEPT: u64 = 64;
/// Largest database of an earlier hostd that is converted to one that shrinks, and how many times its size has to be
/// free.
pub const CONVERT_MAX_BYTES: u64 = 64 << 20;
pub const CONVERT_ROOM_FACTOR: u64 = 4;
/// Model providers, and budgets of tenants.
pub const PROVIDERS_MAX: u64 = 1_000;
pub const BUDGETS_MAX: u64 = 10_000;
/// Quotas of tenants and principals.
pub const QUOTAS_MAX: u64 = 10_000;
/// Rows of the event log that one job deletes for a quota, and the bytes that a row of `events` takes beside its data.
pub const TRIM_BATCH_MAX_ROWS: usize = 256;
pub const EVENT_ROW_BYTES: u64 = 200;
/// Model calls of one task that are recorded as events. Later calls are only counted.
pub const CALL_EVENTS_MAX: u64 = 10_000;
/// Largest daily sum of one measure: the sum of two still fits into an SQLite integer.
pub const USED_MAX: u64 = 1 << 62;
